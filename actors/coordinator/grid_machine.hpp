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
#include "actors/coordinator/replica.hpp"

namespace prime::coordinator {

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
  /// Of each digest that may yet be named, of a whole model or of a fragment of it: those of its shards.
  std::map<Digest, std::vector<Digest>> parts;
  std::vector<Column<std::pair<Epoch, std::size_t>, SharedList<Member>>> views;  ///< by shard
  std::vector<Column<OperationId, SharedList<Contribution>>> contributions;      ///< likewise
};

struct GridTransition {
  Grid state;
  std::optional<Snapshot> decided = {};
  Effects effects = {};
  std::string reason = {};
};

/// The digest of a model, or of a fragment of it, from those of its shards, in their order.
Digest combined(std::span<const Digest> shards);
/// The digest of a model from those of the fragments of each shard, of which all have as many.
Digest combined(std::span<const std::vector<Digest>> shards);

Grid initial_grid(Options options, Instant now);
/// The same of a coordinator that was killed.
Grid restore_grid(Options options, const Snapshot& snapshot, Instant now);
[[nodiscard]] GridTransition step(Grid grid, const Event& event, Instant now);

}  // namespace prime::coordinator
