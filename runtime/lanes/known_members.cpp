#include "runtime/lanes/known_members.hpp"

#include <algorithm>

namespace prime::lanes {

std::string peer_text(const Member& member) { return "peer " + (member.name.empty() ? to_string(member.id) : member.name); }

std::string KnownMembers::text_of(PeerId id) const { return peer_text(find(id).value_or(Member{id, {}, {}, 0})); }

void KnownMembers::learn(const View& view) {
  const std::lock_guard lock(mutex_);
  take(view);
}

void KnownMembers::learn(const View& view, const std::vector<Contribution>& operation, const RelayOrder& relays) {
  const std::lock_guard lock(mutex_);
  take(view);
  if (relays.empty()) return;
  told_.clear();
  for (std::size_t to = 0; to < std::min(relays.size(), operation.size()); ++to)
    for (const auto rank : relays[to])
      if (rank < operation.size()) told_[operation[to].peer].push_back(operation[rank].peer);
}

/// Within an epoch members only come.
void KnownMembers::take(const View& view) {
  if (view.epoch < view_.epoch || (view.epoch == view_.epoch && view.members.size() <= view_.members.size())) return;
  for (const auto& member : view_.members) gone_.insert(member.id);
  for (const auto& member : view.members) gone_.erase(member.id);
  while (gone_.size() > GONE_MAX) gone_.erase(gone_.begin());
  view_ = view;
}

std::optional<Member> KnownMembers::find(PeerId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(view_.members, id, &Member::id);
  if (found == view_.members.end()) return std::nullopt;
  return *found;
}

bool KnownMembers::is_gone(PeerId id) const {
  const std::lock_guard lock(mutex_);
  return gone_.contains(id);
}

std::vector<Member> KnownMembers::relays(PeerId from, PeerId to) const {
  const std::lock_guard lock(mutex_);
  const auto told = told_.find(to);
  const auto place = [&](const Member& member) {
    if (told == told_.end()) return std::ptrdiff_t{0};
    return std::ranges::find(told->second, member.id) - told->second.begin();
  };
  std::vector<Member> found;
  for (const auto& member : view_.members)
    if (member.id != from && member.id != to) found.push_back(member);
  std::ranges::stable_sort(found, {}, place);
  return found;
}

}  // namespace prime::lanes
