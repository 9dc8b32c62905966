#include "actors/coordinator/departures.hpp"

#include <algorithm>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/operations.hpp"
#include "actors/coordinator/samples.hpp"
#include "actors/coordinator/topology_machine.hpp"

namespace prime::coordinator {

/// Counts a member that is being lost; with a policy that says so, the run waits until the lost are replaced. What counts is the last
/// sign of life: one that was killed is known at once, and one that fell silent at that moment a heartbeat limit later.
void Departures::note_loss(Instant heard) {
  auto& losses = state_.losses;
  if (losses.lost == 0 || heard - losses.since > state_.options.heartbeat_limit)
    losses = Losses{heard, static_cast<std::uint32_t>(replicas(state_) - seats_.members().size() / state_.options.shards), 0};
  const bool known = losses.correlated();
  ++losses.lost;
  if (known || !losses.correlated() || state_.phase >= Phase::Finishing) return;
  const auto policy = state_.plan.on_correlated_loss;
  // Before the first checkpoint, and right after one, there is nothing to go back to.
  state_.roll_back_due = policy == LossPolicy::RollBack && state_.checkpoint && state_.checkpoint->revision < state_.revision;
  const auto follows = policy == LossPolicy::RollBack && !state_.roll_back_due ? LossPolicy::Continue : policy;
  effects_.emplace_back(events::CorrelatedLoss{losses.lost, losses.members, follows});
  if (policy == LossPolicy::Pause) state_.pause = Pause{std::max(losses.members, state_.pause ? state_.pause->members : 0), now_};
}

void Departures::note(PeerId id, bool left) {
  const auto found = state_.peers.find(id);
  if (found == state_.peers.end() || found->second.seat != Seat::Member) return;
  if (!left) return note_loss(found->second.heard);
  // Nobody waits for who says goodbye.
  if (state_.pause && state_.pause->members > 0) --state_.pause->members;
  if (state_.losses.members > 0) --state_.losses.members;
}

void Departures::remove(PeerId id, const Error& cause, bool left) {
  note(id, left);
  seats_.remove(id, cause, left);
}

void Departures::dismiss(PeerId id, const Error& cause) {
  note(id, membership::is_farewell(cause));
  seats_.dismiss(id, cause);
}

bool Departures::settle() {
  const auto gone = seats_.settle();
  if (gone.empty()) return false;
  topology::members_changed(state_);
  for (const auto id : gone) {
    for (const auto range : samples::unused_by(state_, id)) state_.given_back.insert(range);
    for (auto& round : state_.rounds) {
      round.work.erase(id);
      round.closed.erase(id);
    }
    state_.duties.erase(id);
    state_.leases.erase(id);
  }
  std::erase_if(state_.attempts, [&](const auto& entry) {
    return std::ranges::none_of(state_.view.members, [&](const Member& member) { return member.ordinal == entry.first; });
  });
  // Why their links broke is known now: the next try of the reduce has nothing else to wait for.
  auto& tries = state_.tries;
  std::erase_if(tries.link_failures,
                [&](const auto& entry) { return gone.contains(entry.first.first) || gone.contains(entry.first.second); });
  if (tries.link_failures.empty()) tries.retry_at = now_;
  return true;
}

void dismiss(State& state, const std::vector<PeerId>& peers, const Error& cause, Instant now, Effects& effects) {
  if (peers.empty()) return;
  const auto first = state.peers.find(peers.front());
  const operations::Because because{peers.front(), first == state.peers.end() ? to_string(peers.front()) : first->second.hello.name, cause};
  Departures departures{state, now, effects};
  for (const auto id : peers) departures.dismiss(id, cause);
  if (departures.settle()) operations::abort(state, AbortCause::PeerLost, because, now, effects);
}

void dismiss(State& state, PeerId id, const Error& cause, Instant now, Effects& effects) {
  dismiss(state, std::vector{id}, cause, now, effects);
}

}  // namespace prime::coordinator
