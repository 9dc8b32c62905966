// Owns the proof that links are measured in turn, that the ring follows what was measured, and that its search finds the best one.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "actors/coordinator/relay_order.hpp"
#include "actors/coordinator/ring_search.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(links_and_rings)

using namespace prime;
using namespace prime::coordinator;

namespace {

constexpr std::uint64_t FAST = 10'000'000;
constexpr std::uint64_t SLOW = 100'000;
using Speeds = std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t>;

/// Four members, 1 to 4; a link is FAST where nothing else is said.
struct Quartet : Bench {
  Speeds speeds;
  Quartet() : Bench(2, 4, 20) {
    now += 60min;  // no link was measured at the beginning of time
    state = initial({state.options, state.plan}, now);
    for (std::uint64_t peer = 1; peer <= 4; ++peer) seat(peer);
    state.plan.measure_links = true;  // only now, so that the first tick begins
  }
  /// The peers answer whatever they are asked until nothing is asked any more. Who was asked to measure towards whom.
  std::set<std::pair<std::uint64_t, std::uint64_t>> measure_all() {
    std::set<std::pair<std::uint64_t, std::uint64_t>> asked;
    if (sent<MeasureLink>().empty()) tick();
    for (auto orders = sent<MeasureLink>(); !orders.empty(); orders = sent<MeasureLink>()) {
      for (auto [to, order] : orders)
        for (bool goes_on = true; goes_on;) {
          BOOST_REQUIRE(asked.insert({to, order.to.id.value}).second);
          answer(to, order.to.id.value);
          const auto back = sent<MeasureLink>();
          goes_on = !back.empty();
          if (goes_on) std::tie(to, order) = back.front();
        }
      tick();
    }
    return asked;
  }
  void answer(std::uint64_t from, std::uint64_t to) {
    const auto said = speeds.find({from, to});
    hear(from, LinkMeasured{PeerId{to}, true, said == speeds.end() ? FAST : said->second});
  }
  void step_with(Digest digest) { commit(in_order(), digest); }
  [[nodiscard]] std::vector<std::uint64_t> in_order() const {
    std::vector<std::uint64_t> ids;
    for (const auto& member : topology::in_ring_order(state)) ids.push_back(member.id.value);
    return ids;
  }
};

/// The objective: the slowest link, then the least sum of times.
std::pair<std::uint64_t, double> worth(const LinkSpeeds& speeds, const Ring& ring) {
  double time = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) time += 1.0 / static_cast<double>(speeds.at(ring[i], ring[(i + 1) % ring.size()]));
  return {slowest_link(speeds, ring), -time};
}

LinkSpeeds random_speeds(std::mt19937_64& random, std::size_t peers, std::uint64_t most, unsigned missing_of_16) {
  LinkSpeeds speeds(peers);
  for (std::size_t a = 0; a < peers; ++a)
    for (std::size_t b = 0; b < peers; ++b)
      if (a != b) speeds.at(a, b) = random() % 16 < missing_of_16 ? 0 : 1 + random() % most;
  return speeds;
}

Ring in_turn(std::size_t peers) {
  Ring ring(peers);
  std::iota(ring.begin(), ring.end(), 0);
  return ring;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_ordered_pair_is_measured_and_nobody_is_in_two_pairs_at_once) {
  Quartet bench;
  bench.tick();
  std::multiset<std::uint64_t> busy;
  const auto orders = bench.sent<MeasureLink>();
  for (const auto& [to, order] : orders) {
    busy.insert({to, order.to.id.value});
    BOOST_TEST(to < order.to.id.value, "who can open the lane is first");
  }
  BOOST_TEST(busy == (std::multiset<std::uint64_t>{1, 2, 3, 4}), boost::test_tools::per_element());
  // One way after the other.
  const auto [first, second] = std::pair{orders[0].first, orders[0].second.to.id.value};
  bench.answer(second, first);
  BOOST_TEST(bench.state.topology.links.empty(), "the way back was not asked for yet");
  bench.answer(first, second);
  const auto back = bench.sent<MeasureLink>();
  BOOST_REQUIRE(back.size() == 1U);
  BOOST_TEST((back[0].first == second && back[0].second.to.id.value == first));
  bench.answer(second, first);
  bench.answer(orders[1].first, orders[1].second.to.id.value);
  bench.answer(orders[1].second.to.id.value, orders[1].first);
  bench.tick();
  BOOST_TEST(bench.measure_all().size() == 12U - 4U);
  BOOST_TEST(bench.state.topology.links.size() == 12U);
  bench.now += bench.state.plan.measure_every;
  bench.pass(1ms);
  BOOST_TEST(bench.sent<MeasureLink>().size() == 2U, "they are measured again");
}

BOOST_AUTO_TEST_CASE(who_cannot_be_reached_one_way_cannot_the_other) {
  Quartet bench;
  bench.speeds = {{{1, 2}, 0}};
  BOOST_TEST(bench.measure_all().size() == 11U);
  BOOST_TEST(bench.state.topology.links.at({PeerId{2}, PeerId{1}}).bytes_per_s == 0U);
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.ready(peer, 100);
  const auto order = bench.in_order();
  for (std::size_t i = 0; i < order.size(); ++i) BOOST_TEST(order[i] + order[(i + 1) % order.size()] != 3U);
  BOOST_TEST(bench.sent<StartReduce>().at(0).second.ring, "who sends directly would need that lane");
}

/// What status shows: each member's link to the next one. Other links are not of the ring, and small changes no news.
BOOST_AUTO_TEST_CASE(how_fast_the_links_of_the_ring_are_is_told_when_it_is_known_and_when_it_changes) {
  Quartet bench;
  bench.speeds = {{{1, 2}, SLOW}, {{3, 4}, SLOW}};
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> told;
  std::size_t lines = 0;
  const auto listen = [&] {
    for (const auto& link : bench.journaled<events::LinkRate>()) {
      told[{link.who.peer.value, link.to}] = link.bytes_per_s;
      ++lines;
    }
  };
  const auto measured = [&](std::uint64_t from, std::uint64_t to, std::uint64_t speed) {
    bench.state.topology.measuring[std::minmax(PeerId{from}, PeerId{to})] = {bench.now, from > to};
    bench.hear(from, LinkMeasured{PeerId{to}, true, speed});
    listen();
  };
  for (const auto& [from, to, speed] : {std::tuple{1U, 2U, SLOW}, {2U, 3U, FAST}, {3U, 4U, SLOW}, {4U, 1U, FAST}, {1U, 3U, FAST}})
    measured(from, to, speed);
  const std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> first{
      {{1, "p2"}, SLOW}, {{2, "p3"}, FAST}, {{3, "p4"}, SLOW}, {{4, "p1"}, FAST}};
  BOOST_TEST((told == first));
  BOOST_TEST(lines == 4U);
  measured(1, 2, SLOW * 11 / 10);
  BOOST_TEST(lines == 4U);
  measured(1, 2, SLOW * 2);
  BOOST_TEST(told.at({1, "p2"}) == SLOW * 2);
}

BOOST_AUTO_TEST_CASE(without_the_manifests_word_nothing_is_measured) {
  Bench bench{2, 2};
  bench.seat(1);
  bench.seat(2);
  bench.tick();
  BOOST_TEST(bench.sent<MeasureLink>().empty());
}

BOOST_AUTO_TEST_CASE(a_ring_around_the_slow_links_is_the_order_of_the_operation_and_of_nothing_else) {
  Quartet bench;
  // In order of arrival, 1 -> 2 and 3 -> 4 are slow.
  bench.speeds = {{{1, 2}, SLOW}, {{3, 4}, SLOW}};
  bench.measure_all();
  const auto view = bench.state.view;
  BOOST_TEST(bench.in_order() == (std::vector<std::uint64_t>{1, 2, 3, 4}), boost::test_tools::per_element());
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.ready(peer, 100);
  BOOST_CHECK(bench.state.view == view);
  BOOST_TEST(bench.position_of<events::RingAdopted>().value() < bench.position_of<events::ReduceStarted>().value());
  BOOST_TEST(bench.decided.has_value(), "it is kept before anybody hears of it (law 8)");
  const auto order = bench.in_order();
  const auto rates = bench.journaled<events::LinkRate>();
  BOOST_REQUIRE(rates.size() == 4U);
  for (std::size_t i = 0; i < order.size(); ++i) {
    BOOST_TEST(rates[i].who.peer.value == order[i]);
    BOOST_TEST(rates[i].to == "p" + std::to_string(order[(i + 1) % order.size()]));
    BOOST_TEST(rates[i].bytes_per_s == FAST);
  }
  const std::set<std::pair<std::uint64_t, std::uint64_t>> slow{{1, 2}, {3, 4}};
  for (std::size_t i = 0; i < order.size(); ++i) BOOST_TEST(!slow.contains({order[i], order[(i + 1) % order.size()]}));
  const auto reduces = bench.sent<StartReduce>();
  BOOST_REQUIRE(reduces.size() == 4U);
  BOOST_TEST(reduces[0].second.ring, "the slow pairs would hold up who sends directly");
  BOOST_CHECK(reduces[0].second.op.epoch == bench.state.view.epoch);
  for (std::size_t i = 0; i < order.size(); ++i) BOOST_TEST(reduces[0].second.contributions[i].peer.value == order[i]);
}

BOOST_AUTO_TEST_CASE(a_ring_that_misses_its_deadline_is_tried_directly_since_that_tells_whose_fault_it_is) {
  Quartet bench;
  bench.speeds = {{{1, 2}, SLOW}, {{3, 4}, SLOW}};
  bench.measure_all();
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.ready(peer, 100);
  BOOST_TEST(bench.sent<StartReduce>().front().second.ring);
  bool ring = true;
  for (int tries = 0;; ++tries) {
    BOOST_REQUIRE(tries < 10);  // five direct ones, each after a ring
    bench.hear(1, ReduceFailed{bench.state.operation, PeerId{ring ? 0U : 4U}, Error{ErrorName::DeadlineExceeded}});
    if (bench.state.view.members.size() < 4) break;
    if (bench.sent<StartReduce>().empty()) bench.pass(5s);
    BOOST_REQUIRE(bench.sent<StartReduce>().size() == 4U);
    ring = bench.sent<StartReduce>().front().second.ring;
    BOOST_TEST(ring == (tries % 2 == 1));
  }
  BOOST_TEST(!bench.state.peers.contains(PeerId{4}), "it was named by all that could tell");
}

BOOST_AUTO_TEST_CASE(a_ring_that_the_manifest_wants_is_tried_directly_after_a_missed_deadline_too) {
  Quartet bench;
  bench.state.plan.measure_links = false;
  bench.state.plan.schedule = Schedule::Ring;
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.ready(peer, 100);
  BOOST_TEST(bench.sent<StartReduce>().front().second.ring);
  bench.hear(1, ReduceFailed{bench.state.operation, PeerId{}, Error{ErrorName::DeadlineExceeded}});
  BOOST_TEST(bench.state.tries.link_failures.empty(), "it says nothing of who reports it");
  if (bench.sent<StartReduce>().empty()) bench.pass(5s);
  BOOST_REQUIRE(bench.sent<StartReduce>().size() == 4U);
  BOOST_TEST(!bench.sent<StartReduce>().front().second.ring);
}

BOOST_AUTO_TEST_CASE(where_the_manifest_wants_no_ring_a_missed_deadline_is_none_of_a_ring) {
  Quartet bench;
  bench.speeds = {{{1, 2}, SLOW}, {{3, 4}, SLOW}};
  bench.state.plan.schedule = Schedule::Direct;
  bench.measure_all();
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.ready(peer, 100);
  BOOST_TEST(!bench.sent<StartReduce>().front().second.ring);
  bench.hear(1, ReduceFailed{bench.state.operation, PeerId{}, Error{ErrorName::DeadlineExceeded}});
  BOOST_TEST(bench.state.tries.link_failures.size() == 1U);
}

BOOST_AUTO_TEST_CASE(even_links_change_nothing) {
  Quartet bench;
  bench.speeds = {{{1, 2}, FAST * 9 / 10}};
  bench.measure_all();
  bench.step_with(Digest{4, 4});
  BOOST_TEST(bench.state.topology.ring.empty());
  BOOST_TEST(!bench.state.topology.ring_is_faster);
}

BOOST_AUTO_TEST_CASE(a_link_that_nobody_could_measure_leaves_the_order_as_it_is) {
  Quartet bench;
  bench.tick();
  for (const auto& [to, order] : bench.sent<MeasureLink>()) bench.hear(to, LinkMeasured{order.to.id, false, 0});
  BOOST_TEST(bench.state.topology.links.empty());
  bench.tick();
  BOOST_TEST(bench.sent<MeasureLink>().size() == 2U, "they are asked again");
  bench.step_with(Digest{4, 4});
  BOOST_TEST(bench.state.topology.ring.empty());
}

BOOST_AUTO_TEST_CASE(a_link_that_slows_down_is_avoided_after_the_first_slow_reduce) {
  Quartet bench;
  bench.measure_all();
  bench.step_with(Digest{4, 4});
  const auto reduce = [&](Duration takes, Digest digest) {
    for (const auto peer : bench.in_order()) bench.ready(peer, 100);
    bench.now += takes;
    for (const auto peer : bench.in_order()) bench.vote(peer, digest);
  };
  reduce(1s, Digest{5, 5});
  bench.tick();
  BOOST_TEST(bench.sent<MeasureLink>().empty(), "nothing is due");
  bench.speeds = {{{2, 3}, SLOW}};
  reduce(2s, Digest{6, 6});
  BOOST_TEST(bench.measure_all().size() == 12U);
  reduce(2s, Digest{7, 7});
  const auto order = bench.in_order();
  for (std::size_t i = 0; i < order.size(); ++i) BOOST_TEST((order[i] != 2 || order[(i + 1) % order.size()] != 3));
}

BOOST_AUTO_TEST_CASE(the_links_of_the_ring_are_the_first_that_are_measured_again) {
  Quartet bench;
  bench.measure_all();
  bench.step_with(Digest{4, 4});
  bench.step_with(Digest{5, 5});
  bench.now += bench.state.plan.measure_every;
  // Each member is in one pair at a time, so the four links of the ring take two rounds; those across it are older than two of them.
  for (int round = 0; round < 2; ++round) {
    bench.tick();
    auto orders = bench.sent<MeasureLink>();
    BOOST_TEST(orders.size() == 2U);
    for (const auto& [to, order] : orders) {
      BOOST_TEST((order.to.id.value - to) % 2 == 1U, to << " and " << order.to.id.value << " are no neighbours");
      bench.answer(to, order.to.id.value);
      bench.answer(order.to.id.value, to);
    }
  }
  BOOST_TEST(bench.measure_all().size() == 4U);
}

BOOST_AUTO_TEST_CASE(members_are_told_by_whom_each_is_best_reached_over_links_that_need_no_relay_themselves) {
  Quartet bench;
  bench.speeds = {{{1, 3}, SLOW}, {{4, 2}, SLOW / 2}};
  bench.measure_all();
  std::uint64_t votes = 3;
  const auto told = [&](std::uint64_t to) {  // ids, to peer 2, as this member is told
    for (const auto peer : bench.in_order()) bench.ready(peer, 100);
    for (const auto& [member, message] : bench.sent<StartReduce>()) {
      if (member != 1) continue;
      std::vector<std::uint64_t> by;
      const auto order = bench.in_order();
      const auto rank = std::find(order.begin(), order.end(), to) - order.begin();
      for (const auto each : message.relays.at(static_cast<std::size_t>(rank))) by.push_back(order.at(each));
      const Digest digest{++votes, to};
      for (const auto each : bench.in_order()) bench.vote(each, digest);
      return by;
    }
    return std::vector<std::uint64_t>{};
  };
  BOOST_TEST(told(2) == (std::vector<std::uint64_t>{3, 4}), boost::test_tools::per_element());
  bench.hear(1, LaneRelayed{PeerId{3}, PeerId{4}});
  BOOST_TEST(bench.position_of<events::LaneRelayed>().has_value());
  BOOST_TEST(bench.measure_all().size() == 2U, "the pair is measured on its new way");
  BOOST_TEST(told(2) == (std::vector<std::uint64_t>{4}), boost::test_tools::per_element());
  bench.hear(3, LaneRelayed{PeerId{1}, PeerId{}});
  BOOST_TEST(bench.position_of<events::LaneDirect>().has_value());
  BOOST_TEST(bench.measure_all().size() == 2U);
  BOOST_TEST(told(2) == (std::vector<std::uint64_t>{3, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(where_nothing_is_measured_nobody_is_told_whom_to_ask) {
  Bench bench{2, 2};
  bench.seat(1);
  bench.seat(2);
  for (std::uint64_t peer = 1; peer <= 2; ++peer) bench.ready(peer, 100);
  BOOST_REQUIRE(bench.sent<StartReduce>().size() == 2U);
  for (const auto& [to, message] : bench.sent<StartReduce>()) BOOST_TEST(message.relays.empty());
}

BOOST_AUTO_TEST_CASE(a_relayed_lane_is_noted_of_members_alone_and_goes_with_them) {
  Quartet bench;
  bench.hear(1, LaneRelayed{PeerId{9}, PeerId{2}});
  bench.hear(1, LaneRelayed{PeerId{1}, PeerId{2}});
  BOOST_TEST(bench.state.topology.relayed.empty());
  bench.hear(2, LaneRelayed{PeerId{1}, PeerId{3}});
  BOOST_TEST(bench.state.topology.relayed.size() == 1U);
  bench.lose(1);
  BOOST_TEST(bench.state.topology.relayed.empty());
}

BOOST_AUTO_TEST_CASE(the_best_relay_is_that_whose_slower_hop_is_the_fastest) {
  LinkSpeeds hops(6);
  const auto link = [&](std::size_t a, std::size_t b, std::uint64_t there, std::uint64_t back) {
    hops.at(a, b) = there;
    hops.at(b, a) = back;
  };
  link(0, 2, 50, 50), link(2, 1, 90, 10);  // 10: its slower direction
  link(0, 3, 30, 30), link(3, 1, 40, 40);  // 30
  link(0, 4, 99, 99), link(4, 1, 0, 99);   // none: it reaches peer 1 one way only
  link(0, 5, 30, 80), link(5, 1, 80, 80);  // 30 as well: behind the one that comes first
  const auto order = relay_order(hops, 0);
  BOOST_REQUIRE(order.size() == 6U);
  BOOST_TEST(order[1] == (std::vector<std::uint32_t>{3, 5, 2}), boost::test_tools::per_element());
  BOOST_TEST(order[0].empty(), "nobody reaches itself through others");
  BOOST_TEST(order[2] == (std::vector<std::uint32_t>{}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(no_more_relays_are_told_than_are_asked) {
  LinkSpeeds hops(20);
  for (std::size_t a = 0; a < 20; ++a)
    for (std::size_t b = 0; b < 20; ++b) hops.at(a, b) = 1 + a + b;
  const auto order = relay_order(hops, 0);
  BOOST_TEST(order[1] == (std::vector<std::uint32_t>{19, 18, 17, 16}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(who_goes_takes_what_was_measured_with_it_along) {
  Quartet bench;
  bench.measure_all();
  bench.lose(4);
  BOOST_TEST(bench.state.topology.links.size() == 6U);
  BOOST_TEST(bench.measure_all().empty());
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_comes_back_knows_the_order_and_measures_anew) {
  Quartet bench;
  bench.speeds = {{{1, 2}, SLOW}};
  bench.measure_all();
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.ready(peer, 100);
  BOOST_REQUIRE(bench.decided);
  const auto again = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  BOOST_CHECK(again.view == bench.state.view);
  BOOST_TEST(again.topology.links.empty());
}

BOOST_AUTO_TEST_CASE(the_best_ring_is_the_best_of_all_permutations) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    const auto peers = 2 + static_cast<std::size_t>(round) % 6;
    const auto speeds = random_speeds(random, peers, round % 2 == 0 ? 4 : 1000, round % 3 == 0 ? 6 : 0);
    auto ring = in_turn(peers);
    std::pair<std::uint64_t, double> best{0, 0};
    do best = std::max(best, worth(speeds, ring));
    while (std::next_permutation(ring.begin() + 1, ring.end()));
    const auto found = best_ring(speeds, in_turn(peers));
    BOOST_REQUIRE(found.has_value() == (best.first > 0));
    if (!found) continue;
    BOOST_TEST(std::is_permutation(found->begin(), found->end(), in_turn(peers).begin()));
    BOOST_TEST(found->front() == 0U);
    BOOST_TEST(worth(speeds, *found).first == best.first);
    BOOST_TEST(worth(speeds, *found).second == best.second, boost::test_tools::tolerance(1e-9));
  }
}

/// Exact below EXACT_RING_PEERS, so the improving search is asked alone here.
BOOST_AUTO_TEST_CASE(improvement_comes_close_to_the_best_ring) {
  std::mt19937_64 random(2);
  int best = 0;
  constexpr int ROUNDS = 60;
  for (int round = 0; round < ROUNDS; ++round) {
    const auto speeds = random_speeds(random, 10, 1000, round % 4 == 0 ? 3 : 0);
    const auto exact = best_ring(speeds, in_turn(10)).value();
    const auto improved = improved_ring(speeds, in_turn(10)).value();
    BOOST_TEST(std::is_permutation(improved.begin(), improved.end(), in_turn(10).begin()));
    BOOST_TEST(slowest_link(speeds, improved) <= slowest_link(speeds, exact));
    BOOST_TEST(slowest_link(speeds, improved) * 10 >= slowest_link(speeds, exact) * 7);
    best += slowest_link(speeds, improved) == slowest_link(speeds, exact) ? 1 : 0;
  }
  BOOST_TEST_MESSAGE("improvement found the best slowest link in " << best << " of " << ROUNDS);
  BOOST_TEST(best * 10 >= ROUNDS * 7);
}

/// Four regions of sixteen: fast inside, slow between them, and only one way round over the ocean is not the slowest.
BOOST_AUTO_TEST_CASE(a_large_ring_goes_through_each_region_once) {
  std::mt19937_64 random(3);
  constexpr std::size_t PEERS = 64;
  LinkSpeeds speeds(PEERS);
  for (std::size_t a = 0; a < PEERS; ++a)
    for (std::size_t b = 0; b < PEERS; ++b) {
      const auto from = a % 4;
      const auto to = b % 4;
      speeds.at(a, b) = from == to ? 1'000'000 + random() % 100'000 : to == (from + 1) % 4 ? 50'000 + random() % 1000 : 1000;
    }
  const auto ring = best_ring(speeds, in_turn(PEERS)).value();
  BOOST_TEST(std::is_permutation(ring.begin(), ring.end(), in_turn(PEERS).begin()));
  BOOST_TEST(slowest_link(speeds, ring) >= 50'000U);
}

BOOST_AUTO_TEST_SUITE_END()
