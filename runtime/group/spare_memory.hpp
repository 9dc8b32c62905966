// Owns SpareMemory: in what reduces have made what is copied at their commit, kept for the next ones, since new memory is mapped page by
// page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/lanes/huge_pages.hpp"

namespace prime {

/// As much as was in use at once at most, each piece as large as the largest that it served. Any thread.
class SpareMemory {
 public:
  using Memory = std::vector<std::byte, HugePages<std::byte>>;

  /// Of at least so many bytes, whatever they hold.
  Memory take(std::size_t bytes) {
    Memory memory;
    if (bytes == 0) return memory;
    {
      const std::lock_guard lock(mutex_);
      if (!spare_.empty()) {
        auto best = spare_.lower_bound(bytes);
        if (best == spare_.end()) --best;  // the largest one makes way for what is larger
        memory = std::move(best->second);
        spare_.erase(best);
      }
      if (memory.size() < bytes) {
        held_ += bytes - memory.size();
        peak_ = std::max(peak_, held_);
      }
    }
    if (memory.size() < bytes) {
      memory = Memory{};  // before the larger one is there
      memory = Memory(bytes);
    }
    return memory;
  }
  void give(Memory memory) {
    if (memory.empty()) return;
    const std::lock_guard lock(mutex_);
    spare_.emplace(memory.size(), std::move(memory));
  }
  /// The most that was held, in use or spare.
  [[nodiscard]] std::size_t peak_bytes() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  mutable std::mutex mutex_;
  std::multimap<std::size_t, Memory> spare_;  ///< by size
  std::size_t held_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace prime
