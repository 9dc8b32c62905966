#include "actors/coordinator/lease_machine.hpp"

#include <algorithm>
#include <utility>

namespace prime::lease {
namespace {

/// After a call that failed; an outage that is shorter than the lease must end nothing.
constexpr Duration AGAIN_AFTER = 100ms;
/// Who comes to stand by is known to the peers so much later at most.
constexpr Duration LOOK_AROUND_EVERY = 2s;

bool is_valid(const State& state, Instant now) { return now - state.renewed < state.options.length; }

/// No call takes so long: the process itself stood still meanwhile, and the failure of the call says nothing of the store.
bool stood_still(const State& state, Instant asked, Instant now) { return now - asked >= 2 * call_limit(state.options.length); }

Transition nothing(State state, Judgement judgement) { return {std::move(state), {}, judgement}; }

void lose(State& state, const Error& cause) {
  state.phase = Phase::Lost;
  if (!state.cause) state.cause = cause;
}

Transition end(State state, const Error& cause, Judgement judgement) {
  lose(state, cause);
  return {std::move(state), {End{cause}}, judgement};
}

/// The lease counts from before it was asked for: the store, which counts from later, never gives the lead to somebody else while this
/// process still believes in its own.
Transition renewal_answered(State state, const RenewalAnswered& answer, Instant now) {
  if (state.phase == Phase::Lost) return nothing(std::move(state), Judgement::TakesNoPart);
  if (!answer.alive) {
    if (is_valid(state, now)) return {std::move(state), {Renew{AGAIN_AFTER}}, Judgement::OutlastsOutage};
    if (stood_still(state, answer.asked, now)) return {std::move(state), {Renew{AGAIN_AFTER}}, Judgement::StoodStill};
    return end(std::move(state), answer.alive.error(), Judgement::NotRenewed);
  }
  if (!*answer.alive) return end(std::move(state), Error{ErrorName::LeadershipLost, "its lease has run out"}, Judgement::LeaseEnded);
  state.renewed = answer.asked;
  const auto after = std::min<Duration>(state.options.length / 4, LOOK_AROUND_EVERY);
  return {std::move(state), {LookAround{}, Renew{after}}, Judgement::Renewed};
}

Transition tick(State state) {
  if (state.phase != Phase::StandingBy) return nothing(std::move(state), Judgement::NotStandingBy);
  return {std::move(state), {Campaign{}}, Judgement::NobodyMayLead};
}

Transition campaign_answered(State state, const CampaignAnswered& answer) {
  const bool has_deposed = std::exchange(state.deposing, false);
  if (state.phase != Phase::StandingBy) return nothing(std::move(state), Judgement::NotStandingBy);
  if (!answer.leader) {
    if (state.leader) return nothing(std::move(state), Judgement::StoreAway);
    return end(std::move(state), answer.leader.error(), Judgement::CannotStandBy);
  }
  const auto& leader = *answer.leader;
  if (!leader) {
    state.phase = Phase::Leading;
    state.leader.reset();
    return nothing(std::move(state), Judgement::Leads);
  }
  // This process listens at that address: whoever led from there is dead, and its guard has started this one in its place.
  if (leader->address == state.options.address && !has_deposed) {
    state.deposing = true;
    return {std::move(state), {Depose{leader->lease}}, Judgement::LeaderDead};
  }
  state.leader = leader;
  return nothing(std::move(state), Judgement::AnotherLeads);
}

Transition decision_answered(State state, const DecisionAnswered& answer, Instant now) {
  if (!answer.kept && answer.kept.error().name == ErrorName::StandbyStoreFailed) {
    if (now < state.again_until) return {std::move(state), {Keep{AGAIN_AFTER}}, Judgement::DecisionWaits};
    if (stood_still(state, answer.asked, now)) return {std::move(state), {Keep{AGAIN_AFTER}}, Judgement::StoodStill};
  }
  if (answer.kept) return {std::move(state), {Tell{}}, Judgement::DecisionKept};
  lose(state, answer.kept.error());
  return {std::move(state), {EndUntold{answer.kept.error()}}, Judgement::DecisionNotKept};
}

}  // namespace

Duration call_limit(Duration lease) { return std::min<Duration>(lease / 4, 5s); }

/// Well within the time for which the guard waits for a coordinator to start, so that it is the store that is named.
Duration first_call_limit(Duration lease) { return std::min<Duration>(lease, 10s); }

bool holds_lead(const State& state, Instant now) { return state.phase == Phase::Leading && is_valid(state, now); }

State initial(Options options, Instant asked) {
  State state;
  state.options = std::move(options);
  state.renewed = asked;
  return state;
}

Transition step(State state, const Event& event, Instant now) {
  return std::visit(overloaded{[&](const Entered&) -> Transition {
                                 return {std::move(state), {Renew{}}, Judgement::Granted};
                               },
                               [&](const RenewalAnswered& answer) { return renewal_answered(std::move(state), answer, now); },
                               [&](const Tick&) { return tick(std::move(state)); },
                               [&](const CampaignAnswered& answer) { return campaign_answered(std::move(state), answer); },
                               [&](const Decided&) -> Transition {
                                 state.again_until = now + state.options.length;
                                 return {std::move(state), {Keep{}}, Judgement::Keeps};
                               },
                               [&](const DecisionAnswered& answer) { return decision_answered(std::move(state), answer, now); }},
                    event);
}

}  // namespace prime::lease
