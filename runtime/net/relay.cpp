// Owns the threads that pass bytes on.
#include "runtime/net/relay.hpp"

#include <algorithm>
#include <array>
#include <poll.h>
#include <span>
#include <utility>
#include <vector>

#include "runtime/clock.hpp"
#include "runtime/net/dial.hpp"
#include "runtime/net/plain_channel.hpp"

namespace prime::net {
namespace {

/// To one who waits for it and has been sent nothing else: a byte finds room. It goes past the cap: what others have booked may last longer
/// than who asks will wait.
void answer(const Channel& asker, RelayAnswer what) {
  const auto byte = static_cast<std::byte>(what);
  (void)send_some(asker.fd(), {&byte, 1});
}

/// What has come from one end and has yet to go to the other. It is filled when it is empty, and no sooner: a slow end slows the other
/// down.
class Way {
 public:
  Way(Channel& from, Channel& to) : from_(from), to_(to) {}

  /// Moves what can be moved; false when an end is gone.
  bool move() {
    if (begin_ == end_) {
      const auto io = from_.read(buffer_);
      if (io.state != Channel::State::Ok) return io.state == Channel::State::WantRead;
      begin_ = 0;
      end_ = io.bytes;
    }
    const auto io = to_.write(std::span{buffer_}.subspan(begin_, end_ - begin_));
    begin_ += io.bytes;
    is_capped_ = io.state == Channel::State::Capped;
    return is_capped_ || io.state == Channel::State::Ok || io.state == Channel::State::WantWrite;
  }
  [[nodiscard]] short waits_for(const Channel& end) const {
    if (&end == &from_) return begin_ == end_ ? POLLIN : 0;
    return begin_ == end_ || is_capped_ ? 0 : POLLOUT;
  }
  /// When it may go on, if only the cap keeps it.
  [[nodiscard]] Instant capped_until() const { return is_capped_ ? to_.capped_until() : Instant::max(); }

 private:
  Channel& from_;
  Channel& to_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(RELAY_BUFFER_BYTES);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool is_capped_ = false;
};

}  // namespace

void Relay::serve(ChannelPtr asker, PeerId target) {
  asker = capped(std::move(asker), cap_);
  if (!sessions_.serve(asker, [this, target](Channel& channel) { connect_and_pass_on(channel, target); }))
    answer(*asker, RelayAnswer::Busy);
}

void Relay::connect_and_pass_on(Channel& asker, PeerId target) const {
  const auto where = find_(target);
  if (!where || is_gone_(asker.peer())) return answer(asker, RelayAnswer::NoMember);
  auto socket = connect_to(*where, monotonic_now() + RELAY_CONNECT_LIMIT, &ends_);
  if (!socket) return answer(asker, RelayAnswer::Unreachable);
  prepare_(asker.fd());
  prepare_((*socket)->fd());
  answer(asker, RelayAnswer::Connected);
  const auto to = capped(std::make_unique<PlainChannel>(std::move(*socket), target), cap_);
  pass_on(asker, *to);
}

void Relay::pass_on(Channel& asker, Channel& target) const {
  Way there(asker, target);
  Way back(target, asker);
  Instant looked_up = monotonic_now();
  while (there.move() && back.move()) {
    std::array<pollfd, 2> ends{};
    for (std::size_t at = 0; at < ends.size(); ++at) {
      const Channel& end = at == 0 ? asker : target;
      ends[at] = {end.fd(), static_cast<short>(there.waits_for(end) | back.waits_for(end)), 0};
    }
    const auto until = std::min({monotonic_now() + RELAY_LOOKS_UP, there.capped_until(), back.capped_until()});
    ::poll(ends.data(), ends.size(), poll_timeout_ms(until));
    // Gone in both directions: what may still wait here has no way.
    if (((ends[0].revents | ends[1].revents) & (POLLERR | POLLHUP | POLLNVAL)) != 0) return;
    if (const auto now = monotonic_now(); now - looked_up >= RELAY_LOOKS_UP) {
      if (is_gone_(asker.peer()) || !find_(target.peer())) return;
      looked_up = now;
    }
  }
}

}  // namespace prime::net
