// Owns law 2 on one peer's buffers: what may happen to the result of a reduce, and when. Pure.
//
//   Idle → Moving (lanes move chunks) → Prepared (next state beside the current one) → Idle, by commit or discard.
// Each fragment has buffers of its own, and is at this by itself. An abort while chunks move waits for the lanes' outcome first: until then
// they may still touch the buffers, and the fragment's next operation does not start.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/ports.hpp"
#include "messages/outer_step.hpp"
#include "messages/result.hpp"

namespace prime::reduce_worker {

enum class Phase : std::uint8_t { Idle, Moving, Draining, Prepared };

// Orders of the peer actor
struct Run {
  StartReduce reduce;
  bool brings = false;  ///< the own contribution is in it; otherwise the trainer may be making the next one meanwhile
};
struct Cancel {
  OperationId op;
  std::string reason;
};
struct Apply {
  Commit commit;
};
struct Drop {
  OperationId op;
};
// Outcomes
struct Moved {
  ReduceOutcome outcome;
};
struct PreparedState {
  OperationId op;
  Result<Digest> digest;
  ReduceStats stats;
};

/// One fragment's buffers.
struct Slot {
  Phase phase = Phase::Idle;
  std::optional<Run> run = {};   ///< the one whose chunks move, or whose result is prepared
  std::optional<Run> next = {};  ///< starts once the lanes are done with an aborted one
};

struct State {
  std::map<std::uint32_t, Slot> slots;  ///< by fragment; of those that were ever reduced
};

using Event = std::variant<Run, Cancel, Apply, Drop, Moved, PreparedState>;

struct StartLanes {
  Run run;
};
struct AbortLanes {
  OperationId op;
  std::string reason;
};
/// Prepare now; ends in one PreparedState.
struct Prepare {
  Run run;
  ReduceStats stats;
};
struct CommitState {
  Commit commit;
};
struct DiscardState {
  OperationId op;
};
/// Tell the peer machine how the operation ended.
struct Report {
  OperationId op;
  Result<Digest> prepared;
  PeerId suspect;
  ReduceStats stats;
};
using Effect = std::variant<StartLanes, AbortLanes, Prepare, CommitState, DiscardState, Report>;

struct Transition {
  State state;
  std::vector<Effect> effects;
  std::string reason;
};

[[nodiscard]] Transition step(State state, const Event& event);

}  // namespace prime::reduce_worker
