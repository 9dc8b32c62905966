// Owns KnownMembers: who is a member as far as this peer knows, and through whom each may be reached.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "messages/membership.hpp"
#include "messages/outer_step.hpp"

namespace prime::lanes {

/// For people: "peer brave-otter"; by its id where it has no name.
std::string peer_text(const Member& member);

/// Any thread.
class KnownMembers {
 public:
  /// A view that is older than one that is known is ignored.
  void learn(const View& view);
  /// An operation among some of them. `relays`, by its ranks, may be empty: what was told before stands.
  void learn(const View& view, const std::vector<Contribution>& operation, const RelayOrder& relays);
  [[nodiscard]] std::optional<Member> find(PeerId id) const;
  /// As `peer_text`; by its id where it is no member.
  [[nodiscard]] std::string text_of(PeerId id) const;
  /// Whether it has been a member that this peer knew of, and is none any more.
  [[nodiscard]] bool is_gone(PeerId id) const;
  /// Through whom `from` may reach `to`, best first: who was told to be fast, then the others by rank.
  [[nodiscard]] std::vector<Member> relays(PeerId from, PeerId to) const;

 private:
  void take(const View& view);

  /// Beyond it the lowest ids are forgotten: their bytes might be passed on for them, to nobody who takes them.
  static constexpr std::size_t GONE_MAX = 4096;
  mutable std::mutex mutex_;  ///< guards all
  View view_;
  std::set<PeerId> gone_;
  std::map<PeerId, std::vector<PeerId>> told_;  ///< by the peer to be reached
};

}  // namespace prime::lanes
