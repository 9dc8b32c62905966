// Owns the proof that sessions are as many as may be, end with their channels, and are waited for.
#include "runtime/net/session_threads.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <latch>
#include <sys/socket.h>

#include "runtime/net/plain_channel.hpp"
#include "tests/runtime/net/support.hpp"

BOOST_AUTO_TEST_SUITE(session_threads)

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

struct Ends {
  Ends() {
    std::array<int, 2> fds{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    served = std::make_unique<PlainChannel>(std::make_shared<Socket>(fds[0]), PeerId{1});
    other = std::make_unique<PlainChannel>(std::make_shared<Socket>(fds[1]), PeerId{2});
  }
  ChannelPtr served, other;
};

/// Until its channel ends.
void stay(Channel& channel) { (void)end_of(channel); }

bool comes_true(const std::function<bool()>& condition) {
  for (const Instant until = monotonic_now() + PATIENCE; monotonic_now() < until; std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_has_its_channel_which_is_shut_down_after_it) {
  SessionThreads sessions{1};
  Ends ends_of_it;
  BOOST_REQUIRE(sessions.serve(ends_of_it.served, [](Channel& channel) {
    std::byte asked{};
    if (read_all(channel, {&asked, 1})) (void)write_all(channel, {&asked, 1});
  }));
  BOOST_TEST(!ends_of_it.served);
  BOOST_TEST(carries(*ends_of_it.other, *ends_of_it.other), "the session answers");
  BOOST_TEST(ends(*ends_of_it.other));
  BOOST_TEST(comes_true([&] { return sessions.running() == 0; }));
}

BOOST_AUTO_TEST_CASE(one_too_many_stays_with_the_caller_until_another_one_has_ended) {
  SessionThreads sessions{2};
  Ends first, second, third;
  BOOST_TEST(sessions.serve(first.served, stay));
  BOOST_TEST(sessions.serve(second.served, stay));
  BOOST_TEST(sessions.running() == 2U);
  BOOST_TEST(!sessions.serve(third.served, stay));
  BOOST_TEST(carries(*third.served, *third.other), "it may be told so");
  first.other.reset();
  BOOST_TEST(comes_true([&] { return sessions.serve(third.served, stay); }));
}

BOOST_AUTO_TEST_CASE(the_end_shuts_all_down_and_waits_for_their_threads) {
  std::atomic<int> ended = 0;
  Ends first, second;
  {
    SessionThreads sessions{2};
    std::latch begun{2};
    for (auto* each : {&first, &second})
      BOOST_REQUIRE(sessions.serve(each->served, [&](Channel& channel) {
        begun.count_down();
        stay(channel);
        ++ended;
      }));
    begun.wait();
  }
  BOOST_TEST(ended == 2);
  BOOST_TEST((ends(*first.other) && ends(*second.other)));
}

BOOST_AUTO_TEST_SUITE_END()
