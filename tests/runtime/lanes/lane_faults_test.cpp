// Owns the tests of what goes wrong on the way: cut, damaged and refused connections. Whatever happens, whoever succeeds is right.
#include <boost/test/unit_test.hpp>

#include "tests/runtime/lanes/cluster.hpp"

BOOST_AUTO_TEST_SUITE(lane_faults)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

BOOST_AUTO_TEST_CASE(a_lane_cut_at_any_chunk_names_a_suspect_and_is_dialed_again) {
  Cluster cluster(3, 64);
  std::atomic<std::uint64_t> cut_at = 0;
  std::atomic<std::uint64_t> total = 1;
  cluster.hook = [&](std::size_t rank, OperationId, std::uint64_t done, std::uint64_t all) {
    total = std::max(total.load(), all);
    if (rank == 0 && done == cut_at) cluster.cut(0, 2);
  };
  std::size_t failures = 0;
  for (std::uint64_t at = 1; at <= total; ++at) {
    cut_at = at;
    const auto reduced = cluster.reduce({3, 2, 1}, 3000);
    BOOST_REQUIRE(reduced.sound());
    if (reduced.succeeded < 3) ++failures;
    // Who lost the lane names the other end; the third one is only told to abort.
    for (const auto& [rank, outcome] : reduced.outcomes) {
      if (outcome.suspect == PeerId{}) continue;
      BOOST_TEST(rank != 1U);
      BOOST_TEST((outcome.suspect == cluster.id(rank == 0 ? 2 : 0)));
      BOOST_TEST((outcome.stats.error().name == ErrorName::LaneBroken), to_string(outcome.stats.error()));
    }
    if (reduced.succeeded == 0) BOOST_TEST(!reduced.suspects.empty());
    cut_at = 0;
    BOOST_REQUIRE(cluster.reduce({1, 2, 3}, 3000).all_succeeded());
  }
  BOOST_TEST(failures > total / 2);
}

BOOST_AUTO_TEST_CASE(with_a_vote_a_lane_cut_at_any_chunk_leaves_all_ranks_with_the_result_or_none) {
  for (const auto schedule : {Schedule::Direct, Schedule::Ring}) {
    Cluster cluster(3, 64);
    cluster.schedule = schedule;
    cluster.vote = true;
    std::atomic<std::uint64_t> cut_at = 0;
    std::atomic<std::uint64_t> total = 1;
    cluster.hook = [&](std::size_t rank, OperationId, std::uint64_t done, std::uint64_t all) {
      total = std::max(total.load(), all);
      if (rank == 0 && done == cut_at) cluster.cut(0, 2);
    };
    std::size_t aborts = 0;
    for (std::uint64_t at = 1; at <= total; ++at) {
      cut_at = at;
      const auto reduced = cluster.reduce({3, 2, 1}, 3000);
      BOOST_REQUIRE(reduced.sound());
      BOOST_TEST((reduced.succeeded == 0 || reduced.succeeded == 3), reduced.succeeded << " of 3 ranks committed, cut at " << at);
      aborts += reduced.succeeded == 0 ? 1 : 0;
      cut_at = 0;
      BOOST_REQUIRE(cluster.reduce({1, 2, 3}, 3000).all_succeeded());
    }
    BOOST_TEST(aborts > total / 2);
  }
}

BOOST_AUTO_TEST_CASE(a_lane_cut_between_operations_is_dialed_again) {
  Cluster cluster(4, 64);
  for (int i = 0; i < 20; ++i) {
    BOOST_REQUIRE(cluster.reduce({1, 1, 1, 1}, 1000).all_succeeded());
    cluster.cut(0, 1);
    cluster.cut(2, 3);
    cluster.cut(1, 3);
  }
  BOOST_TEST(cluster.dials() >= 6U + 19U * 3U);
}

BOOST_AUTO_TEST_CASE(a_damaged_byte_never_becomes_a_result) {
  std::mt19937_64 random(1);
  std::size_t failures = 0;
  for (int tries = 0; tries < 100; ++tries) {
    Cluster cluster(3, 64);
    // Somewhere in what rank 1 sends to rank 2: begin, inputs and results.
    cluster.faults(1, 2).flip_at = static_cast<std::int64_t>(random() % 8000);
    const auto reduced = cluster.reduce({3, 2, 1}, 3000);
    BOOST_REQUIRE(reduced.sound());
    if (reduced.succeeded == 3) continue;  // the damaged frame was the first one, and was sent again over another lane
    ++failures;
    const auto& receiver = reduced.outcomes.at(2);
    BOOST_TEST(!receiver.stats.has_value());
    for (const auto& suspect : reduced.suspects) BOOST_TEST((suspect == cluster.id(1) || suspect == cluster.id(2)));
    cluster.faults(1, 2).flip_at = -1;
    BOOST_REQUIRE(cluster.reduce({1, 2, 3}, 3000).all_succeeded());
  }
  BOOST_TEST(failures > 50U);
}

BOOST_AUTO_TEST_CASE(a_peer_that_cannot_be_dialed_is_named) {
  Cluster cluster(2);
  cluster.refuse_dials(true);
  const auto reduced = cluster.reduce({1, 1}, 100);
  BOOST_REQUIRE(reduced.sound());
  BOOST_TEST(reduced.succeeded == 0U);
  const auto dialer = cluster.id(0) < cluster.id(1) ? 0U : 1U;
  BOOST_TEST((reduced.outcomes.at(dialer).suspect == cluster.id(1 - dialer)));
  BOOST_TEST((reduced.outcomes.at(dialer).stats.error().name == ErrorName::LaneBroken));
  cluster.refuse_dials(false);
  BOOST_TEST(cluster.reduce({1, 1}, 100).all_succeeded());
}

BOOST_AUTO_TEST_CASE(a_forgotten_peer_ends_the_operation_that_needs_it) {
  Cluster cluster(3, 64);
  cluster.hook = [&](std::size_t rank, OperationId, std::uint64_t done, std::uint64_t) {
    if (rank == 0 && done == 2) cluster.engine(0).forget(cluster.id(1));
  };
  const auto reduced = cluster.reduce({1, 1, 1}, 30'000);
  BOOST_REQUIRE(reduced.sound());
  BOOST_TEST((reduced.outcomes.at(0).suspect == cluster.id(1)));
  BOOST_TEST((reduced.outcomes.at(0).stats.error().name == ErrorName::PeerLost));
  cluster.hook = nullptr;
  BOOST_TEST(cluster.reduce({1, 1, 1}, 3000).all_succeeded());
}

BOOST_AUTO_TEST_CASE(random_cuts_and_aborts_in_a_row_never_spoil_a_result) {
  std::mt19937_64 random(5);
  Cluster cluster(4, 64);
  struct Plan {
    std::atomic<std::uint64_t> at = 0;
    std::atomic<int> what = 0;
  } plan;
  cluster.hook = [&](std::size_t rank, OperationId op, std::uint64_t done, std::uint64_t) {
    if (done != plan.at || rank != plan.at % 4) return;
    if (plan.what == 0) cluster.cut(rank, (rank + 1) % 4);
    else if (plan.what == 1) cluster.engine(rank).abort(op, "the test says so");
    else if (plan.what == 2) cluster.engine(rank).forget(cluster.id((rank + 2) % 4));
  };
  for (int i = 0; i < 200; ++i) {
    plan.what = static_cast<int>(random() % 4);
    plan.at = random() % 60;
    BOOST_REQUIRE(cluster.reduce({5, 0, 2, 9}, random() % 6000).sound());
  }
  cluster.hook = nullptr;
  BOOST_TEST(cluster.reduce({5, 0, 2, 9}, 6000).all_succeeded());
}

BOOST_AUTO_TEST_SUITE_END()
