// Owns the tests of one operation without sockets: whom it blames, and how it doubts.
#include "tests/runtime/lanes/played_operation.hpp"

BOOST_AUTO_TEST_SUITE(operation)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

BOOST_FIXTURE_TEST_CASE(who_is_silent_for_longest_is_blamed, PlayedOperation) {
  BOOST_TEST(deliver(1, PieceKind::Begin, 0, 30));
  BOOST_TEST(deliver(2, PieceKind::Begin, 0, 20));
  BOOST_TEST((blamed() == PeerId{3}));
}

BOOST_FIXTURE_TEST_CASE(who_has_not_begun_is_blamed_first, PlayedOperation) {
  BOOST_TEST(deliver(2, PieceKind::Begin, 0, 20));
  BOOST_TEST((blamed() == PeerId{2}));
}

BOOST_FIXTURE_TEST_CASE(who_is_waited_for_is_called_by_name, PlayedOperation) {
  auto named = request();
  named.view = View{Epoch{1}, {Member{PeerId{1}, "", {}, 0}, Member{PeerId{2}, "", {}, 1}, Member{PeerId{3}, "calm-heron", {}, 2}}};
  auto made = Operation::make(
      named, {3, &pool}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
  BOOST_REQUIRE(made.has_value());
  operation = std::move(*made);
  BOOST_TEST(deliver(1, PieceKind::Begin, 0, 30));
  BOOST_TEST((blamed() == PeerId{3}));
  BOOST_REQUIRE(operation->outcome(at(100)).has_value());
  const auto detail = operation->outcome(at(100))->error().detail;
  BOOST_TEST(detail.ends_with("; it waited for peer calm-heron"), detail);
}

BOOST_AUTO_TEST_CASE(who_owes_an_input_is_blamed_before_who_owes_a_result) {
  PlayedOperation small(48);  // one chunk for each rank
  BOOST_TEST(small.deliver(1, PieceKind::Begin, 0, 10));
  BOOST_TEST(small.deliver(1, PieceKind::Input, 0, 11));  // now rank 1 owes its result, which may wait for rank 2
  BOOST_TEST(small.deliver(2, PieceKind::Begin, 0, 50));
  BOOST_TEST((small.blamed() == PeerId{3}));
}

BOOST_FIXTURE_TEST_CASE(who_holds_up_the_next_chunk_is_blamed_and_not_who_has_filled_the_window_and_waits, PlayedOperation) {
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(deliver(rank, PieceKind::Begin));
  for (const std::uint32_t chunk : {0U, 1U, 2U}) BOOST_TEST(deliver(1, PieceKind::Input, chunk, 10));
  BOOST_TEST(deliver(2, PieceKind::Input, 0, 50));
  BOOST_TEST(operation->combine_one());
  BOOST_TEST((blamed() == PeerId{3}));  // although it was heard last
}

BOOST_FIXTURE_TEST_CASE(who_holds_up_a_chunk_that_others_have_overtaken_is_blamed, PlayedOperation) {
  // Chunk 0 of rank 2 stands in one stream, its next ones have come by another.
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(deliver(rank, PieceKind::Begin));
  for (const std::uint32_t chunk : {0U, 1U, 2U}) BOOST_TEST(deliver(1, PieceKind::Input, chunk, 10));
  for (const std::uint32_t chunk : {1U, 2U}) BOOST_TEST(deliver(2, PieceKind::Input, chunk, 50));
  BOOST_TEST(operation->combine_one());
  BOOST_TEST(operation->combine_one());
  BOOST_TEST((blamed() == PeerId{3}));
}

BOOST_AUTO_TEST_CASE(who_does_not_take_its_results_is_blamed_when_nobody_owes_anything) {
  PlayedOperation small(48);  // one chunk for each rank
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(small.deliver(rank, PieceKind::Begin, 0, 10));
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(small.deliver(rank, PieceKind::Input, 0, rank == 1 ? 30 : 20));
  BOOST_TEST(small.operation->combine_one());
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(small.deliver(rank, PieceKind::Result, 0, rank == 1 ? 50 : 40));
  BOOST_TEST(!small.send_all(2).empty());
  BOOST_TEST((small.blamed() == PeerId{2}));  // rank 1, although it was heard last
}

BOOST_AUTO_TEST_CASE(nobody_is_blamed_for_what_is_not_combined_here) {
  PlayedOperation small(48);  // one chunk for each rank
  small.operation->sent(1, small.begin);
  for (const std::uint32_t rank : {1U, 2U}) {
    BOOST_TEST(small.deliver(rank, PieceKind::Begin, 0, 10));
    BOOST_TEST(small.deliver(rank, PieceKind::Input, 0, 20));
    BOOST_TEST(!small.send_all(rank).empty());
    BOOST_TEST(small.deliver(rank, PieceKind::Result, 0, 30));
  }
  BOOST_TEST((small.blamed() == PeerId{}));
}

BOOST_FIXTURE_TEST_CASE(one_that_doubts_and_falls_silent_is_not_waited_for_for_ever, PlayedOperation) {
  vote_on_nothing([] { return at(0); });
  begin = operation->next(1)->header;
  operation->give_up(Error{ErrorName::PeerLost}, 2, true);
  say(1, PieceKind::Doubt, std::array<std::byte, 3>{});  // it has lost nobody, and says no more
  BOOST_TEST(!operation->outcome(at(2)).has_value());
  operation->deadline_passed(at(3));
  await_answers_in_vain();
  BOOST_REQUIRE(operation->outcome(at(5)).has_value());
  BOOST_TEST((operation->outcome(at(5))->error().name == ErrorName::PeerLost));
}

BOOST_FIXTURE_TEST_CASE(a_doubt_is_said_again_over_the_next_lane, PlayedOperation) {
  vote_on_nothing([] { return at(0); });
  operation->give_up(Error{ErrorName::PeerLost}, 2, true);
  BOOST_TEST(operation->restart(1));
  const auto words = operation->take_control(1);
  BOOST_REQUIRE(words.size() == 1U);
  BOOST_TEST((words.front().header.kind == PieceKind::Doubt));
}

BOOST_FIXTURE_TEST_CASE(who_was_frozen_until_after_the_deadline_commits_nothing_by_votes_alone, PlayedOperation) {
  for (const bool frozen : {false, true}) {
    Instant now = at(0);
    vote_on_nothing([&] { return now; });
    begin = operation->next(1)->header;
    const auto vote = operation->take_control(1).front();  // the others' votes are the same
    say(1, PieceKind::Vote, vote.payload);
    if (frozen) now = at(0) + Duration(1s);
    say(2, PieceKind::Vote, vote.payload);
    BOOST_TEST(operation->outcome(now).has_value() != frozen);
    if (!frozen) continue;
    for (const std::uint32_t rank : {1U, 2U}) say(rank, PieceKind::Aborted, {});
    BOOST_REQUIRE(operation->outcome(now).has_value());
    BOOST_TEST((operation->outcome(now)->error().name == ErrorName::DeadlineExceeded));
  }
}

/// Rank 1 has a deadline that is earlier, rank 2 stands still.
BOOST_FIXTURE_TEST_CASE(who_hears_that_another_gives_up_looks_for_answers_from_then_on, PlayedOperation) {
  Instant now = at(0);
  vote_on_nothing([&now] { return now; });
  begin = operation->next(1)->header;
  const auto own_deadline = operation->deadline();
  now += Duration(500ms);
  say(1, PieceKind::Vote, operation->take_control(1).front().payload);
  BOOST_TEST((operation->deadline() == own_deadline));
  std::vector<std::byte> nobody_lost(3);
  say(1, PieceKind::Doubt, nobody_lost);
  BOOST_TEST((operation->deadline() == own_deadline), "it may only have cancelled");
  nobody_lost[1] = std::byte{1};  // its own place: it asks
  say(1, PieceKind::Doubt, nobody_lost);
  BOOST_TEST((operation->deadline() == now + vote::LOOK_EVERY));
  const auto words = operation->take_control(2);
  BOOST_REQUIRE(!words.empty());
  BOOST_TEST((words.back().header.kind == PieceKind::Doubt));
  BOOST_TEST((words.back().payload[0] == std::byte{1}), "it asks, too");
  operation->deadline_passed(operation->deadline());
  say(1, PieceKind::Aborted, {});
  await_answers_in_vain();
  BOOST_TEST((operation->suspect() == PeerId{3}));
  BOOST_REQUIRE(operation->outcome(operation->deadline()).has_value());
  BOOST_TEST((operation->outcome(operation->deadline())->error().name == ErrorName::DeadlineExceeded));
}

/// Rank 2 stands still; the sum of rank 1, behind it, cannot come either.
struct RingFixture : PlayedOperation {
  explicit RingFixture(bool vote = true, Schedule schedule = Schedule::Ring) {
    auto wanted = request();
    wanted.schedule = schedule;
    wanted.vote = vote;
    auto made = Operation::make(
        std::move(wanted), {3, &pool}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
    BOOST_REQUIRE(made.has_value());
    operation = std::move(*made);
    begin = operation->next(1)->header;
    for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(deliver(rank, PieceKind::Begin));
  }
};

BOOST_FIXTURE_TEST_CASE(answers_that_came_while_this_rank_stood_still_count, RingFixture) {
  BOOST_TEST((blamed() == PeerId{}));
  operation->deadline_passed(at(100) + Duration(60min));
  BOOST_TEST(!operation->outcome(at(100) + Duration(60min)).has_value());
  for (const std::uint32_t rank : {1U, 2U}) say(rank, PieceKind::Aborted, {});
  BOOST_REQUIRE(operation->outcome(operation->deadline()).has_value());
  BOOST_TEST((operation->suspect() == PeerId{}));
}

BOOST_FIXTURE_TEST_CASE(a_caller_that_cancels_does_not_wait_for_answers, RingFixture) {
  BOOST_TEST((blamed() == PeerId{}));
  BOOST_TEST(!operation->outcome(at(200)).has_value());
  operation->cancel(Error{ErrorName::Interrupted, "cancelled"});
  BOOST_REQUIRE(operation->outcome(at(200)).has_value());
  BOOST_TEST((operation->outcome(at(200))->error().name == ErrorName::DeadlineExceeded));
}

BOOST_FIXTURE_TEST_CASE(a_deadline_that_passes_after_the_end_asks_nobody, RingFixture) {
  operation->cancel(Error{ErrorName::Interrupted, "cancelled"});
  BOOST_TEST((blamed() == PeerId{}));
  BOOST_REQUIRE(operation->outcome(at(200)).has_value());
  BOOST_TEST((operation->outcome(at(200))->error().name == ErrorName::Interrupted));
}

BOOST_FIXTURE_TEST_CASE(what_fails_while_answers_are_awaited_does_not_end_the_wait, RingFixture) {
  BOOST_TEST((blamed() == PeerId{}));
  operation->give_up(Error{ErrorName::NonFiniteValue}, std::nullopt, false);
  BOOST_TEST(!operation->outcome(at(200)).has_value());
  await_answers_in_vain();
  BOOST_TEST((operation->suspect() == PeerId{2}));
}

BOOST_AUTO_TEST_CASE(who_is_still_heard_of_while_answers_are_awaited_is_slow_and_not_named) {
  for (const std::uint32_t slow : {0U, 1U, 2U}) {
    RingFixture direct(true, Schedule::Direct);
    BOOST_TEST((direct.blamed() == PeerId{}));
    for (int looks = 0; looks < 2; ++looks) direct.operation->deadline_passed(direct.operation->deadline());
    for (std::uint32_t rank = 1; rank <= slow; ++rank) BOOST_TEST(direct.deliver(rank, PieceKind::Input, 0, 3'000'000'000));
    direct.await_answers_in_vain();
    BOOST_TEST((direct.operation->suspect() == (slow == 2 ? PeerId{} : PeerId{slow + 2})));
    BOOST_REQUIRE(direct.operation->outcome(at(300)).has_value());
    BOOST_TEST((direct.operation->outcome(at(300))->error().name == ErrorName::DeadlineExceeded));
  }
}

BOOST_FIXTURE_TEST_CASE(in_a_ring_it_is_who_does_not_answer_that_stands_still, RingFixture) {
  BOOST_TEST((blamed() == PeerId{}));
  BOOST_TEST(operation->take_control(1).size() == 1U, "it says that it gives up");
  BOOST_TEST(!operation->outcome(at(200)).has_value());
  say(1, PieceKind::Aborted, {});
  BOOST_TEST(!operation->outcome(at(200)).has_value());
  BOOST_TEST((operation->deadline() > at(100)));
  await_answers_in_vain();
  BOOST_TEST((operation->suspect() == PeerId{3}));
  BOOST_REQUIRE(operation->outcome(at(300)).has_value());
  BOOST_TEST((operation->outcome(at(300))->error().name == ErrorName::DeadlineExceeded));
}

BOOST_FIXTURE_TEST_CASE(a_ring_that_is_slow_has_nobody_to_blame, RingFixture) {
  BOOST_TEST((blamed() == PeerId{}));
  for (const std::uint32_t rank : {1U, 2U}) say(rank, PieceKind::Aborted, {});
  BOOST_REQUIRE(operation->outcome(at(200)).has_value());
  BOOST_TEST((operation->outcome(at(200))->error().name == ErrorName::DeadlineExceeded));
  BOOST_TEST((operation->suspect() == PeerId{}));
}

BOOST_AUTO_TEST_CASE(a_ring_without_a_vote_waits_for_nobody_and_blames_nobody) {
  RingFixture ring(false);
  BOOST_TEST((ring.blamed() == PeerId{}));
  BOOST_TEST(ring.operation->outcome(at(200)).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
