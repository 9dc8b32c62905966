// Owns the tests of one operation without sockets: where payloads lie, and which have a checksum.
#include "tests/runtime/lanes/played_operation.hpp"

BOOST_AUTO_TEST_SUITE(operation)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

BOOST_FIXTURE_TEST_CASE(inputs_are_summed_where_they_lie_until_that_memory_is_needed, PlayedOperation) {
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(deliver(rank, PieceKind::Begin));
  std::array<std::vector<float>, 2> memory{std::vector<float>(CHUNK, 2.0F), std::vector<float>(CHUNK, 6.0F)};
  for (const std::uint32_t rank : {1U, 2U}) {
    auto& lent = memory[rank - 1];
    BOOST_REQUIRE(lend(rank, lent, checksum(std::as_bytes(std::span{lent}))).has_value());
    if (rank == 2) continue;
    operation->keep(1, frame(1, PieceKind::Input));
    lent.assign(CHUNK, 100.0F);  // its lender has overwritten it
  }
  BOOST_TEST(operation->combine_one());
  BOOST_TEST(output[0] == 3.0F);  // the mean of 1, 2 and 6
  BOOST_TEST(output[CHUNK - 1] == 3.0F);
}

BOOST_FIXTURE_TEST_CASE(what_is_lent_is_checked_unless_it_is_vouched_for, PlayedOperation) {
  BOOST_TEST(deliver(1, PieceKind::Begin));
  std::vector<float> lent(CHUNK, 2.0F);
  BOOST_TEST((lend(1, lent, checksum(std::as_bytes(std::span{lent})) + 1).error().name == ErrorName::LaneBroken));
}

BOOST_FIXTURE_TEST_CASE(an_input_has_a_checksum_where_the_channel_does_not_vouch_for_it, PlayedOperation) {
  for (const bool vouched : {false, true}) {
    const std::uint32_t to = vouched ? 2 : 1;
    BOOST_TEST(deliver(to, PieceKind::Begin));
    std::uint32_t inputs = 0;
    while (const auto frame = operation->next(to, 8, vouched)) {
      operation->sent(to, frame->header);
      if (frame->header.kind != PieceKind::Input) continue;
      ++inputs;
      BOOST_TEST(frame->header.payload_checksum == (vouched ? 0 : checksum(frame->payload)));
    }
    BOOST_TEST(inputs > 0U);
  }
}

BOOST_FIXTURE_TEST_CASE(of_what_a_channel_vouches_for_only_inputs_need_no_checksum, PlayedOperation) {
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(deliver(rank, PieceKind::Begin));
  const auto deliver_unchecked = [&](PieceKind kind) {
    auto reception = operation->expect(1, frame(1, kind));
    BOOST_REQUIRE(reception.has_value());
    std::ranges::fill(reception->into, std::byte{0});
    reception->vouched = true;
    return operation->received(1, std::move(*reception), at(1));
  };
  BOOST_TEST(deliver_unchecked(PieceKind::Input).has_value());
  BOOST_TEST((deliver_unchecked(PieceKind::Result).error().name == ErrorName::LaneBroken));
}

BOOST_AUTO_TEST_SUITE_END()
