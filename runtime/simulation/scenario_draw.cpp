// Owns how a seed makes one run of a scenario file.
#include <algorithm>

#include "runtime/simulation/random.hpp"
#include "runtime/simulation/scenario_file.hpp"

namespace prime::sim {
namespace {

std::uint64_t one_of(Random& random, const Count& count) { return random.between(count.low, count.high); }
Duration one_of(Random& random, const Time& time) { return random.between(time.low, time.high); }

/// The default stays, and nothing is drawn, where nothing is written.
void replace(Random& random, Duration& value, const std::optional<Time>& range) {
  if (range) value = one_of(random, *range);
}

PeerSpec draw_peer(Random& random, const ScenarioFile& file) {
  PeerSpec spec;
  replace(random, spec.bind_time, file.bind);
  replace(random, spec.inner_time, file.train);
  replace(random, spec.fetch_time, file.fetch);
  return spec;
}

Fault draw_fault(Random& random, const FaultPlan& plan) {
  Fault fault;
  fault.kind = plan.kind;
  if (plan.at) fault.at = one_of(random, *plan.at);
  if (plan.at_event) fault.at_event = one_of(random, *plan.at_event);
  if (!plan.at_phase.empty()) fault.at_phase = plan.at_phase[random.below(plan.at_phase.size())];
  if (plan.occurrence) fault.occurrence = one_of(random, *plan.occurrence);
  replace(random, fault.hold, plan.hold);
  return fault;
}

void draw_limits(Random& random, const ScenarioFile& file, Scenario& scenario) {
  replace(random, scenario.options.heartbeat_limit, file.dead_after);
  replace(random, scenario.options.deadline, file.deadline);
  replace(random, scenario.options.wait_limit, file.wait_limit);
  replace(random, scenario.options.evaluate_limit, file.evaluate_limit);
  replace(random, scenario.doubt_after, file.doubt_after);
  replace(random, scenario.slowest_message, file.slowest);
}

Result<void> fits(std::uint64_t peers, const coordinator::Options& options) {
  const auto unfit = [&](const std::string& what, std::uint64_t limit) {
    return fail(ErrorName::Usage, "--peers " + std::to_string(peers) + " is " + what + ", " + std::to_string(limit));
  };
  // The oracle judges a pause by peers.
  if (options.shards > 1 && options.on_correlated_loss == coordinator::LossPolicy::Pause)
    return fail(ErrorName::Usage, "`membership.shards` does not go with `correlated_loss: pause`");
  if (options.overlap && options.quorum > 0) return fail(ErrorName::Usage, "`sync.overlap` does not go with `sync.quorum`");
  if (options.decoupled && (options.shards > 1 || options.overlap || options.on_correlated_loss == coordinator::LossPolicy::RollBack))
    return fail(ErrorName::Usage,
                "`sync.decoupled` goes neither with `membership.shards` nor with `sync.overlap` nor with `correlated_loss: roll_back`");
  if (peers < options.min_peers) return unfit("fewer than the scenario's `membership.minimum`", options.min_peers);
  if (peers < options.start_quorum) return unfit("fewer than the scenario's `membership.quorum`", options.start_quorum);
  if (peers > options.max_peers) return unfit("more than the scenario's `membership.maximum`", options.max_peers);
  return {};
}

}  // namespace

Result<Scenario> draw(const ScenarioFile& file, std::uint64_t seed, std::optional<std::uint64_t> peers_asked) {
  if (file.random) {
    const auto asked = peers_asked ? std::optional{static_cast<std::uint32_t>(*peers_asked)} : std::nullopt;
    return random_scenario(seed, asked);
  }
  Random random{mix(seed) ^ 0x5cea2105ULL};
  const auto drawn = one_of(random, file.peers);
  const auto peers = peers_asked.value_or(drawn);
  auto scenario = calm_scenario(peers, one_of(random, file.outer_steps));
  scenario.seed = seed;
  for (const auto& plan : file.faults)
    for (auto left = one_of(random, plan.count); left > 0; --left) scenario.faults.push_back(draw_fault(random, plan));
  for (const auto& fault : scenario.faults)
    if (fault.kind == FaultKind::Join) scenario.joiners.push_back(draw_peer(random, file));

  const auto all = std::min<std::uint64_t>(SIMULATED_PEERS_MAX, peers + scenario.joiners.size());
  auto& options = scenario.options;
  options.min_peers = static_cast<std::uint32_t>(file.minimum ? one_of(random, *file.minimum) : std::min<std::uint64_t>(2, peers));
  options.start_quorum = static_cast<std::uint32_t>(file.quorum ? one_of(random, *file.quorum) : peers);
  options.max_peers = static_cast<std::uint32_t>(file.maximum ? one_of(random, *file.maximum) : all);
  options.shards = static_cast<std::uint32_t>(one_of(random, file.shards));
  options.stop_when_alone = file.stop_when_alone;
  options.on_correlated_loss = file.on_correlated_loss;
  options.checkpoint_every = one_of(random, file.checkpoint_every);
  options.measure_links = file.uneven_links;
  options.quorum = static_cast<std::uint32_t>(one_of(random, file.step_quorum));
  options.fragments = static_cast<std::uint32_t>(one_of(random, file.fragments));
  options.in_flight = static_cast<std::uint32_t>(one_of(random, file.in_flight));
  options.overlap = one_of(random, file.overlap) > 0;
  options.decoupled = file.decoupled;
  replace(random, options.grace, file.grace);
  PRIME_CHECK(fits(peers, options));
  draw_limits(random, file, scenario);
  if (file.delay) scenario.delay = {file.delay->low, file.delay->high};
  if (file.reduce) scenario.reduce = {file.reduce->low, file.reduce->high};
  scenario.slow_message = file.slow_messages / 100;
  replace(random, scenario.clock_skew, file.clock_skew);
  if (file.clock_skew) scenario.clock_drift = 200;
  scenario.same_start = file.same_start;
  if (file.broken_link) scenario.bad_link = {0, 1};
  options.streams = file.streams.has_value();
  if (file.streams)
    scenario.streams = static_cast<std::uint32_t>(std::min(one_of(random, *file.streams), options.fragments - std::uint64_t{1}));
  for (auto& [at, spec] : scenario.arrivals) {
    replace(random, at, file.arrive);
    spec = draw_peer(random, file);
  }
  scenario.arrivals.front().second.inner_time *= static_cast<std::int64_t>(one_of(random, file.slower));
  return scenario;
}

}  // namespace prime::sim
