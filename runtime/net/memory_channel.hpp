// Owns MemoryChannel: a Channel between two processes of one machine, through memory that both map.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "messages/result.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/credentials.hpp"
#include "runtime/net/shared_region.hpp"

namespace prime::net {

/// Two rings, one for each direction, and a local socket on which both ends have proved the run key: it brings the memory, it is the
/// doorbell of who sleeps, and its end is the end of the channel, also when a process is killed. Over it, too, come the regions in which
/// one end lets the other one read: each as a descriptor with a byte that is no bell, but a number. Such a byte is answered by another one:
/// what could not be mapped, or was lost on its way since this process may open no more files, is moved as if it were not shared. Positions
/// and frames that the other end writes into the shared memory are believed no more than what it would send.
class MemoryChannel final : public Channel {
 public:
  static constexpr std::size_t RING_BYTES = std::size_t{1} << 20;
  /// So many regions of one end can be there at once; what lies in others is copied.
  static constexpr std::size_t MAX_REGIONS = 64;
  /// So much of the other end is mapped: address space, of which there is an end, too.
  static constexpr std::size_t MAX_MAPPED_BYTES = std::size_t{1} << 40;

  /// Makes the memory and sends it over `bell`.
  static Result<ChannelPtr> offer(ChannelPtr bell);
  /// The memory comes over `bell`; until then nothing moves.
  static ChannelPtr accept(ChannelPtr bell);
  ~MemoryChannel() override;

  Io read(std::span<std::byte> into) override;
  Io write(std::span<const std::byte> from) override;
  [[nodiscard]] bool lends(std::size_t count) const override;
  Lent lend(std::size_t count) override;
  std::optional<RegionPlace> share(const std::shared_ptr<const SharedRegion>& region, std::span<const std::byte> bytes) override;
  Shared shared(const RegionPlace& place, std::size_t count) override;
  [[nodiscard]] std::size_t buffered() const override { return 0; }
  [[nodiscard]] int fd() const override { return bell_->fd(); }
  [[nodiscard]] PeerId peer() const override { return bell_->peer(); }
  void shutdown() noexcept override { bell_->shutdown(); }
  [[nodiscard]] bool over_network() const override { return false; }
  [[nodiscard]] bool vouches() const override { return true; }
  [[nodiscard]] bool rung() override { return std::exchange(rung_, false); }

 private:
  struct Ring;
  enum class Bell { Silent, Rung, Closed };

  explicit MemoryChannel(ChannelPtr bell) : bell_(std::move(bell)) {}
  bool map(int descriptor, bool offered);
  /// False when what came is not memory as it must be.
  bool attach();
  Bell listen();
  void take_word(std::byte word, const SocketPtr& descriptor);
  void take_region(std::size_t number, const SocketPtr& descriptor);
  void answer();
  void hand_over(const std::shared_ptr<const SharedRegion>& region);
  void ring_if(std::atomic<std::uint32_t>& waits);
  /// How many bytes have come, if not fewer than `wanted`.
  Io come(std::size_t wanted);
  /// The other end may overwrite what comes next.
  void release(std::size_t count);

  ChannelPtr bell_;
  std::shared_ptr<void> memory_;  ///< what is lent owns it, too
  Ring* out_ = nullptr;
  Ring* in_ = nullptr;
  // Own positions are kept here: those in the memory are for the other end only.
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;
  std::size_t lent_ = 0;
  // By number, which the next one gets when a region is gone; both ends count how often.
  struct Ours {
    enum class Answer : std::uint8_t { None, Awaited, Mapped, Refused };
    std::weak_ptr<const SharedRegion> region;
    std::uint64_t times = 0;
    Answer answer = Answer::None;
  };
  struct Theirs {
    MappedRegion region;
    std::uint64_t times = 0;
    bool owes_answer = false;
  };
  std::array<Ours, MAX_REGIONS> ours_;
  std::array<Theirs, MAX_REGIONS> theirs_;
  std::size_t mapped_bytes_ = 0;
  bool rung_ = false;
  bool closed_ = false;
};

/// The name of the local socket of a process, in the abstract namespace of its network namespace; nobody guesses it without the key.
std::string local_name(const Credentials& credentials, PeerId owner);

}  // namespace prime::net
