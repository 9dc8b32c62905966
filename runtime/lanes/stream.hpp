// Owns Stream: one channel with the frame that is being read from it and the frame that is being written to it.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/lanes/frame.hpp"
#include "runtime/lanes/operation.hpp"
#include "runtime/net/channel.hpp"

namespace prime::lanes {

/// Knows frames and their completeness, not operations. Used by the lane thread only.
class Stream {
 public:
  enum class ReadStep {
    Blocked,  ///< nothing more for now
    Header,   ///< `header()` is complete: say `receive` or `discard`, or call `read` later again to get the same answer
    Payload,  ///< the payload of what was given to `receive` is complete, see `received`; where nobody vouches for it, it may be damaged
    Dropped,  ///< the payload of a discarded frame is complete
    Lost      ///< `error()` says why
  };
  enum class WriteStep { Blocked, Written, Lost };

  explicit Stream(net::ChannelPtr channel) : channel_(std::move(channel)) {}
  ~Stream() { channel_->shutdown(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] PeerId peer() const { return channel_->peer(); }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  void lose(Error error) { error_ = std::move(error); }

  /// Reads until a step is complete. `bin` takes what is discarded.
  ReadStep read(std::span<std::byte> bin);
  [[nodiscard]] const FrameHeader& header() const { return header_; }
  /// Whether that payload may be used where it lies, once it has come.
  [[nodiscard]] bool can_lend() const { return header_.elsewhere || channel_->lends(header_.payload_bytes); }
  /// Whether what comes is what was sent, whatever its checksum says.
  [[nodiscard]] bool vouches() const { return channel_->vouches(); }
  void receive(Reception reception);
  [[nodiscard]] Reception received() { return std::move(reception_); }
  /// Whether somebody still uses what was lent last in a place that whatever is read next may overwrite.
  [[nodiscard]] bool lends() const { return !lent_.expired(); }
  void discard();
  /// Bytes that have come, or gone, since this was asked last: of part of a frame, too.
  [[nodiscard]] std::size_t take_come() { return std::exchange(come_, 0); }
  [[nodiscard]] std::size_t take_gone() { return std::exchange(gone_, 0); }
  /// Whether the other end's machine has confirmed bytes since this was asked last: over a slow link long after they were written.
  [[nodiscard]] bool take_confirmed();
  /// Discards the payload that is being received, if it is one of `op`: its memory is needed elsewhere. Whether there was one.
  bool release_input(OperationId op);

  /// Whether the frame of `header()` has yet to come whole.
  [[nodiscard]] bool receiving() const { return reading_ != Reading::Header; }
  [[nodiscard]] bool sending() const { return outgoing_.has_value(); }
  /// The frame being written; only while `sending`.
  [[nodiscard]] const FrameHeader& sending_header() const { return outgoing_->header; }
  /// `region`: in which the payload lies, if in any. Where the other end can read it there, it is not moved: it must stay as it is until
  /// the other end needs it no more.
  void send(Frame frame, const std::shared_ptr<const net::SharedRegion>& region = nullptr);
  WriteStep write();
  /// The operation of the frame being written ends: what is still to be written is copied unless the frame owns it.
  void release_output();

  // What poll shall wait for. A stream is tried when it may be ready, and polled once it is known not to be.
  [[nodiscard]] short poll_events() const;
  [[nodiscard]] int fd() const { return channel_->fd(); }
  void polled(short events);
  /// When it may write again, where nothing but this process's cap keeps it.
  [[nodiscard]] std::optional<Instant> capped_until() const { return sending() ? capped_until_ : std::nullopt; }
  void go_on_at(Instant now);
  [[nodiscard]] bool may_read() const { return may_read_ && !held && !lends(); }
  [[nodiscard]] bool may_write() const { return may_write_ && sending(); }

  std::uint32_t window = std::numeric_limits<std::uint32_t>::max();  ///< chunks of a segment that may be under way, as operations have it
  // Of a connection between addresses of one machine: as this end sees them; else 0.
  std::uint16_t own_port = 0;
  std::uint16_t other_port = 0;
  Instant lent_until{};  ///< what it lends stays so long, unless it is needed no more
  bool held = false;     ///< a frame has come too early; nothing more is read until it may be received

 private:
  enum class Reading { Header, Decision, Payload, Discard };
  bool fill_header();
  bool fill_payload();
  bool find_payload();
  bool lend_payload();
  [[nodiscard]] bool blocked_or_lost(net::Channel::State state, bool& ready, short& waits_for);

  net::ChannelPtr channel_;
  std::optional<Error> error_;

  Reading reading_ = Reading::Header;
  HeaderBytes header_bytes_{};
  std::size_t header_read_ = 0;
  FrameHeader header_;
  Reception reception_;
  std::size_t payload_read_ = 0;
  net::Channel::RegionPlace place_read_;
  std::weak_ptr<std::byte[]> lent_;

  std::optional<Frame> outgoing_;
  HeaderBytes outgoing_header_{};
  std::size_t written_ = 0;  ///< of header and payload
  std::size_t come_ = 0;
  std::size_t gone_ = 0;
  std::int64_t written_in_all_ = 0;
  std::int64_t confirmed_ = 0;  ///< of these; with TLS a little less than that, since records are longer than what they carry
  net::Channel::RegionPlace place_sent_;
  std::vector<std::byte> private_copy_;

  bool may_read_ = true;
  bool may_write_ = true;
  short read_waits_for_ = 0;
  short write_waits_for_ = 0;
  std::optional<Instant> capped_until_;
};

}  // namespace prime::lanes
