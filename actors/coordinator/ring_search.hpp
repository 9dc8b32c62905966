// Owns the choice of a ring: in which order peers pass chunks on, so that the slowest link that is used is as fast as can be.
//
// DESIGN.md §5: the objective is the slowest link, then the sum. A tour that visits every peer once, over directed links: the bottleneck
// travelling salesman problem. Exact for few peers, by improvement for more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace prime::coordinator {

/// Bytes per second from each peer to each other one; 0: cannot be reached. The diagonal means nothing.
class LinkSpeeds {
 public:
  explicit LinkSpeeds(std::size_t peers) : peers_(peers), speeds_(peers * peers, 0) {}
  [[nodiscard]] std::size_t peers() const { return peers_; }
  [[nodiscard]] std::uint64_t at(std::size_t from, std::size_t to) const { return speeds_[from * peers_ + to]; }
  std::uint64_t& at(std::size_t from, std::size_t to) { return speeds_[from * peers_ + to]; }

 private:
  std::size_t peers_;
  std::vector<std::uint64_t> speeds_;
};

/// Peers in the order in which each sends to the next one, and the last to the first.
using Ring = std::vector<std::size_t>;

/// With at most so many peers the best ring is found; it takes some milliseconds.
inline constexpr std::size_t EXACT_RING_PEERS = 10;

/// Of the slowest link that the ring uses; 0 when it uses one that is none, and for fewer than two peers.
std::uint64_t slowest_link(const LinkSpeeds& speeds, const Ring& ring);

/// The ring with the fastest slowest link, and among those the one with the least sum of times per byte; above EXACT_RING_PEERS what
/// improvement finds. It begins with peer 0. Empty when every ring, or each that was tried, has a link that is none. `current`: any ring
/// over the same peers. The same input gives the same ring everywhere.
std::optional<Ring> best_ring(const LinkSpeeds& speeds, const Ring& current);
/// By improvement, of any size, from `current` and from several others on: the fastest slowest link that it comes to.
std::optional<Ring> improved_ring(const LinkSpeeds& speeds, const Ring& current);

}  // namespace prime::coordinator
