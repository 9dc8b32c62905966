#include "actors/coordinator/evaluation.hpp"

#include <cmath>

namespace prime::coordinator {

bool evaluates_step(const State& state) {
  const auto every = state.plan.evaluate_every;
  return every > 0 && state.step().value > 1 && (state.step().value - 1) % every == 0;
}

void HeldOutSum::add(const HeldOutLoss& part) {
  if (part.tokens == 0 || std::isnan(part.mean.value())) return;
  sum_ += part.mean.value() * static_cast<double>(part.tokens);
  tokens_ += part.tokens;
}

HeldOutLoss HeldOutSum::loss() const { return {Real{tokens_ > 0 ? sum_ / static_cast<double>(tokens_) : std::nan("")}, tokens_}; }

}  // namespace prime::coordinator
