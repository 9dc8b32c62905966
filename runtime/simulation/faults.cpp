// Owns what goes wrong in a simulated run, and who comes and goes.
#include <algorithm>

#include "runtime/simulation/swarm.hpp"

namespace prime::sim {

using std::chrono_literals::operator""us;

void Swarm::arm_faults() {
  for (const auto& fault : scenario_.faults) {
    if (fault.at) schedule(*fault.at, [this, fault] { strike(fault, std::nullopt); });
    else armed_.push_back(fault);
  }
  // Faults that count events are looked at between events, on the occasion of a clock of their own.
  schedule(20ms, [this] { watch_event_count(); });
}

void Swarm::watch_event_count() {
  for (std::size_t i = 0; i < armed_.size(); ++i) {
    if (!armed_[i].at_event || *armed_[i].at_event > untimed_events_) continue;
    const auto fault = armed_[i];
    armed_.erase(armed_.begin() + static_cast<std::ptrdiff_t>(i--));
    strike(fault, std::nullopt);
  }
  if (!armed_.empty()) schedule(20ms, [this] { watch_event_count(); });
}

void Swarm::phase_entered(std::size_t i, peer::Phase phase) {
  for (std::size_t k = 0; k < armed_.size(); ++k) {
    auto& armed = armed_[k];
    if (armed.at_phase != phase || --armed.occurrence > 0) continue;
    const auto fault = armed;
    armed_.erase(armed_.begin() + static_cast<std::ptrdiff_t>(k--));
    // At once after this event, or while its messages are on their way.
    auto victim = i;
    if (phase == peer::Phase::Fetching && random_.chance(0.5)) victim = index_of(hosts_[i].machine.fetch->donor).value_or(i);
    schedule(random_.chance(0.3) ? Duration{} : random_.between(100us, 600ms), [this, fault, victim] { strike(fault, victim); });
  }
}

void Swarm::strike(const Fault& fault, std::optional<std::size_t> victim) {
  if (hosts_.empty()) return;
  if (!victim || random_.chance(0.3)) victim = random_.below(hosts_.size());
  trace("fault", std::string{to_string(fault.kind)}, hosts_[*victim].machine.options.hello.name);
  probe(probe_of(fault.kind));
  switch (fault.kind) {
    case FaultKind::Kill: return kill(*victim, random_.chance(0.3));
    case FaultKind::Pause: return pause(*victim, fault.hold);
    case FaultKind::Leave: return leave(*victim);
    case FaultKind::Join:
      if (next_joiner_ < scenario_.joiners.size() && !outcome_.over) join(scenario_.joiners[next_joiner_++]);
      return;
    case FaultKind::KillTrainer: return kill_trainer(*victim);
    case FaultKind::ResetLink: return reset_link();
    case FaultKind::CutControl: return cut_control(*victim);
    case FaultKind::StallReduce: hosts_[*victim].stalls = true; return;
    case FaultKind::Corrupt:
      ++armed_corruptions_;
      for (auto& oracle : oracles_) oracle.expect_parity_to_break();
      return;
    case FaultKind::KillCoordinator: return kill_coordinator();
    case FaultKind::RestartCoordinator:
      if (!coordinator_alive_ || outcome_.over) return;
      // At any time, or in the midst of the next decision: what it keeps is on the disk, and nobody has heard of it.
      if (random_.chance(0.5)) dies_deciding_ = fault.hold;
      else kill_coordinator(fault.hold);
      return;
    case FaultKind::Partition: return part(fault.hold);
    case FaultKind::IsolateCoordinator: return isolate_coordinator(fault.hold);
    case FaultKind::FillDisk: return fill_disk(*victim, fault.hold);
    case FaultKind::StallLedger: return stall_ledger(fault.hold > Duration{} ? fault.hold : 2 * COORDINATOR_GRACE);
    case FaultKind::StopRun: return stop_run();
    case FaultKind::PauseRun: pause_run(); return schedule(fault.hold, [this] { resume_run(); });
  }
}

void Swarm::stop_run() { step_coordinator(coordinator::StopRequested{}); }

void Swarm::pause_run() { step_coordinator(coordinator::PauseRequested{}); }

/// Its owner sees whether it goes on, and says it again where that was not heard, or is forgotten.
void Swarm::resume_run() {
  if (outcome_.over) return;
  resume_due_ = !coordinator_alive_;
  if (resume_due_) return;
  step_coordinator(coordinator::ResumeRequested{});
  schedule(1s, [this] {
    if (!coordinator_alive_ || state_.paused_by_owner || !untold_.empty()) resume_run();
  });
}

/// Its peers start at about the same time.
std::size_t Swarm::join_replica(PeerSpec spec) {
  spec.replica = "replica-" + std::to_string(next_replica_++);
  for (spec.shard = 1; spec.shard < scenario_.options.shards; ++spec.shard)
    schedule(random_.between(0ms, 1s), [this, spec] { join(spec); });
  spec.shard = 0;
  return join(spec);
}

std::size_t Swarm::join(const PeerSpec& spec, const std::optional<Model>& checkpoint, bool brings_it) {
  if (scenario_.options.shards > 1 && spec.replica.empty()) return join_replica(spec);
  const auto i = hosts_.size();
  auto& host = hosts_.emplace_back();
  host.id = PeerId{mix(scenario_.seed * 1000 + i)};
  indices_.emplace(host.id, i);
  host.spec = spec;
  host.clock = new_clock();
  host.started = now_;
  host.checkpoint = checkpoint;
  host.model = brings_it && checkpoint ? *checkpoint
                                       : initial_model(scenario_.same_start ? 7 + 1000 * spec.shard : 7 + i, scenario_.options.fragments);
  peer::Options options;
  options.hello.run = spec.other_run ? "another" : scenario_.options.run;
  options.hello.protocol = spec.other_protocol ? PROTOCOL_VERSION + 1 : PROTOCOL_VERSION;
  options.hello.peer = host.id;
  options.hello.name = "peer-" + std::to_string(i);
  options.hello.shard = spec.shard;
  options.hello.replica = spec.replica;
  options.doubt_after = scenario_.doubt_after;
  options.coordinator_grace = COORDINATOR_GRACE;
  options.checkpoint_every = scenario_.options.checkpoint_every;
  options.save_retry = SAVE_RETRY;
  options.fragments = scenario_.options.fragments;
  host.life.options.fragments = scenario_.options.fragments;
  options.streams = host.life.options.streams = scenario_.streams.has_value();
  options.decoupled = host.life.options.decoupled = scenario_.options.decoupled;
  options.all_write_checkpoints = scenario_.options.on_correlated_loss == coordinator::LossPolicy::RollBack;
  auto started = peer::start(std::move(options), host.clock.read(now_));
  host.machine = std::move(started.state);
  watch_silence(now_, host);
  probe(probe_of(peer::Phase::Greeting));
  trace(host.machine.options.hello.name, "start", started.reason);
  if (!coordinator_alive_ || coordinator_isolated_ || outcome_.over) {
    host.up_open = host.down_open = false;
    post_lost(i, "refused", 10ms);
  }
  for (const auto& effect : started.effects) carry_out(i, effect);
  schedule(random_.between(0ms, 250ms), [this, i] { tick_peer(i); });
  return i;
}

void Swarm::kill(std::size_t i, bool silently) {
  auto& host = hosts_[i];
  if (!host.alive) return;
  end_process(i);
  // Nobody else can take the place of a peer in its replica: somebody starts it again, as a rule.
  if (!host.spec.replica.empty() && random_.chance(0.8))
    schedule(random_.between(100ms, 15s), [this, spec = host.spec, checkpoint = host.checkpoint] {
      if (!outcome_.over) join(spec, checkpoint);
    });
  if (silently) {  // the machine lost its power: nobody closes the connection
    host.up_open = false;
    host.unreachable = true;
    return;
  }
  if (random_.chance(0.2)) host.unreachable = true;
  if (random_.chance(0.5)) host.up_open = false;  // what it had just sent is lost with it
  schedule(std::max(random_.between(0ms, 1s), host.up_last + 1us - now_), [this, id = host.id] {
    step_coordinator(coordinator::ConnectionLost{id, "reset"});
  });
}

void Swarm::pause(std::size_t i, Duration hold) {
  if (!hosts_[i].alive || hosts_[i].paused) return;
  hosts_[i].paused = true;
  ++paused_;
  if (hold == Duration{}) return;
  schedule(hold, [this, i] {
    auto& host = hosts_[i];
    if (host.alive) --paused_;
    host.paused = false;
    host.resumed = now_;
    watch_silence(now_, host);
    auto backlog = std::move(host.backlog);
    host.backlog.clear();
    for (auto& waiting : backlog) std::visit([&](auto& event) { deliver(i, std::move(event)); }, waiting);
  });
}

void Swarm::leave(std::size_t i) {
  hosts_[i].left = true;
  deliver(i, peer::Event{peer::LeaveRequested{}});
}

void Swarm::cut_control(std::size_t i) {
  auto& host = hosts_[i];
  if (!host.alive || !host.up_open) return;
  if (random_.chance(0.7)) return drop_control(i);
  // A router on the way has forgotten it, and swallows what is sent.
  host.up_open = host.down_open = false;
}

void Swarm::drop_control(std::size_t i) {
  auto& host = hosts_[i];
  host.up_open = false;
  host.down_open = false;
  schedule(random_.between(0ms, 2s), [this, id = host.id] { step_coordinator(coordinator::ConnectionLost{id, "reset"}); });
  post_lost(i, "reset", random_.between(0ms, 2s));
}

/// The coordinator stays with the larger side. Between the sides nothing passes, no byte of a reduce or a fetch either.
void Swarm::part(Duration hold) {
  std::vector<std::size_t> living;
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (hosts_[i].alive && !hosts_[i].parted) living.push_back(i);
  if (living.size() < 3 || !coordinator_alive_ || outcome_.over) return;
  std::vector<std::size_t> minority;
  for (auto left = (living.size() - 1) / 2; left > 0; --left) {
    const auto drawn = living.begin() + static_cast<std::ptrdiff_t>(random_.below(living.size()));
    minority.push_back(*drawn);
    living.erase(drawn);
  }
  std::vector<Revision> held;
  for (const auto i : minority) {
    hosts_[i].parted = true;
    drop_control(i);
    break_reduces(i, std::nullopt);
    held.push_back(hosts_[i].machine.revision);
  }
  if (hold == Duration{}) return;
  schedule(hold, [this, minority, at = state_.revision, held] { heal(minority, at, held); });
}

void Swarm::heal(const std::vector<std::size_t>& minority, Revision parted_at, const std::vector<Revision>& held) {
  if (state_.revision.value > parted_at.value + 1) probe(WorldProbe::MajorityWentOn);
  for (std::size_t k = 0; k < minority.size(); ++k) {
    auto& host = hosts_[minority[k]];
    host.parted = false;
    if (host.machine.revision != held[k]) violate("LAW-5 " + host.machine.options.hello.name + " made a step on its own side");
    else probe(host.alive ? WorldProbe::MinorityStoodStill : WorldProbe::MinorityGaveUp);
  }
}

/// The lanes between the peers stand all the while.
void Swarm::isolate_coordinator(Duration hold) {
  if (!coordinator_alive_ || coordinator_isolated_ || outcome_.over || hold == Duration{}) return;
  coordinator_isolated_ = true;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].alive || !hosts_[i].up_open) continue;
    if (random_.chance(0.3)) drop_control(i);
    else hosts_[i].up_open = hosts_[i].down_open = false;
  }
  schedule(hold, [this] { coordinator_isolated_ = false; });
}

/// Of another machine: nobody may compare it with that of a third.
Clock Swarm::new_clock() {
  const auto skew = scenario_.clock_skew;
  const auto drift = static_cast<std::uint64_t>(scenario_.clock_drift);
  const Clock clock{clocks_.between(-skew, skew), static_cast<std::int64_t>(clocks_.between(0, 2 * drift)) - scenario_.clock_drift};
  if (clock.ahead > skew / 2) probe(WorldProbe::ClockAhead);
  if (clock.ahead < -skew / 2) probe(WorldProbe::ClockBehind);
  return clock;
}

void Swarm::kill_coordinator() {
  if (!coordinator_alive_ || outcome_.over) return;
  coordinator_alive_ = false;
  coordinator_died_ = now_;
  // What was on its way to the disk is there, or is not; what it decided after that is nowhere.
  if (!writing_.empty() && disk_.chance(0.5)) land();
  writing_ = {};
  untold_.clear();
  ledger_ = coordinator::open_ledger(scenario_.options);
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    watch_silence(now_, hosts_[i]);
    hosts_[i].up_open = false;
    hosts_[i].down_open = false;
    if (!random_.chance(0.2)) post_lost(i, "reset", random_.between(0ms, 1s));  // else its silence tells
  }
}

void Swarm::kill_coordinator(Duration hold) {
  kill_coordinator();
  schedule(hold, [this] { restart_coordinator(); });
}

void Swarm::restart_coordinator() {
  if (coordinator_alive_) return;
  if (kept_ && kept_->phase == coordinator::Phase::Over) {  // all that is left to do is to end
    outcome_.over = true;
    outcome_.cause = kept_->end_cause;
    return;
  }
  coordinator_alive_ = true;
  ++coordinator_life_;
  coordinator_clock_ = new_clock();
  const auto now = coordinator_clock_.read(now_);
  if (state_.in_flight() > 1) probe(WorldProbe::RestartedWithSeveralInFlight);
  state_ = kept_ ? coordinator::restore(scenario_.options, *kept_, now) : coordinator::initial(scenario_.options, now);
  probe(probe_of_restart(kept_ ? std::optional{kept_->phase} : std::nullopt));
  if (state_.is_between_fragments()) probe(WorldProbe::RestartedBetweenFragments);
  mates_.clear();  // who was no member yet waits anew for its replica
  note_replicas(state_);
  trace("coordinator", "restart", "from revision " + std::to_string(state_.revision.value));
  for (std::uint32_t shard = 0; shard < oracles_.size(); ++shard)
    oracles_[shard].coordinator_restarted(oracles_.size() == 1 ? state_ : column(state_, shard), now_);
  schedule(random_.between(0ms, 250ms), [this, life = coordinator_life_] { tick_coordinator(life); });
  if (resume_due_) schedule(500ms, [this] { resume_run(); });
}

/// The peer's attempt to reach a coordinator: a new connection, or none.
void Swarm::redial(std::size_t i) {
  schedule(random_.between(1ms, 300ms), [this, i] {
    auto& host = hosts_[i];
    if (!host.alive) return;
    if (!coordinator_alive_ || outcome_.over || host.parted || coordinator_isolated_)
      return deliver(i, peer::RedialFailed{Error{ErrorName::RunUnreachable, "refused"}});
    ++host.connection;
    host.up_open = true;
    host.up_last = host.down_last = now_;
    deliver(i, peer::CoordinatorBack{});
  });
}

}  // namespace prime::sim
