// Owns the tests of one operation on device tensors, copy by copy: what overlaps with what, and what waits for what.
#include <boost/test/unit_test.hpp>

#include "runtime/lanes/operation.hpp"
#include "tests/support/fake_device.hpp"

BOOST_AUTO_TEST_SUITE(device_operation)

using namespace prime;
using namespace prime::lanes;
using prime::test::FakeDevice;
using Way = FakeDevice::Way;

namespace {

constexpr std::size_t CHUNK = 16;
constexpr std::uint32_t WINDOW = 3;
constexpr std::uint32_t CHUNKS = 10;  ///< of each of two segments

Instant at(std::int64_t ns) { return Instant(Duration(ns)); }

/// Rank 0 of two; rank 1 is the test. Copies end when the test says so.
struct Fixture {
  explicit Fixture(bool vote = true) {
    ReduceRequest request;
    request.op = {Epoch{1}, Sequence{1}};
    request.view = View{Epoch{1}, {Member{PeerId{1}, "", {}, 0}, Member{PeerId{2}, "", {}, 1}}};
    request.self = PeerId{1};
    request.contributions = {{PeerId{1}, 1}, {PeerId{2}, 1}};
    request.memory = device;
    request.input = input.span();
    request.output = output.span();
    request.deadline = 1s;
    request.schedule = Schedule::Direct;
    request.vote = vote;
    auto made = Operation::make(
        std::move(request), {WINDOW, &pool, &staging, [this](CopyEnd end) { ends.push_back(std::move(end)); }},
        [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
    BOOST_REQUIRE(made.has_value());
    operation = std::move(*made);
    begin = operation->next(1)->header;
    operation->sent(1, begin);
  }
  ~Fixture() {
    while (device->end_one(Way::Fetch) || device->end_one(Way::Store)) {
    }
  }
  /// Ends so many copies, the eldest first; false when there are not so many.
  bool end(Way way, std::size_t count = 1) {
    for (std::size_t each = 0; each < count; ++each) {
      if (!device->end_one(way)) return false;
      operation->copied(ends.back());
    }
    return true;
  }
  FrameHeader frame(PieceKind kind, std::uint32_t chunk = 0) const {
    auto header = begin;
    header.kind = kind;
    header.segment = kind == PieceKind::Result ? 1 : 0;
    header.chunk = chunk;
    header.payload_bytes = kind == PieceKind::Begin ? 0 : CHUNK * sizeof(float);
    return header;
  }
  void deliver(PieceKind kind, std::uint32_t chunk = 0) {
    auto header = frame(kind, chunk);
    const std::vector<float> values(header.payload_bytes / sizeof(float), 3.0F);
    const auto bytes = std::as_bytes(std::span{values});
    header.payload_checksum = checksum(bytes);
    auto reception = operation->expect(1, header);
    BOOST_REQUIRE(reception.has_value());
    std::ranges::copy(bytes, reception->into.begin());
    BOOST_REQUIRE(operation->received(1, std::move(*reception), at(1)).has_value());
  }
  /// All that can be sent now: how many inputs, and how many results.
  std::pair<std::size_t, std::size_t> send_all() {
    std::pair<std::size_t, std::size_t> sent;
    while (auto next = operation->next(1)) {
      ++(next->header.kind == PieceKind::Input ? sent.first : sent.second);
      operation->sent(1, next->header);
    }
    return sent;
  }
  std::size_t begun(Way way) const { return device->count(way).begun; }

  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>(FakeDevice::Ends::ByHand);
  struct Tensor {
    Tensor(FakeDevice& on, std::size_t bytes) : device(on), data(on.allocate(bytes)), size(bytes) {}
    ~Tensor() { device.release(data); }
    std::span<std::byte> span() const { return {data, size}; }
    FakeDevice& device;
    std::byte* data;
    std::size_t size;
  };
  Tensor input{*device, 2 * CHUNKS* CHUNK * sizeof(float)};  ///< zeros
  Tensor output{*device, input.size};
  ChunkPool pool{CHUNK * sizeof(float)};
  ChunkPool staging{CHUNK * sizeof(float), device};
  std::vector<CopyEnd> ends;
  std::unique_ptr<Operation> operation;
  FrameHeader begin;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(inputs_are_fetched_before_anybody_has_begun_and_no_more_than_the_windows_hold, Fixture) {
  operation->stage(WINDOW);
  operation->stage(WINDOW);
  BOOST_TEST(begun(Way::Fetch) == 2 * WINDOW);
  deliver(PieceKind::Begin);
  BOOST_TEST(send_all().first == 0U);  // none is here yet
}

BOOST_FIXTURE_TEST_CASE(while_others_share_the_pool_less_is_fetched_or_nothing, Fixture) {
  operation->stage(0);
  BOOST_TEST(begun(Way::Fetch) == 0U);
  operation->stage(1);
  BOOST_TEST(begun(Way::Fetch) == 2U);
}

BOOST_FIXTURE_TEST_CASE(what_is_here_is_sent_and_the_next_is_fetched_while_no_result_is_back, Fixture) {
  operation->stage(WINDOW);
  deliver(PieceKind::Begin);
  BOOST_REQUIRE(end(Way::Fetch));  // chunk 0 for rank 1
  BOOST_TEST(send_all().first == 1U);
  BOOST_TEST(begun(Way::Fetch) == 2 * WINDOW + 1);
  BOOST_REQUIRE(end(Way::Fetch, 2 * WINDOW));
  BOOST_TEST(send_all().first == WINDOW - 1);  // as many as without a device
  BOOST_TEST(begun(Way::Fetch) == 3 * WINDOW);
}

BOOST_FIXTURE_TEST_CASE(results_are_written_before_the_last_input_has_left, Fixture) {
  operation->stage(WINDOW);
  deliver(PieceKind::Begin);
  deliver(PieceKind::Input, 0);
  BOOST_TEST(!operation->combine_one());  // the own input is not here yet
  BOOST_REQUIRE(end(Way::Fetch, 2 * WINDOW));
  BOOST_TEST(operation->combine_one());
  BOOST_TEST(begun(Way::Store) == 1U);
  deliver(PieceKind::Result, 0);
  BOOST_TEST(begun(Way::Store) == 2U);
  const auto sent = send_all();
  BOOST_TEST(sent.first == WINDOW);  // of ten
  BOOST_TEST(sent.second == 1U);     // and the result, while it is written
}

BOOST_FIXTURE_TEST_CASE(nobody_votes_before_the_whole_result_is_on_the_device, Fixture) {
  operation->stage(WINDOW);
  deliver(PieceKind::Begin);
  for (std::uint32_t chunk = 0; chunk < CHUNKS; ++chunk) {
    while (end(Way::Fetch)) send_all();
    deliver(PieceKind::Input, chunk);
    BOOST_REQUIRE(operation->combine_one());
    deliver(PieceKind::Result, chunk);
    while (begun(Way::Store) - device->count(Way::Store).ended > 1) end(Way::Store);
    send_all();
  }
  BOOST_TEST(begun(Way::Fetch) == 2 * CHUNKS);
  BOOST_TEST(begun(Way::Store) == 2 * CHUNKS);
  BOOST_TEST(operation->take_control(1).empty());
  BOOST_REQUIRE(end(Way::Store));
  BOOST_REQUIRE(!operation->take_control(1).empty());
}

BOOST_AUTO_TEST_CASE(a_last_copy_that_fails_ends_what_all_else_was_done_for) {
  for (const bool vote : {true, false}) {
    Fixture fixture(vote);
    Operation& operation = *fixture.operation;
    operation.stage(WINDOW);
    fixture.deliver(PieceKind::Begin);
    fixture.device->fail_after(Way::Store, 2 * CHUNKS - 1);
    for (std::uint32_t chunk = 0; chunk < CHUNKS; ++chunk) {
      while (fixture.end(Way::Fetch)) fixture.send_all();
      fixture.deliver(PieceKind::Input, chunk);
      BOOST_REQUIRE(operation.combine_one());
      fixture.deliver(PieceKind::Result, chunk);
      fixture.send_all();
      BOOST_TEST(!operation.outcome(at(2)).has_value());
      while (fixture.end(Way::Store)) fixture.send_all();
    }
    BOOST_REQUIRE(operation.outcome(at(2)).has_value());
    BOOST_REQUIRE(!operation.outcome(at(2))->has_value());
    BOOST_TEST((operation.outcome(at(2))->error().name == ErrorName::DeviceUnusable));
    const auto words = operation.take_control(1);
    BOOST_TEST(words.size() == (vote ? 1U : 0U));
    if (vote) BOOST_TEST((words.front().header.kind == PieceKind::Aborted));
  }
}

BOOST_FIXTURE_TEST_CASE(what_could_not_be_fetched_is_never_sent, Fixture) {
  device->fail_after(Way::Fetch, 0);
  operation->stage(WINDOW);
  deliver(PieceKind::Begin);
  BOOST_REQUIRE(end(Way::Fetch));
  BOOST_TEST((operation->outcome(at(2))->error().name == ErrorName::DeviceUnusable));
  BOOST_TEST(send_all().first == 0U);
}

BOOST_FIXTURE_TEST_CASE(results_wait_outside_while_a_window_of_them_is_being_written, Fixture) {
  operation->stage(WINDOW);
  deliver(PieceKind::Begin);
  for (std::uint32_t chunk = 0; chunk < WINDOW; ++chunk) {
    BOOST_TEST(!operation->holds(frame(PieceKind::Result, chunk)));
    deliver(PieceKind::Result, chunk);
  }
  BOOST_TEST(operation->holds(frame(PieceKind::Result, WINDOW)));
  BOOST_TEST(!operation->holds(frame(PieceKind::Input, 0)));
  BOOST_REQUIRE(end(Way::Store));
  BOOST_TEST(!operation->holds(frame(PieceKind::Result, WINDOW)));
}

BOOST_FIXTURE_TEST_CASE(no_more_is_combined_than_two_windows_of_results_that_are_not_sent, Fixture) {
  operation->stage(WINDOW);
  deliver(PieceKind::Begin);
  const auto combine = [&](std::uint32_t chunk) {
    while (end(Way::Fetch)) {
    }
    deliver(PieceKind::Input, chunk);
    const bool combined = operation->combine_one();
    while (end(Way::Store)) {
    }
    return combined;
  };
  for (std::uint32_t chunk = 0; chunk < 2 * WINDOW; ++chunk) BOOST_TEST(combine(chunk));
  BOOST_TEST(!combine(2 * WINDOW));
  BOOST_TEST(operation->next(1).has_value());  // one is sent
  BOOST_TEST(operation->combine_one());
}

BOOST_AUTO_TEST_SUITE_END()
