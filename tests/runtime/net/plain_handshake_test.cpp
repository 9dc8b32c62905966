// Owns the tests of the plain transport's proof.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "runtime/net/handshake.hpp"
#include "tests/runtime/net/support.hpp"

BOOST_AUTO_TEST_SUITE(plain_handshake)

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

const RunKey KEY = RunKey::generate();
constexpr PeerId HOST_ID{1};
constexpr PeerId GUEST_ID{2};

Result<ChannelPtr> dial_plainly(const Endpoint& where, const Credentials& own, Protocol protocol = Protocol::Lane) {
  return dial(where, protocol, own, Expectation::peer(HOST_ID), PATIENCE, Transport::Plain);
}

struct Pair {
  SocketPtr left;
  SocketPtr right;
};

Pair make_pair() {
  int ends[2] = {-1, -1};
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  return {std::make_shared<Socket>(ends[0]), std::make_shared<Socket>(ends[1])};
}

/// Moves what waits at one socket to another, and remembers it.
void relay(const Socket& from, const Socket& to, std::string& recorded) {
  char buffer[512];
  for (ssize_t count = 0; (count = ::recv(from.fd(), buffer, sizeof buffer, 0)) > 0;) {
    recorded.append(buffer, static_cast<std::size_t>(count));
    BOOST_REQUIRE(::send(to.fd(), buffer, static_cast<std::size_t>(count), MSG_NOSIGNAL) == count);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(lanes_and_states_come_in_the_clear_where_that_is_allowed) {
  Host host(credentials(KEY, HOST_ID), {.allow_plain = true});
  for (const Protocol protocol : {Protocol::Lane, Protocol::State}) {
    auto dialed = dial_plainly(host.address(), credentials(KEY, GUEST_ID), protocol);
    BOOST_REQUIRE(dialed);
    auto arrival = host.take();
    BOOST_TEST((arrival.protocol == protocol));
    BOOST_TEST((arrival.channel->peer() == GUEST_ID));
    BOOST_TEST(((*dialed)->peer() == HOST_ID));
    BOOST_TEST(carries(**dialed, *arrival.channel));
    BOOST_TEST(carries(*arrival.channel, **dialed));
  }
}

BOOST_AUTO_TEST_CASE(control_never_comes_in_the_clear) {
  Host host(credentials(KEY, HOST_ID), {.allow_plain = true});
  check_error(dial_plainly(host.address(), credentials(KEY, GUEST_ID), Protocol::Control), ErrorName::VersionMismatch);
  BOOST_TEST(host->counters().accepted == 0U);
}

BOOST_AUTO_TEST_CASE(nothing_comes_in_the_clear_where_it_is_not_allowed) {
  Host host(credentials(KEY, HOST_ID));
  check_error(dial_plainly(host.address(), credentials(KEY, GUEST_ID)), ErrorName::RunUnreachable);
  BOOST_TEST(host->counters().accepted == 0U);
}

BOOST_AUTO_TEST_CASE(another_key_another_run_or_somebody_else_is_refused_by_name) {
  Host host(credentials(KEY, HOST_ID), {.allow_plain = true});
  check_error(dial_plainly(host.address(), credentials(RunKey::generate(), GUEST_ID)), ErrorName::KeyRefused);
  check_error(dial_plainly(host.address(), credentials(KEY, GUEST_ID, Role::Peer, "other-run")), ErrorName::WrongRun, "other-run");
  check_error(dial_plainly(host.address(), credentials(KEY, GUEST_ID, Role::Coordinator)), ErrorName::VersionMismatch);
  check_error(dial(host.address(), Protocol::Lane, credentials(KEY, GUEST_ID), Expectation::peer(PeerId{9}), PATIENCE, Transport::Plain),
              ErrorName::RunUnreachable, "instead of peer 0000000000000009");
  BOOST_TEST(host->counters().accepted == 0U);
}

BOOST_AUTO_TEST_CASE(an_acceptor_believes_no_dialer_without_the_key) {
  // The dialer here does not mind what it is answered: it proves what it can.
  const auto pair = make_pair();
  const auto stranger_pair = make_pair();
  const auto acceptor = accept_plain(pair.left, credentials(KEY, HOST_ID));
  const auto stranger =
      dial_plain(stranger_pair.left, credentials(RunKey::generate(), GUEST_ID), Protocol::Lane, Expectation::peer(HOST_ID));
  std::string hello;
  BOOST_TEST((stranger->advance() == Handshake::Step::WantRead));
  relay(*stranger_pair.right, *pair.right, hello);
  BOOST_TEST((acceptor->advance() == Handshake::Step::WantRead));
  const std::string guess(32, 'g');
  BOOST_REQUIRE(::send(pair.right->fd(), guess.data(), guess.size(), MSG_NOSIGNAL) == 32);
  BOOST_TEST((acceptor->advance() == Handshake::Step::Failed));
  BOOST_TEST((acceptor->error().name == ErrorName::KeyRefused));
}

BOOST_AUTO_TEST_CASE(a_recorded_handshake_opens_nothing_a_second_time) {
  const auto own = credentials(KEY, HOST_ID);
  const auto dialer_side = make_pair();
  const auto acceptor_side = make_pair();
  const auto dialer = dial_plain(dialer_side.left, credentials(KEY, GUEST_ID), Protocol::Lane, Expectation::peer(HOST_ID));
  const auto acceptor = accept_plain(acceptor_side.left, own);
  std::string said_by_dialer;
  std::string said_by_acceptor;
  auto dialer_step = dialer->advance();
  auto acceptor_step = Handshake::Step::WantRead;
  while (dialer_step != Handshake::Step::Done) {
    relay(*dialer_side.right, *acceptor_side.right, said_by_dialer);
    if (acceptor_step != Handshake::Step::Done) acceptor_step = acceptor->advance();
    BOOST_REQUIRE((acceptor_step != Handshake::Step::Failed));
    relay(*acceptor_side.right, *dialer_side.right, said_by_acceptor);
    dialer_step = dialer->advance();
    BOOST_REQUIRE((dialer_step != Handshake::Step::Failed));
  }
  BOOST_TEST((acceptor_step == Handshake::Step::Done));

  const auto replay = make_pair();
  const auto second = accept_plain(replay.left, own);
  BOOST_REQUIRE(::send(replay.right->fd(), said_by_dialer.data(), said_by_dialer.size(), MSG_NOSIGNAL) > 0);
  BOOST_TEST((second->advance() == Handshake::Step::Failed));
  BOOST_TEST((second->error().name == ErrorName::KeyRefused));
}

BOOST_AUTO_TEST_CASE(whom_a_dialer_wants_to_be_passed_on_to_cannot_be_changed_on_the_way) {
  constexpr std::size_t TARGET_AT = 8 + 1 + 1 + 8;  // behind the magic, the protocol, the role and the id
  for (const bool changed : {false, true}) {
    const auto dialer_side = make_pair();
    const auto acceptor_side = make_pair();
    const auto dialer = dial_plain(dialer_side.left, credentials(KEY, GUEST_ID), Protocol::Relay, Expectation::peer(HOST_ID), PeerId{3});
    const auto acceptor = accept_plain(acceptor_side.left, credentials(KEY, HOST_ID), {.data = false, .relays = true});
    BOOST_TEST((dialer->advance() == Handshake::Step::WantRead));
    char hello[512];
    const auto count = ::recv(dialer_side.right->fd(), hello, sizeof hello, 0);
    BOOST_REQUIRE(count > static_cast<ssize_t>(TARGET_AT));
    BOOST_TEST(hello[TARGET_AT] == 3);
    if (changed) hello[TARGET_AT] = 4;
    BOOST_REQUIRE(::send(acceptor_side.right->fd(), hello, static_cast<std::size_t>(count), MSG_NOSIGNAL) == count);
    BOOST_TEST((acceptor->advance() == Handshake::Step::WantRead));
    std::string said;
    relay(*acceptor_side.right, *dialer_side.right, said);
    BOOST_TEST((dialer->advance() == (changed ? Handshake::Step::Failed : Handshake::Step::WantRead)), "the answer proves what was heard");
    if (changed) continue;
    relay(*dialer_side.right, *acceptor_side.right, said);
    BOOST_TEST((acceptor->advance() == Handshake::Step::Done));
    BOOST_TEST((acceptor->target() == PeerId{3}));
  }
}

BOOST_AUTO_TEST_CASE(what_follows_the_handshake_is_left_to_the_channel) {
  const auto pair = make_pair();
  const auto dialer = dial_plain(pair.left, credentials(KEY, GUEST_ID), Protocol::Lane, Expectation::peer(HOST_ID));
  const auto acceptor = accept_plain(pair.right, credentials(KEY, HOST_ID));
  BOOST_TEST((dialer->advance() == Handshake::Step::WantRead));
  BOOST_TEST((acceptor->advance() == Handshake::Step::WantRead));
  BOOST_TEST((dialer->advance() == Handshake::Step::WantRead));
  BOOST_TEST((acceptor->advance() == Handshake::Step::Done));
  const auto accepted = acceptor->take_channel();
  const std::byte early{7};
  BOOST_TEST(write_all(*accepted, {&early, 1}));
  BOOST_TEST((dialer->advance() == Handshake::Step::Done));
  const auto dialed = dialer->take_channel();
  std::byte got{};
  BOOST_TEST(read_all(*dialed, {&got, 1}));
  BOOST_TEST((got == early));
}

BOOST_AUTO_TEST_SUITE_END()
