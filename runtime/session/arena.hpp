// Owns the memory that a session gives (`Session::allocate`): one file in memory, which the agent maps as well, with one piece behind the
// other. Who binds them in their order has the model where the agent reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "messages/result.hpp"

namespace prime {

/// Of f32 values. Safe from any thread, since pieces are given back by whoever held them last. The memory stays as long as any piece.
class Arena {
 public:
  /// As large as this machine's memory; takes none of it before it is touched.
  static Result<Arena> create();
  /// Zeros, behind the piece before. MemoryUnavailable: there is no more room.
  Result<std::shared_ptr<float[]>> take(std::uint64_t values);

  struct Place {
    std::uint64_t first = 0;  ///< value of the file
    bool given_back = false;  ///< some of it belongs to nobody any more
  };
  /// Where it lies; empty when it is no memory of this.
  [[nodiscard]] std::optional<Place> find(std::span<const std::byte> memory) const;
  /// Whether any piece was.
  [[nodiscard]] bool has_given_back() const;
  [[nodiscard]] int descriptor() const;

 private:
  struct Impl;
  explicit Arena(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace prime
