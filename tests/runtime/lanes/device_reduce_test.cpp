// Owns the tests of reduces of device tensors over real lanes: their bits, and how they end when something goes wrong meanwhile.
#include <boost/test/unit_test.hpp>
#include <future>

#include "tests/runtime/lanes/device_reduces.hpp"
#include "tests/support/fake_device.hpp"

BOOST_AUTO_TEST_SUITE(device_reduce)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;
using prime::test::FakeDevice;
using Way = FakeDevice::Way;

namespace {

constexpr std::size_t CHUNK = 512;

/// Two or three ranks whose tensors all lie on one device, for reduces that are stopped.
struct Stage {
  explicit Stage(std::size_t world, std::size_t elements = CHUNK * 40) : cluster(world, CHUNK) {
    c.weights.assign(world, 1);
    c.elements = elements;
    for (std::size_t r = 0; r < world; ++r) {
      values.push_back(values_of(c, r));
      inputs.emplace_back(device, values[r]);
      outputs.emplace_back(device, values[r]);
    }
  }
  ~Stage() {
    for (const auto way : {Way::Fetch, Way::Store}) device->hold(way, false);  // a test that has failed must still end
  }
  void start(std::size_t rank, std::uint64_t sequence, Duration deadline = PATIENCE) {
    auto request = device_request(cluster, {Epoch{1}, Sequence{sequence}}, rank, c);
    request.memory = device;
    request.input = inputs[rank].span();
    request.output = outputs[rank].span();
    request.deadline = deadline;
    cluster.engine(rank).start(std::move(request), [this, rank, seen = outcomes](ReduceOutcome outcome) {
      if (device->touches(inputs[rank].span()) || device->touches(outputs[rank].span())) touched = true;
      seen.put(rank, std::move(outcome));
    });
  }
  /// The same values as host tensors; outcomes of sequences after the second have keys of their own.
  void start_on_host(std::size_t rank, std::uint64_t sequence) {
    auto request = device_request(cluster, {Epoch{1}, Sequence{sequence}}, rank, c);
    const std::size_t key = rank + (sequence - 2) * 10;
    auto& output = host_outputs[key];
    output.resize(values[rank].size());
    request.input = values[rank];
    request.output = output;
    cluster.engine(rank).start(std::move(request), [key, seen = outcomes](ReduceOutcome outcome) { seen.put(key, std::move(outcome)); });
  }
  void start_all(std::uint64_t sequence) {
    outcomes = Outcomes{};
    for (std::size_t r = 0; r < cluster.world(); ++r) start(r, sequence);
  }
  [[nodiscard]] bool all_failed() const {
    const auto all = outcomes.all();
    return std::ranges::none_of(all, [](const auto& each) { return each.second.stats.has_value(); });
  }
  /// What must hold after any end: nothing touches the tensors, inputs are as they were, and the same ranks reduce again.
  void check_sound(std::uint64_t next_sequence) {
    BOOST_TEST(!touched);
    for (std::size_t r = 0; r < cluster.world(); ++r) BOOST_TEST((inputs[r].get() == values[r]));
    start_all(next_sequence);
    BOOST_REQUIRE(outcomes.wait_for_all(cluster.world()));
    for (const auto& [rank, outcome] : outcomes.all())
      BOOST_TEST(outcome.stats.has_value(), (outcome.stats ? "" : to_string(outcome.stats.error())));
    for (std::size_t r = 1; r < cluster.world(); ++r) BOOST_TEST((outputs[r].get() == outputs[0].get()));
  }

  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  DeviceCase c;
  std::vector<Bytes> values;
  std::vector<DeviceTensor> inputs;
  std::vector<DeviceTensor> outputs;
  std::map<std::size_t, Bytes> host_outputs;
  Outcomes outcomes;
  std::atomic<bool> touched = false;
  Cluster cluster;
};

bool any_copy_is_under_way(const FakeDevice::Counts& counts, Way way) {
  const auto& count = counts[static_cast<std::size_t>(way)];
  return count.begun > count.ended;
}

}  // namespace

BOOST_AUTO_TEST_CASE(device_tensors_have_the_bits_of_host_tensors_for_every_schedule_codec_and_type) {
  every_reduce_has_the_bits_of_host_tensors(std::make_shared<FakeDevice>(FakeDevice::Ends::ByItself, 5), CHUNK);
}

BOOST_AUTO_TEST_CASE(an_abort_at_any_chunk_ends_when_no_copy_touches_the_tensors_any_more) {
  std::uint64_t sequence = 0;
  for (const auto schedule : {Schedule::Direct, Schedule::Ring}) {
    Stage stage(3, CHUNK * 12);
    stage.c.schedule = schedule;
    std::atomic<std::uint64_t> stop_at = 0;
    std::atomic<std::uint64_t> total = 1;
    stage.cluster.hook = [&](std::size_t rank, OperationId op, std::uint64_t done, std::uint64_t all) {
      total = std::max(total.load(), all);
      if (rank == 1 && done == stop_at) stage.cluster.engine(1).abort(op, "the test says so");
    };
    for (std::uint64_t at = 1; at <= total; ++at) {
      stop_at = at;
      stage.start_all(++sequence);
      BOOST_REQUIRE(stage.outcomes.wait_for_all(3));
      stop_at = 0;
      stage.check_sound(++sequence);
    }
    BOOST_TEST(total > 10U);
    stage.cluster.hook = nullptr;
  }
}

BOOST_AUTO_TEST_CASE(however_a_reduce_ends_others_hear_at_once_and_the_owner_of_the_tensors_when_copies_have_ended) {
  enum class Strike { Abort, Deadline, Cut, Newer };
  for (const auto way : {Way::Fetch, Way::Store})
    for (const auto strike : {Strike::Abort, Strike::Deadline, Strike::Cut, Strike::Newer}) {
      BOOST_TEST_CONTEXT("strike " << static_cast<int>(strike) << " way " << static_cast<int>(way)) {
        Stage stage(3);
        stage.check_sound(1);  // now there are lanes to be cut
        stage.device->hold(way);
        stage.outcomes = Outcomes{};
        stage.start(0, 2, strike == Strike::Deadline ? Duration(300ms) : Duration(PATIENCE));
        for (const std::size_t rank : {1U, 2U}) stage.start_on_host(rank, 2);
        BOOST_REQUIRE(stage.device->wait([&](const auto& counts) { return any_copy_is_under_way(counts, way); }));
        switch (strike) {
          case Strike::Abort: stage.cluster.engine(0).abort({Epoch{1}, Sequence{2}}, "the test says so"); break;
          case Strike::Deadline: break;
          case Strike::Cut:
            stage.cluster.refuse_dials(true);  // it may have been cut before it was needed
            stage.cluster.cut(0, 1);
            stage.cluster.cut(0, 2);
            break;
          case Strike::Newer:
            for (const std::size_t rank : {0U, 1U, 2U}) stage.start_on_host(rank, 3);
            break;
        }
        const std::size_t others = strike == Strike::Newer ? 5 : 2;  // of the newer one all three
        BOOST_REQUIRE(stage.outcomes.wait([&](const auto& all) { return all.size() - all.contains(0) == others; }));
        BOOST_TEST(!stage.outcomes.all().contains(0));
        stage.cluster.refuse_dials(false);
        stage.device->hold(way, false);
        BOOST_REQUIRE(stage.outcomes.wait([](const auto& all) { return all.contains(0); }));
        BOOST_TEST(stage.all_failed() == (strike != Strike::Newer));
        BOOST_TEST(!stage.outcomes.all().at(0).stats.has_value());
        stage.check_sound(4);
      }
    }
}

BOOST_AUTO_TEST_CASE(an_engine_ends_when_no_copy_touches_its_tensors_any_more) {
  for (const auto way : {Way::Fetch, Way::Store}) {
    Stage stage(2);
    stage.device->hold(way);
    stage.start_all(1);
    BOOST_REQUIRE(stage.device->wait([&](const auto& counts) { return any_copy_is_under_way(counts, way); }));
    auto end = std::async(std::launch::async, [&] { stage.cluster.end(); });
    BOOST_TEST((end.wait_for(100ms) == std::future_status::timeout));
    stage.device->hold(way, false);
    end.get();
    BOOST_TEST(stage.outcomes.all().size() == 2U);
    BOOST_TEST(stage.all_failed());
    BOOST_TEST(!stage.touched);
    BOOST_TEST(stage.device->idle());
  }
}

BOOST_AUTO_TEST_CASE(a_copy_that_fails_is_named_and_ends_the_reduce_for_all) {
  std::uint64_t sequence = 0;
  Stage stage(3, CHUNK * 9);
  std::size_t strikes = 0;
  for (const auto way : {Way::Fetch, Way::Store})
    for (std::size_t copy = 0; copy < 27; copy += 4, ++strikes) {  // 9 chunks at each of 3 ranks
      stage.device->fail_after(way, copy);
      stage.start_all(++sequence);
      BOOST_REQUIRE(stage.outcomes.wait_for_all(3));
      BOOST_TEST(stage.all_failed());
      std::size_t named = 0;
      for (const auto& [rank, outcome] : stage.outcomes.all()) {
        if (outcome.stats || outcome.stats.error().name != ErrorName::DeviceUnusable) continue;
        ++named;
        const auto text = to_string(outcome.stats.error());
        BOOST_TEST_MESSAGE(text);
        BOOST_TEST(text.find(way == Way::Fetch ? "of the input from fake device failed: the test says so"
                                               : "of the result to fake device failed: the test says so") != std::string::npos,
                   text);
        BOOST_TEST(text.find("bytes at offset") != std::string::npos);
      }
      BOOST_TEST(named == 1U);
      stage.check_sound(++sequence);
    }
  BOOST_TEST(strikes == 14U);
}

BOOST_AUTO_TEST_CASE(the_memory_between_device_and_lanes_does_not_grow_with_the_tensor) {
  // A window of 3 chunks: of each of 2 segments fetched, of results twice as many for slow members, and one received by each stream.
  constexpr std::size_t BOUND = (2 * 3 + 2 * 3 + 2) * CHUNK * sizeof(float);
  for (const bool slow_device : {false, true})
    for (const bool spectator : {false, true}) {
      constexpr std::size_t CHUNKS = 400;
      Stage stage(2, CHUNK * CHUNKS);
      if (spectator) stage.c.weights[1] = 0;
      if (spectator) stage.inputs[1] = DeviceTensor(stage.device, {});
      if (slow_device) stage.device->hold(Way::Store);
      stage.start_all(1);
      // One by one, each when a next one is waiting: what is held up meanwhile must not pile up.
      for (std::size_t stored = 0; slow_device && stored < 2 * CHUNKS; ++stored) {
        BOOST_REQUIRE(stage.device->wait([](const auto& counts) { return any_copy_is_under_way(counts, Way::Store); }));
        stage.device->end_one(Way::Store);
      }
      BOOST_REQUIRE(stage.outcomes.wait_for_all(2));
      for (const auto& [rank, outcome] : stage.outcomes.all()) BOOST_TEST(outcome.stats.has_value());
      // Both ranks' engines copy through memory of their own.
      BOOST_TEST(stage.device->pinned_bytes() <= 2 * BOUND, "slow device " << slow_device << ", spectator " << spectator);
      BOOST_TEST(stage.device->pinned_bytes() > 0U);
    }
}

BOOST_AUTO_TEST_CASE(a_device_that_nobody_else_has_any_more_is_given_up_with_the_memory_for_its_copies) {
  Cluster cluster(2, CHUNK);
  const DeviceCase c{.elements = 5 * CHUNK, .weights = {1, 1}};
  std::weak_ptr<FakeDevice> last;
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
    const auto device = std::make_shared<FakeDevice>();
    for (const auto& [rank, outcome] : reduce(cluster, sequence, c, {device, nullptr}).outcomes) BOOST_TEST(outcome.stats.has_value());
    BOOST_TEST(device->pinned_bytes() > 0U);
    BOOST_TEST(last.expired());  // the next one came
    last = device;
  }
}

BOOST_AUTO_TEST_CASE(many_tags_of_device_tensors_share_the_windows_of_two) {
  constexpr std::size_t TAGS = 24;
  Stage stage(2, CHUNK * 20);
  stage.outcomes = Outcomes{};
  std::vector<DeviceTensor> outputs;
  for (std::size_t at = 0; at < 2 * TAGS; ++at) outputs.emplace_back(stage.device, stage.values[0]);
  for (std::size_t tag = 0; tag < TAGS; ++tag)
    for (std::size_t r = 0; r < 2; ++r) {
      auto request = device_request(stage.cluster, {Epoch{1}, Sequence{1}, Tag{tag + 1}}, r, stage.c);
      request.memory = stage.device;
      request.input = stage.inputs[r].span();
      const std::size_t key = 2 * tag + r;
      request.output = outputs[key].span();
      stage.cluster.engine(r).start(std::move(request),
                                    [seen = stage.outcomes, key](ReduceOutcome outcome) { seen.put(key, std::move(outcome)); });
    }
  BOOST_REQUIRE(stage.outcomes.wait_for_all(2 * TAGS));
  for (const auto& [key, outcome] : stage.outcomes.all()) BOOST_REQUIRE(outcome.stats.has_value());
  const auto expected = outputs[0].get();
  for (const auto& output : outputs) BOOST_TEST((output.get() == expected));
  // Of each of eight operations a chunk of two segments in and out, what is being received, and the two that begin with whole windows.
  BOOST_TEST(stage.device->pinned_bytes() <= 2 * 64 * CHUNK * sizeof(float));
}

BOOST_AUTO_TEST_SUITE_END()
