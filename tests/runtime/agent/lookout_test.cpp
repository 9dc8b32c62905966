// Owns the tests of what proves that a process is gone, and what does not.
#include "runtime/agent/lookout.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/runtime/net/support.hpp"

namespace {

using namespace prime;
using net::test::credentials;
using net::test::Host;
using net::test::Mute;

const auto KEY = net::RunKey::generate();
constexpr PeerId FAR{7};

/// What the lookout says, in the order in which it says it.
struct Watch {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<PeerId, std::string>> gone;
  std::uint64_t others = 100;
  Lookout lookout{credentials(KEY, PeerId{99}), [this](PeerId peer, std::string reason) {
                    const std::lock_guard lock(mutex);
                    gone.emplace_back(peer, std::move(reason));
                    changed.notify_all();
                  }};

  std::pair<PeerId, std::string> hears() {
    std::unique_lock lock(mutex);
    BOOST_REQUIRE(changed.wait_for(lock, net::test::PATIENCE, [&] { return !gone.empty(); }));
    auto first = gone.front();
    gone.pop_front();
    return first;
  }
  /// It looks, finds that peer, and says nothing.
  void finds(PeerId peer, Host& host) {
    lookout.look_for(peer, host.address());
    host.take();
    settle();
  }
  /// Where that peer was found, before its process died.
  Endpoint finds_and_loses(PeerId peer) {
    Host host{credentials(KEY, peer)};
    finds(peer, host);
    return host.address();
  }
  /// The looks so far have ended.
  void settle() {
    const PeerId somebody{++others};
    Host other{credentials(KEY, somebody)};
    lookout.look_for(somebody, other.address());
    other.take();
  }
  /// As a coordinator does: a look may be under way still, of before.
  void looks_until_it_knows(PeerId peer, const Endpoint& at) {
    for (bool known = false; !known;) {
      lookout.look_for(peer, at);
      std::unique_lock lock(mutex);
      known = changed.wait_for(lock, 1s, [&] { return !gone.empty(); });
    }
  }
  void says_nothing() {
    const std::lock_guard lock(mutex);
    BOOST_TEST(gone.empty());
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(lookout)

BOOST_AUTO_TEST_CASE(a_machine_that_refuses_where_a_peer_was_proves_that_its_process_is_gone) {
  Watch watch;
  Host host{credentials(KEY, FAR)};
  const auto at = host.address();
  watch.finds(FAR, host);
  watch.says_nothing();
  host.close();
  watch.looks_until_it_knows(FAR, at);
  const auto heard = watch.hears();
  BOOST_TEST((heard.first == FAR));
  BOOST_TEST(heard.second == "its process is gone: " + net::format_endpoint(at) + " refuses connections");
}

BOOST_AUTO_TEST_CASE(where_a_peer_was_never_reached_a_refusal_proves_nothing) {
  Watch watch;
  Host host{credentials(KEY, FAR)};
  const auto at = host.address();
  host.close();
  for (int i = 0; i < 3; ++i) watch.lookout.look_for(FAR, at);
  watch.settle();
  watch.says_nothing();
}

BOOST_AUTO_TEST_CASE(another_process_that_answers_there_proves_it_too) {
  Watch watch;
  const auto at = watch.finds_and_loses(FAR);
  net::AcceptorOptions same_port;
  same_port.listen = at;
  Host other{credentials(KEY, PeerId{8}), same_port};
  watch.looks_until_it_knows(FAR, at);
  BOOST_TEST(watch.hears().second == "another process answers at " + net::format_endpoint(at) + " instead of it");
}

BOOST_AUTO_TEST_CASE(silence_proves_nothing_and_ends_in_time) {
  Watch watch;
  const auto at = watch.finds_and_loses(FAR);
  Mute mute{at.port};
  watch.lookout.look_for(FAR, at);
  watch.settle();
  watch.says_nothing();
}

BOOST_AUTO_TEST_SUITE_END()
