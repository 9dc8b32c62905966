// Owns the proof that links are measured by the receiver's clock, that a reduce comes before a measurement, and that a ring needs no lanes
// but its own.
#include <boost/test/unit_test.hpp>

#include "runtime/lanes/link_probe.hpp"
#include "tests/runtime/lanes/cluster.hpp"

BOOST_AUTO_TEST_SUITE(lane_measure)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

namespace {

constexpr PeerId NEAR{1};
constexpr PeerId FAR{2};

/// A link of so many bytes per second, on which frames pass one after the other; a burst of the first bytes passes at once.
struct ThinLink {
  double bytes_per_s = 0;
  double burst = 0;
  Instant now{};
  LinkProbes sender;
  LinkProbes receiver;
  std::optional<Result<std::uint64_t>> result;
  std::uint64_t frames = 0;

  void measure() {
    sender.begin(
        FAR, [this](Result<std::uint64_t> speed) { result = std::move(speed); }, now);
    for (auto frame = sender.next(FAR, now); frame; frame = sender.next(FAR, now)) {
      ++frames;
      const auto bytes = static_cast<double>(HEADER_BYTES + frame->payload.size());
      const double waits = std::max(0.0, bytes - burst);
      burst = std::max(0.0, burst - bytes);
      now += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(waits / bytes_per_s));
      if (const auto answer = receiver.came(NEAR, frame->header, now)) sender.answered(FAR, answer->header);
    }
  }
};

struct Measured {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Result<std::uint64_t>> results;
  void put(Result<std::uint64_t> result) {
    const std::lock_guard lock(mutex);
    results.push_back(std::move(result));
    changed.notify_all();
  }
  bool wait(std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, PATIENCE, [&] { return results.size() >= count; });
  }
};

void measure(Cluster& cluster, std::size_t from, std::size_t to, Measured& measured) {
  cluster.engine(from).measure(cluster.view().members[to], [&measured](Result<std::uint64_t> speed) { measured.put(std::move(speed)); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_speed_is_that_of_the_link) {
  for (const double speed : {20e3, 1e6, 12.5e6, 1e9}) {
    ThinLink link;
    link.bytes_per_s = speed;
    link.measure();
    BOOST_TEST(static_cast<double>(link.result.value().value()) == speed, boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(a_burst_that_passes_at_once_is_not_taken_for_the_speed) {
  for (const double speed : {125e3, 1e6, 12.5e6})
    for (const double burst : {16e3, 100e3, 128e3, 256e3, 500e3}) {
      ThinLink link;
      link.bytes_per_s = speed;
      link.burst = burst;
      link.measure();
      BOOST_TEST(static_cast<double>(link.result.value().value()) == speed, boost::test_tools::tolerance(0.01));
    }
}

BOOST_AUTO_TEST_CASE(a_slow_link_costs_few_bytes_and_a_fast_one_no_more_than_the_limit) {
  ThinLink slow;
  slow.bytes_per_s = 20e3;
  slow.measure();
  BOOST_TEST(slow.frames == 2 * FIRST_PROBES);
  ThinLink fast;
  fast.bytes_per_s = 1e12;
  fast.measure();
  BOOST_TEST(fast.frames == FIRST_PROBES * (1 + PROBES_GROW + PROBES_GROW * PROBES_GROW) + MAX_PROBES);
}

BOOST_AUTO_TEST_CASE(who_answers_too_late_is_slow_and_who_was_never_met_cannot_be_reached) {
  LinkProbes probes;
  std::map<PeerId, Result<std::uint64_t>> results;
  for (const auto id : {NEAR, FAR})
    probes.begin(
        id, [&results, id](Result<std::uint64_t> speed) { results.insert_or_assign(id, std::move(speed)); }, Instant{});
  BOOST_REQUIRE(probes.next_deadline().has_value());
  probes.expire(*probes.next_deadline() - 1ms, [](PeerId) { return true; });
  BOOST_TEST(results.empty());
  probes.expire(*probes.next_deadline(), [](PeerId id) { return id == NEAR; });
  BOOST_TEST(results.at(NEAR).value() == 1U);
  BOOST_CHECK(results.at(FAR).error().name == ErrorName::DeadlineExceeded);
  BOOST_TEST(!probes.next_deadline().has_value());
}

BOOST_AUTO_TEST_CASE(a_link_that_is_interrupted_is_asked_again_or_is_known_to_be_slow) {
  LinkProbes probes;
  std::vector<Result<std::uint64_t>> results;
  const auto put = [&results](Result<std::uint64_t> speed) { results.push_back(std::move(speed)); };
  const Error why{ErrorName::Interrupted, "a reduce starts"};
  probes.begin(FAR, put, Instant{});
  probes.interrupt(why, Instant{} + 1min);  // there is no lane yet
  probes.begin(FAR, put, Instant{});
  while (probes.next(FAR, Instant{} + 1s)) {
  }
  probes.interrupt(why, Instant{} + 1s + LONG_WITHOUT_ANSWER - 1ms);
  probes.begin(FAR, put, Instant{});
  while (probes.next(FAR, Instant{} + 1s)) {
  }
  probes.interrupt(why, Instant{} + 1s + LONG_WITHOUT_ANSWER);
  BOOST_REQUIRE(results.size() == 3U);
  BOOST_CHECK(results[0].error().name == ErrorName::Interrupted);
  BOOST_CHECK(results[1].error().name == ErrorName::Interrupted);
  BOOST_TEST(results[2].value() == FIRST_PROBES * (HEADER_BYTES + PROBE_BYTES));
}

BOOST_AUTO_TEST_CASE(both_ends_of_a_link_measure_at_once_and_reduces_go_on_after_it) {
  for (const std::uint32_t streams : {1U, 3U}) {
    Measured measured;  // outlives the engines, which answer when they end
    Cluster cluster(2, 1024, streams);
    measure(cluster, 0, 1, measured);
    measure(cluster, 1, 0, measured);
    BOOST_REQUIRE(measured.wait(2));
    for (const auto& result : measured.results) BOOST_TEST(result.value() > 1000U);
    BOOST_TEST(cluster.reduce({1, 2}, 5000).all_succeeded());
    measure(cluster, 0, 1, measured);
    BOOST_TEST(measured.wait(3));
    BOOST_TEST(measured.results.back().has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_reduce_ends_a_measurement_that_may_be_repeated) {
  Measured measured;
  Cluster cluster(2, 1024);
  cluster.refuse_dials(true);  // the measurement waits for its lane
  cluster.hook = [&](std::size_t rank, OperationId, std::uint64_t, std::uint64_t) {
    if (rank == 0) measure(cluster, 0, 1, measured);  // beside it another one is refused
  };
  std::size_t dialer = cluster.id(0) < cluster.id(1) ? 0 : 1;
  measure(cluster, 1 - dialer, dialer, measured);  // it only waits to be dialed
  cluster.refuse_dials(false);
  BOOST_TEST(cluster.reduce({1, 2}, 5000).all_succeeded());
  BOOST_REQUIRE(measured.wait(2));
  const std::lock_guard lock(measured.mutex);
  for (const auto& result : measured.results) BOOST_CHECK(!result && result.error().name == ErrorName::Interrupted);
}

BOOST_AUTO_TEST_CASE(who_cannot_be_dialed_cannot_be_reached) {
  Measured measured;
  Cluster cluster(2, 1024);
  cluster.refuse_dials(true);
  const std::size_t dialer = cluster.id(0) < cluster.id(1) ? 0 : 1;
  measure(cluster, dialer, 1 - dialer, measured);
  BOOST_REQUIRE(measured.wait(1));
  BOOST_REQUIRE(!measured.results[0]);
  BOOST_CHECK(measured.results[0].error().name == ErrorName::LaneBroken);
}

BOOST_AUTO_TEST_CASE(a_ring_needs_no_lane_between_those_who_are_no_neighbours) {
  Cluster cluster(5, 256);
  cluster.schedule = Schedule::Ring;
  cluster.reaches = [](std::size_t a, std::size_t b) { return (a + 1) % 5 == b || (b + 1) % 5 == a; };
  BOOST_TEST(cluster.reduce({1, 2, 3, 4, 5}, 5000).all_succeeded());
  BOOST_TEST(cluster.reduce({1, 2, 3, 4, 5}, 3).all_succeeded());
  BOOST_TEST(cluster.reduce({1, 2, 3, 4, 5}, std::size_t{0}).all_succeeded());
  BOOST_TEST(cluster.dials() == 5U);
  cluster.schedule = Schedule::Direct;
  BOOST_TEST(!cluster.reduce({1, 2, 3, 4, 5}, 5000).all_succeeded());
}

BOOST_AUTO_TEST_SUITE_END()
