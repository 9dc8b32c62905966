// Owns SpareMemory: in what reduces have made what is copied at their commit, kept for the next ones, since new memory is mapped page by
// page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/lanes/huge_pages.hpp"

namespace prime {

/// Never holds more than the most that was in use at once. Any thread.
class SpareMemory : public std::enable_shared_from_this<SpareMemory> {
 public:
  /// Of at least so many bytes, whatever they hold; null for none. It comes back with its last holder.
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    auto lent = std::make_shared<Lent>(shared_from_this());
    lent->memory = find(bytes);
    lent->bytes = lent->memory.empty() ? bytes : lent->memory.size();
    make_way(lent->bytes);
    if (lent->memory.empty()) lent->memory = Memory(bytes);
    return {lent, lent->memory.data()};
  }
  /// In use or spare.
  [[nodiscard]] std::size_t held_bytes() const {
    const std::lock_guard lock(mutex_);
    return used_ + spare_bytes_;
  }
  /// The most that was held.
  [[nodiscard]] std::size_t peak_bytes() const {
    const std::lock_guard lock(mutex_);
    return most_used_;
  }

 private:
  using Memory = std::vector<std::byte, HugePages<std::byte>>;
  struct Lent {
    explicit Lent(std::shared_ptr<SpareMemory> owner) : home(std::move(owner)) {}
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent() { home->give(std::move(memory), bytes); }
    std::shared_ptr<SpareMemory> home;
    Memory memory;
    std::size_t bytes = 0;
  };

  /// A spare piece that is large enough, but less than twice as large as it must be; empty when there is none.
  Memory find(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto best = spare_.lower_bound(bytes);
    if (best == spare_.end() || best->first / 2 >= bytes) return {};
    spare_bytes_ -= best->first;
    return std::move(spare_.extract(best).mapped());
  }
  /// Counts so many bytes as used, and lets go of what is spare beyond the most that was used at once.
  void make_way(std::size_t bytes) {
    std::vector<Memory> gone;  // freed outside the lock
    const std::lock_guard lock(mutex_);
    used_ += bytes;
    most_used_ = std::max(most_used_, used_);
    while (used_ + spare_bytes_ > most_used_) {
      auto least = spare_.lower_bound(used_ + spare_bytes_ - most_used_);
      if (least == spare_.end()) --least;
      spare_bytes_ -= least->first;
      gone.push_back(std::move(spare_.extract(least).mapped()));
    }
  }
  void give(Memory memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    if (memory.empty()) return;
    spare_bytes_ += bytes;
    spare_.emplace(bytes, std::move(memory));
  }

  mutable std::mutex mutex_;
  std::multimap<std::size_t, Memory> spare_;  ///< by size
  std::size_t spare_bytes_ = 0;
  std::size_t used_ = 0;
  std::size_t most_used_ = 0;
};

}  // namespace prime
