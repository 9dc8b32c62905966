// Owns KnownMembers: who is a member as far as this peer knows, and through whom each may be reached.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "messages/membership.hpp"
#include "messages/outer_step.hpp"

namespace prime::lanes {

/// Any thread.
class KnownMembers {
 public:
  /// A view that is older than one that is known is ignored. `relays` may be empty: what was told before stands.
  void learn(const View& view, const RelayOrder& relays);
  [[nodiscard]] std::optional<Member> find(PeerId id) const;
  /// Through whom `from` may reach `to`, best first: who was told to be fast, then the others by rank.
  [[nodiscard]] std::vector<Member> relays(PeerId from, PeerId to) const;

 private:
  mutable std::mutex mutex_;  ///< guards all
  View view_;
  std::map<PeerId, std::vector<PeerId>> told_;  ///< by the peer to be reached
};

}  // namespace prime::lanes
