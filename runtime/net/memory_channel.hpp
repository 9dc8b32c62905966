// Owns MemoryChannel: a Channel between two processes of one machine, through memory that both map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "messages/result.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/credentials.hpp"

namespace prime::net {

/// Two rings, one for each direction, and a local socket on which both ends have proved the run key: it brings the memory, it is the
/// doorbell of who sleeps, and its end is the end of the channel, also when a process is killed.
/// What the other end writes into the shared memory is checked like what it would send.
class MemoryChannel final : public Channel {
 public:
  static constexpr std::size_t RING_BYTES = std::size_t{1} << 19;

  /// Makes the memory and sends it over `bell`.
  static Result<ChannelPtr> offer(ChannelPtr bell);
  /// The memory comes over `bell`; until then nothing moves.
  static ChannelPtr accept(ChannelPtr bell);
  ~MemoryChannel() override;

  Io read(std::span<std::byte> into) override;
  Io write(std::span<const std::byte> from) override { return gather(from, {}); }
  Io gather(std::span<const std::byte> first, std::span<const std::byte> second) override;
  /// Lends what leaves the other end room for the largest frame; a loan that is in its way later is moved out of it.
  Io lend(std::size_t count, LoanPtr& loan) override;
  [[nodiscard]] bool protects() const override { return true; }
  [[nodiscard]] std::size_t buffered() const override { return 0; }
  [[nodiscard]] int fd() const override { return bell_->fd(); }
  [[nodiscard]] PeerId peer() const override { return bell_->peer(); }
  void shutdown() noexcept override { bell_->shutdown(); }
  [[nodiscard]] bool over_network() const override { return false; }
  [[nodiscard]] bool rung() override { return std::exchange(rung_, false); }

 private:
  class Memory;
  class Inbox;
  class RingLoan;
  struct Ring;
  enum class Bell { Silent, Rung, Closed };

  explicit MemoryChannel(ChannelPtr bell) : bell_(std::move(bell)) {}
  void use(std::shared_ptr<Memory> memory, bool offered);
  /// False when what came is not memory as it must be.
  bool attach();
  Bell listen();
  /// How many bytes are there to be read; Ok when they are so many at least.
  Io await(std::size_t count);

  std::shared_ptr<Channel> bell_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Inbox> in_;  ///< with the loans of it
  Ring* out_ = nullptr;
  std::byte* out_bytes_ = nullptr;
  std::uint64_t written_ = 0;  ///< kept here: what stands in the memory is for the other end only
  bool rung_ = false;
  bool closed_ = false;
};

/// The name of the local socket of a process, in the abstract namespace of its network namespace; nobody guesses it without the key.
std::string local_name(const Credentials& credentials, PeerId owner);

}  // namespace prime::net
