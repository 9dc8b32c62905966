// Owns how a simulated run is judged: by one oracle for each shard, which sees its peers as if there were no others.
#include <algorithm>
#include <numeric>

#include "actors/coordinator/columns.hpp"
#include "actors/membership/replicas.hpp"
#include "runtime/simulation/swarm.hpp"

namespace prime::sim {

const std::optional<std::string>& Swarm::violation() const {
  for (const auto& oracle : oracles_)
    if (oracle.violation()) return oracle.violation();
  return oracles_.front().violation();
}

std::size_t Swarm::commits() const {
  std::size_t sum = 0;
  for (const auto& oracle : oracles_) sum += oracle.commits();
  return sum;
}

// Shards --------------------------------------------------------------------------------------------------------------------

/// In a sharded run: what all peers of its replica trained on.
std::uint64_t Swarm::weigh(PeerId peer, OuterStep step) const {
  const auto found = mates_.find(peer);
  if (found == mates_.end()) return weight_of(peer, step);
  std::uint64_t sum = 0;
  for (const auto mate : found->second) sum += weight_of(mate, step);
  return sum;
}

/// A coordinator that forgot those who were no members yet may put others together.
void Swarm::note_replicas(const coordinator::State& run) {
  for (const auto& [id, peer] : run.peers) {
    if (mates_.contains(id)) continue;
    const auto mates = membership::replica_of(run, peer);
    if (mates.size() < run.options.shards) continue;
    for (const auto mate : mates) mates_[mate] = mates;
  }
}

PeerId Swarm::mate(PeerId peer, std::uint32_t shard) const {
  const auto found = mates_.find(peer);
  return found == mates_.end() ? peer : found->second[shard];
}

/// The run as the peers of one shard see it.
coordinator::State Swarm::column(const coordinator::State& run, std::uint32_t shard) const {
  coordinator::State seen;
  for (const auto& [id, peer] : run.peers)
    if (peer.hello.shard == shard) seen.peers.emplace(id, peer);
  seen.view = {run.view.epoch, coordinator::column_of(run.view.members, shard, run.options.shards)};
  seen.phase = run.phase;
  seen.revision = run.revision;
  seen.cursor = run.cursor;
  seen.rounds = run.rounds;
  seen.sequence = run.sequence;
  seen.paused_by_owner = run.paused_by_owner;
  if (run.finalist) seen.finalist = mate(*run.finalist, shard);
  return seen;
}

JournalEvent Swarm::column(const coordinator::State& run, const JournalEvent& event, std::uint32_t shard) const {
  auto own = event;
  if (auto* done = std::get_if<events::RoundCommitted>(&own)) {
    for (auto& id : done->contributors) id = mate(id, shard);
    done->digest = run.rounds[done->fragment].last->shards[shard].part;
  }
  if (auto* done = std::get_if<events::OuterStepCommitted>(&own)) {
    for (auto& id : done->contributors) id = mate(id, shard);
    done->digest = *run.shards[shard].state;
  }
  if (auto* back = std::get_if<events::RolledBack>(&own)) back->digest = *run.shards[shard].state;
  return own;
}

/// Of an event about one peer of a replica: which.
std::optional<std::uint32_t> shard_of(const JournalEvent& event) {
  return std::visit(
      [](const auto& e) -> std::optional<std::uint32_t> {
        if constexpr (requires { e.who; }) return e.who.replica.empty() ? std::nullopt : std::optional{e.who.shard};
        else return std::nullopt;
      },
      event);
}

std::vector<coordinator::Effect> Swarm::column(const Judgement& of, std::uint32_t shard) const {
  std::vector<coordinator::Effect> seen;
  for (const auto& effect : of.effects) {
    if (const auto* event = std::get_if<JournalEvent>(&effect)) {
      if (shard_of(*event).value_or(shard) == shard) seen.emplace_back(column(of.state, *event, shard));
    } else if (const auto* send = std::get_if<coordinator::Send>(&effect)) {
      if (const auto to = index_of(send->to); to && hosts_[*to].spec.shard == shard) seen.push_back(effect);
    } else {
      seen.push_back(effect);
    }
  }
  return seen;
}

/// What a replica brings to a reduce was begun by all of its trainers together, from one revision (SIM-18).
void Swarm::judge_replicas(coordinator::State run, const std::vector<coordinator::Effect>& effects) {
  for (const auto& effect : effects) {
    const auto* event = std::get_if<JournalEvent>(&effect);
    const auto* started = event == nullptr ? nullptr : std::get_if<events::ReduceStarted>(event);
    const auto* round = started == nullptr ? nullptr : run.round_of(started->operation);
    if (round == nullptr) continue;
    std::map<std::uint64_t, const Contributed*> first;
    for (const auto& [id, weight] : round->operation->contributions) {
      const auto& inputs = hosts_[*index_of(id)].contributions;
      const auto input = inputs.find(coordinator::fragment_of(run, *round));
      if (weight == 0 || input == inputs.end()) continue;
      const auto& brought = input->second;
      const auto& peer = run.peers.at(id);
      const auto& with = *first.emplace(peer.ordinal, &brought).first->second;
      if (std::tie(with.step, with.base, with.attempt, with.from_shared) !=
          std::tie(brought.step, brought.base, brought.attempt, brought.from_shared))
        violate("SIM-18 " + peer.hello.name + " and others of its replica bring work that they did not begin together");
    }
  }
}

void Swarm::judge_coordinator(const Judgement& of) {
  const auto& event = of.event;
  if (oracles_.size() == 1) {
    oracles_.front().coordinator_stepped(event, of.state, of.effects, of.at, now_);
    return note_seats();
  }
  note_replicas(of.state);
  judge_replicas(of.state, of.effects);
  const auto speaker = [&]() -> std::optional<std::size_t> {
    if (const auto* received = std::get_if<coordinator::Received>(&event)) return index_of(received->from);
    if (const auto* lost = std::get_if<coordinator::ConnectionLost>(&event)) return index_of(lost->peer);
    if (const auto* gone = std::get_if<coordinator::ProcessGone>(&event)) return index_of(gone->peer);
    return std::nullopt;
  }();
  for (std::uint32_t shard = 0; shard < oracles_.size(); ++shard) {
    // What somebody of another shard says is heard by nobody of this one.
    const bool heard = !speaker || hosts_[*speaker].spec.shard == shard;
    oracles_[shard].coordinator_stepped(heard ? event : coordinator::Event{Coordinators{}}, column(of.state, shard), column(of, shard),
                                        of.at, now_);
  }
  note_seats();
}

void Swarm::note_seats() {
  const auto& first = oracles_.front();
  if (!first.seats_changed()) return;
  for (const auto& seen : first.seats()) {
    probe(probe_of(seen.seat));
    if (seen.overtaken) probe(WorldProbe::FetchOvertaken);
  }
}

// The end -------------------------------------------------------------------------------------------------------------------

/// A run is not given up while somebody who holds its state looks for it (SIM-11).
void Swarm::judge_given_up() {
  judge_restoring();
  const auto& run = state_;
  const bool nobody_holds_it =
      run.view.members.empty() && !run.restoring && run.has_trained() &&
      std::ranges::none_of(run.peers, [](const auto& entry) { return entry.second.seat == coordinator::Seat::CaughtUp; });
  if (!nobody_holds_it) return;
  const auto looks_for_it = [&](const Host& host) {
    return host.alive && !host.paused && host.machine.revision == state_.revision && host.machine.phase != peer::Phase::Leaving &&
           host.machine.phase != peer::Phase::Saving && oracle_of(host).is_member_until_now(host.id);
  };
  for (const auto& host : hosts_) {
    const auto mates = mates_.find(host.id);  // all of a replica are needed
    const bool all = mates == mates_.end() || std::all_of(mates->second.begin(), mates->second.end(),
                                                          [&](PeerId id) { return looks_for_it(hosts_[*index_of(id)]); });
    if (all && looks_for_it(host)) violate("SIM-11 the run is given up while " + host.machine.options.hello.name + " holds its state");
  }
}

/// A broken connection is no loss: who lives loses its seat by its silence, or for what it did (SIM-16). A replica goes as a whole.
void Swarm::judge_lost(const events::PeerLost& lost) {
  if (lost.reason.name != ErrorName::PeerLost) return;
  const auto is_over = [&](PeerId id) {
    const auto i = index_of(id);
    return !i || !hosts_[*i].alive || refused_.contains(id);
  };
  const auto mates = mates_.find(lost.who.peer);
  if (mates == mates_.end() && !lost.who.replica.empty()) return;  // it waited for the others, and had nothing to lose yet
  if (mates == mates_.end() ? is_over(lost.who.peer) : std::ranges::any_of(mates->second, is_over)) return;
  violate("SIM-16 " + lost.who.name + " lives, and lost its seat with its connection");
}

/// A run that waits for its checkpoint is not given up while enough of those who have it on their disks are here for long (SIM-11).
void Swarm::judge_restoring() {
  const auto& run = state_;
  if (!run.restoring || !kept_ || !kept_->checkpoint) return;
  const auto could_bring_it = [&](const Host& host) {
    const bool here = host.alive && !host.paused && !host.left && host.up_open && host.down_open && !host.parted &&
                      now_ - std::max({host.started, host.resumed, coordinator_died_}) > scenario_.options.wait_limit / 2;
    return here && host.checkpoint && host.checkpoint->revision == run.revision;
  };
  std::map<std::string, std::uint32_t> replicas;  // by name, or each peer for itself
  for (const auto& host : hosts_)
    if (could_bring_it(host)) ++replicas[host.spec.replica.empty() ? to_string(host.id) : host.spec.replica];
  const auto whole = std::ranges::count_if(replicas, [&](const auto& entry) { return entry.second == run.options.shards; });
  if (whole >= std::max<std::ptrdiff_t>(1, run.plan.min_peers))
    violate("SIM-11 the run is given up while " + std::to_string(whole) + " peers have its checkpoint on their disks");
}

// Checkpoints ---------------------------------------------------------------------------------------------------------------

bool Swarm::is_on_a_disk(Revision revision, std::uint32_t shard) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const Host& host) {
    return host.spec.shard == shard && host.checkpoint && host.checkpoint->revision == revision;
  });
}

/// Who could not save what it held has tried for as long as it is to.
void Swarm::judge_ended(const Host& host, const peer::End& end) {
  const bool lost = end.cause && end.cause->name == ErrorName::CoordinatorLost && host.machine.revision > Revision{};
  if (lost && !host.gave_up_saving && !(host.checkpoint && host.checkpoint->revision == host.model.revision))
    violate("LAW-8 " + host.machine.options.hello.name + " lost the coordinator and saved nothing");
  if (!host.gave_up_saving || (end.cause && peer::joins_anew(*end.cause))) return;
  probe(probe_of(WorldProbe::StateNotSaved));
  const auto tried = host.clock.read(now_) - host.machine.ending->since;
  if (tried < SAVE_RETRY) violate("SIM-15 " + host.machine.options.hello.name + " gives up saving after " + format_duration(tried));
}

/// The newest state is on a disk, unless everybody who held it was killed, or had no room for it until the end of its patience.
void Swarm::judge_saved() {
  const auto& run = state_;
  if (!run.has_trained() || violation()) return;
  const auto ended_with_it = [&](const Host& host) {
    if (!host.end || host.model.revision != run.revision || host.gave_up_saving) return false;
    const auto& cause = host.end->cause;
    if (!cause) return host.machine.done && !host.left;
    return !peer::joins_anew(*cause) && (info(cause->name).klass != ErrorClass::User || cause->name == ErrorName::StorageFailed);
  };
  for (const auto& host : hosts_)
    if (ended_with_it(host) && !is_on_a_disk(run.revision, host.spec.shard))
      return violate("SIM-15 " + host.machine.options.hello.name + " ended with revision " + std::to_string(run.revision.value) +
                     ", which is on no disk");
}

// Peers ---------------------------------------------------------------------------------------------------------------------

void Swarm::judge() {
  if (std::exchange(judged_commits_, commits()) != commits() || judges_everybody_) {
    changed_.resize(hosts_.size());
    std::iota(changed_.begin(), changed_.end(), 0);
  }
  for (const auto i : changed_)
    if (hosts_[i].alive && hosts_[i].born) oracle_of(hosts_[i]).check_holding(holding(hosts_[i]));
  changed_.clear();
  if (!coordinator_alive_ && (now_ > silence_due_ || judges_everybody_)) judge_silence();
}

/// When this host must have ended, if the coordinator stays away from then on.
Instant silence_limit(const Host& host, Instant from) { return from + host.machine.options.heartbeat_limit + COORDINATOR_GRACE + 1s; }

void Swarm::watch_silence(Instant from, const Host& host) { silence_due_ = std::min(silence_due_, silence_limit(host, from)); }

void Swarm::judge_silence() {
  silence_due_ = Instant::max();
  for (const auto& host : hosts_) {
    if (!host.alive || host.paused || host.machine.phase == peer::Phase::Saving) continue;
    const auto from = std::max({coordinator_died_, host.started, host.resumed});
    if (now_ > silence_limit(host, from))
      violate("LAW-6 " + host.machine.options.hello.name + " does not notice that the coordinator is gone");
    watch_silence(from, host);
  }
}

}  // namespace prime::sim
