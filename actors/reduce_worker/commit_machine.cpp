#include "actors/reduce_worker/commit_machine.hpp"

#include "messages/assert.hpp"

namespace prime::reduce_worker {
namespace {

bool is_current(const Slot& s, OperationId op) { return s.run && s.run->reduce.op == op; }

void become_idle(Slot& s, std::vector<Effect>& effects) {
  s.phase = Phase::Idle;
  s.run.reset();
  if (!s.next) return;
  s.run = std::exchange(s.next, std::nullopt);
  s.phase = Phase::Moving;
  effects.emplace_back(StartLanes{*s.run});
}

std::string run(Slot& s, const Run& event, std::vector<Effect>& effects) {
  if (s.phase == Phase::Prepared) effects.emplace_back(DiscardState{s.run->reduce.op});
  if (s.phase == Phase::Moving) effects.emplace_back(AbortLanes{s.run->reduce.op, "a newer operation begins"});
  s.next = event;
  if (s.phase == Phase::Moving || s.phase == Phase::Draining) {
    s.phase = Phase::Draining;
    return "waits for the lanes";
  }
  become_idle(s, effects);
  return "lanes move chunks";
}

std::string cancel(Slot& s, const Cancel& event, std::vector<Effect>& effects) {
  if (s.next && s.next->reduce.op == event.op) {
    s.next.reset();
    return "had not begun";
  }
  if (!is_current(s, event.op)) return "another operation";
  if (s.phase == Phase::Moving) {
    effects.emplace_back(AbortLanes{event.op, event.reason});
    s.phase = Phase::Draining;
    return "drains";
  }
  if (s.phase == Phase::Prepared) {
    effects.emplace_back(DiscardState{event.op});
    become_idle(s, effects);
    return "discarded";
  }
  return "drains already";
}

std::string moved(Slot& s, const Moved& event, std::vector<Effect>& effects) {
  const auto& outcome = event.outcome;
  if (!is_current(s, outcome.op)) return "an outcome that nobody waits for";
  if (s.phase == Phase::Draining) {
    become_idle(s, effects);
    return "drained";
  }
  if (!outcome.stats) {
    effects.emplace_back(Report{outcome.op, fail(outcome.stats.error()), outcome.suspect, {}});
    become_idle(s, effects);
    return "failed";
  }
  effects.emplace_back(Prepare{*s.run, *outcome.stats});
  return "the mean is complete";
}

std::string prepared(Slot& s, const PreparedState& event, std::vector<Effect>& effects) {
  if (!is_current(s, event.op)) return "a result that nobody waits for";
  const bool good = event.digest.has_value();
  effects.emplace_back(Report{event.op, event.digest, PeerId{}, event.stats});
  if (good) s.phase = Phase::Prepared;
  else become_idle(s, effects);
  return good ? "prepared" : "could not be prepared";
}

std::string apply(Slot& s, const Apply& event, std::vector<Effect>& effects) {
  PRIME_ASSERT(s.phase == Phase::Prepared && is_current(s, event.commit.op), "law 2: only what was prepared is committed");
  effects.emplace_back(CommitState{event.commit});
  become_idle(s, effects);
  return "committed";
}

std::string drop(Slot& s, const Drop& event, std::vector<Effect>& effects) {
  if (s.phase != Phase::Prepared || !is_current(s, event.op)) return "nothing to drop";
  effects.emplace_back(DiscardState{event.op});
  become_idle(s, effects);
  return "discarded";
}

/// An operation's tag is its fragment.
std::uint32_t fragment_of(const OperationId& op) { return static_cast<std::uint32_t>(op.tag.value); }

}  // namespace

Transition step(State state, const Event& event) {
  Transition result{std::move(state), {}, {}};
  const auto slot = [&](const OperationId& op) -> Slot& { return result.state.slots[fragment_of(op)]; };
  auto& effects = result.effects;
  result.reason = std::visit(overloaded{
                                 [&](const Run& e) { return run(slot(e.reduce.op), e, effects); },
                                 [&](const Cancel& e) { return cancel(slot(e.op), e, effects); },
                                 [&](const Apply& e) { return apply(slot(e.commit.op), e, effects); },
                                 [&](const Drop& e) { return drop(slot(e.op), e, effects); },
                                 [&](const Moved& e) { return moved(slot(e.outcome.op), e, effects); },
                                 [&](const PreparedState& e) { return prepared(slot(e.op), e, effects); },
                             },
                             event);
  return result;
}

}  // namespace prime::reduce_worker
