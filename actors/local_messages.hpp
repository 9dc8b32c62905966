// Owns the messages that never leave a process: they carry whole events by value and have no wire form.
#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <optional>
#include <string>

#include "actors/peer/peer_machine.hpp"
#include "actors/reduce_worker/commit_machine.hpp"

namespace prime {

/// Time has passed.
struct TickNow {};
/// The last message to a peer has had time to leave; cut its connections.
struct FenceNow {
  PeerId peer;
};
/// Nothing is left of this peer's process where it was.
struct PeerGoneNow {
  PeerId peer;
  std::string reason;
};
/// The run shall end, and be kept.
struct StopNow {};
/// It shall stand still between two outer steps, or go on.
struct PauseNow {
  bool pause = true;
};
/// Who leads and who stands by has changed.
struct CoordinatorsNow {
  Coordinators coordinators;
};
/// The entry that the coordinator's ledger was given is written.
struct WrittenNow {};
/// What happened around a peer, from any thread.
struct PeerHappening {
  peer::Event event;
};
/// Orders and outcomes for the reduce worker.
struct ReduceHappening {
  reduce_worker::Event event;
};
/// Orders for the checkpoint server: blocking work, one after the other.
struct FetchOrder {
  FetchState fetch;
};
struct SaveOrder {
  peer::SaveState order;
};
/// A fetch that is under way ends: it would keep what is ordered after it waiting.
struct StopFetching {
  std::optional<FetchState> fetch;  ///< if it is this one; empty: any, and none begins any more
};
/// The agent ends, after everything ordered before.
struct EndOrder {
  std::optional<Error> cause;
};
/// The trainer died; the supervisor decides what becomes of it.
struct TrainerDied {
  Error cause;
  bool began = false;  ///< it had bound its tensors
};

/// How often machines hear that time has passed.
inline constexpr Duration TICK_EVERY = 100ms;

}  // namespace prime

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::TickNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::FenceNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::PeerGoneNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::StopNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::PauseNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::CoordinatorsNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::WrittenNow)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::PeerHappening)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::ReduceHappening)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::FetchOrder)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::SaveOrder)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::StopFetching)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::EndOrder)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::TrainerDied)
