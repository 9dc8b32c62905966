// Owns the vote that rides the lanes: whoever holds every rank's equal digest commits. Pure.
//
// A rank that fails before it voted aborts at once: without its vote nobody commits. A rank that has voted when something fails
// doubts: it does not commit by votes any more, and tells the others so with the list of ranks that it has lost. It commits when
// one says that it did. It aborts when everyone whom it has not lost doubts too and has lost all that it has lost itself: then what
// a lost one may know can reach none of them any more. It also aborts when one says that it did. This holds for any number of
// crashes, and for a lost connection while a third rank reaches both ends; two sides that cannot reach each other at all need the
// coordinator (docs/INVARIANTS.md, law 2).
//
// A deadline is missed by all that wait for the one who stands still, and nobody can tell it from those who wait, too: in a ring
// everybody's predecessor seems to. So each says that it gives up, and who does not say so either is the one. A rank looks so often for
// these answers, from its deadline on, or from when it hears of another's: so that all wait equally long, whatever their deadlines are. It
// may stand still itself meanwhile, and finds the answers when it goes on: between two looks it reads, and what it missed counts for one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::vote {

enum class Phase : std::uint8_t { Reducing, Voted, Doubting, Committed, Aborted };

using Ranks = std::vector<bool>;

/// After the one at the deadline.
inline constexpr std::uint32_t LOOKS = 5;
inline constexpr Duration LOOK_EVERY = 1s;

struct State {
  std::uint32_t rank = 0;
  Phase phase = Phase::Reducing;
  Digest own;
  std::vector<std::optional<Digest>> votes;  ///< by rank
  Ranks lost;
  std::vector<std::optional<Ranks>> doubts;  ///< by rank: whom it has lost, as it said last
  Ranks answered;                            ///< has said how the operation ends for it, or is lost
  bool asking = false;                       ///< a deadline has passed: the operation is not over before all have answered
  std::uint32_t looks = 0;                   ///< from then on
  Ranks heard;                               ///< something of this operation has come since the second look
  std::optional<std::uint32_t> named;        ///< it has looked so often; this one has not answered and was not heard: it stands still
  std::optional<Error> cause;                ///< why it doubts or aborted
};

enum class Word : std::uint8_t { Vote, Doubt, Committed, Aborted };
/// To be said to one rank, or to all that are not lost. A vote carries `own`, a doubt `lost` and whether this rank `asks`.
struct Saying {
  Word word = Word::Vote;
  std::optional<std::uint32_t> to;
};

struct Transition {
  State state;
  std::vector<Saying> sayings;
};

State start(std::uint32_t rank, std::uint32_t world);
/// The own result is complete. `late`, here and below: why this rank gives up, if its deadline has passed. Who was held up (frozen, or on a
/// machine that is) may find all votes when it goes on, while the others have long given it up: votes count no more then.
Transition complete(State state, const Digest& digest, const std::optional<Error>& late = {});
Transition vote_from(State state, std::uint32_t rank, const Digest& digest, const std::optional<Error>& late = {});
/// `asks`: as that rank says, a deadline has passed.
Transition doubt_from(State state, std::uint32_t rank, Ranks its_lost, bool asks);
Transition committed_by(State state, std::uint32_t rank);
Transition aborted_by(State state, std::uint32_t rank);
/// Nothing will ever come from this rank.
Transition lost(State state, std::uint32_t rank, Error cause);
/// The deadline has passed: this rank gives up, and looks for answers. Later, LOOK_EVERY after the last look, the first of which may have
/// been a word's doing (`looks`): it looks again. After LOOKS of them whoever has not answered counts as lost, and after as many again,
/// whoever doubts and then fell silent: no wait is for ever.
/// `heard`: from whom anything has come since the last look.
Transition look(State state, const Ranks& heard, Error cause);
/// This rank cannot go on.
Transition fail(State state, Error cause);
/// It will not go on, nor wait for who answers. Once it has voted it still waits for how the others end: one may commit by its vote.
Transition cancel(State state, Error cause);
/// Whether a deadline has passed, as far as this rank knows.
bool asks(const State& state);

bool is_over(const State& state);
/// Whether a word of this rank may still matter.
bool needs(const State& state, std::uint32_t rank);

}  // namespace prime::vote
