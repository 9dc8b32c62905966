// Owns Staging: the chunks of one reduce that are on their way out of device memory and into it, where they lie in the host's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "actors/ports.hpp"
#include "actors/reduce_worker/schedule.hpp"
#include "kernels/device_memory.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/lanes/chunk_pool.hpp"

namespace prime::lanes {

/// A copy has ended: of an input's chunk to the host, or of a result's chunk to the device.
struct CopyEnd {
  OperationId op;
  Piece piece;
  std::uint64_t number = 0;  ///< of the chunk, through all segments
  std::optional<std::string> fault;
};

/// Used by the lane thread only. Must not end while it copies.
class Staging {
 public:
  /// Called on threads of the device.
  using Tell = std::function<void(CopyEnd)>;
  struct Chunk {
    Piece piece;
    std::uint64_t number = 0;
    std::size_t offset = 0;  ///< in the tensor, in bytes, as its length
    std::size_t bytes = 0;
  };

  /// `pool` must outlive it, and all buffers that it gave out.
  Staging(const ReduceRequest& request, ChunkPool& pool, Tell tell);

  /// Begins to fetch a chunk of the input, which is used so many times.
  void fetch(const Chunk& chunk, std::size_t uses);
  /// Null while it is not here.
  [[nodiscard]] ChunkPool::Buffer input(std::uint64_t number) const;
  /// Whether that was the last use.
  bool used(std::uint64_t number);

  /// Room for a chunk of the result.
  [[nodiscard]] ChunkPool::Buffer take();
  /// Begins to write it to the output.
  void store(const Chunk& chunk, ChunkPool::Buffer buffer);

  /// Notes it; an error when it went wrong.
  std::optional<Error> ended(const CopyEnd& end);
  [[nodiscard]] bool copying() const { return fetching_ > 0 || !stores_.empty(); }
  [[nodiscard]] std::size_t stores() const { return stores_.size(); }
  /// Chunks of the result that somebody still holds: they are written to the device, or sent.
  [[nodiscard]] std::size_t results() const { return *results_; }

 private:
  struct Fetched {
    Chunk chunk;
    ChunkPool::Buffer buffer;
    std::size_t uses = 0;
    bool here = false;
  };
  struct Stored {
    Chunk chunk;
    ChunkPool::Buffer buffer;
  };
  [[nodiscard]] kernels::DeviceMemory::Copied teller(const Chunk& chunk) const;
  [[nodiscard]] Error failure(const Chunk& chunk, const std::string& fault) const;

  OperationId op_;
  std::shared_ptr<kernels::DeviceMemory> memory_;
  std::span<const std::byte> input_;  ///< of the device
  std::span<std::byte> output_;       ///< of the device
  ChunkPool& pool_;
  Tell tell_;
  std::unordered_map<std::uint64_t, Fetched> inputs_;  ///< by chunk number, as below
  std::unordered_map<std::uint64_t, Stored> stores_;
  std::size_t fetching_ = 0;
  std::shared_ptr<std::size_t> results_ = std::make_shared<std::size_t>(0);
};

}  // namespace prime::lanes
