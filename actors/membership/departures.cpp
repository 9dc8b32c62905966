#include "actors/membership/departures.hpp"

#include <algorithm>

#include "actors/membership/membership_machine.hpp"

namespace prime::membership {

Error told(const Roster& roster, const Error& cause) {
  const bool joins_anew =
      cause.name == ErrorName::Evicted || cause.name == ErrorName::DeadlineExceeded || cause.name == ErrorName::FetchFailed;
  return joins_anew ? roster.to_who_left.value_or(cause) : cause;
}

bool is_farewell(const Error& cause) { return cause.name == ErrorName::RunDone || cause.name == ErrorName::RolledBack; }

JournalEvent gone(Who who, const Error& cause, bool left) {
  if (left) return events::PeerLeft{std::move(who), Cause{cause.detail}};
  return events::PeerLost{std::move(who), cause};
}

void note_gone(Roster& roster, PeerId peer, const Error& cause) {
  roster.gone.emplace_back(peer, cause);
  if (roster.gone.size() > MAX_GONE) roster.gone.erase(roster.gone.begin());
}

bool Departures::remove(PeerId id, const Error& cause, bool left) {
  const auto found = roster_.peers.find(id);
  if (found == roster_.peers.end()) return false;
  anybody_ = true;
  if (!left) roster_.last_loss = found->second.hello.name + ": " + to_string(cause);
  if (found->second.seat == Seat::Member) members_.insert(id);
  effects_.push_back(gone(who(found->second), cause, left));
  roster_.founders_awaited.erase(found->second.hello.name);
  roster_.peers.erase(found);
  note_gone(roster_, id, cause);
  return true;
}

bool Departures::dismiss(PeerId id, const Error& cause) {
  if (!roster_.peers.contains(id)) return false;
  effects_.emplace_back(Send{id, Dismissed{told(roster_, cause)}});
  effects_.emplace_back(Fence{id});
  return remove(id, cause, is_farewell(cause));
}

std::set<PeerId> Departures::settle() {
  if (!std::exchange(anybody_, false)) return {};
  if (!members_.empty()) {
    std::erase_if(roster_.view.members.edit(), [&](const Member& m) { return members_.contains(m.id); });
    roster_.view.epoch = roster_.view.epoch.next();
  }
  const auto& peers = roster_.peers;
  const bool state_lost = roster_.digest && std::none_of(peers.begin(), peers.end(),
                                                         [&](const auto& entry) { return holds_current_state(roster_, entry.second); });
  if (state_lost && !roster_.has_trained()) {
    // Nothing was trained yet: the next one who is seated, or whose fetch has ended, founds the state anew.
    if (!roster_.origin) {
      roster_.digest.reset();
      roster_.parts.clear();
    }
    if (std::all_of(peers.begin(), peers.end(), [](const auto& entry) { return entry.second.seat == Seat::Greeted; }))
      roster_.layout.reset();
  }
  refresh_fetches(roster_, now_, effects_);
  return std::exchange(members_, {});
}

}  // namespace prime::membership
