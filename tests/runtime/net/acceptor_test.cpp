// Owns the tests of the acceptor under misuse: strangers, silence, floods, fences, ends.
#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <string>
#include <sys/resource.h>
#include <time.h>
#include <vector>

#include "runtime/net/congestion.hpp"
#include "tests/runtime/net/support.hpp"

BOOST_AUTO_TEST_SUITE(acceptor)

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

const RunKey KEY = RunKey::generate();
constexpr PeerId HOST_ID{1};

Credentials host_credentials() { return credentials(KEY, HOST_ID, Role::Coordinator); }

Result<ChannelPtr> call(Host& host, PeerId own) {
  return dial(host.address(), Protocol::Lane, credentials(KEY, own), Expectation::coordinator(), PATIENCE);
}

Duration processor_time_used() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

BOOST_AUTO_TEST_CASE(garbage_is_hung_up_on) {
  Host host(host_credentials());
  Host lenient(host_credentials(), {.allow_plain = true});
  for (Host* each : {&host, &lenient}) {
    for (const std::string& words : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16garbage that is no record", 26),
                                     std::string("\0\0\0\0", 4), std::string("prime-p1") + std::string(200, 'x')}) {
      Guest guest(each->address().port);
      guest.say(words);
      BOOST_TEST(guest.hung_up_on());
    }
    BOOST_TEST((*each)->counters().refused == 4U);
    BOOST_TEST(call(*each, PeerId{2}).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_near_connection_is_never_paced_whatever_the_system_chooses) {
  Host host(host_credentials());
  const auto dialed = call(host, PeerId{2});
  BOOST_REQUIRE(dialed.has_value());
  BOOST_TEST(!congestion_control((*dialed)->fd()).starts_with("bbr"));
  BOOST_TEST(!congestion_control(host.take().channel->fd()).starts_with("bbr"));
}

BOOST_AUTO_TEST_CASE(plain_connections_are_refused_until_they_are_allowed) {
  Host host(host_credentials());
  const auto own = credentials(KEY, PeerId{2});
  const auto dial_plainly = [&] {
    return dial(host.address(), Protocol::Lane, own, Expectation::coordinator(), PATIENCE, Transport::Plain).has_value();
  };
  BOOST_TEST(!dial_plainly());
  host->allow_plain();
  BOOST_TEST(dial_plainly());
}

BOOST_AUTO_TEST_CASE(the_silent_are_hung_up_on_at_the_deadline) {
  Host host(host_credentials(), {.handshake_deadline = 100ms});
  Guest mute(host.address().port);
  Guest stuck(host.address().port);
  stuck.say(half_a_client_hello());
  BOOST_TEST(mute.hung_up_on());
  BOOST_TEST(stuck.hung_up_on());
  BOOST_TEST(host->counters().timed_out == 2U);
}

BOOST_AUTO_TEST_CASE(silent_guests_cost_no_processor_time_and_nobody_waits_for_them) {
  Host host(host_credentials());
  std::vector<Guest> guests;
  for (int count = 0; count < 63; ++count) {
    guests.emplace_back(host.address().port);
    if (count % 2 == 0) guests.back().say(half_a_client_hello());
  }
  BOOST_TEST(call(host, PeerId{2}).has_value());
  const Duration before = processor_time_used();
  for (Guest& guest : guests) BOOST_TEST(guest.hung_up_on());
  // They hang for two seconds; a loop that spins would use all of them, or its share of them on a busy machine.
  BOOST_TEST_MESSAGE("63 silent guests cost " << format_duration(processor_time_used() - before));
  BOOST_TEST((processor_time_used() - before < 150ms));
  BOOST_TEST(host->counters().timed_out == 63U);
}

BOOST_AUTO_TEST_CASE(too_many_unfinished_ones_cost_the_oldest_its_place) {
  Host host(host_credentials(), {.handshake_deadline = PATIENCE * 10, .max_half_open = 4});
  std::vector<Guest> guests;
  for (int count = 0; count < 5; ++count) guests.emplace_back(host.address().port);
  BOOST_TEST(guests[0].hung_up_on());
  BOOST_TEST(host->counters().evicted == 1U);
  BOOST_TEST(call(host, PeerId{2}).has_value());
  BOOST_TEST(guests[1].hung_up_on());
}

BOOST_AUTO_TEST_CASE(unfinished_ones_never_take_more_than_a_quarter_of_the_open_files) {
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{16, before.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  Host host(host_credentials(), {.handshake_deadline = PATIENCE * 10});
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<Guest> guests;
  for (int count = 0; count < 5; ++count) guests.emplace_back(host.address().port);
  BOOST_TEST(guests[0].hung_up_on());
  BOOST_TEST(host->counters().evicted == 1U);
}

BOOST_AUTO_TEST_CASE(a_fenced_peer_and_the_host_see_it_at_once_and_others_do_not) {
  Host host(host_credentials());
  auto first = call(host, PeerId{2});
  auto first_accepted = host.take().channel;
  auto again = call(host, PeerId{2});
  auto again_accepted = host.take().channel;
  auto other = call(host, PeerId{3});
  auto other_accepted = host.take().channel;
  BOOST_REQUIRE((first && again && other));

  BOOST_TEST(host->fence(PeerId{2}) == 2U);
  for (Channel* each : {first->get(), first_accepted.get(), again->get(), again_accepted.get()}) BOOST_TEST(ends(*each));
  BOOST_TEST(carries(**other, *other_accepted));
  BOOST_TEST(carries(*other_accepted, **other));

  first_accepted.reset();
  again_accepted.reset();
  BOOST_TEST(host->fence(PeerId{2}) == 0U);
}

BOOST_AUTO_TEST_CASE(either_end_may_end_a_channel_from_any_thread) {
  Host host(host_credentials());
  auto dialed = call(host, PeerId{2});
  auto accepted = host.take().channel;
  std::thread ender([&] { (*dialed)->shutdown(); });
  BOOST_TEST(ends(*accepted));
  BOOST_TEST(ends(**dialed));
  ender.join();
  (*dialed)->shutdown();
  const std::byte byte{1};
  BOOST_TEST(!write_all(**dialed, {&byte, 1}));
}

BOOST_AUTO_TEST_CASE(hundreds_of_connections_leave_no_descriptor_behind) {
  Host host(host_credentials(), {.allow_plain = true});
  const auto own = credentials(KEY, PeerId{2});
  const std::size_t before = open_descriptors();
  for (int count = 0; count < 300; ++count) {
    const auto transport = count % 2 == 0 ? Transport::Tls : Transport::Plain;
    auto dialed = dial(host.address(), Protocol::Lane, own, Expectation::coordinator(), PATIENCE, transport);
    BOOST_REQUIRE(dialed);
    auto accepted = host.take().channel;
    if (count % 3 == 0) host->fence(PeerId{2});
  }
  BOOST_TEST(open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(it_stops_while_handshakes_are_unfinished) {
  Host host(host_credentials(), {.handshake_deadline = PATIENCE * 10});
  std::vector<Guest> guests;
  for (int count = 0; count < 10; ++count) {
    guests.emplace_back(host.address().port);
    guests.back().say(half_a_client_hello());
  }
  auto kept = call(host, PeerId{2});
  auto accepted = host.take().channel;
  host->stop();
  host->stop();
  for (Guest& guest : guests) BOOST_TEST(guest.hung_up_on());
  BOOST_TEST(carries(**kept, *accepted));
}

BOOST_AUTO_TEST_CASE(a_taken_address_is_named) {
  Host host(host_credentials());
  const auto second = Acceptor::open({.listen = host.address()}, host_credentials(), [](Protocol, ChannelPtr, const std::string&) {});
  BOOST_REQUIRE(!second);
  BOOST_TEST((second.error().name == ErrorName::AddressTaken));
  BOOST_TEST(second.error().detail == format_endpoint(host.address()) + ": address already in use");
}

BOOST_AUTO_TEST_CASE(a_port_is_taken_back_at_once_after_a_restart) {
  Endpoint where{"127.0.0.1", 0};
  for (int life = 0; life < 20; ++life) {
    Host host(host_credentials(), {.listen = where});
    where = host.address();
    auto dialed = call(host, PeerId{2});
    auto accepted = host.take().channel;
    BOOST_TEST(carries(**dialed, *accepted));
    accepted.reset();  // The host hangs up first, so its side of the connection lingers on the port.
  }
}

BOOST_AUTO_TEST_CASE(without_descriptors_it_waits_quietly_and_goes_on_when_there_are_some) {
  Host host(host_credentials());
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const rlimit tight{256, old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<int> filler;
  for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) filler.push_back(fd);
  ::close(filler.back());
  filler.pop_back();

  Guest guest(host.address().port);  // takes the last descriptor; the acceptor has none for its end
  guest.say("nonsense");
  const Duration before = processor_time_used();
  const bool answered = wait_ready(guest.fd(), POLLIN, monotonic_now() + 1s);
  const Duration cost = processor_time_used() - before;
  // Checks come after this: sanitizers need descriptors themselves.
  for (const int fd : filler) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &old);
  BOOST_TEST(!answered);
  BOOST_TEST_MESSAGE("a second without descriptors cost " << format_duration(cost));
  BOOST_TEST((cost < 50ms));
  BOOST_TEST(guest.hung_up_on());
  BOOST_TEST(host->counters().refused == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
