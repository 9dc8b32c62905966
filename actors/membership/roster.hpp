// Owns the data of membership: who has which seat, since when, what each holds of the shared state, and the view. Nothing here knows of
// rounds or trainers: a run adds those (actors/coordinator).
//
// Where `shards` is above 1, several peers make one replica, each with a shard of the model: they have one ordinal, are admitted together,
// count once, and go together (replicas.hpp). All else each of them does by itself: it has a seat and a connection of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "messages/events.hpp"
#include "messages/membership.hpp"
#include "messages/outer_step.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::membership {

/// What the manifest says of it, already validated.
struct Options {
  std::string run;
  std::string manifest;  ///< shared half, handed to each peer that is welcome
  std::uint32_t max_peers = 8;
  std::uint32_t shards = 1;           ///< peers that make one replica; the numbers of peers here are numbers of replicas
  std::uint32_t fragments = 1;        ///< parts of the state, each with versions of its own
  std::uint32_t start_quorum = 2;     ///< the first view has at least this many members
  Duration heartbeat_limit = 10s;     ///< `membership.heartbeat.dead_after`
  Duration deadline = 120s;           ///< `sync.deadline`: of a reduce or state fetch of which nothing moves, and of the slowest behind
                                      ///< the first who is ready; the longest that a step waits for a joiner
  Duration coordinator_grace = 1min;  ///< so long a peer looks for a coordinator that it lost: later it does not come back
  /// Names of the peers (shards: of the replicas) that started with the run, in the order of their ranks: theirs is its data.
  std::vector<std::string> founders = {};
  DataIdentity origin_data = {};  ///< what the run that this one goes on from was trained on, where that is known

  /// From the last sign of life of a peer until it has given up for certain: it notices, looks for so long, and its greeting takes a while.
  [[nodiscard]] Duration return_limit() const { return heartbeat_limit + coordinator_grace + heartbeat_limit; }
};

/// How often a joiner may fetch one revision before it is dismissed.
inline constexpr std::uint32_t MAX_FETCH_ATTEMPTS = 8;
/// And how often it may fail at whatever revision was current, without having held one.
inline constexpr std::uint32_t MAX_FETCH_FAILURES = 4 * MAX_FETCH_ATTEMPTS;
/// After so many fetches that were overtaken by a commit, the next reduce waits for the joiner.
inline constexpr std::uint32_t MAX_STALE_FETCHES = 2;
/// With more peers than this, an event of one of them does not make the coordinator look at all the others: what does not wait for just
/// this event is done at the next tick, for all together. Otherwise each of N peers would cost N looks in each outer step.
inline constexpr std::size_t LOOKED_AT_AFTER_EACH = 64;
/// A member that is away is looked for so often.
inline constexpr Duration LOOK_EVERY = 1s;
/// Ids of peers that went are remembered so that a thawed one is refused; the oldest are forgotten beyond this.
inline constexpr std::size_t MAX_GONE = 4096;

enum class Seat : std::uint8_t {
  Greeted,   ///< welcome; its trainer is being started
  Seated,    ///< has bound its tensors; waits for a donor
  Fetching,  ///< fetches the shared state
  CaughtUp,  ///< holds the current revision; waits for a safe point
  Member,    ///< in the view
};

struct Fetch {
  PeerId donor;
  Revision revision;
  Digest state;
  Instant retry_at{};          ///< a donor that has not heard of its own commit yet gets the time for that
  std::uint32_t attempts = 0;  ///< to fetch this revision
  std::uint32_t failures = 0;  ///< since it held one, of revisions that were current
  std::uint32_t stale = 0;
};

/// Of the reduce or the fetch that a peer is at.
struct Transferring {
  Instant since{};
  Instant last{};                             ///< when the coordinator heard last that something had moved
  std::optional<std::uint64_t> moved_before;  ///< as the first heartbeat since then had it: the peer sends one as it begins
  Instant told{};                             ///< in the journal
};

struct Peer {
  Hello hello;
  std::uint64_t ordinal = 0;  ///< of its replica
  Seat seat = Seat::Greeted;
  bool absent = false;  ///< it keeps its seat without a connection: it may come back
  Instant look_at{};    ///< while it is absent: when it is looked for again
  Instant greeted{};
  Instant since{};  ///< of the seat
  Instant heard{};
  Seated seated;  ///< with the state that it holds, as far as is known
  Fetch fetch;
  std::optional<std::uint64_t> moved_bytes;  ///< since its process began, as its last heartbeat had it
  Transferring transfer;
};

/// What is known of the part of the shared state that the peers of one shard hold: of a run without shards, the whole.
struct Shard {
  std::optional<Digest> layout;  ///< set by the founder
  std::uint64_t elements = 0;
  std::optional<Digest> state;  ///< at `Roster::revision`
  std::vector<Digest> parts;    ///< of its fragments then; empty until somebody who holds it has told them
};

struct Roster {
  Options options;
  std::map<PeerId, Peer> peers;
  std::vector<std::pair<PeerId, Error>> gone;
  std::set<PeerId> left;  ///< with a peer of their replica that said goodbye: they do not take part anew
  std::string last_loss;  ///< who was lost last, and why, as people read it
  std::uint64_t next_ordinal = 0;
  View view;                               ///< by ordinal, the peers of a replica by shard
  std::map<PeerId, std::string> vanished;  ///< in a large run: whose process is gone, since the last tick, and how that shows

  Instant ticked{};                  ///< last tick
  std::optional<Instant> thawed;     ///< when it noticed last that it had been frozen itself
  std::optional<Instant> deserted;   ///< the last tick at which nobody who holds what was trained was here
  std::optional<Error> to_who_left;  ///< what who may join anew is told instead of why it goes

  DataIdentity data;                       ///< of the first who told; nobody yet: of no digest
  bool data_lent = false;                  ///< by a joiner: until the first step begins, a founder's replaces it
  std::set<std::string> founders_awaited;  ///< of `founders`: neither seated nor gone yet
  std::optional<Digest> digest;            ///< of the shared state at `revision`; empty before there is a founder
  std::vector<Shard> shards;               ///< of that
  Revision revision;
  OuterStep made;                     ///< the last step that all fragments have made, at `revision`
  std::uint64_t cursor = 0;           ///< data cursor then
  std::vector<std::uint64_t> unused;  ///< first samples of ranges before the cursor that no fragment had then, lowest first
  std::uint64_t tokens = 0;           ///< trained on by then
  std::optional<Revision> origin;     ///< of the saved state that the run began with; absent: the first who is seated founds one
  bool safe = false;                  ///< what was trained is on a disk: nobody is needed for it any more

  /// Whether a step of this run is committed: until then the state is the one it began with.
  [[nodiscard]] bool has_trained() const { return revision.value > (origin ? origin->value : 0); }
  [[nodiscard]] const Shard& shard_of(const Peer& peer) const { return shards[peer.hello.shard]; }
  [[nodiscard]] std::uint64_t elements() const {
    std::uint64_t sum = 0;
    for (const auto& shard : shards) sum += shard.elements;
    return sum;
  }
};

inline void set_seat(Peer& peer, Seat seat, Instant now) {
  peer.seat = seat;
  peer.since = now;
}

/// As events name it.
[[nodiscard]] inline Who who(const Peer& peer) { return {peer.hello.peer, peer.hello.name, peer.hello.replica, peer.hello.shard}; }

}  // namespace prime::membership
