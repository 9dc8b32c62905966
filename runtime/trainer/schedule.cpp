// Owns the schedules' formulas.
#include "runtime/trainer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "messages/result.hpp"

namespace prime::trainer {
namespace {

/// Where a run is.
struct Clock {
  std::uint64_t step, total;

  [[nodiscard]] bool warms_up(std::uint32_t warmup) const { return step < warmup; }
  [[nodiscard]] double warmth(std::uint32_t warmup) const { return static_cast<double>(step + 1) / warmup; }
  /// Of the way from `begin` to the last step: 0 … 1.
  [[nodiscard]] double progress(std::uint64_t begin) const {
    const std::uint64_t last = total > begin + 1 ? total - 1 - begin : 1;
    return std::min(1.0, static_cast<double>(step - begin) / static_cast<double>(last));
  }
};

double down_to(double floor, double left) { return floor + (1 - floor) * left; }

double factor(const manifest::Cosine& cosine, const Clock& clock) {
  if (clock.warms_up(cosine.warmup)) return clock.warmth(cosine.warmup);
  return down_to(cosine.floor, 0.5 * (1 + std::cos(std::numbers::pi * clock.progress(cosine.warmup))));
}

double factor(const manifest::Linear& linear, const Clock& clock) {
  if (clock.warms_up(linear.warmup)) return clock.warmth(linear.warmup);
  return down_to(linear.floor, 1 - clock.progress(linear.warmup));
}

double factor(const manifest::Wsd& wsd, const Clock& clock) {
  if (clock.warms_up(wsd.warmup)) return clock.warmth(wsd.warmup);
  const auto decay = static_cast<std::uint64_t>(std::llround(wsd.decay_percent / 100 * static_cast<double>(clock.total)));
  const std::uint64_t begin = std::max<std::uint64_t>(wsd.warmup, clock.total - std::min(decay, clock.total));
  if (decay == 0 || clock.step < begin) return 1;
  return down_to(wsd.floor, 1 - std::sqrt(clock.progress(begin)));
}

double highest_rate(const manifest::Optimizer& optimizer) {
  return std::visit(
      overloaded{[](const manifest::AdamW& adamw) { return adamw.learning_rate; },
                 [](const manifest::Sgd& sgd) { return sgd.learning_rate; }, [](const manifest::Muon& muon) { return muon.learning_rate; }},
      optimizer);
}

}  // namespace

double learning_rate(const manifest::Train& train, std::uint64_t inner_step, std::uint64_t total) {
  const Clock clock{inner_step, total};
  const double scale = std::visit(
      overloaded{[&](const manifest::Cosine& cosine) { return factor(cosine, clock); }, [](const manifest::Constant&) { return 1.0; },
                 [&](const manifest::Linear& linear) { return factor(linear, clock); },
                 [&](const manifest::Wsd& wsd) { return factor(wsd, clock); }},
      train.schedule);
  return highest_rate(train.optimizer) * scale;
}

}  // namespace prime::trainer
