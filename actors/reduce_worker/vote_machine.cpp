// Owns the rules of the vote.
#include "actors/reduce_worker/vote_machine.hpp"

#include <algorithm>
#include <utility>

namespace prime::vote {
namespace {

Transition nothing(State state) { return {std::move(state), {}}; }

bool is_decided(const State& state) { return state.phase == Phase::Committed || state.phase == Phase::Aborted; }

Transition commit(State state) {
  state.phase = Phase::Committed;
  Transition done{std::move(state), {}};
  for (std::uint32_t r = 0; r < done.state.doubts.size(); ++r)
    if (done.state.doubts[r]) done.sayings.push_back({Word::Committed, r});
  return done;
}

Transition abort(State state) {
  state.phase = Phase::Aborted;
  return {std::move(state), {{Word::Aborted, std::nullopt}}};
}

bool includes(const Ranks& all, const Ranks& some) {
  for (std::size_t r = 0; r < some.size(); ++r)
    if (some[r] && !all[r]) return false;
  return true;
}

/// Nobody who is left has committed, and nobody can hear of one who did.
bool is_dead(const State& s) {
  for (std::uint32_t r = 0; r < s.lost.size(); ++r) {
    if (r == s.rank || s.lost[r]) continue;
    if (!s.doubts[r] || !includes(*s.doubts[r], s.lost)) return false;
  }
  return true;
}

/// Begins to doubt, or says again whom it has lost.
Transition doubt(State state, Error cause) {
  if (!state.cause) state.cause = std::move(cause);
  if (state.phase == Phase::Reducing) return abort(std::move(state));
  state.phase = Phase::Doubting;
  if (is_dead(state)) return abort(std::move(state));
  return {std::move(state), {{Word::Doubt, std::nullopt}}};
}

Transition count(State state) {
  bool all = true;
  for (std::uint32_t r = 0; r < state.votes.size(); ++r) {
    if (r == state.rank) continue;
    if (!state.votes[r]) all = false;
    else if (*state.votes[r] != state.own)
      return doubt(std::move(state), Error{ErrorName::ParityBroken, "rank " + std::to_string(r) + " has another result"});
  }
  return all ? commit(std::move(state)) : nothing(std::move(state));
}

/// The next rank that has not answered although it was asked, of those that are not among `heard`.
std::optional<std::uint32_t> silent(const State& state, const Ranks& heard = {}) {
  const auto world = static_cast<std::uint32_t>(state.answered.size());
  for (std::uint32_t step = 1; state.asking && step < world; ++step)
    if (const auto rank = (state.rank + step) % world; !state.answered[rank] && (heard.empty() || !heard[rank])) return rank;
  return std::nullopt;
}

/// At the deadline. Who doubts already says so again: now it asks.
Transition ask(State state, Error cause) {
  if (is_decided(state)) return nothing(std::move(state));
  state.asking = true;
  return doubt(std::move(state), std::move(cause));
}

/// Of these ranks nothing counts any more.
Transition give_up_on(State state, const Ranks& ranks, Error cause) {
  state.asking = false;
  if (is_decided(state)) return nothing(std::move(state));
  for (std::uint32_t r = 0; r < ranks.size(); ++r)
    if (r != state.rank && ranks[r]) state.lost[r] = true;
  return doubt(std::move(state), std::move(cause));
}

}  // namespace

State start(std::uint32_t rank, std::uint32_t world) {
  State state;
  state.rank = rank;
  state.votes.resize(world);
  state.lost.resize(world);
  state.doubts.resize(world);
  state.answered.resize(world);
  state.heard.resize(world);
  return state;
}

Transition complete(State state, const Digest& digest, const std::optional<Error>& late) {
  if (late && state.looks == 0) return look(std::move(state), {}, *late);
  if (state.phase != Phase::Reducing) return nothing(std::move(state));
  state.phase = Phase::Voted;
  state.own = digest;
  auto counted = count(std::move(state));
  counted.sayings.insert(counted.sayings.begin(), Saying{Word::Vote, std::nullopt});
  return counted;
}

Transition vote_from(State state, std::uint32_t rank, const Digest& digest, const std::optional<Error>& late) {
  state.votes[rank] = digest;
  if (late && state.looks == 0) return look(std::move(state), {}, *late);
  return state.phase == Phase::Voted ? count(std::move(state)) : nothing(std::move(state));
}

Transition doubt_from(State state, std::uint32_t rank, Ranks its_lost, bool asks) {
  state.answered[rank] = true;
  if (state.phase == Phase::Committed) return {std::move(state), {{Word::Committed, rank}}};
  if (state.phase == Phase::Aborted) return {std::move(state), {{Word::Aborted, rank}}};
  const auto* why = std::ranges::find(its_lost, true) == its_lost.end() ? " gives the operation up" : " lost another one";
  state.doubts[rank] = std::move(its_lost);
  const bool begins = asks && state.looks == 0 && state.phase != Phase::Reducing;
  if (begins) {
    state.looks = 1;
    state.asking = true;
  }
  if (state.phase == Phase::Doubting && !begins) return is_dead(state) ? abort(std::move(state)) : nothing(std::move(state));
  return doubt(std::move(state), Error{ErrorName::LaneBroken, "rank " + std::to_string(rank) + why});
}

Transition committed_by(State state, std::uint32_t rank) {
  state.answered[rank] = true;
  // One that was given up on is not listened to, so that all who have said so end alike.
  const bool listens = state.phase == Phase::Voted || (state.phase == Phase::Doubting && !state.lost[rank]);
  return listens ? commit(std::move(state)) : nothing(std::move(state));
}

Transition aborted_by(State state, std::uint32_t rank) {
  state.answered[rank] = true;
  if (is_decided(state)) return nothing(std::move(state));
  if (!state.cause) state.cause = Error{ErrorName::LaneBroken, "rank " + std::to_string(rank) + " gave the operation up"};
  return abort(std::move(state));
}

Transition lost(State state, std::uint32_t rank, Error cause) {
  // Who was asked and is lost before it answered is why the deadline passed.
  if (state.asking && !state.answered[rank] && state.phase != Phase::Committed) state.cause = cause;
  state.answered[rank] = true;
  if (is_decided(state) || state.lost[rank]) return nothing(std::move(state));
  state.lost[rank] = true;
  // Nothing more is expected of it: it may have committed, and gone its way.
  if (state.phase == Phase::Voted && state.votes[rank]) return nothing(std::move(state));
  return doubt(std::move(state), std::move(cause));
}

Transition look(State state, const Ranks& heard, Error cause) {
  if (state.looks++ == 0) return ask(std::move(state), std::move(cause));
  // Over a slow link an answer may lie behind what was sent before. What a frozen one had sent is here by the second look.
  if (state.looks > 2)
    for (std::uint32_t r = 0; r < heard.size(); ++r) state.heard[r] = state.heard[r] || heard[r];
  if (state.looks == LOOKS + 1) {
    state.named = silent(state, state.heard);
    Ranks silent_ones = state.answered;
    silent_ones.flip();
    return give_up_on(std::move(state), silent_ones, std::move(cause));
  }
  if (state.looks != 2 * LOOKS + 1 || is_decided(state)) return nothing(std::move(state));
  const Ranks all(state.lost.size(), true);
  auto ended = give_up_on(std::move(state), all, std::move(cause));
  // Who still waits for the same one hears of it, before that one goes on and tells another end.
  ended.sayings.clear();
  for (std::uint32_t r = 0; r < all.size(); ++r)
    if (r != ended.state.rank) ended.sayings.push_back({Word::Aborted, r});
  return ended;
}

Transition cancel(State state, Error cause) {
  auto cancelled = fail(std::move(state), std::move(cause));
  cancelled.state.asking = false;
  return cancelled;
}

Transition fail(State state, Error cause) {
  if (state.phase != Phase::Reducing && state.phase != Phase::Voted) return nothing(std::move(state));
  return doubt(std::move(state), std::move(cause));
}

bool asks(const State& state) { return state.looks > 0; }

bool is_over(const State& state) { return state.phase == Phase::Committed || (state.phase == Phase::Aborted && !silent(state)); }

bool needs(const State& state, std::uint32_t rank) { return !is_decided(state) || (state.asking && !state.answered[rank]); }

}  // namespace prime::vote
