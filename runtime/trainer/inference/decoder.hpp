// Owns a decoder that only computes: the function of llama.hpp in any float type, with a cache of keys and values, without gradients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/inference/model_directory.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

/// Keys and values of what a batch of sequences has seen, by layer: [batch, length, key heads, head width].
struct Cache {
  std::vector<at::Tensor> keys, values;
};

class Decoder {
 public:
  /// Reads every tensor of the model; what it computes in is `type`, whatever they lie there as.
  static Result<Decoder> load(ModelDirectory& directory, at::ScalarType type);
  /// With weights that nobody trained, for measurements.
  static Decoder untrained(const manifest::Model& shape, at::ScalarType type);

  [[nodiscard]] const manifest::Model& shape() const { return shape_; }
  [[nodiscard]] Cache make_cache(std::int64_t batch, std::int64_t length) const;

  /// ids: [batch, time] of int64, all from position 0 on → hidden states behind the last norm [batch, time, dim]. Keys and values go into
  /// the cache, if there is one. Rows are independent and causal: what stands behind the end of a shorter one changes nothing before it.
  at::Tensor prefill(const at::Tensor& ids, Cache* cache) const;
  /// One token of each sequence, at its position: ids and positions [batch] → [batch, dim].
  at::Tensor step(const at::Tensor& ids, std::span<const std::int64_t> positions, Cache& cache) const;
  /// hidden: [rows, dim] → [rows, vocab] of f32.
  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden) const;

 private:
  struct Block {
    at::Tensor input_norm, qkv, output, post_norm, gate_up, down;
  };
  Decoder(const manifest::Model& shape, at::ScalarType type);
  template <class Read>
  Result<void> fill(Read read);
  [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const;
  [[nodiscard]] at::Tensor rotated(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) const;
  /// x: [rows, dim]; attend(layer, query, key, value) → [rows, dim]. What both ways through the model share.
  template <class Attend>
  at::Tensor through_blocks(at::Tensor x, const at::Tensor& cosine, const at::Tensor& sine, Attend attend) const;

  manifest::Model shape_;
  at::ScalarType type_;
  std::int64_t head_width_;
  at::Tensor embedding_, norm_, head_;
  at::Tensor cosine_, sine_;  // [context, head width / 2]
  std::vector<Block> blocks_;
};

}  // namespace prime::trainer
