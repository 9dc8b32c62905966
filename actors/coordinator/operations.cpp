#include "actors/coordinator/operations.hpp"

#include <algorithm>
#include <utility>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/commits.hpp"
#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/outer_step_machine.hpp"
#include "actors/coordinator/progress.hpp"
#include "actors/coordinator/relay_order.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/coordinator/waits.hpp"
#include "actors/membership/presence.hpp"
#include "actors/membership/seating.hpp"

namespace prime::coordinator::operations {
namespace {

/// In a ring those behind one that stands still wait as it seems to: the next try goes directly, and tells who it is.
bool takes_ring(const State& state, Round& round) {
  const bool fits = state.plan.schedule == Schedule::Automatic && state.topology.ring_is_faster;
  return (state.plan.schedule == Schedule::Ring || fits) && !std::exchange(round.ring_overdue, false);
}

/// What the peers of a replica weigh together; nothing while one of them has yet to bring its work.
std::uint64_t weight_of(const Round& round, std::span<const Member> replica) {
  std::uint64_t weight = 0;
  for (const auto& member : replica) {
    const auto* brought = round.brings(member.id);
    if (brought == nullptr || brought->weight == 0) return 0;
    weight += brought->weight;
  }
  return weight;
}

Operation next_operation(State& state, Round& round, const SharedList<Member>& members, Instant now, Effects& effects) {
  const std::span all{members.list()};
  const auto shards = state.options.shards;
  std::vector<Contribution> contributions;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const auto& member = all[at];
    auto& peer = state.peers.at(member.id);
    const auto& work = round.work.at(member.id);
    if (state.moving == 0) membership::begin_transfer(peer, now);
    const auto weight = at % shards == 0 ? weight_of(round, all.subspan(at, shards)) : contributions.back().weight;
    contributions.push_back(Contribution{member.id, weight});
    if (round.closed.empty() && work.awaited()) effects.emplace_back(events::PeerLate{membership::who(peer), round.step, work.begun});
  }
  state.sequence = state.sequence.next();
  // In the data plane an operation ends those of its tag: each fragment has one of its own.
  state.operation = {state.view.epoch, state.sequence, Tag{fragment_of(state, round)}};
  return {.id = state.operation,
          .since = now,
          .contributions = std::move(contributions),
          .next_sample = state.cursor + state.closed_span + (round.closed.empty() ? state.collection.span : 0),
          .votes = {},
          .ring = takes_ring(state, round)};
}

/// Takes it out of its round, so that nothing is in flight any more if it was the last.
Operation take(State& state, Round& round, Instant now) {
  auto operation = *std::exchange(round.operation, std::nullopt);
  if (state.in_flight() == 0) {
    state.moving = 0;
    set_phase(state, Phase::Training, now);
  }
  return operation;
}

/// What all peers of each shard have voted for, by shard; nothing where some of one shard differ.
std::optional<std::vector<Digest>> agreed(const State& state, const std::map<PeerId, Vote>& votes) {
  std::vector<std::optional<Digest>> parts(state.options.shards);
  for (const auto& [id, vote] : votes) {
    auto& part = parts[state.peers.at(id).hello.shard];
    if (part.value_or(vote.state) != vote.state) return std::nullopt;
    part = vote.state;
  }
  std::vector<Digest> all;
  for (const auto& part : parts) all.push_back(part.value_or(Digest{}));
  return all;
}

/// All have voted and some of one shard differ: the largest group of each stands, the oldest one decides a draw; the others go.
void settle_parity(State& state, const std::map<PeerId, Vote>& votes, Instant now, Effects& effects) {
  const auto shard_of = [&](PeerId id) { return state.peers.at(id).hello.shard; };
  std::map<std::pair<std::uint32_t, Digest>, std::uint32_t> groups;
  for (const auto& [id, vote] : votes) ++groups[{shard_of(id), vote.state}];
  std::map<std::uint32_t, std::pair<std::uint32_t, Digest>> winners;  // by shard: how many, and of what
  for (const auto& member : state.view.members) {                     // in order of age
    const auto vote = votes.find(member.id);
    if (vote == votes.end()) continue;
    const auto& digest = vote->second.state;
    const auto count = groups.at({shard_of(member.id), digest});
    if (auto& [best, winner] = winners[shard_of(member.id)]; count > best) {
      best = count;
      winner = digest;
    }
  }
  std::vector<PeerId> others;
  for (const auto& [id, vote] : votes)
    if (vote.state != winners.at(shard_of(id)).second) others.push_back(id);
  abort(state, AbortCause::VotesDiffer, {}, now, effects);
  Departures departures{state, now, effects};
  for (const auto id : others) departures.dismiss(id, Error{ErrorName::ParityBroken, "its result differs from that of the others"});
}

/// What the peers are told of it, for people.
std::string text_of(AbortCause cause, const Because& because) {
  switch (cause) {
    case AbortCause::PeerLost: return because.name + " was lost: " + to_string(because.error);
    case AbortCause::PeerLeft: return because.name + " left";
    case AbortCause::PeerAway: return "the connection of " + because.name + " broke";
    case AbortCause::PeerSilent: return "a member fell silent";
    case AbortCause::ReduceFailed: return because.name + " reports: " + to_string(because.error);
    case AbortCause::DeadlinePassed: return "nothing of the reduce moved any more";
    case AbortCause::VotesDiffer: return "the digests differ";
    case AbortCause::RolledBack: return "the run is rolled back";
    case AbortCause::RunStopped: return "the run is stopped";
  }
  return {};
}

/// Retries are spread out, so that a peer whose link broke because it died is known as lost before they are used up.
Duration retry_delay(std::uint32_t failures) { return std::min<Duration>(Duration{250ms} * (1U << std::min(failures, 5U)), 5s); }

/// How far they had come, and how often a try of this step ended like that.
void note_failure(State& state, AbortCause cause, const Error& error, Instant now, events::OuterStepAborted& aborted) {
  const auto name = cause == AbortCause::DeadlinePassed ? ErrorName::DeadlineExceeded : error.name;
  auto& alike = state.tries.alike;
  if (alike.cause != cause || alike.error != name) alike = {};
  const bool is_known = alike.count > 0 && now < state.tries.retry_at;  // with that of another operation
  alike = {alike.count + (is_known ? 0U : 1U), cause, name, aborted.reason};
  aborted.alike = alike.count;
  const auto least = progress::least_of_reduce(state, now);
  if (!least) return;
  aborted.reason += "; " + membership::to_string(*least);
  aborted.behind = least->peer->hello.peer;
  aborted.moved_bytes = least->moved_bytes;
  aborted.needed_bytes = least->needed_bytes;
  aborted.bytes_per_s = least->bytes_per_s();
}

events::OuterStepAborted aborted_event(State& state, AbortCause cause, const Because& because, Instant now) {
  events::OuterStepAborted aborted{
      .outer_step = state.step(), .reason = text_of(cause, because), .cause = cause, .because_of = because.peer};
  if (cause == AbortCause::ReduceFailed || cause == AbortCause::DeadlinePassed) note_failure(state, cause, because.error, now, aborted);
  return aborted;
}

/// Its contributions stay, and its members hear of it.
void make_void(State& state, Round& round, events::OuterStepAborted aborted, Instant now, Effects& effects) {
  const auto operation = take(state, round, now);
  aborted.operation = operation.id;
  aborted.epoch = operation.id.epoch;
  effects.emplace_back(aborted);
  for (const auto& contribution : operation.contributions)
    if (state.peers.contains(contribution.peer)) effects.emplace_back(Send{contribution.peer, Abort{operation.id, aborted.reason}});
}

/// Those beside it go on (law 1).
void abort_one(State& state, Round& round, const Because& because, Instant now, Effects& effects) {
  make_void(state, round, aborted_event(state, AbortCause::ReduceFailed, because, now), now, effects);
  if (state.in_flight() > 0) effects.emplace_back(Probe::AbortedBesideAnother);
}

/// Of each tensor that is merged radially the mean of its lengths; none where there are no such tensors.
std::vector<Real> radii_of(const State& state, const Round& round, const Operation& operation) {
  std::vector<double> sums;
  double total = 0;
  for (const auto& [id, weight] : operation.contributions) {
    if (weight == 0) continue;
    const auto lengths = round.brings(id)->lengths_of(fragment_of(state, round));
    sums.resize(lengths.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(weight) * lengths[i].value();
    total += static_cast<double>(weight);
  }
  std::vector<Real> radii;
  for (const double sum : sums) radii.emplace_back(sum / total);
  return radii;
}

}  // namespace

bool may_start(const State& state, const Round& round) {
  return !round.operation && state.in_flight() < std::max(state.plan.in_flight, 1U);
}

void start(State& state, Round& round, Instant now, Effects& effects) {
  topology::arrange(state, effects);
  const auto members = topology::in_ring_order(state);
  auto operation = next_operation(state, round, members, now, effects);
  effects.emplace_back(events::ReduceStarted{round.step, operation.id, state.view.epoch, replicas(state)});
  StartReduce message{.op = operation.id,
                      .step = round.step,
                      .base = state.revision,
                      .view = {},
                      .contributions = {},
                      .next_sample = operation.next_sample,
                      .fragment = fragment_of(state, round),
                      .ring = operation.ring,
                      .radii = radii_of(state, round, operation)};
  const auto shards = state.options.shards;
  const auto links = topology::direct_links(state, column_of(members, 0, shards));
  std::vector<SharedList<Contribution>> columns;
  for (std::uint32_t shard = 0; shard < shards; ++shard) columns.push_back(column_of(operation.contributions, shard, shards));
  for (std::size_t at = 0; at < members.size(); ++at) {
    const auto& peer = state.peers.at(members[at].id);
    message.view = view_for(state, members[at].id);
    message.contributions = columns[peer.hello.shard];
    message.elements = state.shard_of(peer).elements;
    if (links) message.relays = relay_order(*links, at / shards);
    effects.emplace_back(Send{members[at].id, message});
  }
  if (state.in_flight() > 0) effects.emplace_back(Probe::ReducesBesideAnother);
  round.operation = std::move(operation);
  ++state.moving;
  set_phase(state, Phase::Reducing, now);
}

std::string vote(State& state, PeerId from, const Vote& message, Instant now, Effects& effects) {
  auto* round = state.round_of(message.op);
  if (round == nullptr) return "a vote on another operation";
  auto& peer = state.peers.at(from);
  if (peer.seat != Seat::Member) return "a vote of who is no member";
  auto& votes = round->operation->votes;
  votes.insert_or_assign(from, message);
  peer.transfer.last = now;
  if (const auto missing = round->operation->contributions.size() - votes.size(); missing > 0)
    return "votes are missing: " + std::to_string(missing);
  const auto parts = agreed(state, votes);
  if (!parts) {
    settle_parity(state, std::map{votes}, now, effects);
    return "the votes differ";
  }
  const auto fragment = static_cast<std::uint32_t>(round - state.rounds.data());
  const auto operation = take(state, *round, now);
  if (commits::apply(state, operation, fragment, *parts, now, effects)) outer_step::complete(state, operation, now, effects);
  membership::refresh_fetches(state, now, effects);
  return "all voted for the same digest";
}

std::string failed(State& state, PeerId from, const ReduceFailed& message, Instant now, Effects& effects) {
  auto* const round = state.round_of(message.op);
  if (round == nullptr) return "a failure of another operation";
  const bool ring = round->operation->ring;
  const auto reporter = state.peers.at(from).hello.name;  // which may go
  const Because because{from, reporter, message.error};
  if (info(message.error.name).klass == ErrorClass::Fatal) {
    abort(state, AbortCause::ReduceFailed, because, now, effects);
    dismiss(state, from, message.error, now, effects);
    return reporter + " cannot reduce";
  }
  if (ring && message.error.name == ErrorName::DeadlineExceeded && message.suspect == PeerId{}) {
    abort_one(state, *round, because, now, effects);
    round->ring_overdue = true;
    return "the reduce is tried again, not in a ring";
  }
  const std::pair<PeerId, PeerId> link = std::minmax(from, message.suspect);
  // Of several operations over one link each reports the one cause.
  const bool is_known = now < state.tries.retry_at && state.tries.link_failures.contains(link);
  const auto failures = state.tries.link_failures[link] + (is_known ? 0U : 1U);
  const bool is_hopeless = failures >= MAX_LINK_FAILURES;
  if (is_hopeless) abort(state, AbortCause::ReduceFailed, because, now, effects);
  else abort_one(state, *round, because, now, effects);
  if (is_known) return "the reduce is tried again, as another one over that link";
  state.tries.link_failures[link] = failures;
  state.tries.retry_at = now + retry_delay(failures);
  if (!is_hopeless) return "the reduce is tried again";
  state.unlinked_in = state.step();
  const auto suspect = state.peers.find(message.suspect);
  const bool blame_suspect = suspect != state.peers.end() && suspect->second.ordinal > state.peers.at(from).ordinal;
  dismiss(state, blame_suspect ? message.suspect : from,
          Error{ErrorName::LaneBroken, std::to_string(failures) + " failures in one outer step; the last: " + to_string(message.error)},
          now, effects);
  return "the reduce is tried again without one of two who cannot reach each other";
}

std::string in_doubt(State& state, PeerId from, const InDoubt& message, Effects& effects) {
  const auto decided =
      std::ranges::find_if(state.rounds, [&](const Round& round) { return round.last && round.last->commit.op == message.op; });
  if (decided != state.rounds.end()) {
    effects.emplace_back(Send{from, commits::told_to(state, *decided->last, from)});
    effects.emplace_back(Probe::DoubtCommitted);
    return "it was committed";
  }
  if (state.round_of(message.op) != nullptr) {
    effects.emplace_back(Probe::DoubtUndecided);
    return "undecided";
  }
  // Of somebody who leads the run since: this one was frozen, and does not know it yet. It must not void what the other may commit.
  if (message.op > state.operation) return "an operation that this coordinator did not start";
  effects.emplace_back(Send{from, Abort{message.op, "it was not committed"}});
  effects.emplace_back(Probe::DoubtAborted);
  return "it was aborted";
}

void answer_returned(State& state, PeerId member, const std::string& name, Instant now, Effects& effects) {
  // First of all, since a commit that it has not heard of is not void.
  for (const auto& decided : commits::in_order(state)) effects.emplace_back(Send{member, commits::told_to(state, decided, member)});
  const auto voted = [&](const Round& round) { return !round.operation || round.operation->votes.contains(member); };
  if (!std::ranges::all_of(state.rounds, voted)) abort(state, AbortCause::PeerAway, {member, name}, now, effects);
}

void abort(State& state, AbortCause cause, const Because& because, Instant now, Effects& effects) {
  if (state.in_flight() == 0) return;
  const auto aborted = aborted_event(state, cause, because, now);
  for (auto& round : state.rounds)
    if (round.operation) make_void(state, round, aborted, now, effects);
}

bool give_up_overdue(State& state, Instant now, Effects& effects) {
  if (!progress::reduce_stands_still(state, now)) return false;
  std::vector<PeerId> mute;
  for (const auto& member : state.view.members)
    if (lacks_vote(state, member.id)) mute.push_back(member.id);
  abort(state, AbortCause::DeadlinePassed, {}, now, effects);
  Departures departures{state, now, effects};
  for (const auto id : mute)
    if (state.peers.contains(id) && !membership::is_needed(state, id, now))
      departures.dismiss(id, Error{ErrorName::DeadlineExceeded, "no vote, and nothing of the reduce moved for " +
                                                                    format_duration(state.options.deadline) + " (`sync.deadline`)"});
  return true;
}

void forgive(State& state, Duration time, Instant now) {
  for (auto& round : state.rounds)
    if (round.operation) round.operation->since = std::min(now, round.operation->since + time);
}

}  // namespace prime::coordinator::operations
