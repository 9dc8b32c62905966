// Owns the inner optimizer: the limit on the gradient's norm, a rule for the step, and the state of it as named tensors in the host's
// memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/include/prime/session.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/optimizer/leaf.hpp"

namespace prime::trainer {

struct OptimizerTensor {
  std::string name;
  at::Tensor tensor;
};

/// How leaves are stepped. What it keeps lies where the leaves do.
class Rule {
 public:
  virtual ~Rule() = default;
  /// All that the next steps depend on beside the leaves, in a fixed order.
  [[nodiscard]] virtual std::vector<OptimizerTensor> held() const = 0;
  /// `gradients`, one of each leaf, may be written to. `divisor`, if any, is of them all: a rule divides by it on its way.
  virtual void apply(const std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& divisor, double learning_rate) = 0;
};

class Optimizer {
 public:
  Optimizer(const manifest::Optimizer& choice, double clip_norm, const std::vector<Leaf>& leaves);

  /// One step with the gradients that a backward pass left in the leaves; they are consumed.
  void step(double learning_rate);

  /// Its state, in the host's memory: what makes the next steps equal. On a GPU it is a copy, as old as the last `load` or `store`.
  [[nodiscard]] std::vector<TensorView> state() const;
  void load();
  void store();

 private:
  double clip_norm_;
  std::vector<at::Tensor> leaves_;
  std::unique_ptr<Rule> rule_;
  std::vector<OptimizerTensor> held_;
  std::vector<at::Tensor> on_host_;  ///< those of `held_`
};

}  // namespace prime::trainer
