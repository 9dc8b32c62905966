// Owns how frames are cut out of and put into a byte stream without blocking.
#include "runtime/lanes/lane.hpp"

#include <algorithm>
#include <poll.h>

#include "messages/assert.hpp"

namespace prime::lanes {

/// Notes what to poll for. False when the channel moved bytes.
bool Lane::blocked_or_lost(const net::Channel::Io& io, bool& ready, short& waits_for) {
  using State = net::Channel::State;
  switch (io.state) {
    case State::Ok: return false;
    case State::WantRead:
    case State::WantWrite:
      ready = false;
      waits_for = io.state == State::WantRead ? POLLIN : POLLOUT;
      return true;
    case State::Closed: lose(Error{ErrorName::LaneBroken, "the peer closed it"}); return true;
    case State::Failed: lose(Error{ErrorName::LaneBroken, "the connection failed"}); return true;
  }
  return true;
}

/// Whether `into` is full; otherwise the channel is blocked or lost.
bool Lane::fill(std::span<std::byte> into, std::size_t& done) {
  while (done < into.size()) {
    const auto io = channel_->read(into.subspan(done));
    if (blocked_or_lost(io, may_read_, read_waits_for_)) return false;
    done += io.bytes;
  }
  return true;
}

/// Whether all of `from` is written.
bool Lane::drain(std::span<const std::byte> from, std::size_t& done) {
  while (done < from.size()) {
    const auto io = channel_->write(from.subspan(done));
    if (blocked_or_lost(io, may_write_, write_waits_for_)) return false;
    done += io.bytes;
  }
  return true;
}

Lane::ReadStep Lane::read(std::span<std::byte> bin) {
  const auto stopped = [&] { return error_ ? ReadStep::Lost : ReadStep::Blocked; };
  if (reading_ == Reading::Header) {
    if (!fill(header_bytes_, header_read_)) return stopped();
    auto decoded = decode(header_bytes_);
    if (!decoded) {
      lose(std::move(decoded).error());
      return ReadStep::Lost;
    }
    header_ = *decoded;
    reading_ = Reading::Decision;
  }
  if (reading_ == Reading::Decision) return ReadStep::Header;
  if (reading_ == Reading::Payload) {
    if (!fill(into_, payload_read_)) return stopped();
  }
  while (reading_ == Reading::Discard && payload_read_ < header_.payload_bytes) {
    std::size_t done = 0;
    const bool full = fill(bin.first(std::min<std::size_t>(bin.size(), header_.payload_bytes - payload_read_)), done);
    payload_read_ += done;
    if (!full) return stopped();
  }
  const auto step = reading_ == Reading::Payload ? ReadStep::Payload : ReadStep::Dropped;
  reading_ = Reading::Header;
  header_read_ = 0;
  return step;
}

void Lane::receive(std::span<std::byte> into) {
  PRIME_ASSERT(reading_ == Reading::Decision && into.size() == header_.payload_bytes, "a payload goes where it fits");
  reading_ = Reading::Payload;
  into_ = into;
  payload_read_ = 0;
  held = false;
}

void Lane::discard() {
  PRIME_ASSERT(reading_ == Reading::Decision, "only a frame that has begun is discarded");
  reading_ = Reading::Discard;
  payload_read_ = 0;
  held = false;
}

void Lane::release_input(OperationId op) {
  if (reading_ == Reading::Payload && header_.op == op) reading_ = Reading::Discard;
}

void Lane::send(const FrameHeader& header, std::span<const std::byte> payload) {
  PRIME_ASSERT(!sending() && payload.size() == header.payload_bytes, "one frame is written at a time, and whole");
  outgoing_ = Outgoing{header.op, encode(header), payload};
}

Lane::WriteStep Lane::write() {
  const auto stopped = [&] { return error_ ? WriteStep::Lost : WriteStep::Blocked; };
  auto& [op, header, payload, written] = *outgoing_;
  if (written < HEADER_BYTES && !drain(header, written)) return stopped();
  std::size_t payload_written = written - HEADER_BYTES;
  const bool whole = drain(payload, payload_written);
  written = HEADER_BYTES + payload_written;
  if (!whole) return stopped();
  outgoing_.reset();
  return WriteStep::Written;
}

void Lane::release_output() {
  if (!sending()) return;
  private_copy_.assign(outgoing_->payload.begin(), outgoing_->payload.end());
  outgoing_->payload = private_copy_;
}

short Lane::poll_events() const {
  int events = 0;
  if (!held && !may_read_) events |= read_waits_for_;
  if (sending() && !may_write_) events |= write_waits_for_;
  return static_cast<short>(events);
}

void Lane::polled(short events) {
  constexpr int BROKEN = POLLERR | POLLHUP | POLLNVAL;
  if ((events & (read_waits_for_ | BROKEN)) != 0) may_read_ = true;
  if ((events & (write_waits_for_ | BROKEN)) != 0) may_write_ = true;
  // A held lane is not read, so that reading would not tell; and its frames are of no use once it cannot be answered.
  if (held && (events & BROKEN) != 0) lose(Error{ErrorName::LaneBroken, "the peer reset it"});
}

}  // namespace prime::lanes
