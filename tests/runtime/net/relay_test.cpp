// Owns the proof that a third peer passes a lane on, for members alone, within its limits, and that it can neither read nor forge it.
#include "runtime/net/relay.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "tests/runtime/net/support.hpp"

BOOST_AUTO_TEST_SUITE(relay)

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

const RunKey KEY = RunKey::generate();
constexpr PeerId ASKER{1};
constexpr PeerId MIDDLE{2};
constexpr PeerId TARGET{3};
constexpr PeerId OTHER{4};

/// A peer in the middle that knows who is a member, and one to be reached.
struct Three {
  explicit Three(bool plain = false, std::shared_ptr<SendCap> cap_of_relay = nullptr)
      : target(credentials(KEY, TARGET), {.allow_plain = plain}), cap(std::move(cap_of_relay)) {
    members = {{ASKER, Endpoint{}}, {TARGET, target.address()}};
    AcceptorOptions options;
    options.relay = [this](ChannelPtr asker, PeerId whom) { relay.serve(std::move(asker), whom); };
    middle.emplace(credentials(KEY, MIDDLE), options);
  }
  Result<ChannelPtr> dial(Transport transport = Transport::Tls, const Credentials& own = credentials(KEY, ASKER), PeerId whom = TARGET,
                          Protocol protocol = Protocol::Lane) {
    return dial_through(middle->address(), MIDDLE, protocol, own, whom, PATIENCE, transport);
  }
  void know(PeerId peer, const Endpoint& where) {
    const std::lock_guard lock(mutex);
    members.emplace(peer, where);
  }
  void forget(PeerId peer) {
    const std::lock_guard lock(mutex);
    members.erase(peer);
    gone.insert(peer);
  }

  Host target;
  std::shared_ptr<SendCap> cap;
  std::mutex mutex;
  std::map<PeerId, Endpoint> members;
  std::set<PeerId> gone;
  Relay relay{[this](PeerId peer) -> std::optional<Addresses> {
                const std::lock_guard lock(mutex);
                const auto found = members.find(peer);
                return found == members.end() ? std::nullopt : std::optional<Addresses>{found->second};
              },
              [this](PeerId peer) {
                const std::lock_guard lock(mutex);
                return gone.contains(peer);
              },
              [](int) {}, cap};
  std::optional<Host> middle;  ///< before what it calls goes
};

bool wait_until(const std::function<bool()>& condition) {
  const Instant until = monotonic_now() + PATIENCE;
  while (!condition() && monotonic_now() < until) std::this_thread::sleep_for(1ms);
  return condition();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lane_is_passed_on_from_end_to_end) {
  for (const Transport transport : {Transport::Tls, Transport::Plain}) {
    Three three(transport == Transport::Plain);
    auto dialed = three.dial(transport);
    BOOST_REQUIRE(dialed);
    auto arrival = three.target.take();
    BOOST_TEST((arrival.protocol == Protocol::Lane));
    BOOST_TEST((arrival.channel->peer() == ASKER), "it is the asker who proved itself, not the one in the middle");
    BOOST_TEST(((*dialed)->peer() == TARGET));
    BOOST_TEST(carries(**dialed, *arrival.channel));
    BOOST_TEST(carries(*arrival.channel, **dialed));
    BOOST_TEST(three.relay.lanes() == 1U);
  }
}

BOOST_AUTO_TEST_CASE(when_one_end_closes_the_other_is_closed) {
  for (const bool asker_closes : {true, false}) {
    Three three;
    auto dialed = three.dial();
    BOOST_REQUIRE(dialed);
    auto arrival = three.target.take();
    if (asker_closes) dialed->reset();
    else arrival.channel.reset();
    BOOST_TEST(ends(asker_closes ? *arrival.channel : **dialed));
    BOOST_TEST(wait_until([&] { return three.relay.lanes() == 0; }));
  }
}

BOOST_AUTO_TEST_CASE(strangers_are_not_passed_on) {
  Three three;
  check_error(three.dial(Transport::Tls, credentials(RunKey::generate(), ASKER)), ErrorName::KeyRefused);
  check_error(three.dial(Transport::Tls, credentials(KEY, ASKER, Role::Peer, "other-run")), ErrorName::WrongRun);
  BOOST_TEST(three.relay.lanes() == 0U);
  BOOST_TEST(three.target->counters().accepted + three.target->counters().refused == 0U, "nobody was led there");
}

BOOST_AUTO_TEST_CASE(who_is_a_member_no_more_is_not_passed_on_and_nobody_to_who_is_none) {
  Three three;
  three.forget(OTHER);
  check_error(three.dial(Transport::Tls, credentials(KEY, OTHER)), ErrorName::RunUnreachable, "does not know both as members");
  check_error(three.dial(Transport::Tls, credentials(KEY, ASKER), OTHER), ErrorName::RunUnreachable, "does not know both as members");
  BOOST_TEST(three.target->counters().accepted + three.target->counters().refused == 0U);
}

BOOST_AUTO_TEST_CASE(a_joiner_that_fetches_the_state_is_passed_on) {
  Three three;
  auto dialed = three.dial(Transport::Tls, credentials(KEY, OTHER), TARGET, Protocol::State);
  BOOST_REQUIRE(dialed);
  auto arrival = three.target.take();
  BOOST_TEST((arrival.protocol == Protocol::State));
  BOOST_TEST((arrival.channel->peer() == OTHER));
  BOOST_TEST(carries(**dialed, *arrival.channel));
}

BOOST_AUTO_TEST_CASE(a_lane_ends_when_one_of_both_is_no_member_any_more) {
  for (const PeerId gone : {ASKER, TARGET}) {
    Three three;
    auto dialed = three.dial();
    BOOST_REQUIRE(dialed);
    auto arrival = three.target.take();
    three.forget(gone);
    BOOST_TEST(ends(**dialed));
    BOOST_TEST(ends(*arrival.channel));
  }
}

BOOST_AUTO_TEST_CASE(a_peer_passes_on_no_more_lanes_than_its_maximum) {
  Three three(true);
  std::vector<ChannelPtr> lanes;
  for (std::size_t count = 0; count < MAX_RELAYED; ++count) {
    auto dialed = three.dial(Transport::Plain);
    BOOST_REQUIRE(dialed);
    lanes.push_back(std::move(*dialed));
    lanes.push_back(three.target.take().channel);
  }
  check_error(three.dial(Transport::Plain), ErrorName::RunUnreachable, "as many as it can");
  lanes.erase(lanes.begin(), lanes.begin() + 2);
  BOOST_TEST(wait_until([&] { return three.relay.lanes() < MAX_RELAYED; }));
  BOOST_TEST(three.dial(Transport::Plain).has_value());
}

BOOST_AUTO_TEST_CASE(who_cannot_reach_the_target_says_so) {
  Three three;
  three.target.close();
  check_error(three.dial(), ErrorName::RunUnreachable, "through peer 0000000000000002: it cannot reach it");
  BOOST_TEST(wait_until([&] { return three.relay.lanes() == 0; }));
}

/// What it sends may have to wait for what others of its process have booked; who asks has little time.
BOOST_AUTO_TEST_CASE(whoever_is_under_a_cap_answers_at_once) {
  const auto spent = std::make_shared<SendCap>(1, [] { return Instant{} + 60min; });
  (void)spent->book(1'000'000);
  Three three(true, spent);
  three.forget(TARGET);
  check_error(three.dial(), ErrorName::RunUnreachable, "it does not know both as members");
  three.know(TARGET, three.target.address());
  // Connected: it is the lane that waits now.
  const auto dialed = dial_through(three.middle->address(), MIDDLE, Protocol::Lane, credentials(KEY, ASKER), TARGET, 1s, Transport::Plain);
  check_error(dialed, ErrorName::RunUnreachable, "connected, but no answer in time");
}

BOOST_AUTO_TEST_CASE(a_peer_that_relays_nothing_says_so) {
  for (const bool plain : {false, true}) {
    Host host(credentials(KEY, MIDDLE), {.allow_plain = plain});
    BOOST_TEST(!dial_through(host.address(), MIDDLE, Protocol::Lane, credentials(KEY, ASKER), TARGET, PATIENCE).has_value());
    BOOST_TEST(host->counters().accepted == 0U);
  }
}

BOOST_AUTO_TEST_CASE(lanes_do_not_come_in_the_clear_because_relays_do) {
  Three three;
  check_error(dial(three.middle->address(), Protocol::Lane, credentials(KEY, ASKER), Expectation::peer(MIDDLE), PATIENCE, Transport::Plain),
              ErrorName::VersionMismatch);
  check_error(three.dial(Transport::Plain), ErrorName::RunUnreachable, "through peer");
}

BOOST_AUTO_TEST_CASE(a_slow_end_slows_the_other_down_and_fills_no_memory) {
  Three three(true);
  auto dialed = three.dial(Transport::Plain);
  BOOST_REQUIRE(dialed);
  const auto arrival = three.target.take();
  // Nothing is read at the far end: what the sockets and the relay's buffer hold can be written, and no more.
  const std::vector<std::byte> block(64 * 1024, std::byte{7});
  std::size_t written = 0;
  for (Instant last = monotonic_now(); monotonic_now() - last < 500ms;) {
    const auto io = (*dialed)->write(block);
    if (io.state == Channel::State::Ok) last = monotonic_now();
    else std::this_thread::sleep_for(1ms);
    written += io.bytes;
    BOOST_REQUIRE(written < (std::size_t{64} << 20U));
  }
  // The far end reads again: all of it is there, and the lane goes on.
  std::vector<std::byte> got(written);
  BOOST_TEST(read_all(*arrival.channel, got));
  BOOST_TEST(carries(**dialed, *arrival.channel));
  BOOST_TEST(carries(*arrival.channel, **dialed));
}

BOOST_AUTO_TEST_CASE(much_goes_both_ways_at_once_unchanged) {
  Three three;
  auto dialed = three.dial();
  BOOST_REQUIRE(dialed);
  const auto arrival = three.target.take();
  std::vector<std::byte> there(5'000'000);
  for (std::size_t at = 0; at < there.size(); ++at) there[at] = static_cast<std::byte>(at * 31 + at / 7919);
  const std::vector<std::byte> back(there.rbegin(), there.rend());
  // Each end writes and reads in one thread, as lanes do.
  const auto talk = [](Channel& channel, std::span<const std::byte> out, std::span<std::byte> in) {
    while (!out.empty() || !in.empty()) {
      bool moved = false;
      if (!out.empty()) {
        const auto io = channel.write(out);
        out = out.subspan(io.bytes);
        moved = io.bytes > 0;
        if (io.state == Channel::State::Failed) return false;
      }
      if (!in.empty()) {
        const auto io = channel.read(in);
        in = in.subspan(io.bytes);
        moved = moved || io.bytes > 0;
        if (io.state == Channel::State::Failed || io.state == Channel::State::Closed) return false;
      }
      if (!moved) std::this_thread::sleep_for(1ms);
    }
    return true;
  };
  std::vector<std::byte> came_there(there.size());
  std::vector<std::byte> came_back(back.size());
  bool far_end = false;
  std::thread far([&] { far_end = talk(*arrival.channel, back, came_there); });
  const bool near_end = talk(**dialed, there, came_back);
  far.join();
  BOOST_TEST((near_end && far_end));
  BOOST_TEST((came_there == there));
  BOOST_TEST((came_back == back));
}

BOOST_AUTO_TEST_CASE(the_end_of_the_one_in_the_middle_ends_its_lanes_at_once) {
  std::optional<Three> three(std::in_place);
  auto dialed = three->dial();
  BOOST_REQUIRE(dialed);
  auto arrival = three->target.take();
  three.reset();
  BOOST_TEST(ends(**dialed));
  BOOST_TEST(ends(*arrival.channel));
}

BOOST_AUTO_TEST_SUITE_END()
