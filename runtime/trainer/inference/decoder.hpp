// Owns decoders that only compute, a Llama or a GPT-2: in any float type, on any device, with a cache of keys and values, without
// gradients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "messages/result.hpp"
#include "runtime/trainer/inference/model_directory.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

/// Keys and values of what a batch of sequences has seen, by layer: [batch, length, key heads, head width].
struct Cache {
  std::vector<at::Tensor> keys, values;
};

class Decoder {
 public:
  /// Reads every tensor of the model; what it computes in is the type of `where`, whatever they lie there as, and on its device.
  /// `positions`: of the longest sequence that will go through it. A model may have a context of millions, of which tables are made only as
  /// far.
  static Result<Decoder> load(ModelDirectory& directory, const at::TensorOptions& where, std::uint64_t positions);
  /// With weights that nobody trained, for measurements.
  static Decoder untrained(const ModelConfig& config, const at::TensorOptions& where);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] Cache make_cache(std::int64_t batch, std::int64_t length) const;

  /// ids and what follows them lie in the host's memory; states stay on the device.
  /// ids: [batch, time] of int64, all from position 0 on; lengths: [batch], of each row in front of its padding → hidden states behind the
  /// last norm [batch, time, dim]. Keys and values go into the cache, if there is one, as zeros of padding. Rows are independent and
  /// causal, and padding changes nothing, whatever the model makes of it.
  at::Tensor prefill(const at::Tensor& ids, std::span<const std::int64_t> lengths, Cache* cache) const;
  /// One token of each sequence, at its position: ids and positions [batch] → [batch, dim].
  at::Tensor step(const at::Tensor& ids, std::span<const std::int64_t> positions, Cache& cache) const;
  /// hidden: [rows, dim] → [rows, vocab] of f32, in the host's memory.
  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden) const;

  /// The products with all matrices, of so many rows of nothing: what no decoder can do without, and all that this one is measured against.
  void multiply_only(std::int64_t rows) const;

  /// Until what was asked of a GPU is computed: for who measures. Anything else need not wait, since reading a result does.
  void wait() const;

 private:
  /// y = x · weightᵀ + bias; weight: [out, in], bias: [out] or none.
  struct Linear {
    at::Tensor weight, bias;
    at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
  };
  /// LayerNorm where there is a bias, RMSNorm where there is none.
  struct Norm {
    at::Tensor weight, bias;
  };
  /// Matrices that are multiplied by the same rows are one: query, key and value; a Llama's gate and up.
  struct Block {
    Norm attention_norm, mlp_norm;
    Linear qkv, output, up, down;
  };
  /// The angles of the rows' positions, [rows, 1, head width / 2]; a GPT-2 has none.
  struct Angles {
    at::Tensor cosine, sine;
  };

  Decoder(const ModelConfig& config, const at::TensorOptions& where);
  /// The one place where a decoder becomes one of an architecture; the rest goes by what it has.
  template <class Read>
  Result<void> fill(std::int64_t positions, Read read);
  template <class Read>
  Result<void> fill_llama(Read read);
  template <class Read>
  Result<void> fill_gpt2(Read read);
  [[nodiscard]] bool rotates() const { return cosine_.defined(); }
  /// Tables of the rotations of so many positions.
  void turn(std::int64_t positions);
  [[nodiscard]] at::Tensor normed(const at::Tensor& x, const Norm& norm) const;
  /// x: [rows, dim]; attend(layer, query, key, value) → [rows, dim]. What both ways through the model share.
  template <class Attend>
  [[nodiscard]] at::Tensor through_blocks(at::Tensor x, const Angles& angles, Attend attend) const;

  ModelConfig config_;
  at::TensorOptions where_;  // type and device of all tensors
  std::int64_t head_width_;
  at::Tensor embedding_;      // [vocab, dim]
  at::Tensor positions_;      // [context, dim]: a GPT-2's
  at::Tensor cosine_, sine_;  // [positions, head width / 2]: a Llama's
  Norm norm_;
  Linear head_;
  at::Tensor (*activate_)(const ModelConfig& config, const at::Tensor& x) = nullptr;
  std::vector<Block> blocks_;
};

}  // namespace prime::trainer
