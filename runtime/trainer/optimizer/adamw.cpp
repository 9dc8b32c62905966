// Owns the step of AdamW.
#include <numeric>

#include "runtime/trainer/optimizer/rules.hpp"

namespace prime::trainer {
namespace {

class AdamW final : public Rule {
 public:
  AdamW(const manifest::AdamW& options, const std::vector<Leaf>& leaves, std::vector<std::size_t> numbers)
      : options_(options), numbers_(std::move(numbers)) {
    for (const Leaf& leaf : leaves) {
      leaves_.push_back(leaf.tensor);
      means_.push_back(zeros_beside(leaf.tensor));
      squares_.push_back(zeros_beside(leaf.tensor));
      counts_.push_back(at::zeros({}, leaf.tensor.options().requires_grad(false)));
    }
  }

  [[nodiscard]] std::vector<OptimizerTensor> held() const override {
    std::vector<OptimizerTensor> all;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const std::string prefix = "adamw." + std::to_string(numbers_[i]) + ".";
      all.push_back({prefix + "mean", means_[i]});
      all.push_back({prefix + "square", squares_[i]});
      all.push_back({prefix + "count", counts_[i]});
    }
    return all;
  }

  void apply(const std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& divisor, double learning_rate) override {
    at::_foreach_add_(counts_, 1);
    at::_fused_adamw_(leaves_, gradients, means_, squares_, {}, counts_, learning_rate, options_.betas[0], options_.betas[1],
                      options_.weight_decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor);
  }

 private:
  manifest::AdamW options_;
  std::vector<std::size_t> numbers_;
  std::vector<at::Tensor> leaves_, means_, squares_, counts_;
};

}  // namespace

std::unique_ptr<Rule> make_adamw(const manifest::AdamW& options, const std::vector<Leaf>& leaves, const std::vector<std::size_t>& numbers) {
  return std::make_unique<AdamW>(options, leaves, numbers);
}

std::unique_ptr<Rule> make_rule(const manifest::AdamW& options, const std::vector<Leaf>& leaves) {
  std::vector<std::size_t> numbers(leaves.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return make_adamw(options, leaves, numbers);
}

}  // namespace prime::trainer
