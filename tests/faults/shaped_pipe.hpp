// Owns ShapedPipe: what a link does to the bytes of one direction. They leave in order, late, not too fast, and few are on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "messages/units.hpp"

namespace prime::faults {

struct Shape {
  std::uint64_t rate_bytes_per_s = 0;  ///< 0: no cap; at most MAX_RATE_BYTES_PER_S
  Duration delay{};
  /// What may wait here besides the bytes that rate and delay keep on the way. Without a rate this is all, and so a delayed direction
  /// moves at most `buffer_bytes` in each delay.
  std::size_t buffer_bytes = 1 * MIB;
};
inline constexpr std::uint64_t MAX_RATE_BYTES_PER_S = 10'000'000'000;

/// How the other end hears that nothing more comes.
enum class StreamEnd : std::uint8_t { Closed, Reset };

/// A delay line and behind it a token bucket, without a socket and without a clock of its own.
class ShapedPipe {
 public:
  ShapedPipe(const Shape& shape, Instant now);

  /// How many bytes may be put; 0 while it is full, which holds the sender back.
  [[nodiscard]] std::size_t room() const;
  void put(std::span<const std::byte> bytes, Instant now);
  /// The last word; a reset takes the place of a close.
  void put_end(StreamEnd end, Instant now);

  /// The bytes that may leave now: old enough, and paid for. There may be more behind them.
  [[nodiscard]] std::span<const std::byte> ready(Instant now) const;
  void take(std::size_t count, Instant now);
  /// The last word, once it is old enough and everything before it has left.
  [[nodiscard]] std::optional<StreamEnd> end(Instant now) const;
  /// When `ready` or `end` has something; empty while nothing is here.
  [[nodiscard]] std::optional<Instant> next() const;

  /// Between any two instants at most this and rate × time leave: what a sleeping process may catch up with.
  [[nodiscard]] std::uint64_t burst_bytes() const { return burst_; }

 private:
  struct Piece {
    Instant due;
    std::vector<std::byte> bytes;
    std::size_t gone = 0;
    [[nodiscard]] std::size_t left() const { return bytes.size() - gone; }
  };
  struct End {
    StreamEnd how;
    Instant due;
  };

  [[nodiscard]] Duration cost(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t allowed(Instant now) const;
  /// No piece smaller than this leaves while more is to come, so that a slow link does not become a stream of single bytes.
  [[nodiscard]] std::uint64_t quantum(const Piece& piece) const;

  std::uint64_t rate_;
  Duration delay_;
  std::uint64_t burst_;
  std::size_t capacity_;
  std::size_t held_ = 0;  ///< bytes here, and what keeping each piece costs
  Instant paid_until_;    ///< the bucket is full when this is cost(burst) ago, and empty when it is now
  std::deque<Piece> pieces_;
  std::optional<End> end_;
};

}  // namespace prime::faults
