// Owns StagingPools: for each device whose tensors are reduced, the host memory through which they are copied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "runtime/lanes/chunk_pool.hpp"

namespace prime::lanes {

class StagingPools {
 public:
  explicit StagingPools(std::size_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  /// Kept for as long as anybody else keeps the device, then until the next device comes. Of the lane thread.
  ChunkPool* of(const std::shared_ptr<kernels::DeviceMemory>& device) {
    const std::lock_guard lock(mutex_);
    std::erase_if(pools_, [](const ChunkPool& pool) { return pool.abandoned(); });
    const auto found = std::ranges::find(pools_, device, &ChunkPool::device);
    return found != pools_.end() ? &*found : &pools_.emplace_back(chunk_bytes_, device);
  }
  /// The most at once, in all. Any thread.
  [[nodiscard]] std::size_t peak_bytes() {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& pool : pools_) bytes += pool.peak_bytes();
    return bytes;
  }

 private:
  std::size_t chunk_bytes_;
  std::mutex mutex_;  ///< of the list; the pools themselves are the lane thread's
  std::list<ChunkPool> pools_;
};

}  // namespace prime::lanes
