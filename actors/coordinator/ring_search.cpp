#include "actors/coordinator/ring_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "messages/assert.hpp"

namespace prime::coordinator {
namespace {

constexpr double IMPOSSIBLE = std::numeric_limits<double>::infinity();
/// Rings that improvement looks at in all: a bound on its time that is the same on every machine.
constexpr std::size_t MAX_LOOKS = 20'000'000;

/// The least sum of times per byte over rings without a link slower than `slowest`, by Held and Karp's recursion over subsets
/// ("A dynamic programming approach to sequencing problems", 1962).
std::optional<Ring> shortest_ring(const LinkSpeeds& speeds, std::uint64_t slowest) {
  const std::size_t others = speeds.peers() - 1;  // peer 0 is where it begins and ends
  const auto time = [&](std::size_t from, std::size_t to) {
    const auto speed = speeds.at(from, to);
    return speed == 0 || speed < slowest ? IMPOSSIBLE : 1.0 / static_cast<double>(speed);
  };
  const std::size_t subsets = std::size_t{1} << others;
  std::vector<double> least(subsets * others, IMPOSSIBLE);  // to `last`, through all of the subset
  std::vector<std::uint8_t> before(subsets * others, 0);
  for (std::size_t last = 0; last < others; ++last) least[(std::size_t{1} << last) * others + last] = time(0, last + 1);
  for (std::size_t subset = 1; subset < subsets; ++subset)
    for (std::size_t last = 0; last < others; ++last) {
      const double here = least[subset * others + last];
      if (here == IMPOSSIBLE) continue;
      for (std::size_t next = 0; next < others; ++next) {
        if ((subset >> next & 1U) != 0) continue;
        const auto at = (subset | std::size_t{1} << next) * others + next;
        if (const double there = here + time(last + 1, next + 1); there < least[at]) {
          least[at] = there;
          before[at] = static_cast<std::uint8_t>(last);
        }
      }
    }
  double best = IMPOSSIBLE;
  std::size_t last = 0;
  std::size_t subset = subsets - 1;
  for (std::size_t candidate = 0; candidate < others; ++candidate)
    if (const double whole = least[subset * others + candidate] + time(candidate + 1, 0); whole < best) {
      best = whole;
      last = candidate;
    }
  if (best == IMPOSSIBLE) return std::nullopt;
  Ring ring(speeds.peers(), 0);
  for (std::size_t place = others; place > 0; --place) {
    ring[place] = last + 1;
    const auto previous = before[subset * others + last];
    subset &= ~(std::size_t{1} << last);
    last = previous;
  }
  return ring;
}

std::optional<Ring> exact_ring(const LinkSpeeds& speeds) {
  std::vector<std::uint64_t> limits;
  for (std::size_t from = 0; from < speeds.peers(); ++from)
    for (std::size_t to = 0; to < speeds.peers(); ++to)
      if (from != to && speeds.at(from, to) > 0) limits.push_back(speeds.at(from, to));
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  // What works with a higher limit works with every lower one.
  std::optional<Ring> best;
  std::size_t low = 0;
  std::size_t high = limits.size();
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (auto ring = shortest_ring(speeds, limits[middle])) {
      best = std::move(ring);
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return best;
}

/// Takes the slowest link out of the ring again and again, as long as that makes the slowest of the changed ones faster.
class Improvement {
 public:
  Improvement(const LinkSpeeds& speeds, Ring ring) : speeds_(speeds), ring_(std::move(ring)) {}

  Ring run() && {
    while (looks_ < MAX_LOOKS && improve()) {
    }
    return std::move(ring_);
  }

 private:
  [[nodiscard]] std::uint64_t link(std::size_t place) const { return speeds_.at(ring_[place], ring_[(place + 1) % ring_.size()]); }
  [[nodiscard]] std::uint64_t between(std::size_t from, std::size_t to) const { return speeds_.at(ring_[from], ring_[to]); }

  /// With the slowest link between the last place and the first, two more links are cut at i < j: of the parts A B C, B and C change
  /// places, or one is turned round.
  bool improve() {
    const std::size_t n = ring_.size();
    std::size_t worst = 0;
    for (std::size_t place = 1; place < n; ++place)
      if (link(place) < link(worst)) worst = place;
    const auto limit = link(worst);
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>((worst + 1) % n), ring_.end());
    std::uint64_t best = limit;
    std::size_t best_i = 0;
    std::size_t best_j = 0;
    for (std::size_t i = 0; i + 2 < n; ++i) {
      if (between(n - 1, i + 1) <= best) continue;
      for (std::size_t j = i + 1; j + 1 < n && looks_ < MAX_LOOKS; ++j) {
        ++looks_;
        const auto slowest = std::min({between(i, j + 1), between(n - 1, i + 1), between(j, 0)});
        if (slowest <= best) continue;
        best = slowest;
        best_i = i;
        best_j = j;
      }
    }
    if (best > limit) {
      std::rotate(at(best_i + 1), at(best_j + 1), ring_.end());
      return true;
    }
    return turn_round(limit);
  }

  /// The part behind i is passed through the other way, where its links are faster than the slowest that way, too.
  bool turn_round(std::uint64_t limit) {
    const std::size_t n = ring_.size();
    std::uint64_t inside = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = n - 2; i > 0 && looks_ < MAX_LOOKS; --i) {  // from the shortest part to the longest
      ++looks_;
      inside = std::min(inside, between(i + 1, i));
      const std::size_t first = i;  // of the part
      if (std::min({inside, between(first - 1, n - 1), between(first, 0)}) <= limit) continue;
      std::reverse(at(first), ring_.end());
      return true;
    }
    return false;
  }

  [[nodiscard]] Ring::iterator at(std::size_t place) { return ring_.begin() + static_cast<std::ptrdiff_t>(place); }

  const LinkSpeeds& speeds_;
  Ring ring_;
  std::size_t looks_ = 0;
};

/// From `start`, always over the fastest link to somebody new.
Ring greedy_ring(const LinkSpeeds& speeds, std::size_t start) {
  Ring ring{start};
  std::vector<bool> visited(speeds.peers(), false);
  visited[start] = true;
  while (ring.size() < speeds.peers()) {
    std::size_t next = speeds.peers();
    for (std::size_t peer = 0; peer < speeds.peers(); ++peer)
      if (!visited[peer] && (next == speeds.peers() || speeds.at(ring.back(), peer) > speeds.at(ring.back(), next))) next = peer;
    visited[next] = true;
    ring.push_back(next);
  }
  return ring;
}

}  // namespace

std::uint64_t slowest_link(const LinkSpeeds& speeds, const Ring& ring) {
  if (ring.size() < 2) return 0;
  std::uint64_t slowest = speeds.at(ring.back(), ring.front());
  for (std::size_t place = 0; place + 1 < ring.size(); ++place) slowest = std::min(slowest, speeds.at(ring[place], ring[place + 1]));
  return slowest;
}

std::optional<Ring> best_ring(const LinkSpeeds& speeds, const Ring& current) {
  PRIME_ASSERT(current.size() == speeds.peers(), "a ring passes every peer");
  if (speeds.peers() < 2) return std::nullopt;
  return speeds.peers() <= EXACT_RING_PEERS ? exact_ring(speeds) : improved_ring(speeds, current);
}

std::optional<Ring> improved_ring(const LinkSpeeds& speeds, const Ring& current) {
  // Every peer is a start; few matter, but which ones is not known before.
  auto best = Improvement{speeds, current}.run();
  for (std::size_t start = 0; start < std::min<std::size_t>(speeds.peers(), 2 * EXACT_RING_PEERS); ++start)
    if (auto ring = Improvement{speeds, greedy_ring(speeds, start)}.run(); slowest_link(speeds, ring) > slowest_link(speeds, best))
      best = std::move(ring);
  if (slowest_link(speeds, best) == 0) return std::nullopt;
  std::rotate(best.begin(), std::find(best.begin(), best.end(), 0), best.end());
  return best;
}

}  // namespace prime::coordinator
