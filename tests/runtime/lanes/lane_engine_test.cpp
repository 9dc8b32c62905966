// Owns the tests of whole reduces: equal and right bits on all ranks, for all sizes and weights, also after aborts.
#include <array>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "tests/runtime/lanes/cluster.hpp"

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

namespace {

std::vector<std::uint64_t> any_weights(std::size_t world, std::mt19937_64& random) {
  std::vector<std::uint64_t> weights(world);
  for (auto& weight : weights) weight = random() % 3 == 0 ? 0 : 1 + random() % 100'000;
  weights[random() % world] = 77;  // somebody contributes
  return weights;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_ranks_get_the_bits_of_the_reference_for_every_world_and_size) {
  std::mt19937_64 random(1);
  for (std::size_t world = 1; world <= 6; ++world)
    for (const auto schedule : {Schedule::Direct, Schedule::Ring, Schedule::Automatic}) {
      Cluster cluster(world);
      cluster.schedule = schedule;
      cluster.vote = random() % 2 == 0;
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{3}, world - 1, world, std::size_t{17},
                                         std::size_t{100'000}, std::size_t{100'001}, std::size_t{3'000'000}}) {
        if (elements == 3'000'000 && world != 2 && world != 5) continue;
        BOOST_TEST(cluster.reduce(any_weights(world, random), elements).all_succeeded(),
                   "world " << world << ", schedule " << int(schedule) << ", elements " << elements << ", vote " << cluster.vote);
      }
      // In a ring without a vote only neighbours need lanes, and those who pass over one that brings nothing.
      const bool all_need_lanes = schedule != Schedule::Ring || cluster.vote;
      BOOST_TEST(cluster.dials() <= world * (world - 1) / 2);
      if (all_need_lanes) BOOST_TEST(cluster.dials() == world * (world - 1) / 2);
    }
}

BOOST_AUTO_TEST_CASE(many_operations_follow_each_other_over_the_same_lanes) {
  std::mt19937_64 random(2);
  Cluster cluster(3, 64);
  for (int i = 0; i < 300; ++i) BOOST_REQUIRE(cluster.reduce(any_weights(3, random), random() % 2000).all_succeeded());
  BOOST_TEST(cluster.dials() == 3U);
}

BOOST_AUTO_TEST_CASE(a_stream_that_moves_few_bytes_at_a_time_gives_the_same_bits) {
  std::mt19937_64 random(3);
  Cluster cluster(3, 500);
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b < 3; ++b) cluster.faults(a, b).longest_io = 1 + random() % 97;
  for (int i = 0; i < 3; ++i) BOOST_TEST(cluster.reduce({1, 2, 3}, 5000).all_succeeded());
}

BOOST_AUTO_TEST_CASE(lanes_of_several_streams_give_the_same_bits_and_come_back_when_one_stream_is_cut) {
  std::mt19937_64 random(4);
  for (const std::uint32_t streams : {2U, 5U}) {
    for (const auto schedule : {Schedule::Direct, Schedule::Ring, Schedule::Automatic}) {
      Cluster cluster(3, 500, streams);
      cluster.schedule = schedule;
      cluster.vote = schedule != Schedule::Ring;
      // Some streams are slow: frames overtake each other.
      for (std::size_t a = 0; a < 3; ++a)
        for (std::size_t b = 0; b < 3; ++b) cluster.faults(a, b).longest_io = 1 + random() % 700;
      for (int i = 0; i < 20; ++i) BOOST_REQUIRE(cluster.reduce(any_weights(3, random), random() % 20'000).all_succeeded());
      BOOST_TEST(cluster.dials() == 3 * streams);
      // Between two reduces: the last stream that was dialed is gone, and with it the lane.
      cluster.cut(0, 1);
      std::string how;
      for (int i = 0; i < 20; ++i) {
        const auto reduced = cluster.reduce(any_weights(3, random), 5000);
        BOOST_REQUIRE(reduced.sound());
        if (i > 0) BOOST_REQUIRE(reduced.all_succeeded());
        how += std::to_string(cluster.dials()) + " dials; ";
        for (const auto& [rank, outcome] : reduced.outcomes)
          if (!outcome.stats) how += "rank " + std::to_string(rank) + ": " + to_string(outcome.stats.error()) + "; ";
      }
      BOOST_TEST(cluster.dials() == 4 * streams, "streams " << streams << ", schedule " << int(schedule) << ": " << how);
    }
  }
}

BOOST_AUTO_TEST_CASE(bytes_on_the_wire_are_counted_with_headers) {
  Cluster cluster(2, 64);
  const auto reduced = cluster.reduce({1, 1}, 256);
  BOOST_REQUIRE(reduced.all_succeeded());
  // Begin, two chunks of input, two chunks of result.
  for (const auto& [rank, outcome] : reduced.outcomes) {
    BOOST_TEST(outcome.stats->wire_bytes_sent == 5 * 64 + 4 * 64 * sizeof(float));
    BOOST_TEST(outcome.stats->wire_bytes_received == outcome.stats->wire_bytes_sent);
  }
}

BOOST_AUTO_TEST_CASE(progress_counts_up_to_all_chunks) {
  Cluster cluster(3, 64);
  std::mutex mutex;
  std::map<std::size_t, std::vector<std::uint64_t>> seen;
  std::map<std::size_t, std::uint64_t> totals;
  cluster.hook = [&](std::size_t rank, OperationId, std::uint64_t done, std::uint64_t total) {
    const std::lock_guard lock(mutex);
    seen[rank].push_back(done);
    totals[rank] = total;
  };
  BOOST_REQUIRE(cluster.reduce({1, 0, 1}, 2000).all_succeeded());
  for (const auto& [rank, counts] : seen) {
    BOOST_TEST(counts.size() == totals[rank]);
    for (std::size_t i = 0; i < counts.size(); ++i) BOOST_TEST(counts[i] == i + 1);
  }
}

BOOST_AUTO_TEST_CASE(an_abort_at_any_chunk_leaves_inputs_and_lanes_as_they_were) {
  Cluster cluster(3, 64);
  std::atomic<std::uint64_t> stop_at = 0;
  std::atomic<std::uint64_t> total = 1;
  cluster.hook = [&](std::size_t rank, OperationId op, std::uint64_t done, std::uint64_t all) {
    total = std::max(total.load(), all);
    if (rank == 1 && done == stop_at) cluster.engine(1).abort(op, "the test says so");
  };
  for (stop_at = 1; stop_at <= total; ++stop_at) {
    cluster.schedule = stop_at % 2 == 0 ? Schedule::Ring : Schedule::Direct;
    const auto reduced = cluster.reduce({3, 2, 1}, 2000);
    BOOST_REQUIRE(reduced.sound());
    BOOST_TEST(reduced.suspects.empty());
    const auto at = stop_at.exchange(0);
    BOOST_REQUIRE(cluster.reduce({1, 2, 3}, 2000).all_succeeded());
    stop_at = at;
  }
  BOOST_TEST(total > 10U);
  BOOST_TEST(cluster.dials() == 3U);
}

BOOST_AUTO_TEST_CASE(an_abort_while_large_frames_are_on_their_way_keeps_the_lanes_usable) {
  Cluster cluster(3);
  for (std::uint64_t stop_at = 1; stop_at <= 12; ++stop_at) {
    cluster.hook = [&cluster, stop_at](std::size_t rank, OperationId op, std::uint64_t done, std::uint64_t) {
      if (rank == 2 && done == stop_at) cluster.engine(2).abort(op, "the test says so");
    };
    BOOST_REQUIRE(cluster.reduce({3, 2, 1}, 1'500'000).sound());
    cluster.hook = nullptr;
    BOOST_REQUIRE(cluster.reduce({1, 2, 3}, 1000).all_succeeded());
  }
  BOOST_TEST(cluster.dials() == 3U);
}

BOOST_AUTO_TEST_CASE(tags_run_at_once_over_the_same_lanes_in_whatever_order_ranks_start_them) {
  std::mt19937_64 random(4);
  constexpr std::size_t WORLD = 4;
  constexpr std::size_t TAGS = 24;
  Cluster cluster(WORLD, 256);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    cluster.schedule = std::array{Schedule::Direct, Schedule::Ring, Schedule::Automatic}[round % 3];
    cluster.vote = round % 2 == 0;
    std::vector<Contribution> contributions;
    for (std::size_t r = 0; r < WORLD; ++r) contributions.push_back({cluster.id(r), 1 + random() % 5});
    std::vector<std::vector<std::vector<float>>> inputs(TAGS);
    std::vector<std::vector<std::vector<float>>> outputs(TAGS);
    Outcomes outcomes;
    for (std::size_t tag = 0; tag < TAGS; ++tag) {
      const std::size_t elements = random() % 30'000;
      for (std::size_t r = 0; r < WORLD; ++r) {
        inputs[tag].push_back(random_values(elements, round * 10'000 + tag * 10 + r));
        outputs[tag].emplace_back(elements);
      }
    }
    for (std::size_t r = 0; r < WORLD; ++r) {
      std::vector<std::size_t> order(TAGS);
      std::iota(order.begin(), order.end(), 0U);
      std::shuffle(order.begin(), order.end(), random);
      for (const auto tag : order)
        cluster.engine(r).start(
            cluster.request({Epoch{1}, Sequence{round}, Tag{tag + 1}}, r, contributions, inputs[tag][r], outputs[tag][r], PATIENCE),
            [outcomes, key = r * TAGS + tag](ReduceOutcome outcome) { outcomes.put(key, std::move(outcome)); });
    }
    BOOST_REQUIRE(outcomes.wait_for_all(WORLD * TAGS));
    const auto all = outcomes.all();
    for (std::size_t tag = 0; tag < TAGS; ++tag) {
      const auto elements = outputs[tag][0].size();
      const bool whole = cluster.schedule == Schedule::Automatic;
      const auto expected = expected_mean(inputs[tag], contributions, elements, whole ? Schedule::Direct : cluster.schedule);
      for (std::size_t r = 0; r < WORLD; ++r) {
        const auto& outcome = all.at(r * TAGS + tag);
        BOOST_REQUIRE_MESSAGE(outcome.stats.has_value(), to_string(outcome.op)
                                                             << ": " << (outcome.stats ? "" : to_string(outcome.stats.error())));
        BOOST_TEST((outcome.stats->digest == all.at(tag).stats->digest));
        BOOST_TEST(same_bits(outputs[tag][r], expected), "tag " << tag << ", rank " << r);
      }
    }
  }
  BOOST_TEST(cluster.dials() == WORLD * (WORLD - 1) / 2);
  // From each of the others a chunk for each of eight operations, and what is on its way out.
  for (std::size_t r = 0; r < WORLD; ++r) BOOST_TEST(cluster.engine(r).peak_bytes() <= 32 * 256 * sizeof(float));
}

BOOST_AUTO_TEST_CASE(one_that_starts_its_tags_one_after_another_is_served_by_one_that_has_started_all) {
  constexpr std::size_t TAGS = 24;
  Cluster cluster(2, 256);
  const std::vector<Contribution> contributions{{cluster.id(0), 1}, {cluster.id(1), 1}};
  const auto input = random_values(5000, 1);
  std::vector<std::vector<float>> outputs(2 * TAGS, std::vector<float>(5000));
  Outcomes outcomes;
  const auto start = [&](std::size_t rank, std::size_t tag) {
    const auto key = rank * TAGS + tag;
    cluster.engine(rank).start(cluster.request({Epoch{1}, Sequence{1}, Tag{tag + 1}}, rank, contributions, input, outputs[key], PATIENCE),
                               [outcomes, key](ReduceOutcome outcome) { outcomes.put(key, std::move(outcome)); });
  };
  for (std::size_t tag = 0; tag < TAGS; ++tag) start(0, tag);
  for (std::size_t tag = TAGS; tag-- > 0;) {  // the newest first
    start(1, tag);
    BOOST_REQUIRE(outcomes.wait([&](const auto& all) { return all.contains(TAGS + tag); }));
    BOOST_REQUIRE(outcomes.all().at(TAGS + tag).stats.has_value());
  }
  // The other rank may end later: it still writes to its outputs.
  BOOST_REQUIRE(outcomes.wait_for_all(2 * TAGS));
  for (std::size_t tag = 0; tag < TAGS; ++tag) BOOST_TEST(outcomes.all().at(tag).stats.has_value());
}

BOOST_AUTO_TEST_CASE(an_operation_of_a_newer_epoch_voids_those_of_its_tag_alone) {
  Cluster cluster(2);
  Outcomes outcomes;
  const std::vector<Contribution> contributions{{cluster.id(0), 1}, {cluster.id(1), 1}};
  const std::vector<float> input(100'000, 1.0F);
  std::map<std::pair<std::size_t, std::size_t>, std::vector<float>> outputs;
  const auto start = [&](std::size_t rank, std::uint64_t epoch, std::size_t tag) {
    auto& output = outputs[{rank, 10 * epoch + tag}];
    output.resize(input.size());
    cluster.engine(rank).start(
        cluster.request({Epoch{epoch}, Sequence{epoch}, Tag{tag}}, rank, contributions, input, output, PATIENCE),
        [outcomes, key = 100 * rank + 10 * epoch + tag](ReduceOutcome outcome) { outcomes.put(key, std::move(outcome)); });
  };
  for (std::size_t tag = 0; tag < 3; ++tag) start(0, 1, tag);  // rank 1 has yet to begin
  for (std::size_t rank = 0; rank < 2; ++rank) start(rank, 2, 0);
  BOOST_REQUIRE(outcomes.wait_for_all(3));
  BOOST_TEST(!outcomes.all().at(10).stats.has_value(), "one of its tag has followed");
  for (std::size_t rank = 0; rank < 2; ++rank) BOOST_TEST(outcomes.all().at(100 * rank + 20).stats.has_value());
  for (std::size_t tag = 1; tag < 3; ++tag) start(1, 1, tag);
  start(1, 1, 0);
  BOOST_REQUIRE(outcomes.wait_for_all(8));
  for (std::size_t tag = 1; tag < 3; ++tag)
    for (std::size_t rank = 0; rank < 2; ++rank) BOOST_TEST(outcomes.all().at(100 * rank + 10 + tag).stats.has_value());
  BOOST_TEST(!outcomes.all().at(110).stats.has_value(), "what came after it was started here");
}

BOOST_AUTO_TEST_CASE(an_operation_has_members_and_an_order_of_its_own) {
  Cluster cluster(3);
  Outcomes outcomes;
  // Of three members of the view two take part, the younger one first.
  const std::vector<Contribution> contributions{{cluster.id(2), 3}, {cluster.id(0), 1}};
  const std::vector<std::vector<float>> inputs{std::vector<float>(1000, 4.0F), {}, std::vector<float>(1000, 8.0F)};
  std::vector<std::vector<float>> outputs(3, std::vector<float>(1000));
  for (const std::size_t rank : {0U, 2U})
    cluster.engine(rank).start(cluster.request({Epoch{1}, Sequence{1}}, rank, contributions, inputs[rank], outputs[rank], PATIENCE),
                               [outcomes, rank](ReduceOutcome outcome) { outcomes.put(rank, std::move(outcome)); });
  cluster.engine(1).start(cluster.request({Epoch{1}, Sequence{1}}, 1, contributions, {}, outputs[1], PATIENCE),
                          [outcomes](ReduceOutcome outcome) { outcomes.put(1, std::move(outcome)); });
  BOOST_REQUIRE(outcomes.wait_for_all(3));
  for (const std::size_t rank : {0U, 2U}) BOOST_TEST(outputs[rank] == std::vector<float>(1000, 7.0F), boost::test_tools::per_element());
  BOOST_REQUIRE(!outcomes.all().at(1).stats.has_value());
  BOOST_TEST((outcomes.all().at(1).stats.error().name == ErrorName::ReduceMismatch), "it is no member of the operation");
}

BOOST_AUTO_TEST_CASE(an_abort_of_an_unknown_operation_is_ignored) {
  Cluster cluster(2);
  cluster.engine(0).abort({Epoch{9}, Sequence{9}}, "never started");
  BOOST_TEST(cluster.reduce({1, 1}, 100).all_succeeded());
}

BOOST_AUTO_TEST_CASE(a_tensor_of_another_size_is_a_named_mismatch) {
  Cluster cluster(2);
  for (const std::size_t other : {std::size_t{0}, std::size_t{101}, std::size_t{300'000}}) {
    const auto reduced = cluster.reduce({1, 1}, {100, other});
    BOOST_REQUIRE(reduced.in_time);
    bool named = false;
    for (const auto& [rank, outcome] : reduced.outcomes) {
      BOOST_TEST(!outcome.stats.has_value());
      named = named || outcome.stats.error().name == ErrorName::ReduceMismatch;
    }
    BOOST_TEST(named);
    BOOST_TEST(cluster.reduce({1, 1}, 100).all_succeeded());
  }
  BOOST_TEST(cluster.dials() == 1U);
}

BOOST_AUTO_TEST_CASE(a_mean_of_nobody_fails_by_name) {
  Cluster cluster(2);
  const auto reduced = cluster.reduce({0, 0}, 100);
  for (const auto& [rank, outcome] : reduced.outcomes) BOOST_TEST((outcome.stats.error().name == ErrorName::TooFewPeers));
}

BOOST_AUTO_TEST_CASE(an_engine_that_ends_completes_its_operation) {
  Outcomes outcomes;
  std::vector<float> output(10);
  const View view{Epoch{1}, {Member{PeerId{1}, "", {}, 0}, Member{PeerId{2}, "", {}, 1}}};
  {
    EngineOptions options;
    options.self = PeerId{2};  // the other one would have to dial
    LaneEngine engine(std::move(options));
    ReduceRequest request;
    request.op = {Epoch{1}, Sequence{1}};
    request.view = view;
    request.self = PeerId{2};
    request.contributions = {{PeerId{1}, 1}, {PeerId{2}, 0}};
    request.output = std::as_writable_bytes(std::span{output});
    request.deadline = PATIENCE;
    engine.start(std::move(request), [outcomes](ReduceOutcome outcome) { outcomes.put(0, std::move(outcome)); });
  }
  BOOST_REQUIRE(outcomes.all().size() == 1U);
  BOOST_TEST((outcomes.all().at(0).stats.error().name == ErrorName::LaneBroken));
}
