// Owns which rules there are.
#pragma once

#include <memory>
#include <vector>

#include "runtime/trainer/optimizer/optimizer.hpp"

namespace prime::trainer {

/// AdamW (arXiv:1711.05101) over all leaves in one call.
std::unique_ptr<Rule> make_rule(const manifest::AdamW& options, const std::vector<Leaf>& leaves);
/// Gradient descent with a momentum that is a sum.
std::unique_ptr<Rule> make_rule(const manifest::Sgd& options, const std::vector<Leaf>& leaves);
/// Muon (Jordan et al. 2024) of each matrix within a block, and AdamW of the rest.
std::unique_ptr<Rule> make_rule(const manifest::Muon& options, const std::vector<Leaf>& leaves);

/// AdamW of a part of a model's leaves. Its tensors are called by their numbers in the whole.
std::unique_ptr<Rule> make_adamw(const manifest::AdamW& options, const std::vector<Leaf>& leaves, const std::vector<std::size_t>& numbers);

/// Values of an optimizer's own, beside a leaf.
inline at::Tensor zeros_beside(const at::Tensor& leaf) { return at::zeros_like(leaf, leaf.options().requires_grad(false)); }

}  // namespace prime::trainer
