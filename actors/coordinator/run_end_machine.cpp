#include "actors/coordinator/run_end_machine.hpp"

#include <algorithm>
#include <cmath>

#include "actors/coordinator/membership_machine.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator::run_end {
namespace {

/// A late member would have to end its inner steps first.
std::optional<PeerId> choose_finalist(const State& state) {
  const auto& members = state.view.members;
  if (members.empty()) return std::nullopt;
  const auto free = std::find_if(members.begin(), members.end(), [&](const Member& m) { return !state.peers.at(m.id).contributes; });
  return free != members.end() ? free->id : members.front().id;
}

}  // namespace

void finish(State& state, const Digest& digest, Instant now, Effects& effects) {
  set_phase(state, Phase::Finishing, now);
  state.finalist = choose_finalist(state);
  for (const auto& member : state.view.members)
    effects.emplace_back(Send{member.id, RunDone{state.step, digest, state.finalist == member.id}});
  // Joiners that did not make it: the run ended before their turn.
  std::vector<PeerId> late;
  for (const auto& [id, peer] : state.peers)
    if (peer.seat != Seat::Member) late.push_back(id);
  for (const auto id : late) membership::dismiss(state, id, Error{ErrorName::RunDone, "the last outer step was committed"}, now, effects);
}

std::string final_report(State& state, PeerId from, const FinalReport& message, Effects& effects) {
  if (state.phase != Phase::Finishing || state.finalist != from) return "a report that nobody waits for";
  auto record = Record{"final_report"}
                    .with("peer", to_string(from))
                    .with("sample", message.sample.substr(0, 4096))
                    .with("checkpoint", message.checkpoint);
  if (!message.problem.empty()) record = std::move(record).with("problem", message.problem);
  if (!std::isnan(message.held_out_loss.value())) record = std::move(record).with("held_out_loss", message.held_out_loss.value());
  record.durable = true;
  effects.emplace_back(std::move(record));
  state.reported = true;
  return "the run is done";
}

void advance(State& state, Instant now, Effects& effects) {
  if (state.reported) {
    // Who has yet to come back after a restart is to hear of the end; who stays away is lost soon.
    if (members_who(state, [](const Peer& p) { return p.absent; }).empty()) end(state, std::nullopt, now, effects);
    return;
  }
  if (state.finalist && !state.peers.contains(*state.finalist)) {
    state.finalist = choose_finalist(state);
    if (state.finalist) effects.emplace_back(Send{*state.finalist, RunDone{state.step, *state.digest, true}});
  }
  if (!state.finalist) {
    effects.emplace_back(Record{"final_report_missing"}.with("reason", std::string{"no peer was left to evaluate the final state"}));
    end(state, std::nullopt, now, effects);
  } else if (now - state.phase_since > state.options.finish_limit) {
    end(state, std::nullopt, now, effects);
  }
}

void end(State& state, std::optional<Error> cause, Instant now, Effects& effects) {
  const bool stopped = cause && cause->name == ErrorName::RunStopped;
  auto record = Record{stopped ? "run_stopped"
                       : cause ? "run_failed"
                               : "run_done"}
                    .with("outer_step", state.revision.value)
                    .with("tokens", state.tokens);
  if (state.digest) record = std::move(record).with("digest", to_string(*state.digest));
  if (cause) record = std::move(record).with("reason", to_string(*cause));
  record.durable = true;
  effects.emplace_back(std::move(record));
  for (const auto& [id, peer] : state.peers)
    effects.emplace_back(Send{id, Dismissed{cause.value_or(Error{ErrorName::RunDone, "all outer steps are committed"})}});
  set_phase(state, Phase::Over, now);
  state.end_cause = cause;
  effects.emplace_back(Finish{std::move(cause)});
}

}  // namespace prime::coordinator::run_end
