// Owns the order in which membership and outer step see an event.
#include <algorithm>

#include "actors/coordinator/membership_machine.hpp"
#include "actors/coordinator/outer_step_machine.hpp"

namespace prime::coordinator {
namespace {

using Effects = std::vector<Effect>;

/// Takes a peer out; if it took part in the operation in flight, that is void first, so that the survivors hear of it.
void lose(State& state, PeerId peer, const Error& cause, bool left, Instant now, Effects& effects) {
  const auto found = state.peers.find(peer);
  if (found == state.peers.end()) return;
  const bool member = found->second.seat == Seat::Member;
  const auto name = found->second.hello.name;
  membership::remove(state, peer, cause, left, now, effects);
  if (member) outer_step::abort(state, name + (left ? " left" : " was lost: " + to_string(cause)), now, effects);
}

std::string receive(State& state, const Received& event, Instant now, Effects& effects) {
  const auto from = event.from;
  const auto known = state.peers.find(from);
  if (known == state.peers.end()) {
    if (const auto* greeting = std::get_if<Hello>(&event.message)) return membership::hello(state, from, *greeting, now, effects);
    effects.emplace_back(
        Send{from, Dismissed{Error{ErrorName::Evicted, "it has no seat in epoch " + std::to_string(state.view.epoch.value)}}});
    return "a message from a peer without a seat";
  }
  known->second.heard = now;
  return std::visit(overloaded{
                        [&](const Hello& m) { return membership::hello(state, from, m, now, effects); },
                        [&](const Seated& m) { return membership::seated(state, from, m, now, effects); },
                        [&](const Fetched& m) { return membership::fetched(state, from, m, now, effects); },
                        [&](const FetchFailed& m) { return membership::fetch_failed(state, from, m, now, effects); },
                        [&](const Ready& m) { return outer_step::ready(state, from, m, now, effects); },
                        [&](const Vote& m) { return outer_step::vote(state, from, m, now, effects); },
                        [&](const ReduceFailed& m) { return outer_step::reduce_failed(state, from, m, now, effects); },
                        [&](const InDoubt& m) { return outer_step::in_doubt(state, from, m, effects); },
                        [&](const Heartbeat&) {
                          effects.emplace_back(Send{from, HeartbeatSeen{state.view.epoch}});
                          return std::string{};
                        },
                        [&](const Deathrattle& m) {
                          effects.emplace_back(Fence{from});  // tells the leaver that it was heard
                          lose(state, from, m.cause, m.graceful, now, effects);
                          return std::string{"deathrattle"};
                        },
                        [&](const FinalReport& m) { return outer_step::final_report(state, from, m, now, effects); },
                    },
                    event.message);
}

void note_wait(State& state, Instant now, Effects& effects) {
  auto waiting = outer_step::waiting_for(state, now);
  if (waiting == state.waiting_for) return;
  state.waiting_for = waiting;
  effects.emplace_back(Record{"waiting"}.with("phase", std::string{to_string(state.phase)}).with("for", std::move(waiting)));
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::Waiting: return "waiting";
    case Phase::Training: return "training";
    case Phase::Reducing: return "reducing";
    case Phase::Finishing: return "finishing";
    case Phase::Over: return "over";
  }
  return "over";
}

State initial(Options options, Instant now) {
  State state;
  state.options = std::move(options);
  state.phase_since = now;
  state.ticked = now;
  return state;
}

Transition step(State state, const Event& event, Instant now) {
  Transition result{std::move(state), {}, {}};
  auto& s = result.state;
  if (s.phase == Phase::Over) {
    // Whoever comes now hears that the run has ended; everybody else was told.
    if (const auto* late = std::get_if<Received>(&event))
      if (const auto* greeting = std::get_if<Hello>(&late->message))
        result.reason = membership::hello(s, late->from, *greeting, now, result.effects);
    return result;
  }
  result.reason = std::visit(overloaded{
                                 [&](const Received& e) { return receive(s, e, now, result.effects); },
                                 [&](const ConnectionLost& e) {
                                   lose(s, e.peer, Error{ErrorName::PeerLost, e.reason}, false, now, result.effects);
                                   return "connection lost: " + e.reason;
                                 },
                                 [&](const Tick&) {
                                   const auto epoch = s.view.epoch;
                                   membership::expire(s, now, result.effects);
                                   if (s.view.epoch != epoch) outer_step::abort(s, "a member was evicted", now, result.effects);
                                   membership::refresh_fetches(s, now, result.effects);
                                   return std::string{};
                                 },
                             },
                             event);
  if (const auto admitted = membership::admit(s, now, result.effects); !admitted.empty()) outer_step::enter(s, admitted, result.effects);
  outer_step::advance(s, now, result.effects);
  note_wait(s, now, result.effects);
  return result;
}

}  // namespace prime::coordinator
