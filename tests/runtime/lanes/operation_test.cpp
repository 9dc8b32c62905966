// Owns the tests of one operation without sockets: its window, its bounds, and whom it blames.
#include "runtime/lanes/operation.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

using namespace prime;
using namespace prime::lanes;

namespace {

constexpr std::size_t CHUNK = 16;

Instant at(std::int64_t ns) { return Instant(Duration(ns)); }

/// Three ranks with ids 1, 2, 3; this one is rank 0 and owns the first third.
struct Fixture {
  explicit Fixture(std::size_t elements = 480) : input(elements, 1.0F), output(elements) {
    auto made = Operation::make(
        request(), 3, pool, [this](std::uint64_t done, std::uint64_t) { steps = done; }, at(0));
    BOOST_REQUIRE(made.has_value());
    operation = std::move(*made);
    begin = operation->next(1)->header;
  }
  ReduceRequest request() {
    const View view{Epoch{1}, {Member{PeerId{1}, "", {}, 0}, Member{PeerId{2}, "", {}, 1}, Member{PeerId{3}, "", {}, 2}}};
    return {{Epoch{1}, Sequence{1}}, view, PeerId{1}, {{PeerId{1}, 1}, {PeerId{2}, 1}, {PeerId{3}, 1}}, input, output, 1s};
  }
  /// The frame that rank `from` would send next, as a header without payload checksum.
  FrameHeader next_from(std::uint32_t from, std::uint64_t index) const {
    const auto piece = operation->plan().receive(from, index);
    auto header = begin;
    header.kind = piece.kind;
    header.segment = static_cast<std::uint16_t>(piece.segment);
    header.chunk = piece.chunk;
    header.payload_bytes = static_cast<std::uint32_t>(piece.range.count * sizeof(float));
    return header;
  }
  /// Delivers frame `index` of a rank; false when the window is full.
  bool deliver(std::uint32_t from, std::uint64_t index, std::int64_t now = 1) {
    auto header = next_from(from, index);
    const std::vector<float> values(header.payload_bytes / sizeof(float), 2.0F);
    header.payload_checksum = checksum(std::as_bytes(std::span{values}));
    const auto reception = operation->expect(from, header);
    BOOST_REQUIRE(reception.has_value());
    if (reception->early) return false;
    BOOST_REQUIRE(reception->into.size() == header.payload_bytes);
    std::copy_n(std::as_bytes(std::span{values}).begin(), header.payload_bytes, reception->into.begin());
    BOOST_REQUIRE(operation->received(from, at(now)).has_value());
    return true;
  }

  std::vector<float> input;
  std::vector<float> output;
  ChunkPool pool{CHUNK};
  std::uint64_t steps = 0;
  std::unique_ptr<Operation> operation;
  FrameHeader begin;  ///< ours; it has what all frames have in common
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_peer_that_is_ahead_waits_when_its_window_is_full, Fixture) {
  for (std::uint64_t index = 0; index <= 3; ++index) BOOST_TEST(deliver(1, index));
  BOOST_TEST(!deliver(1, 4));
  BOOST_TEST(!operation->sum_one());
  BOOST_TEST(deliver(2, 0));
  BOOST_TEST(deliver(2, 1));
  BOOST_TEST(!deliver(1, 4));
  BOOST_TEST(operation->sum_one());
  BOOST_TEST(deliver(1, 4));
  BOOST_TEST(!deliver(1, 5));
}

BOOST_FIXTURE_TEST_CASE(a_result_can_be_sent_only_once_it_is_summed, Fixture) {
  const auto inputs = operation->plan().chunk_count(1);
  for (std::uint32_t i = 0; i < 1 + inputs; ++i) {
    BOOST_REQUIRE(operation->next(1).has_value());
    operation->sent(1, at(1));
  }
  BOOST_TEST(!operation->next(1).has_value());
  for (const std::uint32_t from : {1U, 2U})
    for (const std::uint64_t index : {0U, 1U}) BOOST_TEST(deliver(from, index));
  BOOST_TEST(operation->sum_one());
  BOOST_REQUIRE(operation->next(1).has_value());
  BOOST_TEST((operation->next(1)->header.kind == PieceKind::Result));
}

BOOST_FIXTURE_TEST_CASE(who_is_silent_for_longest_is_overdue, Fixture) {
  const auto nobody_held = [](PeerId) { return false; };
  BOOST_TEST(deliver(1, 0, 10));
  BOOST_TEST(deliver(2, 0, 20));
  BOOST_TEST((operation->most_overdue(nobody_held) == PeerId{2}));
  BOOST_TEST(deliver(1, 1, 30));
  BOOST_TEST((operation->most_overdue(nobody_held) == PeerId{3}));
  // Whom we do not read from is not late.
  BOOST_TEST((operation->most_overdue([](PeerId peer) { return peer == PeerId{3}; }) == PeerId{2}));
}

BOOST_AUTO_TEST_CASE(who_owes_an_input_is_blamed_before_who_owes_a_result) {
  Fixture small(48);  // one chunk for each rank
  BOOST_TEST(small.deliver(1, 0, 10));
  BOOST_TEST(small.deliver(1, 1, 11));  // now rank 1 owes its result, which may wait for rank 2
  BOOST_TEST(small.deliver(2, 0, 50));
  BOOST_TEST((small.operation->most_overdue([](PeerId) { return false; }) == PeerId{3}));
}

BOOST_FIXTURE_TEST_CASE(an_exchange_begins_anew_once_and_only_before_anything_came, Fixture) {
  operation->sent(1, at(1));
  BOOST_TEST(operation->restart(1));
  BOOST_TEST((operation->next(1)->header.kind == PieceKind::Begin));
  BOOST_TEST(!operation->restart(1));
  BOOST_TEST(deliver(2, 0));
  BOOST_TEST(!operation->restart(2));
}

BOOST_FIXTURE_TEST_CASE(any_header_is_refused_or_gets_memory_that_is_ours, Fixture) {
  std::mt19937_64 random(1);
  const auto own = std::as_writable_bytes(std::span{output});
  std::size_t accepted = 0;
  for (int tries = 0; tries < 150'000; ++tries) {
    const auto from = static_cast<std::uint32_t>(1 + random() % 2);
    auto header = next_from(from, random() % operation->plan().receive_count(from));
    switch (random() % 8) {
      case 0: header.chunk = static_cast<std::uint32_t>(random()); break;
      case 1: header.payload_bytes = static_cast<std::uint32_t>(random() % (MAX_PAYLOAD_BYTES + 1)); break;
      case 2: header.segment = static_cast<std::uint16_t>(random() % 3); break;
      case 3: header.kind = static_cast<PieceKind>(random() % 3); break;
      case 4: header.elements = random(); break;
      case 5: header.world = static_cast<std::uint16_t>(1 + random() % 5); break;
      default: break;
    }
    const auto decoded = decode(encode(header));
    if (!decoded) continue;
    const auto reception = operation->expect(from, *decoded);
    if (!reception || reception->early) continue;
    ++accepted;
    BOOST_REQUIRE(reception->into.size() == decoded->payload_bytes);
    if (decoded->kind == PieceKind::Result) {
      BOOST_REQUIRE(reception->into.data() >= own.data());
      BOOST_REQUIRE(reception->into.data() + reception->into.size() <= own.data() + own.size());
    }
    std::fill(reception->into.begin(), reception->into.end(), std::byte{1});  // the sanitizer watches the bounds
    (void)operation->received(from, at(1)).has_value();
    (void)operation->sum_one();
  }
  BOOST_TEST(accepted > 0U);
}

BOOST_FIXTURE_TEST_CASE(a_request_that_contradicts_itself_is_refused, Fixture) {
  const auto refused = [&](auto change) {
    auto broken = request();
    change(broken);
    const auto made = Operation::make(
        std::move(broken), 3, pool, [](std::uint64_t, std::uint64_t) {}, at(0));
    return !made && made.error().name == ErrorName::ReduceMismatch;
  };
  BOOST_TEST(refused([](ReduceRequest& r) { r.self = PeerId{9}; }));
  BOOST_TEST(refused([](ReduceRequest& r) { r.contributions.pop_back(); }));
  BOOST_TEST(refused([](ReduceRequest& r) { std::swap(r.contributions[0], r.contributions[1]); }));
  BOOST_TEST(refused([](ReduceRequest& r) { r.input = r.input.first(5); }));
  BOOST_TEST(refused([](ReduceRequest& r) {
    r.view.members[2] = r.view.members[1];
    r.contributions[2] = r.contributions[1];
  }));
}
