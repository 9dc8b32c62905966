#include "runtime/net/send_cap.hpp"

#include <algorithm>
#include <utility>

namespace prime::net {
namespace {

constexpr Duration PORTION_TIME = 5ms;
constexpr std::size_t PORTION_MIN = 4 * KIB;
constexpr std::size_t PORTION_MAX = 256 * KIB;

class CappedChannel final : public Channel {
 public:
  CappedChannel(ChannelPtr channel, std::shared_ptr<SendCap> cap) : channel_(std::move(channel)), cap_(std::move(cap)) {}
  ~CappedChannel() override { cap_->give_back(booked_); }

  Io read(std::span<std::byte> into) override { return channel_->read(into); }
  Io scatter(std::span<std::byte> first, std::span<std::byte> second) override { return channel_->scatter(first, second); }
  Io write(std::span<const std::byte> from) override { return gather(from, {}); }
  Io gather(std::span<const std::byte> first, std::span<const std::byte> second) override {
    const auto wanted = std::min(first.size() + second.size(), cap_->portion());
    if (wanted == 0) return channel_->gather(first, second);
    if (booked_ == 0) from_ = cap_->book(booked_ = wanted);
    if (cap_->now() < from_) return {State::Capped, 0};
    // Until it has gone the channel below may hold it, encrypted: it is offered again as it was.
    const auto head = first.first(std::min(first.size(), booked_));
    const auto io = channel_->gather(head, second.first(std::min(second.size(), booked_ - head.size())));
    if (io.state == State::Ok) cap_->give_back(std::exchange(booked_, 0) - io.bytes);
    return io;
  }
  [[nodiscard]] Instant capped_until() const override { return from_; }
  [[nodiscard]] std::size_t buffered() const override { return channel_->buffered(); }
  [[nodiscard]] int fd() const override { return channel_->fd(); }
  [[nodiscard]] bool rung() override { return channel_->rung(); }
  [[nodiscard]] bool vouches() const override { return channel_->vouches(); }
  [[nodiscard]] PeerId peer() const override { return channel_->peer(); }
  void shutdown() noexcept override { channel_->shutdown(); }

 private:
  ChannelPtr channel_;
  std::shared_ptr<SendCap> cap_;
  std::size_t booked_ = 0;
  Instant from_{};  ///< when what is booked may go
};

}  // namespace

Duration TokenBucket::time_of(std::size_t bytes) const {
  constexpr std::uint64_t NS_PER_S = 1'000'000'000;
  return Duration{static_cast<std::int64_t>((bytes * NS_PER_S + bytes_per_s_ - 1) / bytes_per_s_)};
}

std::size_t TokenBucket::portion() const {
  const auto bytes = bytes_per_s_ * static_cast<std::uint64_t>(PORTION_TIME / 1ms) / 1000;
  return std::clamp<std::size_t>(bytes, PORTION_MIN, PORTION_MAX);
}

Instant TokenBucket::book(std::size_t bytes, Instant now) {
  const auto from = std::max(free_at_, now - CAP_BURST);
  free_at_ = from + time_of(bytes);
  return from;
}

Instant SendCap::book(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return bucket_.book(bytes, now_());
}

void SendCap::give_back(std::size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  bucket_.give_back(bytes);
}

ChannelPtr capped(ChannelPtr channel, const std::shared_ptr<SendCap>& cap) {
  if (!cap || !channel->over_network()) return channel;
  return std::make_unique<CappedChannel>(std::move(channel), cap);
}

}  // namespace prime::net
