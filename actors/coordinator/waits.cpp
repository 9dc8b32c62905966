#include "actors/coordinator/waits.hpp"

#include <algorithm>

#include "actors/coordinator/membership_machine.hpp"

namespace prime::coordinator {

std::string names(const std::vector<std::string>& list) {
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), MAX_NAMES); ++i) text += (i == 0 ? "" : ", ") + list[i];
  return list.size() <= MAX_NAMES ? text : text + " and " + std::to_string(list.size() - MAX_NAMES) + " more";
}

void set_phase(State& state, Phase phase, Instant now) {
  state.phase = phase;
  state.phase_since = now;
}

std::uint32_t quorum_of_members(const State& state) {
  const bool begun = state.step_span > 0 || state.has_trained();
  return begun ? state.options.min_peers : std::max(state.options.start_quorum, state.options.min_peers);
}

std::string waiting_for(const State& state, Instant now) {
  switch (state.phase) {
    case Phase::Waiting: {
      std::vector<std::string> coming;
      for (const auto& [id, peer] : state.peers)
        if (peer.seat != Seat::Member) coming.push_back(peer.hello.name);
      return "peers: " + std::to_string(state.view.members.size()) + " of " + std::to_string(quorum_of_members(state)) + " are members" +
             (coming.empty() ? "" : ", joining: " + names(coming)) + "; gives up " + format_duration(state.options.wait_limit) +
             " after the wait began";
    }
    case Phase::Training: {
      if (const auto absent = members_who(state, [](const Peer& p) { return p.absent; }); !absent.empty())
        return "the return of " + names(absent) + " after the coordinator's restart; evicted after " +
               format_duration(state.options.heartbeat_limit);
      const auto late = members_who(state, [](const Peer& p) { return !p.ready; });
      if (state.quorum_since && !late.empty())
        return "inner steps of " + names(late) + "; goes on without them " + format_duration(state.options.grace) +
               " after the quorum was ready (`sync.grace`)";
      if (!state.first_ready) return "inner steps of " + names(late) + "; an agent starts a trainer that stands still again";
      if (!late.empty())
        return "inner steps of " + names(late) + "; evicted " + format_duration(state.options.deadline) + " after the first is ready";
      if (const auto joiner = membership::held_for(state, now))
        return "the state fetch of " + state.peers.at(*joiner).hello.name + "; at most " + format_duration(state.options.fetch_limit);
      return "the next try of the reduce";
    }
    case Phase::Reducing:
      return "votes of " + names(members_who(state, [](const Peer& p) { return !p.vote; })) + "; at most " +
             format_duration(state.options.deadline);
    case Phase::Finishing:
      if (state.reported)
        return "the return of " + names(members_who(state, [](const Peer& p) { return p.absent; })) + ", to hear of the end";
      return "the final evaluation; at most " + format_duration(state.options.finish_limit);
    case Phase::Over: return "";
  }
  return "";
}

}  // namespace prime::coordinator
