#include "runtime/simulation/scenario.hpp"

#include <algorithm>

#include "runtime/simulation/random.hpp"

namespace prime::sim {
namespace {

coordinator::Options base_options(std::uint64_t outer_steps) {
  coordinator::Options options;
  options.run = "sim";
  options.manifest = "run: sim";
  options.outer_steps = outer_steps;
  options.samples_per_peer = 64;
  options.deadline = 20s;
  options.wait_limit = 40s;
  options.coordinator_grace = COORDINATOR_GRACE;
  options.evaluate_limit = 30s;
  options.evaluate_every = 3;
  return options;
}

PeerSpec random_peer(Random& random) {
  PeerSpec spec;
  spec.bind_time = random.between(100ms, 3s);
  spec.inner_time = random.between(300ms, 3s);
  spec.fetch_time = random.chance(0.2) ? random.between(2s, 9s) : random.between(20ms, 1s);
  if (random.chance(0.01)) spec.bind_time = 2min;
  if (random.chance(0.02)) spec.inner_time = 40s;
  if (random.chance(0.02)) spec.fetch_time = 1min;
  spec.other_layout = random.chance(0.01);
  return spec;
}

PeerSpec random_joiner(Random& random) {
  auto spec = random_peer(random);
  spec.other_layout = random.chance(0.04);
  if (spec.other_layout && random.chance(0.5)) std::swap(spec.other_layout, spec.other_data);
  spec.other_protocol = random.chance(0.02);
  spec.other_run = random.chance(0.02);
  return spec;
}

FaultKind random_kind(Random& random) {
  static constexpr std::pair<FaultKind, std::uint64_t> ODDS[] = {{FaultKind::Kill, 6},
                                                                 {FaultKind::Pause, 4},
                                                                 {FaultKind::Leave, 3},
                                                                 {FaultKind::Join, 8},
                                                                 {FaultKind::KillTrainer, 4},
                                                                 {FaultKind::ResetLink, 4},
                                                                 {FaultKind::CutControl, 2},
                                                                 {FaultKind::Corrupt, 1},
                                                                 {FaultKind::KillCoordinator, 1},
                                                                 {FaultKind::StallReduce, 1},
                                                                 {FaultKind::StopRun, 1},
                                                                 {FaultKind::RestartCoordinator, 5},
                                                                 {FaultKind::IsolateCoordinator, 2}};
  auto draw = random.below(42);
  for (const auto& [kind, odds] : ODDS) {
    if (draw < odds) return kind;
    draw -= odds;
  }
  return FaultKind::Kill;
}

Fault random_fault(Random& random, const Size& size) {
  static constexpr peer::Phase PHASES[] = {peer::Phase::Seating, peer::Phase::Waiting,  peer::Phase::Fetching, peer::Phase::Training,
                                           peer::Phase::Ready,   peer::Phase::Reducing, peer::Phase::Voted,    peer::Phase::Finishing};
  Fault fault;
  fault.kind = random_kind(random);
  switch (random.below(3)) {
    case 0: fault.at = random.between(0ms, size.faults_until); break;
    case 1: fault.at_event = random.below(size.fault_event); break;
    case 2:
      fault.at_phase = PHASES[random.below(std::size(PHASES))];
      fault.occurrence = *fault.at_phase == peer::Phase::Finishing || *fault.at_phase == peer::Phase::Fetching
                             ? random.between(1, 3)
                             : random.between(1, size.fault_occurrence);
      break;
  }
  if (fault.kind == FaultKind::RestartCoordinator) fault.hold = random.chance(0.8) ? random.between(50ms, 2s) : random.between(2s, 14s);
  if (fault.kind == FaultKind::IsolateCoordinator) fault.hold = random.between(500ms, 18s);
  if (fault.kind == FaultKind::Pause && !random.chance(0.3)) fault.hold = random.between(500ms, 15s);
  return fault;
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::Kill: return "kill";
    case FaultKind::Pause: return "pause";
    case FaultKind::Leave: return "leave";
    case FaultKind::Join: return "join";
    case FaultKind::KillTrainer: return "kill trainer";
    case FaultKind::ResetLink: return "reset link";
    case FaultKind::CutControl: return "cut control";
    case FaultKind::StallReduce: return "stall reduce";
    case FaultKind::Corrupt: return "corrupt";
    case FaultKind::KillCoordinator: return "kill coordinator";
    case FaultKind::RestartCoordinator: return "restart coordinator";
    case FaultKind::StopRun: return "stop run";
    case FaultKind::Partition: return "partition";
    case FaultKind::IsolateCoordinator: return "isolate coordinator";
    case FaultKind::FillDisk: return "fill disk";
    case FaultKind::PauseRun: return "pause run";
    case FaultKind::StallLedger: return "stall ledger";
  }
  return "kill";
}

bool can_be_held(FaultKind kind) {
  switch (kind) {
    case FaultKind::Pause:
    case FaultKind::RestartCoordinator:
    case FaultKind::IsolateCoordinator:
    case FaultKind::FillDisk:
    case FaultKind::PauseRun:
    case FaultKind::StallLedger:
    case FaultKind::Partition: return true;
    case FaultKind::Kill:
    case FaultKind::Leave:
    case FaultKind::Join:
    case FaultKind::KillTrainer:
    case FaultKind::ResetLink:
    case FaultKind::CutControl:
    case FaultKind::StallReduce:
    case FaultKind::Corrupt:
    case FaultKind::KillCoordinator:
    case FaultKind::StopRun: return false;
  }
  return false;
}

Scenario calm_scenario(std::size_t peers, std::uint64_t outer_steps) {
  Scenario scenario;
  scenario.seed = 1;
  scenario.options = base_options(outer_steps);
  scenario.options.start_quorum = static_cast<std::uint32_t>(peers);
  scenario.arrivals.assign(peers, {0ms, PeerSpec{}});
  scenario.slow_message = 0;
  return scenario;
}

Scenario random_scenario(std::uint64_t seed, std::optional<std::uint32_t> peers_asked, const Size& size) {
  Random random{mix(seed) ^ 0x5cea2105ULL};
  Scenario scenario;
  scenario.seed = seed;
  const auto drawn = static_cast<std::uint32_t>(random.between(size.peers.first, size.peers.second));
  const auto peers = peers_asked.value_or(drawn);
  scenario.options = base_options(random.between(size.outer_steps.first, size.outer_steps.second));
  scenario.options.min_peers =
      static_cast<std::uint32_t>(random.chance(0.1) || peers == 1 ? 1 : random.between(2, std::max(2U, peers / 2)));
  scenario.options.start_quorum = static_cast<std::uint32_t>(random.between(scenario.options.min_peers, peers));
  scenario.options.max_peers = peers + static_cast<std::uint32_t>(random.between(0, 4));
  scenario.options.stop_when_alone = random.chance(0.15);
  scenario.doubt_after = random.between(300ms, 5s);
  scenario.same_start = random.chance(0.3);
  scenario.slow_message = random.chance(0.5) ? 0.0 : 0.02;
  for (std::uint32_t i = 0; i < peers; ++i) scenario.arrivals.emplace_back(random.between(0ms, 6s), random_peer(random));
  const auto faults = random.chance(0.1) ? 0 : random.between(1, size.faults);
  for (std::uint64_t i = 0; i < faults; ++i) {
    scenario.faults.push_back(random_fault(random, size));
    if (scenario.faults.back().kind == FaultKind::KillTrainer && random.chance(0.3))
      for (int i = 0; i < 6; ++i) {  // a crash loop: each life has begun to train
        auto again = scenario.faults.back();
        if (again.at) *again.at += 3s;
        scenario.faults.push_back(again);
      }
  }
  for (std::size_t i = 0; i < 16; ++i) scenario.joiners.push_back(random_joiner(random));
  if (random.chance(0.04) && peers > 1) scenario.bad_link = {0, 1};
  if (random.chance(0.3)) {
    scenario.options.quorum = static_cast<std::uint32_t>(random.between(scenario.options.min_peers, peers));
    scenario.options.grace = random.between(0ms, 3s);
    scenario.arrivals[random.below(peers)].second.inner_time *= static_cast<std::int64_t>(random.between(1, 6));
  }
  const auto policy = random.below(10);
  if (policy < 3) scenario.options.on_correlated_loss = coordinator::LossPolicy::Pause;
  else if (policy < 5) scenario.options.on_correlated_loss = coordinator::LossPolicy::RollBack;
  scenario.options.checkpoint_every = random.between(1, 4);
  // Of its own, so that it changes nothing of what else a seed draws.
  Random links{mix(~seed)};
  scenario.options.measure_links = links.chance(0.3);
  scenario.options.measure_every = links.between(30s, 5min);
  if (peers <= 8 && links.chance(0.25)) {
    scenario.options.shards = static_cast<std::uint32_t>(links.between(2, 3));
    scenario.options.quorum = 0;  // but for those that draw one below
    scenario.options.grace = {};
    if (policy < 3) scenario.options.on_correlated_loss = coordinator::LossPolicy::RollBack;  // the oracle counts peers for a pause
    scenario.bad_link.reset();
  }
  if (links.chance(0.2)) {
    Fault full{.kind = FaultKind::FillDisk, .at = {}, .at_event = {}, .at_phase = {}};
    if (links.chance(0.5)) full.at_phase = peer::Phase::Finishing;
    else full.at = links.between(0ms, size.faults_until);
    full.hold = links.chance(0.2) ? Duration{} : links.between(1s, 40s);
    scenario.faults.insert(scenario.faults.end(), links.between(1, peers), full);
  }
  if (links.chance(0.3)) scenario.slow_ledger = links.chance(0.5) ? 0.1 : 1;
  for (auto stalls = links.chance(0.2) ? links.between(1, 4) : 0; stalls > 0; --stalls) {
    Fault stall{.kind = FaultKind::StallLedger, .at = links.between(0ms, size.faults_until), .at_event = {}, .at_phase = {}};
    stall.hold = links.between(200ms, 14s);
    scenario.faults.push_back(stall);
  }
  if (random.chance(0.02)) {  // everybody leaves
    const auto at = random.between(5s, 40s);
    scenario.faults.insert(scenario.faults.end(), peers, {.kind = FaultKind::Leave, .at = at, .at_event = {}, .at_phase = {}});
  }
  if (scenario.options.shards == 1 && links.chance(0.3)) {
    scenario.options.fragments = static_cast<std::uint32_t>(links.between(2, 3));
    scenario.options.in_flight = static_cast<std::uint32_t>(links.between(1, 3));
  }
  for (auto pauses = links.chance(0.2) ? links.between(1, 3) : 0; pauses > 0; --pauses) {
    Fault pause{.kind = FaultKind::PauseRun, .at = links.between(0ms, size.faults_until), .at_event = {}, .at_phase = {}};
    pause.hold = links.chance(0.3) ? links.between(40s, 90s) : links.between(100ms, 20s);
    scenario.faults.push_back(pause);
  }
  scenario.options.overlap = scenario.options.shards == 1 && scenario.options.quorum == 0 && links.chance(0.3);
  if (scenario.options.shards == 1 && scenario.options.quorum == 0 && links.chance(0.4))
    scenario.streams = static_cast<std::uint32_t>(links.below(scenario.options.fragments));
  scenario.options.streams = scenario.streams.has_value();
  const bool may_decouple = scenario.options.shards == 1 && !scenario.options.overlap && !scenario.streams &&
                            scenario.options.on_correlated_loss != coordinator::LossPolicy::RollBack;
  scenario.options.decoupled = may_decouple && links.chance(0.25);
  Random rounds{mix(seed + 1)};
  if (scenario.options.shards > 1 && rounds.chance(0.5)) {
    scenario.options.fragments = static_cast<std::uint32_t>(rounds.between(1, 3));
    scenario.options.in_flight = static_cast<std::uint32_t>(rounds.between(1, 3));
    if (rounds.chance(0.5)) scenario.options.quorum = static_cast<std::uint32_t>(rounds.between(scenario.options.min_peers, peers));
    scenario.options.grace = rounds.between(0ms, 3s);
  }
  if (scenario.options.shards > 1 && scenario.options.quorum == 0) {
    scenario.options.overlap = rounds.chance(0.3);
    if (rounds.chance(0.3)) scenario.streams = static_cast<std::uint32_t>(rounds.below(scenario.options.fragments));
    scenario.options.streams = scenario.streams.has_value();
  }
  return scenario;
}

Duration time_limit(const Scenario& scenario) {
  const auto& options = scenario.options;
  Duration slowest_training{};
  Duration slowest_fetch{};
  const auto consider = [&](const PeerSpec& spec) {
    slowest_training = std::max(slowest_training, 2 * (spec.inner_time + spec.bind_time));
    slowest_fetch = std::max(slowest_fetch, spec.fetch_time + spec.bind_time);
  };
  Duration last_event{};
  for (const auto& [at, spec] : scenario.arrivals) {
    consider(spec);
    last_event = std::max(last_event, at);
  }
  for (const auto& fault : scenario.faults) last_event = std::max(last_event, fault.at.value_or(0ms) + fault.hold);
  for (const auto& spec : scenario.joiners) consider(spec);
  const auto slowest_reduce = scenario.reduce ? scenario.reduce->second : Duration{};
  const auto disturbances = static_cast<std::int64_t>(scenario.faults.size() + scenario.arrivals.size() + 2);
  const auto tries = static_cast<std::int64_t>(options.outer_steps) + disturbances * coordinator::MAX_LINK_FAILURES +
                     disturbances * static_cast<std::int64_t>(options.checkpoint_every);  // each may be rolled back
  const auto one_try = slowest_training + 3 * options.deadline + options.fragments * slowest_reduce;
  return last_event + tries * one_try +
         disturbances *
             (slowest_fetch + options.deadline + options.wait_limit + options.evaluate_limit + options.coordinator_grace + SAVE_RETRY) +
         static_cast<std::int64_t>(options.max_peers) * 1min + options.wait_limit;  // to find somebody who can save the final state
}

}  // namespace prime::sim
