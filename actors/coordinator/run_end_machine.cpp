#include "actors/coordinator/run_end_machine.hpp"

#include <algorithm>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/evaluation.hpp"
#include "actors/coordinator/step_begin.hpp"
#include "actors/membership/replicas.hpp"

namespace prime::coordinator::run_end {
namespace {

/// A disk or a network share that is slower than this is slow, and another member is asked as well.
constexpr std::uint64_t SAVE_BYTES_PER_S = 10 * 1024 * 1024;
constexpr Duration SAVE_OVERHEAD = 1min;

/// A late member would have to end its inner steps first.
bool is_free(const State& state, PeerId member) { return outer_step::is_through(state, member); }

/// Those who are free evaluate, or all if nobody is.
std::map<PeerId, HeldOutShare> final_shares(const State& state) {
  const auto free = [&](const Peer& p) { return is_free(state, p.hello.peer); };
  const bool any = !members_who(state, free).empty();
  return shares_of(state, [&](const Peer& p) { return !any || free(p); });
}

/// The peers of its replica, which save a model together: the first of them stands for it.
std::span<const Member> replica_of(const State& state, PeerId member) { return replica_at(state, rank_of(state, member)); }
PeerId lead_of(const State& state, PeerId member) { return state.options.shards == 1 ? member : replica_of(state, member).front().id; }

RunDone news_for(const State& state, PeerId member, const std::map<PeerId, HeldOutShare>& shares) {
  const auto share = shares.find(member);
  return {state.made, state.revision, *state.shard_of(state.peers.at(member)).state,
          state.finalist == lead_of(state, member) && !state.saved, share == shares.end() ? HeldOutShare{} : share->second};
}

/// Who has not been asked yet: one that is here before one that has yet to come back, and one that is free before one that is late.
std::optional<PeerId> next_to_save(const State& state) {
  std::optional<PeerId> best;
  int best_rank = 0;
  for (std::size_t at = 0; at < replicas(state); ++at) {
    const auto replica = replica_at(state, at);
    const auto lead = replica.front().id;
    const bool absent = std::ranges::any_of(replica, [&](const Member& member) { return state.peers.at(member.id).absent; });
    const int rank = (absent ? 2 : 0) + (is_free(state, lead) ? 0 : 1);
    if (duty_of(state, lead).asked_to_save || (best && rank >= best_rank)) continue;
    best = lead;
    best_rank = rank;
  }
  return best;
}

/// Whether somebody who was asked may still come to an end with it.
bool is_being_saved(const State& state) {
  return !members_who(state, [](const Duty& d) { return d.asked_to_save && !d.save_failed; }).empty();
}

void ask_to_save(State& state, PeerId id, Instant now, Effects& effects) {
  auto& duty = state.duties[id];
  duty.asked_to_save = now;
  duty.save_failed = false;
  state.finalist = id;
  for (const auto& member : replica_of(state, id)) {
    state.duties[member.id].saved.reset();  // it says it again
    effects.emplace_back(Send{member.id, told(state, member.id)});
  }
}

/// Every member was asked and could not.
void ask_all_again(State& state, Instant now, Effects& effects) {
  if (!state.retry_save_at) state.retry_save_at = now + RETRY_SAVE_AFTER;
  if (now < *state.retry_save_at) return;
  state.retry_save_at.reset();
  for (auto& [id, duty] : state.duties) duty.asked_to_save.reset();
  if (const auto next = next_to_save(state)) ask_to_save(state, *next, now, effects);
}

/// Until the final state is on a disk, nothing else counts.
void see_to_saving(State& state, Instant now, Effects& effects) {
  const auto& members = state.view.members;
  if (members.empty()) {
    const auto which = std::to_string(state.revision.value);
    return end(state,
               Error{ErrorName::TooFewPeers, "the last peer that held revision " + which + ", the final one, is gone before it was saved"},
               now, effects);
  }
  const auto patience = save_limit(state) * static_cast<std::int64_t>(replicas(state)) + state.plan.wait_limit;
  if (now - state.phase_since > patience)
    return end(state,
               Error{ErrorName::StorageFailed, "no member could write the final state within " + format_duration(patience) +
                                                   (state.save_problem ? "; the last problem: " + *state.save_problem : "")},
               now, effects);
  const auto duty = state.finalist ? duty_of(state, *state.finalist) : Duty{};
  const bool at_work = duty.asked_to_save && !duty.save_failed && now - *duty.asked_to_save <= save_limit(state);
  if (at_work) return;
  if (const auto next = next_to_save(state)) ask_to_save(state, *next, now, effects);
  else if (!is_being_saved(state)) ask_all_again(state, now, effects);
}

/// A model is saved as a whole, or it is not: that is told of its replica.
Who as_one(const State& state, PeerId lead) { return {lead, membership::party(state.peers.at(lead).hello)}; }

void report(State& state, const std::string& missing, Effects& effects) {
  HeldOutSum sum;
  std::string sample;
  std::string problem;
  for (const auto& one : state.final_reports) {
    sum.add(one.held_out);
    if (sample.empty()) sample = one.sample;
    if (problem.empty()) problem = one.problem;
  }
  events::FinalReport told{.peer = state.finalist.value_or(PeerId{}), .sample = sample, .checkpoint = *state.saved};
  const auto loss = sum.loss();
  told.held_out_tokens = loss.tokens;
  if (loss.tokens > 0) told.held_out_loss = loss.mean.value();
  if (!missing.empty()) problem = missing;
  if (!problem.empty()) told.evaluation_problem = problem;
  effects.emplace_back(std::move(told));
}

void conclude(State& state, const std::string& missing, Instant now, Effects& effects) {
  report(state, missing, effects);
  end(state, std::nullopt, now, effects);
}

}  // namespace

Duration save_limit(const State& state) {
  const auto bytes = state.elements() * 2 * sizeof(float);  // parameters and momentum
  return SAVE_OVERHEAD + std::chrono::seconds{static_cast<std::int64_t>(bytes / SAVE_BYTES_PER_S)};
}

Named evaluating(const State& state) {
  return members_who(state, [](const Duty& d) { return !d.reported; });
}

RunDone told(const State& state, PeerId peer) { return news_for(state, peer, final_shares(state)); }

void finish(State& state, Instant now, Effects& effects) {
  set_phase(state, Phase::Finishing, now);
  state.finalist = next_to_save(state);
  if (state.finalist) state.duties[*state.finalist].asked_to_save = now;
  const auto shares = final_shares(state);
  for (const auto& member : state.view.members) effects.emplace_back(Send{member.id, news_for(state, member.id, shares)});
  // Joiners that did not make it: the run ended before their turn.
  std::vector<PeerId> late;
  for (const auto& [id, peer] : state.peers)
    if (peer.seat != Seat::Member) late.push_back(id);
  for (const auto id : late) dismiss(state, id, Error{ErrorName::RunDone, "the last outer step was committed"}, now, effects);
}

std::string state_saved(State& state, PeerId from, const StateSaved& message, Instant now, Effects& effects) {
  auto& peer = state.peers.at(from);
  if (state.phase != Phase::Finishing || state.saved || peer.seat != Seat::Member) return "a checkpoint that nobody waits for";
  const auto lead = lead_of(state, from);
  if (!message.problem.empty()) {
    state.duties[lead].save_failed = true;
    state.save_problem = peer.hello.name + ": " + message.problem;
    effects.emplace_back(events::FinalSaveFailed{as_one(state, lead), Cause{message.problem}});
    return "another one is asked to save the final state";
  }
  state.duties[from].saved = message.checkpoint;
  const auto has_saved = [&](const Member& member) { return duty_of(state, member.id).saved.has_value(); };
  if (!std::ranges::all_of(replica_of(state, from), has_saved)) return "the other shards are yet to be saved";
  state.finalist = lead;
  state.saved = state.duties[lead].saved;
  state.saved_at = now;
  state.safe = true;
  effects.emplace_back(events::FinalStateSaved{as_one(state, lead), *state.saved});
  return "the final state is saved";
}

/// The peers of a replica evaluate together: one of them counts.
bool was_evaluated(const State& state, PeerId member) {
  if (state.options.shards == 1 || state.peers.at(member).seat != Seat::Member) return false;
  return std::ranges::any_of(replica_of(state, member), [&](const Member& each) { return duty_of(state, each.id).evaluated; });
}

std::string final_report(State& state, PeerId from, const FinalReport& message) {
  auto& peer = state.peers.at(from);
  if (state.phase != Phase::Finishing || duty_of(state, from).reported) return "a report that nobody waits for";
  state.duties[from].reported = true;
  const bool known = was_evaluated(state, from);
  state.duties[from].evaluated = message.held_out.tokens > 0;
  state.final_reports.push_back({known ? HeldOutLoss{} : message.held_out, message.sample.substr(0, 4096),
                                 message.problem.empty() ? "" : peer.hello.name + ": " + message.problem.substr(0, 4096)});
  return peer.hello.name + " has evaluated its part";
}

void advance(State& state, Instant now, Effects& effects) {
  if (!state.saved) return see_to_saving(state, now, effects);
  // Who has yet to come back after a restart is to hear of the end; who stays away is lost soon.
  if (!members_who(state, [](const Peer& p) { return p.absent; }).empty()) return;
  const auto missing = evaluating(state);
  const auto limit = state.plan.evaluate_limit;
  if (missing.empty()) conclude(state, "", now, effects);
  else if (now - state.saved_at > limit)
    conclude(state, to_string(missing) + " did not end within " + format_duration(limit) + " (`train.evaluate.time_limit`)", now, effects);
}

void end(State& state, std::optional<Error> cause, Instant now, Effects& effects) {
  const auto last = state.made;
  if (!cause) effects.emplace_back(events::RunDone{last, state.tokens, state.digest});
  else if (cause->name == ErrorName::RunStopped) effects.emplace_back(events::RunStopped{last, state.tokens, state.digest, *cause});
  else effects.emplace_back(events::RunFailed{last, state.tokens, state.digest, *cause});
  for (const auto& [id, peer] : state.peers)
    effects.emplace_back(Send{id, Dismissed{cause.value_or(Error{ErrorName::RunDone, "all outer steps are committed"})}});
  set_phase(state, Phase::Over, now);
  state.end_cause = cause;
  state.safe = true;
  effects.emplace_back(Finish{std::move(cause)});
}

void stop(State& state, Error cause, Instant now, Effects& effects) {
  if (state.phase == Phase::Finishing && state.saved)
    conclude(state, "ended before " + to_string(evaluating(state)) + " had answered", now, effects);
  else end(state, std::move(cause), now, effects);
}

}  // namespace prime::coordinator::run_end
