// Owns how frames are cut out of and put into a byte stream without blocking.
#include "runtime/lanes/stream.hpp"

#include <algorithm>
#include <poll.h>

#include "kernels/copy.hpp"
#include "messages/assert.hpp"

namespace prime::lanes {

/// Notes what to poll for. False when the channel moved bytes.
bool Stream::blocked_or_lost(net::Channel::State state, bool& ready, short& waits_for) {
  using State = net::Channel::State;
  const bool blocked = state == State::WantRead || state == State::WantWrite || state == State::Capped;
  if (blocked) ready = false;
  // What this direction has heard may have been meant for the other one, also when this one goes on.
  if (channel_->rung()) may_read_ = may_write_ = true;
  switch (state) {
    case State::Ok:
      ready = true;  // a channel may hold more than it was asked for, of which poll does not tell
      return false;
    case State::WantRead:
    case State::WantWrite: waits_for = state == State::WantRead ? POLLIN : POLLOUT; return true;
    case State::Capped:
      waits_for = 0;
      capped_until_ = channel_->capped_until();
      return true;
    case State::Closed: lose(Error{ErrorName::LaneBroken, "the peer closed it"}); return true;
    case State::Failed: lose(Error{ErrorName::LaneBroken, "the connection failed"}); return true;
  }
  return true;
}

/// Whether the header is complete; otherwise the channel is blocked or lost.
bool Stream::fill_header() {
  const std::span<std::byte> all{header_bytes_};
  while (header_read_ < all.size()) {
    const auto io = channel_->read(all.subspan(header_read_));
    if (blocked_or_lost(io.state, may_read_, read_waits_for_)) return false;
    header_read_ += io.bytes;
    come_ += io.bytes;
  }
  return true;
}

/// Whether the payload is complete. What comes with its last bytes is the beginning of the next header: one call less for each frame.
bool Stream::fill_payload() {
  const std::span<std::byte> all = reception_.into;
  while (payload_read_ < all.size()) {
    const auto rest = all.subspan(payload_read_);
    const auto io = channel_->scatter(rest, header_bytes_);
    if (blocked_or_lost(io.state, may_read_, read_waits_for_)) return false;
    payload_read_ += std::min(io.bytes, rest.size());
    come_ += io.bytes;
    if (io.bytes > rest.size()) header_read_ = io.bytes - rest.size();
  }
  return true;
}

/// Whether the payload has come as a whole, where it lies.
bool Stream::lend_payload() {
  auto lent = channel_->lend(header_.payload_bytes);
  if (blocked_or_lost(lent.state, may_read_, read_waits_for_)) return false;
  lent_ = lent.bytes;
  come_ += header_.payload_bytes;
  reception_.into = {lent.bytes.get(), header_.payload_bytes};
  reception_.buffer = std::move(lent.bytes);
  return true;
}

/// Whether the payload is there, which lies where the other end says.
bool Stream::find_payload() {
  const auto place = std::as_writable_bytes(std::span{&place_read_, 1});
  while (payload_read_ < place.size()) {
    const auto io = channel_->read(place.subspan(payload_read_));
    if (blocked_or_lost(io.state, may_read_, read_waits_for_)) return false;
    payload_read_ += io.bytes;
  }
  come_ += header_.payload_bytes;
  const auto there = channel_->shared(place_read_, header_.payload_bytes);
  reception_.gone = there.gone;
  if (there.gone) return true;
  if (!there.bytes) {
    lose(Error{ErrorName::ProtocolViolation, "a payload in memory that is not shared"});
    return false;
  }
  if (reception_.lent) {
    reception_.buffer = std::const_pointer_cast<std::byte[]>(there.bytes);  // what is lent is only read
    reception_.into = {reception_.buffer.get(), header_.payload_bytes};
  } else {
    kernels::copy({there.bytes.get(), header_.payload_bytes}, reception_.into.data());
  }
  return true;
}

Stream::ReadStep Stream::read(std::span<std::byte> bin) {
  const auto stopped = [&] { return error_ ? ReadStep::Lost : ReadStep::Blocked; };
  if (reading_ == Reading::Header) {
    if (!fill_header()) return stopped();
    auto decoded = decode(header_bytes_);
    if (!decoded) {
      lose(std::move(decoded).error());
      return ReadStep::Lost;
    }
    header_ = *decoded;
    header_read_ = 0;
    reading_ = Reading::Decision;
  }
  if (reading_ == Reading::Decision) return ReadStep::Header;
  if (reading_ == Reading::Payload) {
    const bool complete = header_.elsewhere ? find_payload() : reception_.lent ? lend_payload() : fill_payload();
    if (!complete) return stopped();
  }
  while (reading_ == Reading::Discard && payload_read_ < body_bytes(header_)) {
    const auto io = channel_->read(bin.first(std::min(bin.size(), body_bytes(header_) - payload_read_)));
    if (blocked_or_lost(io.state, may_read_, read_waits_for_)) return stopped();
    payload_read_ += io.bytes;
    come_ += io.bytes;
  }
  const auto step = reading_ == Reading::Payload ? ReadStep::Payload : ReadStep::Dropped;
  reading_ = Reading::Header;
  return step;
}

void Stream::receive(Reception reception) {
  PRIME_ASSERT(reading_ == Reading::Decision && (reception.lent || reception.into.size() == header_.payload_bytes),
               "a payload goes where it fits");
  reading_ = Reading::Payload;
  reception_ = std::move(reception);
  payload_read_ = 0;
  held = false;
}

void Stream::discard() {
  PRIME_ASSERT(reading_ == Reading::Decision, "only a frame that has begun is discarded");
  reading_ = Reading::Discard;
  payload_read_ = 0;
  held = false;
}

bool Stream::release_input(OperationId op) {
  if (reading_ != Reading::Payload || header_.op != op) return false;
  reading_ = Reading::Discard;
  reception_ = Reception{};
  return true;
}

void Stream::send(Frame frame, const std::shared_ptr<const net::SharedRegion>& region) {
  PRIME_ASSERT(!sending() && frame.payload.size() == frame.header.payload_bytes, "one frame is written at a time, and whole");
  if (const auto place = region ? channel_->share(region, frame.payload) : std::nullopt) {
    place_sent_ = *place;
    frame.header.elsewhere = true;
    frame.payload = std::as_bytes(std::span{&place_sent_, 1});
  }
  outgoing_header_ = encode(frame.header);
  outgoing_ = std::move(frame);
  written_ = 0;
}

Stream::WriteStep Stream::write() {
  const std::span<const std::byte> header{outgoing_header_};
  const auto payload = outgoing_->payload;
  while (written_ < header.size() + payload.size()) {
    const auto io = written_ < header.size() ? channel_->gather(header.subspan(written_), payload)
                                             : channel_->write(payload.subspan(written_ - header.size()));
    if (blocked_or_lost(io.state, may_write_, write_waits_for_)) return error_ ? WriteStep::Lost : WriteStep::Blocked;
    written_ += io.bytes;
    gone_ += io.bytes;
    written_in_all_ += static_cast<std::int64_t>(io.bytes);
  }
  outgoing_.reset();
  return WriteStep::Written;
}

bool Stream::take_confirmed() {
  const auto confirmed = written_in_all_ - static_cast<std::int64_t>(channel_->unconfirmed());
  return std::exchange(confirmed_, confirmed) < confirmed;
}

void Stream::release_output() {
  if (!sending() || outgoing_->buffer) return;
  private_copy_.assign(outgoing_->payload.begin(), outgoing_->payload.end());
  outgoing_->payload = private_copy_;
}

short Stream::poll_events() const {
  int events = 0;
  if (!held && !may_read_) events |= read_waits_for_;
  if (sending() && !may_write_) events |= write_waits_for_;
  return static_cast<short>(events);
}

void Stream::go_on_at(Instant now) {
  if (!capped_until_ || now < *capped_until_) return;
  capped_until_.reset();
  may_write_ = true;
}

void Stream::polled(short events) {
  constexpr int BROKEN = POLLERR | POLLHUP | POLLNVAL;
  if ((events & (read_waits_for_ | BROKEN)) != 0) may_read_ = true;
  if ((events & (write_waits_for_ | BROKEN)) != 0) may_write_ = true;
  // A held lane is not read, so that reading would not tell; and its frames are of no use once it cannot be answered.
  if (held && (events & BROKEN) != 0) lose(Error{ErrorName::LaneBroken, "the peer reset it"});
}

}  // namespace prime::lanes
