// Owns the optimizer step.
#include "runtime/trainer/adamw.hpp"

#include <array>
#include <string>

namespace prime::trainer {

AdamW::AdamW(const manifest::AdamW& options, double clip_norm, std::vector<at::Tensor> leaves)
    : options_(options), clip_norm_(clip_norm), leaves_(std::move(leaves)) {
  for (const at::Tensor& leaf : leaves_) {
    means_.push_back(at::zeros_like(leaf, leaf.options().requires_grad(false)));
    squares_.push_back(at::zeros_like(leaf, leaf.options().requires_grad(false)));
    counts_.push_back(at::zeros({}, leaf.options().requires_grad(false)));
  }
  // Pinned where a device copies from and to it.
  for (const at::Tensor& tensor : held())
    on_host_.push_back(tensor.is_cpu() ? tensor : at::zeros(tensor.sizes(), at::dtype(at::kFloat).pinned_memory(true)));
}

std::vector<at::Tensor> AdamW::held() const {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < leaves_.size(); ++i) all.insert(all.end(), {means_[i], squares_[i], counts_[i]});
  return all;
}

std::vector<TensorView> AdamW::state() const {
  static constexpr std::array NAMES{"mean", "square", "count"};
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < on_host_.size(); ++i) {
    const at::Tensor& tensor = on_host_[i];
    views.push_back({"adamw." + std::to_string(i / NAMES.size()) + "." + NAMES[i % NAMES.size()],
                     {tensor.sizes().begin(), tensor.sizes().end()},
                     std::span(tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel()))});
  }
  return views;
}

void AdamW::load() {
  const auto tensors = held();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].is_cpu()) tensors[i].copy_(on_host_[i]);
}

void AdamW::store() {
  const auto tensors = held();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].is_cpu()) on_host_[i].copy_(tensors[i]);
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
