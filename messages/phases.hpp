// Owns the words for where a run and a peer stand, and for what follows a loss of several peers: the same for machines, journals and
// people.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace prime {

enum class RunPhase : std::uint8_t {
  Waiting,    ///< for peers
  Training,   ///< inner steps, until every member is ready
  Reducing,   ///< an operation is in flight
  Finishing,  ///< the last step is committed; the finalist saves the state, then all evaluate
  Over,
};

enum class PeerPhase : std::uint8_t {
  Greeting,  ///< hello sent
  Seating,   ///< welcome; the trainer starts and binds its tensors
  Waiting,   ///< seated: for a fetch, a step, or the end
  Fetching,
  Training,  ///< the trainer does its inner steps (or is being restarted); who is late does so beside the reduces of the others
  Ready,     ///< contributed; waits for the others
  Reducing,
  Voted,  ///< waits for the decision; neither applies nor restores by itself (law 2)
  Finishing,
  Leaving,  ///< says goodbye, once a lost coordinator is found; the answer tells whether it holds the last copy of the state
  Saving,   ///< its part is over; what it holds goes to disk, and is tried again while there is no room, before it ends
  Over,
};

/// What happens when many members are lost at once (`membership.correlated_loss`).
enum class LossPolicy : std::uint8_t { Continue, Pause, RollBack };

/// Why an operation is void.
enum class AbortCause : std::uint8_t {
  PeerLost,
  PeerLeft,
  PeerAway,  ///< its connection broke, and it is back
  PeerSilent,
  ReduceFailed,  ///< a member says that it could not reduce
  DeadlinePassed,
  VotesDiffer,
  RolledBack,
  RunStopped,
};

/// What a peer moves.
enum class TransferKind : std::uint8_t { Reduce, Fetch };

/// The words of an enum, in its order.
template <class Enum>
inline constexpr std::array<std::string_view, 0> WORDS{};
template <>
inline constexpr std::array<std::string_view, 5> WORDS<RunPhase>{"waiting", "training", "reducing", "finishing", "over"};
template <>
inline constexpr std::array<std::string_view, 12> WORDS<PeerPhase>{"greeting", "seating", "waiting",   "fetching", "training", "ready",
                                                                   "reducing", "voted",   "finishing", "leaving",  "saving",   "over"};
template <>
inline constexpr std::array<std::string_view, 3> WORDS<LossPolicy>{"continue", "pause", "rollback"};
template <>
inline constexpr std::array<std::string_view, 2> WORDS<TransferKind>{"reduce", "fetch"};
template <>
inline constexpr std::array<std::string_view, 9> WORDS<AbortCause>{
    "peer_lost", "peer_left", "peer_away", "peer_silent", "reduce_failed", "deadline_passed", "votes_differ", "rolled_back", "run_stopped"};

template <class Enum>
concept Worded = (!WORDS<Enum>.empty());

template <Worded Enum>
constexpr std::string_view to_string(Enum value) {
  return WORDS<Enum>.at(static_cast<std::size_t>(value));
}

template <Worded Enum>
constexpr std::optional<Enum> find_word(std::string_view word) {
  for (std::size_t i = 0; i < WORDS<Enum>.size(); ++i)
    if (WORDS<Enum>[i] == word) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace prime
