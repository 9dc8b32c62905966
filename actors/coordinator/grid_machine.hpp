// Owns replicas: in a run with `membership.shards` above 1, several peers hold the parts of one model and take part as one.
//
// Seen as a grid, its rows are replicas and its columns the peers that hold the same shard, which reduce among each other. The
// coordinator's machine knows rows alone: what it calls a peer is a replica, known by the id of its shard 0. So all that holds for
// peers holds for replicas: one view, one epoch, one outer step that is committed for all shards or for none. This machine stands
// before it and folds what the peers of a replica say into what the replica says, and unfolds what it is told into what each hears.
// With one shard it passes all on as it is. Pure.
//
// PCCL's groups are independent of each other, and one that lost a peer is out of step with the others; prime's stores likewise
// (INTELLECT-1 report, "open challenge").
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator {

/// One peer of a replica. What it has said waits here until the others have said the same.
struct ShardPeer {
  Hello hello;
  bool here = true;   ///< its connection stands, as far as is known
  bool back = false;  ///< over a new one, and waits for the others of its replica
  Instant heard{};
  std::uint64_t elements = 0;  ///< that its trainer has bound
  std::uint32_t trainer_pid = 0;
  std::optional<FetchState> asked;    ///< the fetch that it was sent for
  std::optional<Error> fetch_failed;  ///< how that ended; or it has fetched
  std::optional<Fetched> fetched;
  Fetched holds;  ///< what it said last
  std::optional<Seated> seated;
  std::optional<Ready> ready;
  std::optional<Vote> vote;
  std::optional<FinalReport> report;
};

struct Replica {
  std::string name;
  std::vector<std::optional<ShardPeer>> shards;
  Instant since{};  ///< its first peer greeted
  bool whole = false;
  BeginStep begun;                         ///< as the run told it last, and which attempt at that it is
  std::optional<std::uint32_t> lost_with;  ///< the shard whose peer went first

  [[nodiscard]] PeerId lead() const { return shards.front()->hello.peer; }
};

struct Grid {
  struct Place {
    std::uint64_t replica = 0;
    std::uint32_t shard = 0;
  };
  /// One column of the view or of the contributions, made once for all who are told.
  template <class Key, class List>
  struct Column {
    std::optional<Key> of;
    List list;
  };

  State run;  ///< its peers are replicas
  std::map<std::uint64_t, Replica> replicas;
  std::map<PeerId, Place> places;
  std::uint64_t next_replica = 0;
  std::size_t whole = 0;         ///< replicas: as many as the run has peers, or else some have just gone
  std::set<PeerId> left;         ///< with a peer of their replica that said goodbye: they do not take part anew
  std::set<std::uint64_t> torn;  ///< replicas of which somebody has yet to come back
  /// Of each digest of a whole model that may yet be named: those of its shards.
  std::map<Digest, std::vector<Digest>> parts;
  std::vector<Column<Epoch, SharedList<Member>>> views;                      ///< by shard
  std::vector<Column<OperationId, SharedList<Contribution>>> contributions;  ///< likewise
};

struct GridTransition {
  Grid state;
  std::vector<Effect> effects;
  std::string reason;
};

/// The digest of a model from those of its shards, in their order.
Digest combined(std::span<const Digest> shards);

Grid initial_grid(Options options, Instant now);
/// The same of a coordinator that was killed.
Grid restore_grid(Options options, const Snapshot& snapshot, Instant now);
[[nodiscard]] GridTransition step(Grid grid, const Event& event, Instant now);

}  // namespace prime::coordinator
