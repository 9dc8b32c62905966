// Owns the tests of who trains on which samples (law 12): each range is one member's, and what its peer leaves behind is the next one's.
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "kernels/digest/digest.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(samples)

using namespace prime;
using namespace prime::coordinator;

namespace {

constexpr Digest NEXT{4, 4};
constexpr Digest AFTER{5, 5};

/// Three members at the first step; two are enough.
struct Trio : Bench {
  explicit Trio(std::uint32_t fragments = 1) : Bench(2, 3, 9) {
    Options options{state.options, state.plan};
    options.samples_per_peer = 10;
    options.fragments = fragments;
    options.on_correlated_loss = LossPolicy::RollBack;
    options.checkpoint_every = 1;
    state = initial(options, now);
  }
  Trio& seat_all() {
    for (std::uint64_t peer = 1; peer <= 3; ++peer) {
      seat(peer);
      note();
    }
    return *this;
  }
  /// By peer, as they were told last.
  std::map<std::uint64_t, std::uint64_t> ranges;
  void note() {
    for (const auto& [peer, begin] : sent<BeginStep>())
      if (begin.contribute) ranges[peer] = begin.first_sample;
  }
  void lose(std::uint64_t peer) {
    hear(peer, Deathrattle{false, Error{ErrorName::TrainerFailed, "died"}});
    note();
  }
  void make_step(const std::vector<std::uint64_t>& peers, Digest digest) {
    commit(peers, digest);
    note();
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_range_of_who_goes_before_its_work_is_in_is_the_next_one_that_is_handed_out) {
  Trio bench;
  bench.seat_all();
  BOOST_CHECK((bench.ranges == std::map<std::uint64_t, std::uint64_t>{{1, 0}, {2, 10}, {3, 20}}));
  bench.lose(2);
  bench.make_step({1, 3}, NEXT);
  BOOST_TEST(bench.ranges[1] == 10U);
  BOOST_TEST(bench.ranges[3] == 30U);
  BOOST_TEST(bench.state.given_back.empty());
}

BOOST_AUTO_TEST_CASE(what_is_committed_is_not_handed_out_again) {
  Trio bench;
  bench.seat_all();
  bench.make_step({1, 2, 3}, NEXT);
  bench.lose(1);
  BOOST_TEST((bench.state.given_back == std::set<std::uint64_t>{30}), "and of its new range nothing was");
  bench.make_step({2, 3}, AFTER);
  BOOST_TEST(bench.ranges[2] == 30U);
  BOOST_TEST(bench.ranges[3] == 60U);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_is_killed_has_not_forgotten_what_was_given_back) {
  Trio bench;
  bench.seat_all();
  bench.lose(2);
  BOOST_REQUIRE(bench.decided);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  BOOST_CHECK((bench.state.given_back == std::set<std::uint64_t>{10}));
}

BOOST_AUTO_TEST_CASE(what_one_fragment_has_is_used) {
  const auto part = [](std::uint32_t fragment, std::uint64_t version) { return Digest{fragment + 1, version + 100}; };
  Trio bench{2};
  const auto whole = kernels::digest_of_parts(std::vector{part(0, 0), part(1, 0)});
  for (std::uint64_t peer = 1; peer <= 3; ++peer) {
    bench.greet(peer);
    bench.hear(peer, Seated{{}, whole, LAYOUT, 3, 1, {}, {part(0, 0), part(1, 0)}});
    bench.note();
  }
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, part(0, 1));
  bench.lose(2);
  BOOST_TEST(bench.state.given_back.empty());
}

/// Two are gone whose work nobody has: the samples of the first are from 40 on, those of the second from 110 on.
void lose_two(Trio& bench) {
  bench.state.cursor = 100;
  bench.seat_all();
  bench.lose(2);
  bench.state.given_back.insert(40);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_rolled_back_hands_out_what_its_checkpoint_lacks) {
  Trio bench;
  lose_two(bench);
  bench.make_step({1, 3}, NEXT);
  BOOST_REQUIRE(bench.state.checkpoint.has_value());
  BOOST_CHECK((bench.state.checkpoint->given_back == std::set<std::uint64_t>{40, 110}));
}

BOOST_AUTO_TEST_CASE(whoever_saves_a_step_or_fetches_the_state_hears_what_nobody_has_trained_on) {
  Trio bench;
  lose_two(bench);
  bench.commit({1, 3}, NEXT);
  const auto commits = bench.sent<Commit>();
  BOOST_REQUIRE(!commits.empty());
  BOOST_CHECK((commits.front().second.given_back == std::vector<std::uint64_t>{40, 110}));
  BOOST_REQUIRE(bench.decided);
  const auto kept = *bench.decided;
  bench.greet(4);
  bench.hear(4, Seated{{}, INITIAL, LAYOUT, 3, 1});
  const auto fetches = bench.sent<FetchState>();
  BOOST_REQUIRE(fetches.size() == 1U);
  BOOST_CHECK((fetches.front().second.given_back == std::vector<std::uint64_t>{40, 110}));
  bench.state = restore({bench.state.options, bench.state.plan}, kept, bench.now);
  BOOST_CHECK((bench.state.unused == std::vector<std::uint64_t>{40, 110}));
}

BOOST_AUTO_TEST_CASE(a_run_that_goes_on_hands_out_first_what_the_one_before_left_unused) {
  Trio bench;
  Options options{bench.state.options, bench.state.plan};
  options.origin = Origin{Revision{4}, OuterStep{4}, INITIAL, 100, 5, {}, {10, 40}};
  bench.state = initial(options, bench.now);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) {
    bench.greet(peer);
    bench.hear(peer, Seated{Revision{4}, INITIAL, LAYOUT, 3, 1});
    bench.note();
  }
  BOOST_CHECK((bench.ranges == std::map<std::uint64_t, std::uint64_t>{{1, 10}, {2, 40}, {3, 100}}));
}

BOOST_AUTO_TEST_CASE(who_started_with_the_run_has_its_place_there_as_rank_however_late_it_comes) {
  Trio bench;
  Options options{bench.state.options, bench.state.plan};
  for (const std::uint64_t peer : {3, 1}) options.founders.push_back(Bench::hello_of(peer).name);
  bench.state = initial(options, bench.now);
  bench.seat_all();
  const auto begun = bench.state.view.members;
  BOOST_REQUIRE(begun.size() == 3U);
  BOOST_TEST((begun[0].id == PeerId{3} && begun[1].id == PeerId{1} && begun[2].id == PeerId{2}));
  BOOST_TEST(bench.ranges[3] == 0U);
  bench.make_step({1, 2, 3}, NEXT);
  bench.lose(3);
  auto again = Bench::hello_of(5);
  again.name = Bench::hello_of(3).name;
  bench.hear(5, again);
  BOOST_TEST(bench.state.peers.at(PeerId{5}).ordinal == 3U, "who comes in its place later ranks later");
}

BOOST_AUTO_TEST_SUITE_END()
