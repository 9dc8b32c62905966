#include "actors/coordinator/departures.hpp"

#include <algorithm>

#include "actors/coordinator/membership_machine.hpp"
#include "actors/coordinator/rollback_machine.hpp"
#include "actors/coordinator/topology_machine.hpp"

namespace prime::coordinator {

Error told(const State& state, const Error& cause) {
  const bool joins_anew =
      cause.name == ErrorName::Evicted || cause.name == ErrorName::DeadlineExceeded || cause.name == ErrorName::FetchFailed;
  return state.restoring && joins_anew ? rollback::cause(state.checkpoint->revision) : cause;
}

JournalEvent gone(Who who, const Error& cause, bool left) {
  if (left) return events::PeerLeft{std::move(who), Cause{cause.detail}};
  return events::PeerLost{std::move(who), cause};
}

void note_gone(State& state, PeerId peer, const Error& cause) {
  state.gone.emplace_back(peer, cause);
  if (state.gone.size() > MAX_GONE) state.gone.erase(state.gone.begin());
}

/// Counts a member that is being lost; with a policy that says so, the run waits until the lost are replaced. What counts is the last
/// sign of life: one that was killed is known at once, and one that fell silent at that moment a heartbeat limit later.
void Departures::note_loss(Instant heard) {
  auto& losses = state_.losses;
  if (losses.lost == 0 || heard - losses.since > state_.options.heartbeat_limit)
    losses = Losses{heard, static_cast<std::uint32_t>(state_.view.members.size() - members_.size()), 0};
  const bool known = losses.correlated();
  ++losses.lost;
  if (known || !losses.correlated() || state_.phase >= Phase::Finishing) return;
  const auto policy = state_.options.on_correlated_loss;
  // Before the first checkpoint, and right after one, there is nothing to go back to.
  state_.roll_back_due = policy == LossPolicy::RollBack && state_.checkpoint && state_.checkpoint->revision < state_.revision;
  const auto follows = policy == LossPolicy::RollBack && !state_.roll_back_due ? LossPolicy::Continue : policy;
  effects_.emplace_back(events::CorrelatedLoss{losses.lost, losses.members, follows});
  if (policy == LossPolicy::Pause) state_.pause = Pause{std::max(losses.members, state_.pause ? state_.pause->members : 0), now_};
}

void Departures::remove(PeerId id, const Error& cause, bool left) {
  const auto found = state_.peers.find(id);
  if (found == state_.peers.end()) return;
  anybody_ = true;
  const bool member = found->second.seat == Seat::Member;
  if (member && !left) note_loss(found->second.heard);
  if (member && left) {  // nobody waits for who says goodbye
    if (state_.pause && state_.pause->members > 0) --state_.pause->members;
    if (state_.losses.members > 0) --state_.losses.members;
  }
  if (!left) state_.last_loss = found->second.hello.name + ": " + to_string(cause);
  if (member) members_.insert(id);
  effects_.push_back(gone(membership::who(found->second), cause, left));
  state_.peers.erase(found);
  note_gone(state_, id, cause);
}

void Departures::dismiss(PeerId id, const Error& cause) {
  if (!state_.peers.contains(id)) return;
  effects_.emplace_back(Send{id, Dismissed{told(state_, cause)}});
  effects_.emplace_back(Fence{id});
  // Whose turn never came is no loss, nor is who comes back with the checkpoint.
  remove(id, cause, cause.name == ErrorName::RunDone || cause.name == ErrorName::RolledBack);
}

void Departures::leave_view() {
  std::erase_if(state_.view.members.edit(), [&](const Member& m) { return members_.contains(m.id); });
  state_.view.epoch = state_.view.epoch.next();
  topology::members_changed(state_);
  // Why their links broke is known now: the next try of the reduce has nothing else to wait for.
  std::erase_if(state_.link_failures,
                [&](const auto& entry) { return members_.contains(entry.first.first) || members_.contains(entry.first.second); });
  if (state_.link_failures.empty()) state_.retry_at = now_;
}

bool Departures::settle() {
  if (!std::exchange(anybody_, false)) return false;
  const bool changed = !members_.empty();
  if (changed) leave_view();
  members_.clear();
  const auto& peers = state_.peers;
  const bool state_lost = state_.digest && std::none_of(peers.begin(), peers.end(), [&](const auto& entry) {
                            return membership::holds_current_state(state_, entry.second);
                          });
  if (state_lost && !state_.has_trained()) {
    // Nothing was trained yet: the next one who is seated, or whose fetch has ended, founds the state anew.
    if (!state_.options.origin) state_.digest.reset();
    if (std::all_of(peers.begin(), peers.end(), [](const auto& entry) { return entry.second.seat == Seat::Greeted; }))
      state_.layout.reset();
  }
  membership::refresh_fetches(state_, now_, effects_);
  return changed;
}

}  // namespace prime::coordinator
