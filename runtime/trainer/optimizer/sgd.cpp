// Owns the step of gradient descent with momentum.
#include "runtime/trainer/optimizer/rules.hpp"

namespace prime::trainer {
namespace {

class Sgd final : public Rule {
 public:
  Sgd(const manifest::Sgd& options, const std::vector<Leaf>& leaves) : options_(options) {
    for (const Leaf& leaf : leaves) {
      leaves_.push_back(leaf.tensor);
      if (options.momentum > 0) sums_.push_back(zeros_beside(leaf.tensor));
    }
  }

  [[nodiscard]] std::vector<OptimizerTensor> held() const override {
    std::vector<OptimizerTensor> all;
    for (std::size_t i = 0; i < sums_.size(); ++i) all.push_back({"sgd." + std::to_string(i) + ".momentum", sums_[i]});
    return all;
  }

  /// From sums of zero the first step is that of a later one: what torch calls the first needs no other way.
  void apply(const std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& divisor, double learning_rate) override {
    at::_fused_sgd_(leaves_, gradients, sums_, options_.weight_decay, options_.momentum, learning_rate, /*dampening=*/0, options_.nesterov,
                    /*maximize=*/false, /*is_first_step=*/false, divisor);
  }

 private:
  manifest::Sgd options_;
  std::vector<at::Tensor> leaves_, sums_;
};

}  // namespace

std::unique_ptr<Rule> make_rule(const manifest::Sgd& options, const std::vector<Leaf>& leaves) {
  return std::make_unique<Sgd>(options, leaves);
}

}  // namespace prime::trainer
