// Owns the tests of the probe: what it finds in both directions, what it believes of bytes from strangers, and that it always ends.
#include "runtime/net/probe.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <future>
#include <netinet/in.h>
#include <rapidcheck.h>

#include "runtime/net/plain_channel.hpp"
#include "tests/runtime/net/support.hpp"

BOOST_AUTO_TEST_SUITE(probing)

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

const RunKey KEY = RunKey::generate();
const std::string NONCE = "abcdefghijklmnop";

Credentials own() { return credentials(KEY, PeerId{2}); }

std::string text_bytes(const std::string& text) {
  return std::string{static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)} + text;
}
bool say(Channel& channel, const std::string& bytes) { return write_all(channel, std::as_bytes(std::span{bytes})); }
std::string hear(Channel& channel, std::size_t count) {
  std::string bytes(count, '\0');
  return read_all(channel, std::as_writable_bytes(std::span{bytes})) ? bytes : "";
}
std::string hear_text(Channel& channel) {
  const auto size = hear(channel, 2);
  return size.empty() ? "" : hear(channel, static_cast<unsigned char>(size[0]) + (static_cast<unsigned char>(size[1]) << 8));
}

/// Served over a pair of sockets: what the acceptor has proved before is none of its business.
struct Asker {
  explicit Asker(ProbeServer& server) {
    std::array<int, 2> fds{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    server.serve(std::make_unique<PlainChannel>(std::make_shared<Socket>(fds[0]), PeerId{2}), "203.0.113.7");
    socket = std::make_shared<Socket>(fds[1]);
    channel = std::make_unique<PlainChannel>(socket, PeerId{1});
  }
  /// Whether it is hung up on without a word.
  bool is_turned_away() {
    std::byte word{};
    for (;;) {
      const auto io = channel->read({&word, 1});
      if (io.state == Channel::State::Ok) return false;
      if (io.state == Channel::State::Closed || io.state == Channel::State::Failed) return true;
      if (!wait_as_asked(*channel, io.state)) return false;
    }
  }
  SocketPtr socket;
  ChannelPtr channel;
};

/// The asker is another thread: what is tested is tested by one.
std::future<ProbeReport> ask(const Endpoint& coordinator, const Addresses& told, const std::string& nonce) {
  return std::async(std::launch::async, [=, asker = own()] { return probe(coordinator, asker, told, nonce); });
}

/// A coordinator that proves itself and then plays the probe's part as it likes.
struct Coordinator {
  explicit Coordinator(std::function<void(Channel&)> part) : plays(std::move(part)) {}
  ProbeReport probed(const Addresses& told = {}) {
    auto report = ask(host.address(), told, NONCE);
    const auto arrival = host.take();
    plays(*arrival.channel);
    arrival.channel->shutdown();
    return report.get();
  }
  std::function<void(Channel&)> plays;
  Host host{credentials(KEY, PeerId{1}, Role::Coordinator)};
};

std::string now_text() {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

void check(const std::optional<Error>& error, ErrorName name, const std::string& cause) {
  BOOST_REQUIRE(error.has_value());
  BOOST_TEST(info(error->name).name == info(name).name);
  BOOST_TEST(error->detail.find(cause) != std::string::npos, error->detail);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_healthy_way_is_found_healthy_in_both_directions) {
  ProbeServer server;
  Host host(credentials(KEY, PeerId{1}, Role::Coordinator));
  const auto listener = ProbeListener::open({"127.0.0.1", 0});
  const auto other = ProbeListener::open({"127.0.0.1", 0});
  BOOST_REQUIRE((listener && other));
  Endpoint closed;
  {
    Host gone(credentials(KEY, PeerId{9}));
    closed = gone.address();
  }
  const Addresses told{std::vector<Endpoint>{{"127.0.0.1", (*listener)->port()}, {"127.0.0.1", (*other)->port()}, closed}};
  auto asked = ask(host.address(), told, (*listener)->nonce());
  auto arrival = host.take();
  BOOST_TEST((arrival.protocol == Protocol::Probe));
  server.serve(std::move(arrival.channel), arrival.host);
  const auto report = asked.get();
  BOOST_TEST((report.connected && !report.unreached && !report.upwards && !report.downwards && !report.stalled()));
  BOOST_TEST(report.seen_as == "127.0.0.1");
  BOOST_REQUIRE(report.clock_ahead.has_value());
  BOOST_TEST((std::chrono::abs(*report.clock_ahead) < PATIENCE), "it is the same clock");
  BOOST_REQUIRE(report.back.size() == 3U);
  BOOST_TEST(report.back[0].problem == "");
  BOOST_TEST(report.back[1].problem == "somebody else answers");
  BOOST_TEST(report.back[2].problem.find("connection refused") != std::string::npos, report.back[2].problem);
}

BOOST_AUTO_TEST_CASE(the_server_answers_step_by_step) {
  ProbeServer server;
  Asker asker{server};
  BOOST_REQUIRE(say(*asker.channel, text_bytes(NONCE + "\n127.0.0.1:1")));
  const auto said = hear_text(*asker.channel);
  BOOST_TEST(said.substr(said.find('\n')) == "\n203.0.113.7");
  BOOST_REQUIRE(say(*asker.channel, std::string(PROBE_BULK_BYTES, 'x')));
  BOOST_TEST(hear_text(*asker.channel) == "came");
  BOOST_TEST(hear_text(*asker.channel).find("connection refused") != std::string::npos);
  BOOST_TEST(hear(*asker.channel, PROBE_BULK_BYTES).size() == PROBE_BULK_BYTES);
}

BOOST_AUTO_TEST_CASE(what_is_no_request_is_hung_up_on_without_a_word) {
  ProbeServer server;
  const auto malformed = {text_bytes(""),
                          text_bytes(NONCE),
                          text_bytes("short\n127.0.0.1:1"),
                          text_bytes(NONCE + "x\n127.0.0.1:1"),
                          text_bytes(NONCE + "\n127.0.0.1:1\n127.0.0.1:2"),
                          text_bytes(NONCE + "\nno address"),
                          text_bytes(NONCE + "\n127.0.0.1:99999"),
                          text_bytes(NONCE + "\n" + std::string(4090, '1')),
                          std::string("\xff\xff", 2) + std::string(100, 'x')};
  for (const auto& bytes : malformed) {
    Asker asker{server};
    BOOST_REQUIRE(say(*asker.channel, bytes));
    BOOST_TEST(asker.is_turned_away(), bytes.substr(0, 40));
  }
}

BOOST_AUTO_TEST_CASE(whatever_bytes_come_it_ends_when_they_end) {
  rc::check([] {
    ProbeServer server;
    Asker asker{server};
    const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    const bool framed = *rc::gen::arbitrary<bool>();
    RC_ASSERT(say(*asker.channel, framed ? text_bytes(bytes.substr(0, 300)) : bytes));
    ::shutdown(asker.socket->fd(), SHUT_WR);
    RC_ASSERT(ends(*asker.channel));
  });
}

/// Four who say nothing keep four threads for as long as a step may last; nobody else gets one.
BOOST_AUTO_TEST_CASE(of_a_flood_of_probes_four_are_served_and_the_others_turned_away) {
  ProbeServer server;
  std::vector<std::unique_ptr<Asker>> mute;
  for (std::size_t i = 0; i < MAX_PROBES; ++i) {
    mute.push_back(std::make_unique<Asker>(server));
    BOOST_REQUIRE(say(*mute.back()->channel, text_bytes(NONCE + "\n127.0.0.1:1")));
    BOOST_REQUIRE(!hear_text(*mute.back()->channel).empty());
  }
  for (int i = 0; i < 100; ++i) {
    Asker asker{server};
    (void)say(*asker.channel, text_bytes(NONCE + "\n127.0.0.1:1"));
    BOOST_TEST(asker.is_turned_away());
  }
  mute.clear();
  const auto until = monotonic_now() + PATIENCE;
  for (bool served = false; !served;) {
    BOOST_REQUIRE((monotonic_now() < until));
    Asker asker{server};
    served = say(*asker.channel, text_bytes(NONCE + "\n127.0.0.1:1")) && !hear_text(*asker.channel).empty();
  }
}

BOOST_AUTO_TEST_CASE(who_says_nothing_is_hung_up_on) {
  ProbeServer server;
  Asker silent{server};
  Asker half{server};
  BOOST_REQUIRE(say(*half.channel, text_bytes(NONCE + "\n127.0.0.1:1").substr(0, 9)));
  Asker without_bulk{server};
  BOOST_REQUIRE(say(*without_bulk.channel, text_bytes(NONCE + "\n127.0.0.1:1")));
  BOOST_TEST(silent.is_turned_away());
  BOOST_TEST(half.is_turned_away());
  BOOST_TEST(ends(*without_bulk.channel));
}

/// It dials an address that takes the connection and says nothing: the end of the server is the end of that, too.
BOOST_AUTO_TEST_CASE(the_end_of_the_server_ends_what_it_looks_at) {
  const Mute mute;
  std::optional<Asker> asker;
  {
    ProbeServer server;
    asker.emplace(server);
    BOOST_REQUIRE(say(*asker->channel, text_bytes(NONCE + "\n" + format_endpoint(mute.address()))));
    BOOST_REQUIRE(!hear_text(*asker->channel).empty());
    BOOST_REQUIRE(say(*asker->channel, std::string(PROBE_BULK_BYTES, 'x')));
    BOOST_TEST(hear_text(*asker->channel) == "came");
  }
  BOOST_TEST(ends(*asker->channel));
}

BOOST_AUTO_TEST_CASE(an_asker_believes_no_nonsense) {
  const auto after_request = [](const std::string& bytes) {
    return [bytes](Channel& channel) {
      (void)hear_text(channel);
      (void)say(channel, bytes);
    };
  };
  {
    Coordinator hangs_up{[](Channel&) {}};
    check(hangs_up.probed().unreached, ErrorName::RunUnreachable, "the connection ended");
  }
  {
    Coordinator half{after_request(text_bytes(now_text()).substr(0, 5))};
    check(half.probed().unreached, ErrorName::RunUnreachable, "the connection ended");
  }
  {
    Coordinator endless{after_request(std::string("\xff\xff", 2) + std::string(70'000, 'x'))};
    check(endless.probed().unreached, ErrorName::ProtocolViolation, "a text of 65535 bytes");
  }
  for (const std::string clock : {"", "soon", "12x", "99999999999999999999", "-5"}) {
    Coordinator odd{after_request(text_bytes(clock + "\nhere"))};
    const auto report = odd.probed();
    check(report.unreached, ErrorName::ProtocolViolation, "no clock");
    BOOST_TEST(!report.clock_ahead.has_value(), "a clock that was not understood is not judged");
  }
}

BOOST_AUTO_TEST_CASE(more_findings_than_addresses_told_are_not_believed) {
  Coordinator chatty{[](Channel& channel) {
    (void)hear_text(channel);
    (void)say(channel, text_bytes(now_text() + "\nhere"));
    (void)hear(channel, PROBE_BULK_BYTES);
    (void)say(channel, text_bytes("came") + text_bytes("\nno\nno\nno") + std::string(PROBE_BULK_BYTES, 'x'));
  }};
  const auto report = chatty.probed(Addresses{Endpoint{"127.0.0.1", 1}});
  BOOST_REQUIRE(report.back.size() == 1U);
  BOOST_TEST(report.back[0].problem == "");
}

BOOST_AUTO_TEST_CASE(what_goes_up_or_down_and_does_not_arrive_is_told_apart) {
  Coordinator deaf{[](Channel& channel) {
    (void)hear_text(channel);
    (void)say(channel, text_bytes(now_text() + "\nhere"));
    (void)ends(channel);  // what comes is never said to have come
  }};
  const auto up = deaf.probed();
  check(up.upwards, ErrorName::RunUnreachable, "bytes passed in time");
  BOOST_TEST((!up.downwards && up.stalled() && up.clock_ahead));
  Coordinator dumb{[](Channel& channel) {
    (void)hear_text(channel);
    (void)say(channel, text_bytes(now_text() + "\nhere"));
    (void)hear(channel, PROBE_BULK_BYTES);
    (void)say(channel, text_bytes("came") + text_bytes("") + std::string(100, 'x'));
    (void)ends(channel);
  }};
  const auto down = dumb.probed();
  check(down.downwards, ErrorName::RunUnreachable, "100 of 65536 bytes passed in time");
  BOOST_TEST((!down.upwards && down.stalled()));
}

BOOST_AUTO_TEST_CASE(a_mute_address_is_told_apart_from_a_closed_one) {
  const Mute mute;
  const auto silent = probe(mute.address(), own(), {}, NONCE);
  check(silent.unreached, ErrorName::RunUnreachable, "connected, but no answer in time");
  BOOST_TEST((silent.connected && silent.stalled()));
  Endpoint closed;
  {
    Host gone(credentials(KEY, PeerId{9}));
    closed = gone.address();
  }
  const auto report = probe(closed, own(), {}, NONCE);
  check(report.unreached, ErrorName::RunUnreachable, "connection refused");
  BOOST_TEST(!report.connected);
}

BOOST_AUTO_TEST_CASE(without_the_key_nothing_is_asked) {
  Host host(credentials(RunKey::generate(), PeerId{1}, Role::Coordinator));
  const auto report = probe(host.address(), own(), {}, NONCE);
  BOOST_REQUIRE(report.unreached.has_value());
  BOOST_TEST(info(report.unreached->name).name == info(ErrorName::KeyRefused).name);
}

BOOST_AUTO_TEST_SUITE_END()
