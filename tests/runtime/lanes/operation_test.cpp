// Owns the tests of one operation without sockets: its window, its bounds, its schedule.
#include <random>

#include "tests/runtime/lanes/played_operation.hpp"

BOOST_AUTO_TEST_SUITE(operation)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

BOOST_FIXTURE_TEST_CASE(nothing_but_the_beginning_is_sent_to_who_has_not_begun, PlayedOperation) {
  BOOST_TEST(send_all(1).empty());
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(!send_all(1).empty());
}

BOOST_FIXTURE_TEST_CASE(no_more_is_given_than_the_window_holds, PlayedOperation) {
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(send_all(1).size() == 3U);
  BOOST_TEST(deliver(1, PieceKind::Result, 0));
  const auto more = send_all(1);
  BOOST_REQUIRE(more.size() == 1U);
  BOOST_TEST((more[0].kind == PieceKind::Input));
  BOOST_TEST(more[0].chunk == 3U);
}

BOOST_FIXTURE_TEST_CASE(while_others_share_the_pool_less_is_given_or_nothing, PlayedOperation) {
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(!operation->next(1, 0).has_value());
  BOOST_TEST(operation->next(1, 1).has_value());
  BOOST_TEST(!operation->next(1, 1).has_value());
  BOOST_TEST(operation->next(1, 2).has_value());
  BOOST_TEST(!operation->next(1, 2).has_value());
  BOOST_TEST(send_all(1).size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(it_is_begun_by_all_when_everybody_has_said_so, PlayedOperation) {
  BOOST_TEST(!operation->begun_by_all());
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(!operation->begun_by_all());
  BOOST_TEST(deliver(2, PieceKind::Begin));
  BOOST_TEST(operation->begun_by_all());
}

BOOST_FIXTURE_TEST_CASE(what_goes_beyond_the_window_is_a_violation, PlayedOperation) {
  for (const std::uint32_t from : {1U, 2U}) BOOST_TEST(deliver(from, PieceKind::Begin));
  for (const std::uint32_t chunk : {2U, 0U, 1U}) BOOST_TEST(deliver(1, PieceKind::Input, chunk));
  BOOST_TEST(!deliver(1, PieceKind::Input, 3));
  BOOST_TEST(!operation->combine_one());
  BOOST_TEST(deliver(2, PieceKind::Input, 0));
  BOOST_TEST(operation->combine_one());
  BOOST_TEST(deliver(1, PieceKind::Input, 3));
  BOOST_TEST(!deliver(1, PieceKind::Input, 4));
}

BOOST_FIXTURE_TEST_CASE(what_was_here_before_is_a_violation, PlayedOperation) {
  for (const auto kind : {PieceKind::Begin, PieceKind::Input, PieceKind::Result}) {
    BOOST_TEST(deliver(1, kind));
    BOOST_TEST(!deliver(1, kind));
  }
}

BOOST_FIXTURE_TEST_CASE(a_result_is_sent_to_all_once_it_is_combined, PlayedOperation) {
  for (const std::uint32_t from : {1U, 2U}) {
    BOOST_TEST(deliver(from, PieceKind::Begin));
    BOOST_TEST(send_all(from).size() >= 3U);
    BOOST_TEST(deliver(from, PieceKind::Input));
  }
  BOOST_TEST(operation->combine_one());
  for (const std::uint32_t to : {1U, 2U}) {
    const auto frame = operation->next(to);
    BOOST_REQUIRE(frame.has_value());
    BOOST_TEST((frame->header.kind == PieceKind::Result));
  }
}

BOOST_FIXTURE_TEST_CASE(an_exchange_begins_anew_once_and_only_before_anything_came, PlayedOperation) {
  operation->sent(1, begin);
  BOOST_TEST(operation->restart(1));
  BOOST_TEST((operation->next(1)->header.kind == PieceKind::Begin));
  BOOST_TEST(!operation->restart(1));
  BOOST_TEST(deliver(2, PieceKind::Begin));
  BOOST_TEST(!operation->restart(2));
}

BOOST_AUTO_TEST_CASE(automatic_is_a_ring_where_one_was_measured_and_fits_what_is_reduced) {
  ChunkPool pool{256 * 1024};
  std::vector<std::byte> input(4 << 20);
  std::vector<std::byte> output(input.size());
  ReduceRequest wanted;
  wanted.op = {Epoch{1}, Sequence{1}};
  wanted.self = PeerId{1};
  wanted.input = input;
  wanted.output = output;
  wanted.combine = ReduceOperator::Average;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    wanted.view.members.push_back(Member{PeerId{rank + 1}, "", {}, rank});
    wanted.contributions.push_back({PeerId{rank + 1}, 1});
  }
  const auto chosen = [&](bool measured, DataType type, Codec codec) {
    auto request = wanted;
    request.measured_ring = measured;
    request.type = type;
    request.codec = codec;
    const auto made = Operation::make(
        std::move(request), {3, &pool}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
    BOOST_REQUIRE(made.has_value());
    return (*made)->plan().schedule();
  };
  BOOST_TEST((chosen(true, DataType::F32, Codec::None) == Schedule::Ring));
  BOOST_TEST((chosen(false, DataType::F32, Codec::None) == Schedule::Direct));
  BOOST_TEST((chosen(true, DataType::F16, Codec::None) == Schedule::Direct));
  BOOST_TEST((chosen(true, DataType::F32, Codec::Int8Block) == Schedule::Direct));
}

BOOST_AUTO_TEST_CASE(chunks_that_no_payload_fits_into_are_refused) {
  PlayedOperation fixture;
  ChunkPool tiny{8};
  auto request = fixture.request();
  request.codec = Codec::Int8MinMax;
  const auto made = Operation::make(
      std::move(request), {3, &tiny}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
  BOOST_REQUIRE(!made);
  BOOST_TEST((made.error().name == ErrorName::ReduceMismatch));
}

BOOST_FIXTURE_TEST_CASE(any_header_is_refused_or_gets_memory_that_is_ours, PlayedOperation) {
  std::mt19937_64 random(1);
  const auto own = std::as_writable_bytes(std::span{output});
  std::size_t accepted = 0;
  for (int tries = 0; tries < 1'000'000; ++tries) {
    const auto from = static_cast<std::uint32_t>(1 + random() % 2);
    auto header = frame(from, static_cast<PieceKind>(random() % 3), static_cast<std::uint32_t>(random() % 12));
    switch (random() % 8) {
      case 0: header.chunk = static_cast<std::uint32_t>(random()); break;
      case 1: header.payload_bytes = static_cast<std::uint32_t>(random() % (MAX_PAYLOAD_BYTES + 1)); break;
      case 2: header.segment = static_cast<std::uint16_t>(random() % 3); break;
      case 3: header.kind = static_cast<PieceKind>(random() % 8); break;
      case 4: header.agreement = random(); break;
      case 5: header.world = static_cast<std::uint16_t>(1 + random() % 5); break;
      default: break;
    }
    const auto decoded = decode(encode(header));
    if (!decoded) continue;
    auto reception = operation->expect(from, *decoded);
    if (!reception) continue;
    ++accepted;
    BOOST_REQUIRE(reception->into.size() == decoded->payload_bytes);
    if (decoded->kind == PieceKind::Result) {
      BOOST_REQUIRE(reception->into.data() >= own.data());
      BOOST_REQUIRE(reception->into.data() + reception->into.size() <= own.data() + own.size());
    }
    std::fill(reception->into.begin(), reception->into.end(), std::byte{1});  // the sanitizer watches the bounds
    (void)operation->received(from, std::move(*reception), at(1)).has_value();
    (void)operation->combine_one();
  }
  BOOST_TEST(accepted > 20U);
}

BOOST_FIXTURE_TEST_CASE(a_request_that_contradicts_itself_is_refused, PlayedOperation) {
  const auto refused = [&](auto change) {
    auto broken = request();
    change(broken);
    const auto made = Operation::make(
        std::move(broken), {3, &pool}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
    return !made && made.error().name == ErrorName::ReduceMismatch;
  };
  BOOST_TEST(refused([](ReduceRequest& r) { r.self = PeerId{9}; }));
  BOOST_TEST(refused([](ReduceRequest& r) { std::erase_if(r.contributions, [&](const auto& c) { return c.peer == r.self; }); }));
  BOOST_TEST(refused([](ReduceRequest& r) { r.contributions.push_back({PeerId{9}, 1}); }));
  BOOST_TEST(refused([](ReduceRequest& r) { r.contributions.push_back(r.contributions[0]); }));
  BOOST_TEST(refused([](ReduceRequest& r) { r.input = r.input.first(5); }));
  BOOST_TEST(refused([](ReduceRequest& r) {
    auto& members = r.view.members.edit();
    members[2] = members[1];
    r.contributions[2] = r.contributions[1];
  }));
}

BOOST_AUTO_TEST_SUITE_END()
