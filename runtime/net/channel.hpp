// Owns Channel: a connected, authenticated, non-blocking byte stream to one peer. TLS 1.3 or plain TCP look alike here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "messages/ids.hpp"
#include "messages/units.hpp"

namespace prime::net {

class SharedRegion;

class Channel {
 public:
  enum class State { Ok, WantRead, WantWrite, Capped, Closed, Failed };
  struct Io {
    State state = State::Ok;
    std::size_t bytes = 0;  ///< moved; positive exactly when state is Ok
  };

  virtual ~Channel() = default;
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Moves what is possible without blocking. WantRead/WantWrite: poll `fd()` for that and call again with the same intent. Capped, of
  /// writing alone: the same from `capped_until` on, whatever poll says.
  virtual Io read(std::span<std::byte> into) = 0;
  virtual Io write(std::span<const std::byte> from) = 0;
  /// The same for two pieces in one call, where the channel can; `first` is filled, or emptied, before `second`.
  virtual Io scatter(std::span<std::byte> first, std::span<std::byte> second) { return read(first.empty() ? second : first); }
  virtual Io gather(std::span<const std::byte> first, std::span<const std::byte> second) { return write(first.empty() ? second : first); }
  /// When this process may send again (send_cap.hpp); only after Capped.
  [[nodiscard]] virtual Instant capped_until() const { return {}; }
  /// Whether `lend` would give the next `count` bytes, once they have come; where it would not, they are read.
  [[nodiscard]] virtual bool lends(std::size_t /*count*/) const { return false; }
  struct Lent {
    State state = State::Failed;
    std::shared_ptr<std::byte[]> bytes;  ///< there exactly when state is Ok
  };
  /// The next `count` bytes where they lie, when all of them have come; WantRead until then. They count as read, and lie there until the
  /// next `read` or `lend`; the memory stays for as long as somebody holds it. The other end may change them at any time.
  virtual Lent lend(std::size_t /*count*/) { return {}; }
  /// Where the other end finds some bytes, instead of getting them.
  struct RegionPlace {
    std::uint64_t region = 0;  ///< a number that both ends of the channel have for it
    std::uint64_t offset = 0;
    friend bool operator==(const RegionPlace&, const RegionPlace&) = default;
  };
  /// The place of `bytes`, which lie in `region`, once the other end has said that it can read there.
  virtual std::optional<RegionPlace> share(const std::shared_ptr<const SharedRegion>& /*region*/, std::span<const std::byte> /*bytes*/) {
    return std::nullopt;
  }
  struct Shared {
    std::shared_ptr<const std::byte[]> bytes;  ///< null when there is no such place
    bool gone = false;                         ///< there was one: the other end has given its region up since
  };
  /// What lies at a place that the other end has named: `count` bytes, aligned to eight. The other end may change them at any time.
  virtual Shared shared(const RegionPlace& /*place*/, std::size_t /*count*/) { return {}; }
  /// Bytes that have come and are not yet read; poll would not tell of them. They may be too few to read any.
  [[nodiscard]] virtual std::size_t buffered() const = 0;
  /// Of what was written, the bytes that the other end's machine has not confirmed: they lie in this one's kernel or are on their way.
  [[nodiscard]] virtual std::size_t unconfirmed() const { return 0; }
  [[nodiscard]] virtual int fd() const = 0;
  /// Whether, since it was asked last, news have come that may let the other direction go on, too, and that poll will not tell again.
  [[nodiscard]] virtual bool rung() { return false; }
  /// Whether several channels to this peer may be faster than one. Where not, both ends map the same memory: bytes come as they were
  /// written, or not at all.
  [[nodiscard]] virtual bool over_network() const { return true; }
  /// Whether nothing on the way can change what is sent, so that a checksum would prove nothing more: each record is authenticated, or both
  /// ends map the same memory. It says nothing of a writer that keeps writing to what it has lent.
  [[nodiscard]] virtual bool vouches() const { return false; }
  /// Whom the handshake proved at the other end.
  [[nodiscard]] virtual PeerId peer() const = 0;
  /// Ends both directions at once; callable from any thread, more than once. Both ends see Closed or Failed.
  virtual void shutdown() noexcept = 0;
};

using ChannelPtr = std::unique_ptr<Channel>;

}  // namespace prime::net
