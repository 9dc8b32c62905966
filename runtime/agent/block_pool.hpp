// Owns the memory file in which an agent keeps parameters and which its trainer maps for reading: equal blocks, each of one version of one
// fragment. Safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "messages/result.hpp"
#include "runtime/session/layout.hpp"

namespace prime {

/// One version of one fragment's parameters. Whoever holds it reads what was written there before it was shared.
struct Block {
  std::uint32_t number = 0;  ///< its place in the file
  std::span<float> values;
};
using BlockRef = std::shared_ptr<const Block>;

/// A block is free again when nobody holds it, and the first free one is taken, so that no more of the file is ever touched than was held
/// at once. The memory lives as long as the pool or any block.
class BlockPool {
 public:
  /// Fails with ProcessFailed.
  static Result<BlockPool> create(const Layout& layout);
  /// For `size` values, at most those of the largest fragment.
  [[nodiscard]] BlockRef take(std::uint64_t size);
  [[nodiscard]] int descriptor() const;

 private:
  struct Impl;
  explicit BlockPool(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace prime
