// Owns the inner optimizer: AdamW (arXiv:1711.05101) over all leaves in one call, where they are, and the limit on the gradient's norm.
#pragma once

#include <vector>

#include "runtime/include/prime/session.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

class AdamW {
 public:
  AdamW(const manifest::AdamW& options, double clip_norm, std::vector<at::Tensor> leaves);

  /// One step with the gradients that a backward pass left in the leaves; they are consumed.
  void step(double learning_rate);

  /// Its state, in the host's memory: what makes the next steps equal. On a GPU it is a copy, as old as the last `load` or `store`.
  [[nodiscard]] std::vector<TensorView> state() const;
  void load();
  void store();

 private:
  manifest::AdamW options_;
  double clip_norm_;
  std::vector<at::Tensor> leaves_, means_, squares_, counts_;
  std::vector<at::Tensor> on_host_;  ///< those of `held`
  [[nodiscard]] std::vector<at::Tensor> held() const;
};

}  // namespace prime::trainer
