#include "runtime/planning/utilization.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace prime::planning {
namespace {

/// Enough for what the beginning leaves behind to fade, and for a mean over the rest.
constexpr std::uint64_t LEAST_STEPS = 40;
constexpr std::uint64_t LEAST_PERIODS = 3;
constexpr std::uint64_t LEAST_OVERLAPPING_PERIODS = 400;

/// One compute engine, and one link.
class Engine {
 public:
  Engine(const Pattern& pattern, double link_bits_per_s)
      : layers_(pattern.layers), link_bits_per_s_(link_bits_per_s), unit_s_(pattern.step_s / (3.0 * pattern.layers - 1)) {}

  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] double step_s() const { return unit_s_ * (3.0 * layers_ - 1); }
  /// Steps that neither wait nor send.
  void compute(std::uint64_t steps) { now_ += step_s() * static_cast<double>(steps); }

  /// `results`: by layer, when that which its forward pass waits for is there. `sends`: the exchanges of this step, the last layer's first.
  /// Tells of each when its result is there.
  template <class Tell>
  void step(const std::vector<double>& results, const std::vector<const Exchange*>& sends, Tell tell) {
    for (const auto there : results) now_ = std::max(now_, there) + unit_s_;
    auto next = sends.begin();
    for (std::uint32_t layer = layers_; layer-- > 0;) {
      now_ += layer > 0 ? 2 * unit_s_ : unit_s_;
      for (; next != sends.end() && (*next)->after_layer == layer; ++next) {
        link_free_ = std::max(link_free_, now_) + (*next)->bits / link_bits_per_s_;
        tell(**next, link_free_);
      }
    }
  }

 private:
  std::uint32_t layers_;
  double link_bits_per_s_;
  double unit_s_;  ///< of one pass through one layer
  double now_ = 0;
  double link_free_ = 0;
};

EvenModel whole_layers(const EvenModel& model) { return {std::max(model.layers, 1U), model.step_s, model.bits}; }

Exchange of_layer(const EvenModel& model, std::uint32_t layer, std::uint32_t due, std::uint32_t delay) {
  return {due, layer, layer, delay, model.bits / model.layers};
}

}  // namespace

Pattern data_parallel(const EvenModel& model) { return diloco(model, 1); }

Pattern diloco(const EvenModel& given, std::uint32_t inner_steps) {
  const auto model = whole_layers(given);
  Pattern pattern{model.layers, model.step_s, inner_steps, {}};
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) pattern.exchanges.push_back(of_layer(model, layer, inner_steps - 1, 1));
  return pattern;
}

Pattern streaming(const EvenModel& given, std::uint32_t inner_steps, std::uint32_t fragments, std::uint32_t overlap) {
  const auto model = whole_layers(given);
  Pattern pattern{model.layers, model.step_s, inner_steps, {}};
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto place = static_cast<double>(layer % fragments) * inner_steps / fragments;
    const auto due = static_cast<std::uint32_t>(std::lround(place)) % inner_steps;
    pattern.exchanges.push_back(of_layer(model, layer, due, 1 + overlap));
  }
  return pattern;
}

Pattern outer_rounds(double step_s, std::uint32_t inner_steps, const std::vector<double>& fragment_bits, std::uint32_t overlap,
                     Offsets offsets) {
  Pattern pattern{1, step_s, inner_steps, {}};
  const auto published = publication_steps(offsets, static_cast<std::uint32_t>(fragment_bits.size()), inner_steps);
  for (std::size_t i = 0; i < fragment_bits.size(); ++i)
    pattern.exchanges.push_back({published[i] - 1, 0, 0, 1 + overlap, fragment_bits[i]});
  return pattern;
}

double compute_utilization(const Pattern& pattern, double link_bits_per_s) {
  std::map<std::uint32_t, std::vector<const Exchange*>> sends;  // by step of the period
  for (const auto& exchange : pattern.exchanges) sends[exchange.due].push_back(&exchange);
  for (auto& [due, those] : sends) std::ranges::stable_sort(those, std::greater{}, &Exchange::after_layer);
  if (sends.empty()) return 1;

  Engine engine{pattern, link_bits_per_s};
  // Where a period waits for the exchange of the one before it, the first ones and the last say little.
  const bool reaches_over = std::ranges::any_of(pattern.exchanges, [&](const Exchange& each) { return each.delay > pattern.period; });
  const auto least = reaches_over ? LEAST_OVERLAPPING_PERIODS : LEAST_PERIODS;
  const std::uint64_t periods = std::max(least, (LEAST_STEPS + pattern.period - 1) / pattern.period);
  const std::uint64_t measured_from = periods / 3 * pattern.period;
  std::map<std::uint64_t, std::vector<double>> waits;  // by step: by layer, when its result is there
  double begun = 0;
  const std::vector<double> nothing(pattern.layers, 0.0);
  const std::vector<const Exchange*> none;
  std::uint64_t done = 0;
  const auto pass = [&](std::uint64_t to) {
    if (done < measured_from && to >= measured_from) begun = engine.now() + engine.step_s() * static_cast<double>(measured_from - done);
    engine.compute(to - done);
    done = to;
  };
  while (done < periods * pattern.period) {
    // The next step in which anything but computing happens.
    const auto in_period = static_cast<std::uint32_t>(done % pattern.period);
    const auto due = sends.lower_bound(in_period);
    auto next = done - in_period + (due != sends.end() ? due->first : pattern.period + sends.begin()->first);
    if (!waits.empty()) next = std::min(next, waits.begin()->first);
    next = std::min(next, periods * pattern.period);
    pass(next);
    if (done == periods * pattern.period) break;
    const auto results = waits.find(done);
    const auto sent = sends.find(static_cast<std::uint32_t>(done % pattern.period));
    engine.step(results != waits.end() ? results->second : nothing, sent != sends.end() ? sent->second : none,
                [&](const Exchange& exchange, double there) {
                  auto& waiting = waits.try_emplace(done + exchange.delay, nothing).first->second[exchange.before_layer];
                  waiting = std::max(waiting, there);
                });
    waits.erase(done);
    if (++done == measured_from) begun = engine.now();
  }
  return engine.step_s() * static_cast<double>(done - measured_from) / (engine.now() - begun);
}

double link_for(const Pattern& pattern, double utilization) {
  constexpr double PRECISION = 1.001;
  double bits = 0;
  for (const auto& exchange : pattern.exchanges) bits += exchange.bits;
  const double period_s = pattern.step_s * pattern.period;
  // Between a link that is never idle, and one beside which nobody computes.
  double too_slow = bits * utilization / period_s / PRECISION;
  double enough = bits / (period_s * (1 / utilization - 1)) * PRECISION;
  while (enough > too_slow * PRECISION) {
    const double middle = std::sqrt(too_slow * enough);
    (compute_utilization(pattern, middle) >= utilization ? enough : too_slow) = middle;
  }
  return enough;
}

}  // namespace prime::planning
