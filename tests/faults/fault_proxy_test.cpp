// Owns the tests of the proxy with real sockets on loopback. Its clock is the test's, so nothing depends on how fast this machine is.
#include "tests/faults/fault_proxy.hpp"

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <sys/socket.h>
#include <thread>

namespace prime::faults {
namespace {

/// A guard against hangs; nothing is expected to take that long.
constexpr Duration PATIENCE = 60s;
constexpr std::size_t UP = 0;
constexpr std::size_t DOWN = 1;

std::vector<std::byte> pattern(std::size_t count, std::size_t seed = 1) {
  std::vector<std::byte> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<std::byte>(((i + seed) * 31 + i / 251) & 0xff);
  return all;
}

enum class Seen { Nothing, Bytes, Closed, Reset };

/// One end of a connection; never blocks.
class End {
 public:
  explicit End(int fd) : socket_(std::make_unique<net::Socket>(fd)) { BOOST_TEST_REQUIRE(fd >= 0); }
  static End dial(const Endpoint& to) {
    auto address = net::resolve(to, net::AddressUse::Dial, monotonic_now() + PATIENCE)->front();
    const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    BOOST_TEST_REQUIRE(::connect(fd, address.get(), address.size) == 0);
    return End(fd);
  }

  /// How many of the bytes the kernel took.
  std::size_t send(std::span<const std::byte> bytes) {
    const ssize_t count = ::send(socket_->fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  /// Reads what is there into `got`.
  Seen look() {
    std::array<std::byte, 65536> bytes;
    const ssize_t count = ::recv(socket_->fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0) return Seen::Closed;
    if (count < 0) return errno == EAGAIN ? Seen::Nothing : Seen::Reset;
    got.insert(got.end(), bytes.begin(), bytes.begin() + count);
    return Seen::Bytes;
  }
  /// Reads until something else than bytes comes.
  Seen look_behind_bytes() {
    Seen seen = look();
    while (seen == Seen::Bytes) seen = look();
    return seen;
  }
  void end_sending() { ::shutdown(socket_->fd(), SHUT_WR); }
  void close() { socket_.reset(); }
  void reset() {
    const linger abrupt{1, 0};
    ::setsockopt(socket_->fd(), SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt);
    socket_.reset();
  }

  std::vector<std::byte> got;

 private:
  std::unique_ptr<net::Socket> socket_;
};

/// A target, and a proxy before it whose time stands still until the test moves it.
struct Stand {
  explicit Stand(Shape up = {}, Shape down = {}) : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto address = net::resolve({"127.0.0.1", 0}, net::AddressUse::Listen, monotonic_now() + PATIENCE)->front();
    BOOST_TEST_REQUIRE(::bind(listener.fd(), address.get(), address.size) == 0);
    BOOST_TEST_REQUIRE(::listen(listener.fd(), 16) == 0);
    ::getsockname(listener.fd(), address.get(), &address.size);
    FaultProxyOptions options{.listen = {"127.0.0.1", 0}, .target = {"127.0.0.1", address.port()}, .up = up, .down = down};
    options.now = [this] { return now; };
    options.report = [this](const std::string& what) { reports.push_back(what); };
    auto opened = FaultProxy::open(std::move(options));
    BOOST_TEST_REQUIRE(opened.has_value());
    proxy = std::move(*opened);
  }

  template <class Condition>
  void until(Condition done) {
    const Instant limit = monotonic_now() + PATIENCE;
    while (!done()) {
      BOOST_TEST_REQUIRE((monotonic_now() < limit), "what the test waits for did not happen");
      proxy->step(5ms);
    }
  }
  End accepted() {
    int fd = -1;
    until([&] {
      pollfd wanted{listener.fd(), POLLIN, 0};
      return ::poll(&wanted, 1, 0) == 1 && (fd = ::accept(listener.fd(), nullptr, nullptr)) >= 0;
    });
    return End(fd);
  }
  void send_all(End& end, std::span<const std::byte> bytes) {
    std::size_t sent = 0;
    until([&] { return (sent += end.send(bytes.subspan(sent))) == bytes.size(); });
  }
  void until_taken(std::size_t direction, std::uint64_t bytes) {
    until([&] { return proxy->counts().taken[direction] == bytes; });
  }
  void until_got(End& end, std::span<const std::byte> expected) {
    until([&] {
      end.look();
      return end.got.size() >= expected.size();
    });
    BOOST_TEST(std::ranges::equal(end.got, expected));
    end.got.clear();
  }
  void until_seen(End& end, Seen what) {
    until([&] { return end.look_behind_bytes() == what; });
  }
  [[nodiscard]] std::uint64_t forwarded(std::size_t direction) const { return proxy->counts().forwarded[direction]; }

  Instant now{Duration{1'000'000'000'000}};
  net::Socket listener;
  std::vector<std::string> reports;
  std::unique_ptr<FaultProxy> proxy;
};

/// A stand with one connection through the proxy.
struct Line : Stand {
  explicit Line(Shape up = {}, Shape down = {}) : Stand(up, down), client(End::dial(proxy->address())), server(accepted()) {}
  End client;
  End server;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(fault_proxy)

BOOST_AUTO_TEST_CASE(bytes_pass_unchanged_and_in_order_both_ways) {
  Line line({.buffer_bytes = 128 * KIB}, {.buffer_bytes = 64 * KIB});
  const auto up = pattern(3'000'017, 1);
  const auto down = pattern(1'000'003, 2);
  std::size_t sent_up = 0;
  std::size_t sent_down = 0;
  line.until([&] {
    sent_up += line.client.send(std::span(up).subspan(sent_up));
    sent_down += line.server.send(std::span(down).subspan(sent_down));
    line.client.look();
    line.server.look();
    return line.server.got.size() == up.size() && line.client.got.size() == down.size();
  });
  BOOST_TEST((line.server.got == up));
  BOOST_TEST((line.client.got == down));
  BOOST_TEST(line.forwarded(UP) == up.size());
  BOOST_TEST(line.forwarded(DOWN) == down.size());
}

BOOST_AUTO_TEST_CASE(no_more_than_the_rate_passes_and_no_less) {
  constexpr std::uint64_t RATE = 1'000'000;
  constexpr std::uint64_t BURST = RATE / 50;
  Line line({.rate_bytes_per_s = RATE, .buffer_bytes = 256 * KIB});
  const Instant start = line.now;
  const auto sent = pattern(150'000);
  line.send_all(line.client, sent);
  line.until_taken(UP, sent.size());
  while (line.server.got.size() < sent.size()) {
    const auto may = static_cast<std::uint64_t>((line.now - start).count()) * RATE / 1'000'000'000;
    line.until([&] {
      line.server.look();
      BOOST_TEST_REQUIRE(line.forwarded(UP) <= may + BURST);
      return line.server.got.size() >= std::min<std::uint64_t>(may, sent.size());
    });
    line.now += 10ms;
  }
  BOOST_TEST((line.server.got == sent));
}

BOOST_AUTO_TEST_CASE(each_connection_has_a_rate_of_its_own) {
  Line line({.rate_bytes_per_s = 1'000'000});
  End second = End::dial(line.proxy->address());
  End second_server = line.accepted();
  const auto sent = pattern(100'000);
  line.send_all(line.client, sent);
  line.send_all(second, sent);
  line.until_taken(UP, 200'000);
  line.until([&] { return line.forwarded(UP) == 40'000; });
}

BOOST_AUTO_TEST_CASE(bytes_come_late_by_the_delay_of_their_direction) {
  Line line({.delay = 50ms});
  const auto sent = pattern(10);
  line.client.send(sent);
  line.until_taken(UP, sent.size());
  line.now += 50ms - Duration{1};
  line.proxy->step(Duration::zero());
  BOOST_TEST(line.forwarded(UP) == 0U);
  line.server.send(sent);  // the other way there is no delay
  line.until_got(line.client, sent);
  BOOST_TEST(line.forwarded(UP) == 0U);
  line.now += Duration{1};
  line.until_got(line.server, sent);
}

BOOST_AUTO_TEST_CASE(a_held_direction_is_silent_and_the_other_one_is_not) {
  for (const auto direction : {Direction::Up, Direction::Down}) {
    Line line;
    End& silenced = direction == Direction::Up ? line.client : line.server;
    End& deaf = direction == Direction::Up ? line.server : line.client;
    const std::size_t held = direction == Direction::Up ? UP : DOWN;
    const auto sent = pattern(1000);
    line.proxy->hold(direction);
    silenced.send(sent);
    line.until_taken(held, sent.size());
    deaf.send(sent);
    line.until_got(silenced, sent);
    BOOST_TEST(line.forwarded(held) == 0U);
    BOOST_TEST((deaf.look() == Seen::Nothing));
    line.proxy->release();
    line.until_got(deaf, sent);
  }
}

BOOST_AUTO_TEST_CASE(new_connections_are_held_too) {
  Stand stand;
  stand.proxy->hold(Direction::Up);
  End client = End::dial(stand.proxy->address());
  End server = stand.accepted();
  client.send(pattern(5));
  stand.until_taken(UP, 5);
  BOOST_TEST(stand.forwarded(UP) == 0U);
}

BOOST_AUTO_TEST_CASE(what_is_held_is_bounded_and_the_sender_is_held_back) {
  Line line({.buffer_bytes = 64 * KIB});
  line.proxy->hold(Direction::Up);
  const auto sent = pattern(1 * MIB);
  std::size_t given = line.client.send(sent);
  line.until([&] { return line.proxy->counts().taken[UP] + 1000 > 64 * KIB; });
  for (int i = 0; i < 10; ++i) line.proxy->step(Duration::zero());
  BOOST_TEST(line.proxy->counts().taken[UP] <= 64 * KIB);
  line.proxy->release();
  line.until([&] {
    given += line.client.send(std::span(sent).subspan(given));
    line.server.look();
    return line.server.got.size() == sent.size();
  });
  BOOST_TEST((line.server.got == sent));
}

BOOST_AUTO_TEST_CASE(a_cut_resets_both_ends_and_later_connections_live) {
  Line line;
  line.client.send(pattern(10));
  line.until_got(line.server, pattern(10));
  line.proxy->cut();
  line.until_seen(line.client, Seen::Reset);
  line.until_seen(line.server, Seen::Reset);
  BOOST_TEST(line.proxy->counts().open == 0U);
  End client = End::dial(line.proxy->address());
  End server = line.accepted();
  client.send(pattern(10));
  line.until_got(server, pattern(10));
  BOOST_TEST(line.proxy->counts().accepted == 2U);
}

BOOST_AUTO_TEST_CASE(a_forgotten_connection_is_silent_for_good_and_later_connections_live) {
  Line line;
  line.proxy->forget();
  line.client.send(pattern(10));
  line.until_taken(UP, 10);
  line.proxy->release();
  End client = End::dial(line.proxy->address());
  End server = line.accepted();
  client.send(pattern(10));
  line.until_got(server, pattern(10));
  BOOST_TEST((line.server.look() == Seen::Nothing));
  BOOST_TEST(line.forwarded(UP) == 10U);
}

BOOST_AUTO_TEST_CASE(while_it_refuses_new_connections_are_reset_and_old_ones_live) {
  Line line;
  line.proxy->refuse();
  End refused = End::dial(line.proxy->address());
  line.until_seen(refused, Seen::Reset);
  line.client.send(pattern(10));
  line.until_got(line.server, pattern(10));
  BOOST_TEST(line.proxy->counts().refused == 1U);
  line.proxy->accept();
  End client = End::dial(line.proxy->address());
  End server = line.accepted();
  client.send(pattern(10));
  line.until_got(server, pattern(10));
}

BOOST_AUTO_TEST_CASE(a_connection_is_reset_after_exactly_so_many_bytes) {
  Line line;
  const auto sent = pattern(10'000);
  line.client.send(sent);
  line.until_got(line.server, sent);
  line.proxy->drop_after(1500);  // counted from here, both ways together
  line.server.send(pattern(500));
  line.until_got(line.client, pattern(500));
  line.client.send(sent);
  line.until_seen(line.client, Seen::Reset);
  line.until_seen(line.server, Seen::Reset);
  BOOST_TEST(line.forwarded(UP) == 11'000U);
  BOOST_TEST(line.forwarded(DOWN) == 500U);
  BOOST_TEST(line.server.got.size() <= 1000U);
  BOOST_TEST(std::ranges::equal(line.server.got, std::span(sent).first(line.server.got.size())));

  End second = End::dial(line.proxy->address());  // the next one has a count of its own
  End second_server = line.accepted();
  second.send(pattern(1499));
  line.until_got(second_server, pattern(1499));
  second.send(sent);
  line.until_seen(second_server, Seen::Reset);
  BOOST_TEST(line.forwarded(UP) == 12'500U);

  line.proxy->drop_after(std::nullopt);
  End third = End::dial(line.proxy->address());
  End third_server = line.accepted();
  third.send(sent);
  line.until_got(third_server, sent);
}

BOOST_AUTO_TEST_CASE(an_end_of_sending_is_passed_on_behind_the_bytes_and_the_other_way_stays_open) {
  Line line({.delay = 20ms});
  line.client.send(pattern(100));
  line.client.end_sending();
  line.until_taken(UP, 100);
  BOOST_TEST((line.server.look() == Seen::Nothing));
  line.until([&] {
    line.now += 20ms;
    return line.server.look_behind_bytes() == Seen::Closed;
  });
  BOOST_TEST((line.server.got == pattern(100)));
  line.server.send(pattern(200));
  line.until_got(line.client, pattern(200));
  line.server.close();
  line.until_seen(line.client, Seen::Closed);
  line.until([&] { return line.proxy->counts().open == 0; });
}

BOOST_AUTO_TEST_CASE(a_reset_is_passed_on_to_either_end_and_only_to_that_connection) {
  Line line;
  End second = End::dial(line.proxy->address());
  End second_server = line.accepted();
  line.client.reset();
  line.until_seen(line.server, Seen::Reset);
  BOOST_TEST(line.proxy->counts().open == 1U);
  second_server.reset();
  line.until_seen(second, Seen::Reset);
}

BOOST_AUTO_TEST_CASE(a_silent_link_tells_nobody_of_a_reset_until_it_speaks_again) {
  Line line({.buffer_bytes = 64 * KIB});
  line.proxy->hold(Direction::Up);
  line.client.send(pattern(100));
  line.until_taken(UP, 100);
  line.client.reset();
  // Nothing is left to do, so a step waits for its whole limit: the proxy does not spin on the dead socket.
  const auto steps_wait = [&] {
    const Instant begin = monotonic_now();
    line.proxy->step(20ms);
    return monotonic_now() - begin >= 20ms;
  };
  line.until(steps_wait);
  BOOST_TEST((line.server.look() == Seen::Nothing));
  BOOST_TEST(line.proxy->counts().open == 1U);
  line.proxy->release();
  line.until_seen(line.server, Seen::Reset);
  BOOST_TEST(line.server.got.size() <= 100U);
}

BOOST_AUTO_TEST_CASE(a_target_that_nobody_listens_at_is_named) {
  Stand stand;
  ::shutdown(stand.listener.fd(), SHUT_RDWR);
  End client = End::dial(stand.proxy->address());
  stand.until_seen(client, Seen::Reset);
  BOOST_TEST_REQUIRE(stand.reports.size() == 1U);
  BOOST_TEST(stand.reports[0].find("cannot be reached: connection refused") != std::string::npos, stand.reports[0]);
}

BOOST_AUTO_TEST_CASE(an_address_that_is_taken_is_named) {
  Stand stand;
  const auto second = FaultProxy::open({.listen = stand.proxy->address(), .target = stand.proxy->address()});
  BOOST_TEST_REQUIRE(!second.has_value());
  BOOST_TEST(info(second.error().name).name == info(ErrorName::AddressTaken).name);
  BOOST_TEST(second.error().detail.find("127.0.0.1:") == 0U, second.error().detail);
}

BOOST_AUTO_TEST_CASE(shapes_that_make_no_sense_are_refused) {
  const Endpoint here{"127.0.0.1", 0};
  for (const Shape& wrong :
       {Shape{.rate_bytes_per_s = MAX_RATE_BYTES_PER_S + 1}, Shape{.delay = 61s}, Shape{.delay = -1ms}, Shape{.buffer_bytes = 1000}})
    BOOST_TEST(!FaultProxy::open({.listen = here, .target = here, .down = wrong}).has_value());
}

BOOST_AUTO_TEST_CASE(commands_from_another_thread_reach_a_running_proxy) {
  Stand stand;
  std::jthread thread([&](const std::stop_token& stop) { stand.proxy->run(stop); });
  End client = End::dial(stand.proxy->address());
  const auto wait_for = [](auto done) {
    const Instant limit = monotonic_now() + PATIENCE;
    while (!done()) {
      BOOST_TEST_REQUIRE((monotonic_now() < limit), "what the test waits for did not happen");
      std::this_thread::yield();
    }
  };
  stand.proxy->hold(Direction::Up);
  client.send(pattern(100));
  wait_for([&] { return stand.proxy->counts().taken[UP] == 100; });
  BOOST_TEST(stand.forwarded(UP) == 0U);
  stand.proxy->release();
  wait_for([&] { return stand.forwarded(UP) == 100; });
  stand.proxy->cut();
  wait_for([&] { return client.look() == Seen::Reset; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::faults
