// Owns the step of Muon. Leaves hold several matrices, as query, key and value; each is made orthogonal by itself, as its name is its own.
#include <cmath>

#include "runtime/trainer/optimizer/rules.hpp"

namespace prime::trainer {
namespace {

/// Those of Jordan: they grow small singular values as fast as five steps can, and let large ones end between 0.7 and 1.2.
constexpr double A = 3.4445, B = -4.7750, C = 2.0315;
constexpr double LEAST_NORM = 1e-7;

/// U Vᵀ of a matrix U S Vᵀ, nearly. It is mostly these products that a step costs: on a GPU they are made in bf16, as everywhere; on a
/// processor, where bf16 is slower (without AMX four times), in f32.
at::Tensor orthogonal(const at::Tensor& matrix, std::uint32_t iterations) {
  const bool high = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(matrix.is_cuda() ? at::kBFloat16 : at::kFloat);
  if (high) x = x.t();
  x = x / x.norm().clamp_min(LEAST_NORM);
  for (std::uint32_t i = 0; i < iterations; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, B, C), x, A);
  }
  return high ? x.t() : x;
}

class Muon final : public Rule {
 public:
  Muon(const manifest::Muon& options, const std::vector<Leaf>& leaves) : options_(options) {
    std::vector<Leaf> others;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].matrices.empty()) {
        rest_numbers_.push_back(i);
        others.push_back(leaves[i]);
      } else {
        stepped_.push_back({i, leaves[i], zeros_beside(leaves[i].tensor)});
      }
    }
    rest_ = make_adamw(options.rest, others, rest_numbers_);
  }

  [[nodiscard]] std::vector<OptimizerTensor> held() const override {
    std::vector<OptimizerTensor> all;
    for (const Stepped& each : stepped_) all.push_back({"muon." + std::to_string(each.number) + ".momentum", each.mean});
    for (auto& tensor : rest_->held()) all.push_back(std::move(tensor));
    return all;
  }

  void apply(const std::vector<at::Tensor>& gradients, const std::optional<at::Tensor>& divisor, double learning_rate) override {
    for (const Stepped& each : stepped_) {
      at::Tensor gradient = gradients[each.number];
      if (divisor) gradient.div_(*divisor);
      step(each, gradient, learning_rate);
    }
    std::vector<at::Tensor> others;
    for (const std::size_t number : rest_numbers_) others.push_back(gradients[number]);
    // The schedule scales both rates alike.
    if (!others.empty()) rest_->apply(others, divisor, learning_rate * options_.rest.learning_rate / options_.learning_rate);
  }

 private:
  struct Stepped {
    std::size_t number;
    Leaf leaf;
    at::Tensor mean;
  };

  void step(const Stepped& each, const at::Tensor& gradient, double learning_rate) const {
    each.mean.lerp_(gradient, 1 - options_.momentum);
    const at::Tensor direction = options_.nesterov ? gradient.lerp(each.mean, options_.momentum) : each.mean;
    const auto by_output = [&](const at::Tensor& x) { return each.leaf.transposed ? x.t() : x; };
    std::int64_t begin = 0;
    for (const std::int64_t rows : each.leaf.matrices) {
      at::Tensor matrix = by_output(each.leaf.tensor).narrow(0, begin, rows);
      const double shape = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(matrix.size(1))));
      const at::Tensor update = orthogonal(by_output(direction).narrow(0, begin, rows), options_.iterations);
      matrix.mul_(1 - learning_rate * options_.weight_decay);
      matrix.add_(update, -learning_rate * shape);
      begin += rows;
    }
  }

  manifest::Muon options_;
  std::vector<Stepped> stepped_;
  std::vector<std::size_t> rest_numbers_;
  std::unique_ptr<Rule> rest_;
};

}  // namespace

std::unique_ptr<Rule> make_rule(const manifest::Muon& options, const std::vector<Leaf>& leaves) {
  return std::make_unique<Muon>(options, leaves);
}

}  // namespace prime::trainer
