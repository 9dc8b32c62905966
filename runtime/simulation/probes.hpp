// Owns the names of all that a simulated run can be asked to reach: made of names and fields of events, phases, faults and probes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/peer/peer_machine.hpp"
#include "runtime/simulation/scenario.hpp"

namespace prime::sim {

/// How often each branch was taken; shared by many runs to prove that the seeds reach all of them.
using Probes = std::map<std::string, std::uint64_t>;

/// Seldom things that are the world's, and no machine's.
enum class WorldProbe : std::uint8_t {
#define PROBE(Name, name, meaning) Name,
#include "runtime/simulation/probes.def"
#undef PROBE
};

/// The kind of an event, by its type: "BeginStep", "Dismissed(PeerLost)".
std::string kind_of(const coordinator::Event& event);
std::string kind_of(const peer::Event& event);

// The names. Each is told by one function, which probe_names() asks, too.
std::string probe_of(WorldProbe probe);
std::string probe_of(FaultKind fault);                                 ///< "fault kill"
std::string probe_of(coordinator::Phase phase);                        ///< "coordinator phase reducing"
std::string probe_of(coordinator::Seat seat);                          ///< "seat Fetching"
std::string probe_of(peer::Phase phase);                               ///< "peer phase voted"
std::string probe_of(Probe probe);                                     ///< "coordinator votes_differ"; of a peer see below
std::string probe_of(Probe probe, peer::Phase before);                 ///< "peer reduce_void in voted"
std::string probe_of(const std::string& kind, peer::Phase before);     ///< "peer Dismissed(PeerLost) in leaving"
std::string probe_of_record(std::string_view event, bool sharded);     ///< "record peer_lost", "sharded record peer_lost"
std::string probe_of_abort(AbortCause cause, bool sharded);            ///< "record outer_step_aborted(votes_differ)"
std::string probe_of_end(const std::optional<Error>& cause);           ///< "end: done", "end: TooFewPeers"
std::string probe_of_peer_end(const std::optional<Error>& cause);      ///< "peer end: well", "peer end: Evicted"
std::string probe_of_restart(std::optional<coordinator::Phase> kept);  ///< "restarted while reducing", "restarted while undecided"

/// All that there can be, in their order. A file that asks for anything else is refused.
const std::vector<std::string>& probe_names();
/// The same as a JSON schema, short: what peers do in their phases is one pattern.
std::string probe_schema();

}  // namespace prime::sim
