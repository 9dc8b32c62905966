// Owns a model in training, without showing libtorch: parameters in memory, a step on a batch, a loss, a text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/include/prime/session.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/data/token.hpp"

namespace prime::trainer {

/// Threads of all tensor operations of this process. To be called once, before the first learner.
void set_compute_threads(std::uint32_t threads);

using data::Token;

struct Writing {
  std::span<const Token> prompt;  ///< one at least
  std::uint32_t choices = 256;    ///< ids below this are drawn
  std::size_t tokens = 300;
  double temperature = 0.8;
  std::uint64_t seed = 1;
};

/// Where and in what portions a learner computes; no result depends on it but for rounding.
struct Computing {
  std::string device = "cpu";             ///< as choose_device named it
  std::uint32_t micro_batch = 0;          ///< windows that go through the model at once while it learns; 0: all
  bool activation_checkpointing = false;  ///< while it learns, keep of each block its input alone, and compute the rest again
  /// A token sees nothing of what stands before the last of these ahead of it; absent: it sees the whole window before it.
  std::optional<Token> document_end = {};
};

/// Windows are context + 1 tokens each, one after the other, as a Corpus reads them; at least one.
class Learner {
 public:
  Learner(const manifest::Model& model, const manifest::Train& train, const Computing& computing = {});
  Learner(Learner&&) noexcept;
  Learner& operator=(Learner&&) noexcept;
  ~Learner();

  /// All parameters under Hugging Face's names, in the host's memory, which stays where it is for the learner's life. Writing to it is
  /// allowed between calls; the optimizer's own state is not touched by that.
  [[nodiscard]] const std::vector<TensorView>& parameters() const;
  /// The optimizer's state, likewise. With both, and equal windows, the next steps have equal bits.
  [[nodiscard]] std::vector<TensorView> optimizer_state() const;

  /// A learner on a GPU computes with parameters of its own: `load` makes them those in the host's memory, which is not to be written to
  /// before the next call of train or loss has returned; `store` copies them back, and the optimizer's state with them. On the CPU they are
  /// that memory, and all three do nothing.
  void load();
  void load_optimizer();
  void store();

  /// One inner step: forward, backward, clip, and the optimizer, whose highest rate of `learning_rate` takes the place. The loss before the
  /// step, in nats per token.
  double train(std::span<const Token> windows, double learning_rate);
  /// Mean nats per token, without learning from it.
  [[nodiscard]] double loss(std::span<const Token> windows) const;
  /// The gradient of what is learned, the loss and `train.z_loss`, in the order of parameters().
  [[nodiscard]] std::vector<float> gradient(std::span<const Token> windows) const;
  /// The prompt and what the model writes after it.
  [[nodiscard]] std::vector<Token> write(const Writing& writing) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace prime::trainer
