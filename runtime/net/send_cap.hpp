// Owns the cap of what a process sends: one token bucket, and the channel that asks it before it writes.
//
// Whoever wants to write books a portion behind all portions that were booked before, and writes it when its time has come. So channels of
// any thread take turns, a portion each, and none is starved by another one that writes more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "messages/units.hpp"
#include "runtime/clock.hpp"
#include "runtime/net/channel.hpp"

namespace prime::net {

/// What was not sent in the last moment may be made up for: timers of threads are this late, and seldom later.
inline constexpr Duration CAP_BURST = 20ms;

/// The arithmetic alone: pure, of one thread, on the caller's clock.
class TokenBucket {
 public:
  explicit TokenBucket(std::uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}
  /// From when on these bytes may go. They count as gone.
  Instant book(std::size_t bytes, Instant now);
  /// Of what was booked last or before, so many bytes will not go.
  void give_back(std::size_t bytes) { free_at_ -= time_of(bytes); }
  /// How many bytes are booked at once: a few ms of the rate, neither too few for a call nor so many that others wait for long.
  [[nodiscard]] std::size_t portion() const;

 private:
  [[nodiscard]] Duration time_of(std::size_t bytes) const;
  std::uint64_t bytes_per_s_;  ///< positive
  Instant free_at_{};          ///< when all that was booked has gone
};

/// The same for the threads of a process.
class SendCap {
 public:
  explicit SendCap(std::uint64_t bytes_per_s, std::function<Instant()> now = monotonic_now) : now_(std::move(now)), bucket_(bytes_per_s) {}
  [[nodiscard]] Instant now() const { return now_(); }
  [[nodiscard]] std::size_t portion() const { return bucket_.portion(); }
  Instant book(std::size_t bytes);
  void give_back(std::size_t bytes);

 private:
  std::function<Instant()> now_;
  std::mutex mutex_;  ///< guards bucket_
  TokenBucket bucket_;
};

/// Under `cap`, where there is one and the channel leaves this machine's memory.
ChannelPtr capped(ChannelPtr channel, const std::shared_ptr<SendCap>& cap);

}  // namespace prime::net
