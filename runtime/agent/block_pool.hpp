// Owns a memory file of equal blocks, which an agent and its trainer map: of the parameters, where each block is one version of one
// fragment, and of the trainer's records. Safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "messages/result.hpp"
#include "runtime/session/shared_memory.hpp"

namespace prime {

/// One version of one fragment's parameters, or one record. Whoever holds it reads what was written there before it was shared.
struct Block {
  std::uint32_t number = 0;  ///< its place in the file
  std::span<float> values;
};
using BlockRef = std::shared_ptr<const Block>;

/// A block is free again when nobody holds it, and the first free one is taken, so that no more of the file is ever touched than was held
/// at once. The memory lives as long as the pool or any block.
class BlockPool {
 public:
  /// `count` blocks of `block_size` values each; `trainers`: what others may do there. Fails with ProcessFailed.
  static Result<BlockPool> create(const std::string& name, std::uint64_t block_size, std::uint32_t count, Access trainers);
  /// For `size` values, at most those of a block.
  [[nodiscard]] BlockRef take(std::uint64_t size);
  [[nodiscard]] int descriptor() const;

 private:
  struct Impl;
  explicit BlockPool(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace prime
