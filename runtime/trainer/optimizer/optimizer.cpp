// Owns what all rules have in common: clipping, and the way between their state and the host's memory.
#include "runtime/trainer/optimizer/optimizer.hpp"

#include "messages/result.hpp"
#include "runtime/trainer/optimizer/rules.hpp"

namespace prime::trainer {
namespace {

std::unique_ptr<Rule> rule_of(const manifest::Optimizer& choice, const std::vector<Leaf>& leaves) {
  return std::visit(overloaded{[&](const manifest::AdamW& options) { return make_rule(options, leaves); },
                               [&](const manifest::Sgd& options) { return make_rule(options, leaves); },
                               [&](const manifest::Muon& options) { return make_rule(options, leaves); }},
                    choice);
}

}  // namespace

Optimizer::Optimizer(const manifest::Optimizer& choice, double clip_norm, const std::vector<Leaf>& leaves)
    : clip_norm_(clip_norm), rule_(rule_of(choice, leaves)), held_(rule_->held()) {
  for (const Leaf& leaf : leaves) leaves_.push_back(leaf.tensor);
  // Pinned where a device copies from and to it.
  for (const auto& [name, tensor] : held_)
    on_host_.push_back(tensor.is_cpu() ? tensor : at::zeros(tensor.sizes(), at::dtype(at::kFloat).pinned_memory(true)));
}

std::vector<TensorView> Optimizer::state() const {
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const at::Tensor& tensor = on_host_[i];
    views.push_back({held_[i].name,
                     {tensor.sizes().begin(), tensor.sizes().end()},
                     std::span(tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel()))});
  }
  return views;
}

void Optimizer::load() {
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (!held_[i].tensor.is_cpu()) held_[i].tensor.copy_(on_host_[i]);
}

void Optimizer::store() {
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (!held_[i].tensor.is_cpu()) on_host_[i].copy_(held_[i].tensor);
}

void Optimizer::step(double learning_rate) {
  const at::NoGradGuard no_graph;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves_) gradients.push_back(leaf.grad());
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients)).norm();
  // A GPU divides by it on the way, so that nobody waits for the norm, and gradients are not read once more.
  std::optional<at::Tensor> divisor;
  if (!norm.is_cpu()) divisor = (norm / clip_norm_).clamp_min(1);
  else if (const auto length = norm.item<double>(); length > clip_norm_) at::_foreach_mul_(gradients, clip_norm_ / length);
  rule_->apply(gradients, divisor, learning_rate);
  for (at::Tensor& leaf : leaves_) leaf.mutable_grad().reset();
}

}  // namespace prime::trainer
