#include "runtime/net/address_race.hpp"

#include <algorithm>
#include <cerrno>
#include <future>
#include <poll.h>
#include <vector>

#include "runtime/net/congestion.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::net {
namespace {

/// Names that are being looked up are looked after so often: a future has no descriptor.
constexpr Duration LOOK_UP_BEAT = 10ms;

tl::unexpected<Error> no_way(const std::string& cause) { return fail(ErrorName::RunUnreachable, cause); }

/// One socket address of one of the addresses.
struct Attempt {
  std::size_t address;  ///< whose it is
  SocketPtr socket;
  bool connected = false;
  std::unique_ptr<Handshake> handshake;  ///< once it is its turn
  short waits_for = POLLOUT;             ///< 0: for its turn
};

struct Candidate {
  std::size_t address;
  SocketAddress where;
};

class Race {
 public:
  Race(const Addresses& addresses, const BeginHandshake& begin, Instant until, const StopSignal* stop)
      : addresses_(addresses.list), begin_(begin), until_(until), stop_(stop), causes_(addresses_.size()) {
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      auto numeric = resolve_number(addresses_[i]);
      if (numeric.empty()) names_.push_back({i, resolve_later(addresses_[i], AddressUse::Dial)});
      for (auto& where : numeric) candidates_.push_back({i, where});
    }
  }

  Result<RaceWinner> run() {
    for (;;) {
      if (stop_ != nullptr && stop_->stopped()) return fail(ErrorName::Interrupted, "who dials ends");
      hear_of_names();
      begin_what_is_due();
      let_next_prove_itself();
      if (won_) return std::move(*won_);
      if (running_.empty() && candidates_.empty() && names_.empty()) return fail(defeat());
      if (monotonic_now() >= until_) return fail(out_of_time());
      wait();
      advance();
    }
  }

 private:
  struct Name {
    std::size_t address;
    std::future<Result<std::vector<SocketAddress>>> found;
  };

  void hear_of_names() {
    for (auto at = names_.begin(); at != names_.end();) {
      if (at->found.wait_for(Duration{0}) != std::future_status::ready) {
        ++at;
        continue;
      }
      auto found = at->found.get();
      if (!found) note(at->address, found.error());
      else
        for (const auto& where : *found) candidates_.push_back({at->address, where});
      std::ranges::stable_sort(candidates_, {}, &Candidate::address);
      at = names_.erase(at);
    }
  }

  void begin_what_is_due() {
    while (!won_ && !candidates_.empty() && (running_.empty() || monotonic_now() >= next_at_)) {
      const auto next = candidates_.front();
      candidates_.erase(candidates_.begin());
      auto socket = begin_connect(next.where.get(), next.where.size);
      next_at_ = monotonic_now() + NEXT_ADDRESS_AFTER;
      if (!socket) {
        note(next.address, socket.error());
        continue;
      }
      running_.push_back({.address = next.address, .socket = *std::move(socket), .handshake = nullptr});
    }
  }

  void let_next_prove_itself() {
    if (won_) return;  // its socket is the winner's: not a word more goes there
    const bool shaking = std::ranges::any_of(running_, [](const Attempt& each) { return each.handshake != nullptr; });
    if (shaking && monotonic_now() < next_handshake_at_) return;
    const auto next = std::ranges::find_if(running_, [](const Attempt& each) { return each.connected && !each.handshake; });
    if (next == running_.end()) return;
    next->handshake = begin_(next->socket);
    next_handshake_at_ = monotonic_now() + NEXT_HANDSHAKE_AFTER;
    if (!next->handshake) return win(*next);
    if (!shake_hands(*next)) running_.erase(next);
  }

  void wait() {
    auto wake = until_;
    if (!candidates_.empty()) wake = std::min(wake, next_at_);
    if (std::ranges::any_of(running_, [](const Attempt& each) { return each.connected && !each.handshake; }))
      wake = std::min(wake, next_handshake_at_);
    if (!names_.empty()) wake = std::min(wake, monotonic_now() + LOOK_UP_BEAT);
    std::vector<pollfd> watched;
    watched.reserve(running_.size() + 1);
    for (const auto& each : running_) watched.push_back({each.waits_for == 0 ? -1 : each.socket->fd(), each.waits_for, 0});
    watched.push_back({stop_ != nullptr ? stop_->fd() : -1, POLLIN, 0});
    ::poll(watched.data(), watched.size(), poll_timeout_ms(wake));
    ready_.clear();
    for (std::size_t i = 0; i < running_.size(); ++i) ready_.push_back(watched[i].revents != 0);
  }

  void advance() {
    std::vector<Attempt> still;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      auto& attempt = running_[i];
      if (won_ || !ready_[i] || go_on(attempt)) still.push_back(std::move(attempt));
      else next_at_ = monotonic_now();  // it has failed: the next one need not wait
    }
    running_ = std::move(still);
  }

  /// False when it is out of the race.
  bool go_on(Attempt& attempt) {
    if (attempt.connected) return shake_hands(attempt);
    if (auto connected = end_connect(attempt.socket); !connected) return note(attempt.address, connected.error());
    attempt.connected = true;
    attempt.waits_for = 0;
    return true;
  }

  bool shake_hands(Attempt& attempt) {
    switch (attempt.handshake->advance()) {
      case Handshake::Step::Done: win(attempt); return true;
      case Handshake::Step::Failed: return note(attempt.address, attempt.handshake->error());
      case Handshake::Step::WantRead: attempt.waits_for = POLLIN; return true;
      case Handshake::Step::WantWrite: attempt.waits_for = POLLOUT; return true;
    }
    return true;
  }

  void win(Attempt& attempt) { won_.emplace(RaceWinner{attempt.socket, std::move(attempt.handshake), addresses_[attempt.address]}); }

  /// What somebody answered says more than that nobody did.
  bool note(std::size_t address, const Error& cause) {
    auto& known = causes_[address];
    if (!known || known->name == ErrorName::RunUnreachable) known = cause;
    return false;
  }

  Error out_of_time() {
    for (const auto& each : names_) note(each.address, Error{ErrorName::RunUnreachable, "the name was not resolved in time"});
    for (const auto& each : running_)
      note(each.address, Error{ErrorName::RunUnreachable, each.connected ? "connected, but no answer in time" : "no answer in time"});
    for (const auto& each : candidates_) note(each.address, Error{ErrorName::RunUnreachable, "not tried: the time was up"});
    return defeat();
  }

  [[nodiscard]] Error defeat() const {
    if (addresses_.empty()) return Error{ErrorName::RunUnreachable, "it has told no address"};
    Error error{ErrorName::RunUnreachable, ""};
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      const auto& cause = *causes_[i];
      if (error.name == ErrorName::RunUnreachable) error.name = cause.name;
      error.detail += (i > 0 ? "; " : "") + format_endpoint(addresses_[i]) + ": " + cause.detail;
    }
    return error;
  }

  const std::vector<Endpoint>& addresses_;
  const BeginHandshake& begin_;
  Instant until_;
  const StopSignal* stop_;
  std::vector<std::optional<Error>> causes_;  ///< by address
  std::vector<Name> names_;
  std::vector<Candidate> candidates_;  ///< not begun yet, in the order of the addresses
  std::vector<Attempt> running_;
  std::vector<bool> ready_;  ///< of running_, after a wait
  Instant next_at_{};
  Instant next_handshake_at_{};
  std::optional<RaceWinner> won_;
};

}  // namespace

Addresses AddressMemory::order(Addresses addresses) const {
  const std::lock_guard lock(mutex_);
  std::ranges::stable_partition(addresses.list, [&](const Endpoint& each) { return won_.contains(format_endpoint(each)); });
  return addresses;
}

void AddressMemory::note(const Addresses& addresses, const Endpoint& won) {
  const std::lock_guard lock(mutex_);
  if (won_.size() >= REMEMBERED_MAX) won_.clear();
  for (const auto& each : addresses.list) won_.erase(format_endpoint(each));
  won_.insert(format_endpoint(won));
}

Result<SocketPtr> begin_connect(const sockaddr* address, socklen_t size) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return no_way(error_text(errno));
  auto socket = std::make_shared<Socket>(fd);
  begin_unpaced(fd);
  if (::connect(fd, address, size) != 0 && errno != EINPROGRESS) return no_way(error_text(errno));
  return socket;
}

Result<void> end_connect(const SocketPtr& socket) {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  ::getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error_number, &size);
  if (error_number != 0) return no_way(error_text(error_number));
  set_connection_options(socket->fd());
  end_unpaced_if_far(socket->fd());
  return {};
}

Result<RaceWinner> race(const Addresses& addresses, const BeginHandshake& begin, Instant until, const StopSignal* stop) {
  return Race{addresses, begin, until, stop}.run();
}

}  // namespace prime::net
