// Owns the schedules' formulas.
#include "runtime/trainer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "messages/result.hpp"

namespace prime::trainer {
namespace {

double factor(const manifest::Cosine& cosine, std::uint64_t step, std::uint64_t total) {
  if (step < cosine.warmup) return static_cast<double>(step + 1) / cosine.warmup;
  const std::uint64_t last = total > cosine.warmup + 1 ? total - 1 - cosine.warmup : 1;
  const double progress = std::min(1.0, static_cast<double>(step - cosine.warmup) / static_cast<double>(last));
  return cosine.floor + (1 - cosine.floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace

double learning_rate(const manifest::Train& train, std::uint64_t inner_step, std::uint64_t total) {
  const double scale = std::visit(overloaded{[&](const manifest::Cosine& cosine) { return factor(cosine, inner_step, total); },
                                             [](const manifest::Constant&) { return 1.0; }},
                                  train.schedule);
  return train.optimizer.learning_rate * scale;
}

}  // namespace prime::trainer
