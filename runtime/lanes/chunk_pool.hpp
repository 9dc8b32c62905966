// Owns ChunkPool: buffers of one chunk each, kept so that their pages are mapped once and stay warm in the caches.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "kernels/device_memory.hpp"

namespace prime::lanes {

/// Used by the lane thread only. Must outlive its buffers.
class ChunkPool {
 public:
  /// Goes back to the pool with its last owner.
  using Buffer = std::shared_ptr<std::byte[]>;
  static constexpr std::size_t ALIGNMENT = 64;
  static constexpr std::size_t PAGE = 4096;

  /// With a device, these are what its memory is copied through.
  explicit ChunkPool(std::size_t chunk_bytes, std::shared_ptr<kernels::DeviceMemory> device = nullptr)
      : chunk_bytes_(chunk_bytes), alignment_(device ? PAGE : ALIGNMENT), device_(std::move(device)) {}
  ~ChunkPool() {
    for (std::byte* each : free_) release(each);
  }
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  /// The one used last comes first: it is the one that caches still hold.
  Buffer take() {
    std::byte* memory = nullptr;
    if (free_.empty()) {
      memory = static_cast<std::byte*>(::operator new (chunk_bytes_, std::align_val_t{alignment_}));
      if (device_) device_->pin({memory, chunk_bytes_});
      free_.reserve(++made_);
    } else {
      memory = free_.back();
      free_.pop_back();
    }
    return Buffer(memory, [this](std::byte* back) { free_.push_back(back); });
  }
  [[nodiscard]] std::size_t chunk_bytes() const { return chunk_bytes_; }
  /// The most that were in use at once. Any thread.
  [[nodiscard]] std::size_t peak_bytes() const { return made_.load(std::memory_order_relaxed) * chunk_bytes_; }
  [[nodiscard]] const std::shared_ptr<kernels::DeviceMemory>& device() const { return device_; }
  /// Nobody else has its device or any of its buffers.
  [[nodiscard]] bool abandoned() const { return free_.size() == made_ && device_.use_count() == 1; }

 private:
  void release(std::byte* memory) {
    if (device_) device_->unpin({memory, chunk_bytes_});
    ::operator delete (memory, std::align_val_t{alignment_});
  }

  std::size_t chunk_bytes_;
  std::size_t alignment_;
  std::shared_ptr<kernels::DeviceMemory> device_;
  std::atomic<std::size_t> made_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace prime::lanes
