// Owns what the peers of one replica are together. They have one ordinal, which no other replica has; their names may be those of a replica
// that is about to go. Without shards each peer is a replica.
//
// PCCL's groups are independent of each other, and one that lost a peer is out of step with the others; prime's stores likewise
// (INTELLECT-1 report, "open challenge").
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/membership/effects.hpp"
#include "actors/membership/roster.hpp"

namespace prime::membership {

/// What the run calls it: a replica by its own name, any other peer by that of its agent.
[[nodiscard]] const std::string& party(const Hello& hello);
/// "shard 1 of replica north"
[[nodiscard]] std::string place_of(const Hello& hello);
/// Those of its replica that have greeted, itself included, by shard.
[[nodiscard]] std::vector<PeerId> replica_of(const Roster& roster, const Peer& peer);
/// Whether each shard of its replica has a peer.
[[nodiscard]] bool is_whole(const Roster& roster, const Peer& peer);
/// Whether it waits for others of its replica before it can take part.
[[nodiscard]] bool waits_for_replica(const Roster& roster, PeerId peer);
/// "shard 1", "shards 0, 2": those of its replica that have no peer.
[[nodiscard]] std::string missing_in(const Roster& roster, const Peer& peer);
/// "replica north lacks shard 1, replica south lacks shards 0, 2"; empty where all are whole.
[[nodiscard]] std::string lacking(const Roster& roster);

/// The replica that lacks this peer, if there is one.
[[nodiscard]] std::optional<std::uint64_t> replica_without(const Roster& roster, const Hello& hello);
/// Why it cannot have the place that it asks for. Who takes the place of a peer that was lost may be quicker than the news of that: it
/// waits in another replica of that name. A place whose peer was heard just now is taken.
[[nodiscard]] std::optional<Error> misplaced(const Roster& roster, const Hello& hello, Instant now);
/// Replicas that are whole.
[[nodiscard]] std::size_t whole_replicas(const Roster& roster);
/// Who has just greeted hears for whom it waits, and so do those who wait with it; or their replica is whole.
void tell_replica(const Roster& roster, const Peer& newcomer, Effects& effects);
/// One has gone before its replica was whole: the others wait for one more, if any are left.
void tell_who_stays(const Roster& roster, std::uint64_t ordinal, Effects& effects);
/// Who has waited for others of its replica for too long, and why it has to go.
[[nodiscard]] std::vector<std::pair<PeerId, Error>> waited_in_vain(const Roster& roster, Duration limit, Instant now);

/// The digest of a model, from those of the fragments of each shard, of which all have as many.
[[nodiscard]] Digest whole_digest(std::span<const std::vector<Digest>> shards);
/// The same from the digests of what each shard holds, where it has one fragment.
[[nodiscard]] Digest combined(std::span<const Digest> shards);
/// From the fragments of all shards, which are known.
void note_digest(Roster& roster);
/// The run goes on from a state that was saved; `shards`: of each shard, where they are known.
void note_saved_state(Roster& roster, const Digest& whole, std::span<const Digest> shards);

/// Whether this applies to the peer or to another one of its replica, which would go with it.
template <class Predicate>
[[nodiscard]] bool any_of_replica(const Roster& roster, PeerId id, Predicate applies) {
  return std::ranges::any_of(replica_of(roster, roster.peers.at(id)), [&](PeerId each) { return applies(roster.peers.at(each)); });
}

}  // namespace prime::membership
