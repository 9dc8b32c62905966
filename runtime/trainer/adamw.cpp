// Owns the optimizer step.
#include "runtime/trainer/adamw.hpp"

namespace prime::trainer {

AdamW::AdamW(const manifest::AdamW& options, double clip_norm, std::vector<at::Tensor> leaves)
    : options_(options), clip_norm_(clip_norm), leaves_(std::move(leaves)) {
  for (const at::Tensor& leaf : leaves_) {
    means_.push_back(at::zeros_like(leaf, leaf.options().requires_grad(false)));
    squares_.push_back(at::zeros_like(leaf, leaf.options().requires_grad(false)));
    counts_.push_back(at::zeros({}, leaf.options().requires_grad(false)));
  }
}

void AdamW::step(double learning_rate) {
  const at::NoGradGuard no_graph;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves_) gradients.push_back(leaf.grad());
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients)).norm();
  // A GPU divides by it on the way, so that nobody waits for the norm, and gradients are not read once more.
  std::optional<at::Tensor> divisor;
  if (!norm.is_cpu()) divisor = (norm / clip_norm_).clamp_min(1);
  else if (const auto length = norm.item<double>(); length > clip_norm_) at::_foreach_mul_(gradients, clip_norm_ / length);
  at::_foreach_add_(counts_, 1);
  at::_fused_adamw_(leaves_, gradients, means_, squares_, {}, counts_, learning_rate, options_.betas[0], options_.betas[1],
                    options_.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor);
  for (at::Tensor& leaf : leaves_) leaf.mutable_grad().reset();
}

}  // namespace prime::trainer
