// Owns the arithmetic of delay and rate, in whole nanoseconds: the same calls give the same bytes at the same instants.
#include "tests/faults/shaped_pipe.hpp"

#include <algorithm>

#include "messages/assert.hpp"

namespace prime::faults {
namespace {

constexpr std::uint64_t NANOSECONDS = 1'000'000'000;
/// A bucket holds the bytes of 20 ms: a process that wakes late by less than that loses nothing of its rate.
constexpr std::uint64_t BURSTS_PER_S = 50;
constexpr std::uint64_t MIN_BURST_BYTES = 1500;
/// Counted for each piece, or else many tiny ones would take far more memory than the bound says.
constexpr std::size_t PIECE_OVERHEAD_BYTES = 64;

std::size_t on_the_way(const Shape& shape) {
  const auto delay_ms = static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(shape.delay).count());
  return static_cast<std::size_t>(shape.rate_bytes_per_s * delay_ms / 1000);
}

}  // namespace

ShapedPipe::ShapedPipe(const Shape& shape, Instant now)
    : rate_(shape.rate_bytes_per_s),
      delay_(shape.delay),
      burst_(std::max(MIN_BURST_BYTES, rate_ / BURSTS_PER_S)),
      capacity_(on_the_way(shape) + shape.buffer_bytes),
      paid_until_(rate_ == 0 ? now : now - cost(burst_)) {
  PRIME_ASSERT(rate_ <= MAX_RATE_BYTES_PER_S, "costs fit in 64 bits");
}

std::size_t ShapedPipe::room() const { return held_ + PIECE_OVERHEAD_BYTES < capacity_ ? capacity_ - held_ - PIECE_OVERHEAD_BYTES : 0; }

void ShapedPipe::put(std::span<const std::byte> bytes, Instant now) {
  PRIME_ASSERT(!bytes.empty() && bytes.size() <= room(), "who puts asks for room first");
  held_ += bytes.size() + PIECE_OVERHEAD_BYTES;
  pieces_.push_back({now + delay_, {bytes.begin(), bytes.end()}});
}

void ShapedPipe::put_end(StreamEnd end, Instant now) { end_ = End{end, now + delay_}; }

std::span<const std::byte> ShapedPipe::ready(Instant now) const {
  if (pieces_.empty() || pieces_.front().due > now) return {};
  const Piece& piece = pieces_.front();
  const std::span<const std::byte> left = std::span(piece.bytes).subspan(piece.gone);
  if (rate_ == 0) return left;
  const std::uint64_t may = allowed(now);
  if (may < quantum(piece)) return {};
  return left.first(std::min<std::size_t>(left.size(), may));
}

void ShapedPipe::take(std::size_t count, Instant now) {
  Piece& piece = pieces_.front();
  PRIME_ASSERT(count <= piece.left(), "only what was ready is taken");
  piece.gone += count;
  if (rate_ != 0) paid_until_ = std::max(paid_until_, now - cost(burst_)) + cost(count);
  if (piece.left() != 0) return;
  held_ -= piece.bytes.size() + PIECE_OVERHEAD_BYTES;
  pieces_.pop_front();
}

std::optional<StreamEnd> ShapedPipe::end(Instant now) const {
  if (!end_ || !pieces_.empty() || end_->due > now) return std::nullopt;
  return end_->how;
}

std::optional<Instant> ShapedPipe::next() const {
  if (!pieces_.empty()) {
    const Piece& piece = pieces_.front();
    return rate_ == 0 ? piece.due : std::max(piece.due, paid_until_ + cost(quantum(piece)));
  }
  if (end_) return end_->due;
  return std::nullopt;
}

// Rounded up, so that rounding never makes a link faster than its rate.
Duration ShapedPipe::cost(std::uint64_t bytes) const {
  return Duration{static_cast<std::int64_t>((bytes * NANOSECONDS + rate_ - 1) / rate_)};
}

std::uint64_t ShapedPipe::allowed(Instant now) const {
  const auto credit = static_cast<std::uint64_t>((now - std::max(paid_until_, now - cost(burst_))).count());
  return std::min(burst_, credit * rate_ / NANOSECONDS);
}

std::uint64_t ShapedPipe::quantum(const Piece& piece) const {
  return std::min<std::uint64_t>(piece.left(), std::max<std::uint64_t>(1, burst_ / 4));
}

}  // namespace prime::faults
