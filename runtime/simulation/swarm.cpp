#include "runtime/simulation/swarm.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace prime::sim {

using std::chrono_literals::operator""us;
namespace {

constexpr std::size_t TAIL_LINES = 120;

std::uint64_t hash_text(std::uint64_t hash, const std::string& text) {
  for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    hash = mix(hash ^ word);
  }
  return mix(hash ^ text.size());
}

/// The fields of an event, as a trace shows them.
struct Telling {
  std::string& text;

  template <class T>
  void operator()(std::string_view key, const T& value) const {
    if constexpr (requires { value.has_value(); }) {
      if (value) (*this)(key, *value);
    } else {
      text += " " + std::string{key} + "=" + said(value);
    }
  }
  void operator()(std::string_view, const Who& who) const { text += " peer=" + who.name; }

  static std::string said(const std::string& value) { return value; }
  static std::string said(const Cause& value) { return value.text; }
  static std::string said(Duration value) { return format_duration(value); }
  template <class T>
  static std::string said(const std::vector<T>& list) {
    std::string all;
    for (const auto& item : list) all += (all.empty() ? "" : ",") + said(item);
    return all;
  }
  template <class T>
  static std::string said(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) return std::to_string(value);
    else if constexpr (requires { to_string(value); }) return std::string{to_string(value)};
    else return std::to_string(value.value);
  }
};

std::string text_of(const JournalEvent& event) {
  std::string text;
  std::visit([&](const auto& e) { for_each_field(e, Telling{text}); }, event);
  return text;
}

}  // namespace

Swarm::Swarm(Scenario scenario, Probes& probes)
    : scenario_(std::move(scenario)),
      probes_(probes),
      random_(scenario_.seed),
      clocks_(~scenario_.seed),
      disk_(mix(scenario_.seed)),
      takes_(mix(scenario_.seed + 2)),
      coordinator_clock_(new_clock()) {
  const auto shards = scenario_.options.shards;
  oracles_.assign(shards, Oracle{scenario_.options, [this](PeerId peer, OuterStep step) { return weigh(peer, step); }});
  reduces_.resize(shards);
  state_ = coordinator::initial(scenario_.options, coordinator_clock_.read(now_));
  ledger_ = coordinator::open_ledger(scenario_.options);
  for (const auto& [at, spec] : scenario_.arrivals) schedule(at, [this, arriving = spec] { join(arriving); });
  schedule(random_.between(0ms, 250ms), [this] { tick_coordinator(0); });
  arm_faults();
}

void Swarm::schedule(Duration delay, std::function<void()> act) {
  queue_.push_back(Item{now_ + delay, orders_++, std::move(act)});
  std::push_heap(queue_.begin(), queue_.end(), std::greater{});
}

Outcome Swarm::run() {
  const auto limit = Instant{} + time_limit(scenario_);
  while (!queue_.empty() && !violation()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater{});
    const auto item = std::move(queue_.back());
    queue_.pop_back();
    now_ = item.at;
    if (now_ > limit) {
      violate("LAW-6 the run hangs; the coordinator waits for: " + state_.waiting.what);
      break;
    }
    item.act();
    settle();
    if (everybody_is_done()) break;
  }
  std::vector<Holding> survivors;
  for (const auto& host : hosts_)
    if (host.end && !host.end->cause && !host.left) survivors.push_back(holding(host));
  if (!violation() && !outcome_.cause && outcome_.over) oracles_.front().check_end(state_, coordinator_alive_, survivors);
  judge_saved();
  outcome_.violation = violation();
  outcome_.took = now_ - Instant{};
  return std::move(outcome_);
}

void Swarm::settle() {
  ++outcome_.events;
  judge();
  if (after_each_) after_each_(*this);
}

bool Swarm::everybody_is_done() const {
  if (hosts_.size() < scenario_.arrivals.size() || (coordinator_alive_ && !outcome_.over)) return false;
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return !h.alive || h.paused; });
}

Holding Swarm::holding(const Host& host) const {
  Holding result{host.id, &host.machine, host.model, {}};
  // What is being applied is what it holds, as far as anybody may ask.
  for (const auto& commit : host.applying) {
    const auto& prepared = host.prepared.at(commit.op);
    result.model = with_fragment(std::move(result.model), prepared.model, commit.fragment, prepared.next_sample);
  }
  for (const auto& [op, prepared] : host.prepared)
    if (prepared.heard && std::ranges::find(host.applying, op, &Commit::op) == host.applying.end()) result.prepared.push_back(op);
  return result;
}

std::optional<std::size_t> Swarm::index_of(PeerId id) const {
  const auto found = indices_.find(id);
  return found == indices_.end() ? std::nullopt : std::optional{found->second};
}

void Swarm::trace(const std::string& who, const std::string& event, const std::string& reason) {
  auto line = "[" + std::to_string((now_ - Instant{}).count() / 1000) + "us] " + who + " <- " + event + ": " + reason;
  outcome_.trace_hash = hash_text(outcome_.trace_hash, line);
  outcome_.tail.push_back(std::move(line));
  if (outcome_.tail.size() > 2 * TAIL_LINES) outcome_.tail.erase(outcome_.tail.begin(), outcome_.tail.begin() + TAIL_LINES);
}

// Time ----------------------------------------------------------------------------------------------------------------------

void Swarm::tick_coordinator(std::uint64_t life) {
  if (!coordinator_alive_ || outcome_.over || life != coordinator_life_) return;
  const auto now = coordinator_clock_.read(now_);
  if (coordinator::overdue(ledger_, now)) {
    probe(WorldProbe::LedgerOverdue);
    return kill_coordinator(disk_.between(100ms, 3s));  // its guard starts it again
  }
  step_coordinator(coordinator::tick(ledger_, now));
  if (random_.chance(0.02)) step_coordinator(coordinator::tick(ledger_, now));
  schedule(random_.chance(0.02) ? 450ms : 250ms, [this, life] { tick_coordinator(life); });
}

void Swarm::tick_peer(std::size_t i) {
  auto& host = hosts_[i];
  if (!host.alive) return;
  // A stopped process has one timer pending, not one for each quarter of a second that it missed.
  const bool pending = host.paused && std::any_of(host.backlog.begin(), host.backlog.end(), [](const auto& waiting) {
                         const auto* event = std::get_if<peer::Event>(&waiting);
                         return event != nullptr && std::holds_alternative<peer::Tick>(*event);
                       });
  note_moved(i);
  if (!pending) deliver(i, peer::Event{peer::Tick{}});
  if (random_.chance(0.02)) deliver(i, peer::Event{peer::Tick{}});
  if (!host.paused) step_trainer(i, trainer_life::Tick{});
  schedule(random_.chance(0.02) ? 450ms : 250ms, [this, i] { tick_peer(i); });
}

// Network -------------------------------------------------------------------------------------------------------------------

Duration Swarm::message_delay() {
  if (random_.chance(scenario_.slow_message)) return random_.between(500ms, scenario_.slowest_message);
  if (scenario_.delay) return random_.between(scenario_.delay->first, scenario_.delay->second);
  return random_.chance(0.5) ? random_.between(100us, 5ms) : random_.between(5ms, 200ms);
}

void Swarm::send_up(std::size_t i, peer::ToCoordinator message) {
  auto& host = hosts_[i];
  if (!host.up_open) return;
  host.up_last = std::max(host.up_last, now_ + message_delay());
  schedule(host.up_last - now_, [this, i, connection = host.connection, message = std::move(message)]() mutable {
    if (!hosts_[i].up_open || hosts_[i].connection != connection) return;
    ++untimed_events_;
    if (std::holds_alternative<Hello>(message)) {  // from now on the coordinator speaks over this connection
      coordinator::forget(ledger_, hosts_[i].id);
      hosts_[i].down_open = true;
    }
    step_coordinator(coordinator::Received{hosts_[i].id, std::visit([](auto& m) { return coordinator::FromPeer{std::move(m)}; }, message)});
  });
}

void Swarm::send_down(PeerId to, coordinator::ToPeer message) {
  const auto i = index_of(to);
  if (!i || !hosts_[*i].down_open) return;
  auto& host = hosts_[*i];
  if (std::holds_alternative<BeginStep>(message) && !std::exchange(host.admitted, true) && state_.has_trained())
    outcome_.joins.push_back(now_ - host.started);
  host.down_last = std::max(host.down_last, now_ + message_delay());
  schedule(host.down_last - now_, [this, i = *i, connection = host.connection, message = std::move(message)]() mutable {
    if (hosts_[i].down_open && hosts_[i].connection == connection) deliver(i, peer::Event{peer::FromCoordinator{std::move(message)}});
  });
}

void Swarm::post(std::size_t i, peer::Event event, Duration delay) {
  schedule(delay, [this, i, event = std::move(event)]() mutable { deliver(i, std::move(event)); });
}

/// The end of the connection that a peer has now.
void Swarm::post_lost(std::size_t i, const std::string& reason, Duration delay) {
  schedule(delay, [this, i, reason, connection = hosts_[i].connection] {
    if (hosts_[i].connection == connection) deliver(i, peer::Event{peer::CoordinatorLost{reason}});
  });
}

void Swarm::fence(PeerId peer) {
  const auto i = index_of(peer);
  if (!i) return;
  auto& host = hosts_[*i];
  host.up_open = false;
  // What was said just before the cut arrives, or is lost with the connection.
  if (random_.chance(0.5)) host.down_open = false;
  post_lost(*i, "fenced", std::max(Duration{1ms}, host.down_last - now_));
  schedule(1ms, [this, peer] { step_coordinator(coordinator::ConnectionLost{peer, "fenced"}); });
}

/// Where a process has died its machine says so, if that has not gone with it and nothing keeps the question or the answer away. Now and
/// then a router refuses in the name of one that lives, but has no connection just then.
void Swarm::look_for(PeerId peer) {
  const auto i = index_of(peer);
  if (!i) return;
  schedule(random_.between(1ms, 300ms), [this, i = *i] {
    const auto& host = hosts_[i];
    if (host.unreachable || host.parted || coordinator_isolated_) return;
    const bool refused_by_another = host.alive && !host.up_open && random_.chance(0.02);
    if (refused_by_another) probe(WorldProbe::RefusedByAnother);
    if (refused_by_another) refused_.insert(host.id);
    if (!host.alive || refused_by_another) step_coordinator(coordinator::ProcessGone{host.id, "refused"});
  });
}

void Swarm::coordinator_finished(const coordinator::Finish& finish) {
  outcome_.over = true;
  outcome_.cause = finish.cause;
  if (finish.cause && finish.cause->name == ErrorName::TooFewPeers) judge_given_up();
  for (std::uint32_t shard = 0; shard < scenario_.options.shards && !finish.cause; ++shard)
    if (!is_on_a_disk(state_.revision, shard)) violate("SIM-14 the run is done and its final state is on no disk");
  probe(probe_of_end(finish.cause));
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    post_lost(i, "the coordinator ended", std::max(Duration{1ms}, hosts_[i].down_last - now_));
}

// Machines ------------------------------------------------------------------------------------------------------------------

void Swarm::step_coordinator(const coordinator::Event& event) {
  if (!coordinator_alive_ || outcome_.over) return;
  const auto phase = state_.phase;
  auto transition = coordinator::step(std::move(state_), event, coordinator_clock_.read(now_));
  if (break_coordinator_) break_coordinator_(event, transition);
  state_ = std::move(transition.state);
  if (state_.phase != phase) {
    probe(probe_of(state_.phase));
    if (phase == coordinator::Phase::Waiting && state_.phase == coordinator::Phase::Training && state_.revision > Revision{})
      probe(WorldProbe::RecoveredFromBelowMinimum);
  }
  if (!transition.reason.empty()) {
    const auto* received = std::get_if<coordinator::Received>(&event);
    const auto sender = received != nullptr ? index_of(received->from) : std::nullopt;
    trace("coordinator", kind_of(event) + (sender ? " of " + hosts_[*sender].machine.options.hello.name : ""), transition.reason);
  }
  const bool was_writing = ledger_.is_writing();
  if (!was_writing) writing_time_ = writing_time();
  const bool at_once = !was_writing && writing_time_ == Duration{};
  if (at_once) judge_coordinator({event, state_, transition.effects, now_});
  auto effects = at_once ? std::vector<coordinator::Effect>{} : transition.effects;
  auto actions = coordinator::record(ledger_, std::move(transition.decided), std::move(transition.effects), coordinator_clock_.read(now_));
  if (!at_once && !ledger_.is_writing()) judge_coordinator({event, state_, effects, now_});  // there was nothing to write
  else if (!at_once) {
    const bool behind_next = !was_writing || !ledger_.next.empty();
    untold_.push_back({entry_ + (behind_next ? 1 : 0), event, state_, std::move(effects), now_});
  }
  carry_out(std::move(actions));
}

/// Of the next entry. Most disks are quicker than anything else here.
Duration Swarm::writing_time() {
  if (ledger_stall_ > Duration{}) return ledger_stall_;
  if (!disk_.chance(scenario_.slow_ledger)) return {};
  return disk_.chance(0.9) ? disk_.between(1ms, 100ms) : disk_.between(100ms, 3s);
}

void Swarm::carry_out(std::vector<coordinator::Action> actions) {
  for (auto& action : actions)
    std::visit(overloaded{
                   [&](coordinator::WriteEntry& e) { write(std::move(e.entry)); },
                   [&](coordinator::Send& send) { send_down(send.to, std::move(send.message)); },
                   [&](const coordinator::Fence& cut) { fence(cut.peer); },
                   [&](const coordinator::LookFor& look) { look_for(look.peer); },
                   [&](const coordinator::Finish& finish) { coordinator_finished(finish); },
                   [&](Probe hit) { probe(probe_of(hit)); },
               },
               action);
}

void Swarm::write(coordinator::Entry entry) {
  ++entry_;
  writing_ = std::move(entry);
  if (const auto dies = writing_.decided ? std::exchange(dies_deciding_, std::nullopt) : std::nullopt) {
    probe(WorldProbe::CoordinatorDiesDeciding);
    land();
    return kill_coordinator(*dies);
  }
  const auto done = [this, entry = entry_, life = coordinator_life_] {
    if (!coordinator_alive_ || life != coordinator_life_ || entry != entry_) return;
    land();
    writing_time_ = writing_time();
    carry_out(coordinator::written(ledger_, coordinator_clock_.read(now_)));
  };
  const auto takes = std::exchange(writing_time_, Duration{});
  if (takes == ledger_stall_) ledger_stall_ = {};
  if (takes == Duration{}) return done();
  probe(WorldProbe::LedgerSlow);
  schedule(takes, done);
}

/// The entry that was on its way is on the disk; whether anybody hears of it is another matter.
void Swarm::land() {
  for (; !untold_.empty() && untold_.front().entry == entry_; untold_.pop_front()) {
    const auto& told = untold_.front();
    judge_coordinator({told.event, told.state, told.effects, told.at});
  }
  auto entry = std::exchange(writing_, {});
  if (entry.decided) kept_ = std::move(entry.decided);
  for (auto& event : entry.events) journaled(std::move(event));
}

void Swarm::journaled(JournalEvent event) {
  const auto name = std::string{info(event).name};
  const bool sharded = state_.options.shards > 1;
  probe(probe_of_record(name, sharded));
  if (std::holds_alternative<events::StateFounded>(event) && ++founders_ > 1) probe(WorldProbe::FoundedAnew);
  if (const auto* lost = std::get_if<events::PeerLost>(&event)) judge_lost(*lost);
  if (const auto* aborted = std::get_if<events::OuterStepAborted>(&event)) probe(probe_of_abort(*aborted->cause, sharded));
  trace("journal", name, text_of(event));
  journal_.push_back(std::move(event));
}

void Swarm::deliver(std::size_t i, peer::Event event) {
  auto& host = hosts_[i];
  if (!host.alive) return;
  if (host.paused) {
    host.backlog.push_back(std::move(event));
    return;
  }
  if (!std::holds_alternative<peer::Tick>(event)) ++untimed_events_;
  step_peer(i, event);
}

void Swarm::step_peer(std::size_t i, const peer::Event& event) {
  auto& host = hosts_[i];
  changed_.push_back(i);
  const auto phase = phase_of(host.machine);
  // The agent holds what was fetched, bound or prepared from the moment its machine hears of it.
  if (const auto* bound = std::get_if<peer::TrainerBound>(&event); bound != nullptr && !host.born) {
    host.born = true;
    if (host.model.revision == Revision{}) oracle_of(host).born(host.model);
    else oracle_of(host).brings(host.id, host.model);
  }
  if (const auto* fetch = std::get_if<peer::FetchEnded>(&event); fetch != nullptr) {
    host.fetching = false;
    if (fetch->state) {
      host.model = host.fetched.at(fetch->revision);
      oracle_of(host).fetched(host.id, host.model);
      step_trainer(i, trainer_life::Adopted{host.model.revision});
    }
  }
  if (const auto* reduce = std::get_if<peer::ReduceEnded>(&event); reduce != nullptr && reduce->prepared)
    host.prepared.at(reduce->op).heard = true;

  auto transition = peer::step(std::move(host.machine), event, host.clock.read(now_));
  if (break_peers_) break_peers_(event, transition);
  host.machine = std::move(transition.state);
  const auto& name = host.machine.options.hello.name;
  if (!std::holds_alternative<peer::Tick>(event)) probe(probe_of(kind_of(event), phase));
  if (!transition.reason.empty()) trace(name, kind_of(event), transition.reason);
  oracle_of(host).peer_stepped(holding(host), transition.effects);
  for (const auto& effect : transition.effects) {
    if (const auto* hit = std::get_if<Probe>(&effect)) probe(probe_of(*hit, phase));
    carry_out(i, effect);
  }
  if (const auto now = phase_of(host.machine); now != phase) {
    probe(probe_of(now));
    phase_entered(i, now);
  }
}

void Swarm::carry_out(std::size_t i, const peer::Effect& effect) {
  auto& host = hosts_[i];
  std::visit(overloaded{
                 [&](const JournalEvent& journaled) {
                   if (std::holds_alternative<events::StateNotSaved>(journaled)) host.gave_up_saving = true;
                 },
                 [](Probe) {},
                 [&](const peer::Tell& tell) { send_up(i, tell.message); },
                 [&](const peer::Redial&) { redial(i); },
                 [&](const peer::StartTrainer&) { step_trainer(i, trainer_life::Start{}); },
                 [&](const peer::BeginTraining& begin) { step_trainer(i, trainer_life::Begin{begin.begin}); },
                 [&](const peer::AskPublication& ask) { step_trainer(i, trainer_life::Ask{ask.asked}); },
                 [&](const peer::StartTrainerOver&) { step_trainer(i, trainer_life::StartOver{}); },
                 [&](const peer::StartFetch& start) { start_fetch(i, start.fetch); },
                 [&](const peer::StopFetch&) { host.fetch_stopped = true; },
                 [&](const peer::RunReduce& run) { run_reduce(i, run.reduce); },
                 [&](const peer::AbortReduce& abort) { abort_reduce(i, abort.op); },
                 [&](const peer::ApplyCommit& apply) { apply_commit(i, apply); },
                 [&](const peer::Discard& discard) {
                   if (host.prepared.erase(discard.op) == 0)
                     violate("SIM-4 " + host.machine.options.hello.name + " discards what it does not hold");
                 },
                 [&](const peer::StartMeasure& start) { start_measure(i, start.to.id); },
                 [&](const peer::FinishTraining& finish) { step_trainer(i, trainer_life::Finish{finish.done}); },
                 [&](const peer::SaveState& order) { step_trainer(i, trainer_life::Save{order}); },
                 [&](const peer::StopWork& stop) { step_trainer(i, trainer_life::Stop{stop.cause}); },
                 [&](const peer::End& end) {
                   carry_out_commits(i);
                   host.end = end;
                   if (end.cause && end.cause->name == ErrorName::LayoutMismatch &&
                       std::ranges::none_of(hosts_, &PeerSpec::other_layout, &Host::spec))
                     violate("SIM-7 " + host.machine.options.hello.name + " is sent away for its layout: " + end.cause->detail);
                   judge_ended(host, end);
                   probe(probe_of_peer_end(end.cause));
                   end_process(i);
                   if (end.cause && peer::joins_anew(*end.cause))
                     rejoin(host.spec, host.checkpoint, end.cause->name == ErrorName::RolledBack);
                   // A process that ends by itself has its last words delivered before its connection is seen to close.
                   schedule(std::max(Duration{1ms}, host.up_last + 1us - now_), [this, id = host.id] {
                     step_coordinator(coordinator::ConnectionLost{id, "the peer ended"});
                   });
                 },
             },
             effect);
}

/// As run_agent does it: a new peer, whose trainer has to start first.
void Swarm::rejoin(const PeerSpec& spec, const std::optional<Model>& checkpoint, bool brings_it) {
  schedule(random_.between(50ms, 500ms), [this, spec, checkpoint, brings_it] {
    if (outcome_.over) return;
    probe(WorldProbe::JoinsAnew);
    join(spec, checkpoint, brings_it);
  });
}

void Swarm::end_process(std::size_t i) {
  auto& host = hosts_[i];
  host.alive = false;
  if (host.paused) --paused_;
  host.down_open = false;
  host.backlog.clear();
  ++host.trainers;
  break_reduces(i, std::nullopt);
}

}  // namespace prime::sim
