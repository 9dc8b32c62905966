#include "actors/coordinator/waits.hpp"

#include <algorithm>

#include "actors/coordinator/closed_step.hpp"
#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/decoupled.hpp"
#include "actors/coordinator/progress.hpp"
#include "actors/coordinator/run_end_machine.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/membership/presence.hpp"
#include "actors/membership/replicas.hpp"
#include "actors/membership/seating.hpp"

namespace prime::coordinator {

std::string to_string(const Named& names) {
  std::string text;
  for (const auto& name : names.first) text += (text.empty() ? "" : ", ") + name;
  const auto more = names.count - names.first.size();
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

void set_phase(State& state, Phase phase, Instant now) {
  state.phase = phase;
  state.phase_since = now;
}

std::uint32_t quorum_of_members(const State& state) {
  const bool begun = state.is_under_way() || state.has_trained();
  const auto usual = begun ? state.plan.min_peers : std::max(state.options.start_quorum, state.plan.min_peers);
  return std::max(usual, state.pause ? state.pause->members : 0);
}

bool lacks_vote(const State& state, PeerId member) {
  return std::ranges::any_of(state.rounds, [&](const Round& round) { return round.operation && !round.operation->votes.contains(member); });
}

Instant reducing_since(const State& state) {
  auto since = Instant::max();
  for (const auto& round : state.rounds)
    if (round.operation) since = std::min(since, round.operation->since);
  return since;
}

namespace {

/// Of the step that the run was rolled back to, what none of those who have come with their checkpoints holds.
std::string not_brought_back(const State& state) {
  if (!state.restoring || state.options.shards == 1) return {};
  std::set<std::uint32_t> held;
  bool anybody = false;
  for (const auto& [id, peer] : state.peers) {
    if (peer.seat == Seat::Greeted || !membership::is_whole(state, peer)) continue;
    anybody = true;
    if (peer.seated.revision == state.revision && state.shard_of(peer).state == peer.seated.state) held.insert(peer.hello.shard);
  }
  Named nobodys;
  for (std::uint32_t shard = 0; anybody && shard < state.options.shards; ++shard)
    if (!held.contains(shard)) nobodys.add(std::to_string(shard));
  if (nobodys.empty()) return {};
  return std::string{"nobody holds shard"} + (nobodys.count > 1 ? "s " : " ") + to_string(nobodys) + " of outer step " +
         std::to_string(state.made.value);
}

}  // namespace

std::size_t caught_up(const State& state) {
  std::map<std::uint64_t, std::uint32_t> peers;
  std::size_t count = 0;
  for (const auto& [id, peer] : state.peers)
    if (peer.seat == Seat::CaughtUp || peer.seat == Seat::Member) count += ++peers[peer.ordinal] == state.options.shards;
  return count;
}

std::string incomplete(const State& state) {
  auto text = membership::lacking(state);
  const auto nowhere = not_brought_back(state);
  return text + (text.empty() || nowhere.empty() ? "" : ", ") + nowhere;
}

namespace {

/// Their clocks began at different times; the last one counts.
Wait wait_for_return(const State& state, const Named& absent, Instant now) {
  Instant heard{};
  for (const auto& [id, peer] : state.peers)
    if (peer.absent) heard = std::max(heard, peer.heard);
  const bool others = !membership::is_deserted(state, now);
  const auto& options = state.options;
  auto until = heard + (others ? options.heartbeat_limit : options.return_limit());
  if (others && state.deserted) until = std::min(heard + options.return_limit(), *state.deserted + options.heartbeat_limit);
  if (state.phase == Phase::Waiting && !state.pause && !state.paused_by_owner)
    until = std::min(until, state.phase_since + state.plan.wait_limit);
  const auto lacking = incomplete(state);
  return {"the return of " + to_string(absent) + (others ? "" : ", since nobody else holds the state") +
              (lacking.empty() ? "" : "; " + lacking),
          heard, until};
}

Wait wait_for_peers(const State& state, Instant now) {
  if (const auto absent = members_who(state, [](const Peer& p) { return p.absent; }); !absent.empty())
    return wait_for_return(state, absent, now);
  const auto members = replicas(state);
  // Before the first step nobody is admitted without the others.
  const bool first = members == 0 && !state.has_trained();
  const auto ready = first ? caught_up(state) : 0;
  Named coming;
  for (const auto& [id, peer] : state.peers)
    if (peer.seat != Seat::Member && !(first && peer.seat == Seat::CaughtUp)) coming.add(peer.hello.name);
  const auto lacking = incomplete(state);
  const auto& limit = state.plan.wait_limit;
  const bool paused = state.pause && members >= state.plan.min_peers;
  const auto since = state.pause ? std::max(state.pause->since, state.phase_since) : state.phase_since;
  const auto who = (state.options.shards > 1 ? "replicas: " : "peers: ") + std::to_string(first ? ready : members) + " of " +
                   std::to_string(quorum_of_members(state)) + (first ? " are ready" : " are members") +
                   (coming.empty() ? "" : ", joining: " + to_string(coming)) + (lacking.empty() ? "" : ", " + lacking);
  if (state.paused_by_owner && !paused) return {who + "; as long as the run is paused by `primectl pause` it does not give up", since, {}};
  return {who + (paused ? "; paused by the loss of several at once, goes on with these " : "; gives up ") + format_duration(limit) +
              " after the wait began",
          since, since + limit};
}

/// Its peers keep their seats meanwhile.
Wait wait_for_owner(const State& state) {
  const auto absent = members_who(state, [](const Peer& p) { return p.absent; });
  return {"`primectl resume`: paused by `primectl pause`" + (absent.empty() ? "" : "; absent: " + to_string(absent)),
          *state.paused_by_owner,
          {}};
}

Wait wait_for_the_end(const State& state) {
  if (!state.saved) {
    const auto asked = state.finalist ? state.peers.find(*state.finalist) : state.peers.end();
    if (asked == state.peers.end() || duty_of(state, asked->first).save_failed)
      return {"room for the final state, which nobody could save: " + state.save_problem.value_or("no member is left"), state.phase_since,
              state.retry_save_at};
    const auto limit = run_end::save_limit(state);
    const auto begun = duty_of(state, asked->first).asked_to_save.value_or(state.phase_since);
    return {"the final checkpoint, which " + membership::party(asked->second.hello) + " writes; another one is asked after " +
                format_duration(limit),
            begun, begun + limit};
  }
  if (const auto absent = members_who(state, [](const Peer& p) { return p.absent; }); !absent.empty())
    return {"the return of " + to_string(absent) + ", to hear of the end", state.saved_at, {}};
  const auto limit = state.plan.evaluate_limit;
  return {"the final evaluation by " + to_string(run_end::evaluating(state)) + "; at most " + format_duration(limit) +
              " (`train.evaluate.time_limit`)",
          state.saved_at, state.saved_at + limit};
}

Wait wait_in_training(const State& state, Instant now) {
  const auto& options = state.options;
  if (const auto absent = members_who(state, [](const Peer& p) { return p.absent; }); !absent.empty())
    return wait_for_return(state, absent, now);
  if (state.plan.decoupled && now >= state.tries.retry_at) return decoupled::wait_of(state, now);
  const auto late = members_who(state, [](const Work& w) { return w.awaited(); });
  if (const auto awaited = outer_step::awaited_for_closed(state); !awaited.empty()) {
    Named names;
    for (const auto id : awaited) names.add(state.peers.at(id).hello.name);
    return {"inner steps of " + to_string(names) +
                " for a step that others have made; a trainer that stands still is started again by its agent",
            state.peers.at(awaited.front()).since,
            {}};
  }
  if (state.has_closed()) return {"the next try of the reduce" + progress::advice(state), state.phase_since, state.tries.retry_at};
  if (const auto& since = state.round().quorum_since; since && !late.empty())
    return {"inner steps of " + to_string(late) + "; goes on without them " + format_duration(state.plan.grace) +
                " after the quorum was ready (`sync.grace`)",
            *since, *since + state.plan.grace};
  const auto& first_ready = state.round().first_ready;
  if (!first_ready)
    return {"inner steps of " + to_string(late) + "; a trainer that stands still is started again by its agent", state.phase_since, {}};
  if (!late.empty())
    return {"inner steps of " + to_string(late) + "; who is not ready " + format_duration(options.deadline) +
                " after the first peer is loses its seat (`sync.deadline`)",
            *first_ready, *first_ready + options.deadline};
  if (const auto joiner = held_for(state, now)) {
    const auto since = state.tries.held_since.value_or(now);
    return {"the state fetch of " + state.peers.at(*joiner).hello.name + "; at most " + format_duration(options.deadline) +
                " (`sync.deadline`)",
            since, since + options.deadline};
  }
  if (const auto since = topology::held_since(state, now))
    return {"the measuring of links; at most " + format_duration(topology::MEASURE_HOLD), *since, *since + topology::MEASURE_HOLD};
  return {"the next try of the reduce" + progress::advice(state), state.phase_since, state.tries.retry_at};
}

}  // namespace

std::optional<PeerId> held_for(const State& state, Instant now) {
  const auto& since = state.tries.held_since;
  if (since && now - *since > state.options.deadline) return std::nullopt;
  return membership::overtaken(state);
}

Wait wait_of(const State& state, Instant now) {
  switch (state.phase) {
    case Phase::Waiting: return state.is_held() ? wait_for_owner(state) : wait_for_peers(state, now);
    case Phase::Training: return wait_in_training(state, now);
    case Phase::Reducing:
      return {"votes of " + to_string(members_who(state, [&](const Peer& p) { return lacks_vote(state, p.hello.peer); })) +
                  "; given up when nothing moves for " + format_duration(state.options.deadline) + " (`sync.deadline`)" +
                  progress::advice(state),
              reducing_since(state),
              {}};
    case Phase::Finishing: return wait_for_the_end(state);
    case Phase::Over: return {};
  }
  return {};
}

}  // namespace prime::coordinator
