// Owns the tests of one operation without sockets: its window, its bounds, and whom it blames.
#include "runtime/lanes/operation.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <random>

BOOST_AUTO_TEST_SUITE(operation)

using namespace prime;
using namespace prime::lanes;

namespace {

constexpr std::size_t CHUNK = 16;

Instant at(std::int64_t ns) { return Instant(Duration(ns)); }

/// Three ranks with ids 1, 2, 3; this one is rank 0 and owns the first third, ten chunks.
struct Fixture {
  explicit Fixture(std::size_t elements = 480) : input(elements, 1.0F), output(elements) {
    auto made = Operation::make(
        request(), {3, &pool}, [this](std::uint64_t done, std::uint64_t) { steps = done; }, [] { return at(0); });
    BOOST_REQUIRE(made.has_value());
    operation = std::move(*made);
    begin = operation->next(1)->header;
  }
  ReduceRequest request() {
    ReduceRequest made;
    made.op = {Epoch{1}, Sequence{1}};
    made.view = View{Epoch{1}, {Member{PeerId{1}, "", {}, 0}, Member{PeerId{2}, "", {}, 1}, Member{PeerId{3}, "", {}, 2}}};
    made.self = PeerId{1};
    made.contributions = {{PeerId{1}, 1}, {PeerId{2}, 1}, {PeerId{3}, 1}};
    made.input = std::as_bytes(std::span{input});
    made.output = std::as_writable_bytes(std::span{output});
    made.deadline = 1s;
    made.schedule = Schedule::Direct;
    return made;
  }
  /// What rank `from` sends of that kind, as a header without payload checksum.
  /// An input that is used where it lies.
  Result<void> lend(std::uint32_t from, std::vector<float>& where, std::uint64_t payload_checksum) {
    auto header = frame(from, PieceKind::Input);
    header.payload_checksum = payload_checksum;
    auto reception = operation->expect(from, header, true);
    BOOST_REQUIRE(reception.has_value());
    BOOST_TEST(reception->buffer == nullptr);
    reception->buffer = {reinterpret_cast<std::byte*>(where.data()), [](std::byte*) {}};
    reception->into = std::as_writable_bytes(std::span{where});
    return operation->received(from, std::move(*reception), at(1));
  }
  FrameHeader frame(std::uint32_t from, PieceKind kind, std::uint32_t chunk = 0) const {
    auto header = begin;
    header.kind = kind;
    header.segment = static_cast<std::uint16_t>(kind == PieceKind::Result ? from : 0);
    header.chunk = chunk;
    header.payload_bytes = kind == PieceKind::Begin ? 0 : CHUNK * sizeof(float);
    return header;
  }
  /// False when it is refused.
  bool deliver(std::uint32_t from, PieceKind kind, std::uint32_t chunk = 0, std::int64_t now = 1) {
    auto header = frame(from, kind, chunk);
    const std::vector<float> values(header.payload_bytes / sizeof(float), 2.0F);
    header.payload_checksum = checksum(std::as_bytes(std::span{values}));
    auto reception = operation->expect(from, header);
    if (!reception) return false;
    BOOST_REQUIRE(reception->into.size() == header.payload_bytes);
    std::copy_n(std::as_bytes(std::span{values}).begin(), header.payload_bytes, reception->into.begin());
    BOOST_REQUIRE(operation->received(from, std::move(*reception), at(now)).has_value());
    return true;
  }
  /// A word of the vote from a rank.
  void say(std::uint32_t from, PieceKind kind, std::span<const std::byte> payload) {
    auto header = frame(from, PieceKind::Begin);
    header.kind = kind;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    header.payload_checksum = checksum(payload);
    auto reception = operation->expect(from, header);
    BOOST_REQUIRE(reception.has_value());
    std::copy(payload.begin(), payload.end(), reception->into.begin());
    BOOST_REQUIRE(operation->received(from, std::move(*reception), at(1)).has_value());
  }
  /// All frames that can be sent to a rank now.
  std::vector<FrameHeader> send_all(std::uint32_t to) {
    std::vector<FrameHeader> headers;
    while (auto next = operation->next(to)) {
      headers.push_back(next->header);
      operation->sent(to, next->header);
    }
    return headers;
  }
  PeerId blamed() {
    operation->deadline_passed(at(100));
    return operation->suspect();
  }
  /// An operation of no elements, which has voted.
  void vote_on_nothing(Operation::Clock clock) {
    auto voting = request();
    voting.vote = true;
    voting.input = {};
    voting.output = {};
    operation = std::move(*Operation::make(
        std::move(voting), {3, &pool}, [](std::uint64_t, std::uint64_t) {}, std::move(clock)));
  }
  /// Nobody who was asked after the deadline says anything more.
  void await_answers_in_vain() {
    for (int looks = 0; looks < 10 && !operation->outcome(operation->deadline()); ++looks)
      operation->deadline_passed(operation->deadline());
  }

  std::vector<float> input;
  std::vector<float> output;
  ChunkPool pool{CHUNK * sizeof(float)};
  std::uint64_t steps = 0;
  std::unique_ptr<Operation> operation;
  FrameHeader begin;  ///< ours; it has what all frames have in common
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(nothing_but_the_beginning_is_sent_to_who_has_not_begun, Fixture) {
  BOOST_TEST(send_all(1).empty());
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(!send_all(1).empty());
}

BOOST_FIXTURE_TEST_CASE(no_more_is_given_than_the_window_holds, Fixture) {
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(send_all(1).size() == 3U);
  BOOST_TEST(deliver(1, PieceKind::Result, 0));
  const auto more = send_all(1);
  BOOST_REQUIRE(more.size() == 1U);
  BOOST_TEST((more[0].kind == PieceKind::Input));
  BOOST_TEST(more[0].chunk == 3U);
}

BOOST_FIXTURE_TEST_CASE(while_others_share_the_pool_less_is_given_or_nothing, Fixture) {
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(!operation->next(1, 0).has_value());
  BOOST_TEST(operation->next(1, 1).has_value());
  BOOST_TEST(!operation->next(1, 1).has_value());
  BOOST_TEST(operation->next(1, 2).has_value());
  BOOST_TEST(!operation->next(1, 2).has_value());
  BOOST_TEST(send_all(1).size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(it_is_begun_by_all_when_everybody_has_said_so, Fixture) {
  BOOST_TEST(!operation->begun_by_all());
  BOOST_TEST(deliver(1, PieceKind::Begin));
  BOOST_TEST(!operation->begun_by_all());
  BOOST_TEST(deliver(2, PieceKind::Begin));
  BOOST_TEST(operation->begun_by_all());
}

BOOST_FIXTURE_TEST_CASE(what_goes_beyond_the_window_is_a_violation, Fixture) {
  for (const std::uint32_t from : {1U, 2U}) BOOST_TEST(deliver(from, PieceKind::Begin));
  for (const std::uint32_t chunk : {2U, 0U, 1U}) BOOST_TEST(deliver(1, PieceKind::Input, chunk));
  BOOST_TEST(!deliver(1, PieceKind::Input, 3));
  BOOST_TEST(!operation->combine_one());
  BOOST_TEST(deliver(2, PieceKind::Input, 0));
  BOOST_TEST(operation->combine_one());
  BOOST_TEST(deliver(1, PieceKind::Input, 3));
  BOOST_TEST(!deliver(1, PieceKind::Input, 4));
}

BOOST_FIXTURE_TEST_CASE(what_was_here_before_is_a_violation, Fixture) {
  for (const auto kind : {PieceKind::Begin, PieceKind::Input, PieceKind::Result}) {
    BOOST_TEST(deliver(1, kind));
    BOOST_TEST(!deliver(1, kind));
  }
}

BOOST_FIXTURE_TEST_CASE(a_result_is_sent_to_all_once_it_is_combined, Fixture) {
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

BOOST_FIXTURE_TEST_CASE(who_is_silent_for_longest_is_blamed, Fixture) {
  BOOST_TEST(deliver(1, PieceKind::Begin, 0, 30));
  BOOST_TEST(deliver(2, PieceKind::Begin, 0, 20));
  BOOST_TEST((blamed() == PeerId{3}));
}

BOOST_FIXTURE_TEST_CASE(who_has_not_begun_is_blamed_first, Fixture) {
  BOOST_TEST(deliver(2, PieceKind::Begin, 0, 20));
  BOOST_TEST((blamed() == PeerId{2}));
}

BOOST_AUTO_TEST_CASE(who_owes_an_input_is_blamed_before_who_owes_a_result) {
  Fixture small(48);  // one chunk for each rank
  BOOST_TEST(small.deliver(1, PieceKind::Begin, 0, 10));
  BOOST_TEST(small.deliver(1, PieceKind::Input, 0, 11));  // now rank 1 owes its result, which may wait for rank 2
  BOOST_TEST(small.deliver(2, PieceKind::Begin, 0, 50));
  BOOST_TEST((small.blamed() == PeerId{3}));
}

BOOST_FIXTURE_TEST_CASE(who_holds_up_the_next_chunk_is_blamed_and_not_who_has_filled_the_window_and_waits, Fixture) {
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(deliver(rank, PieceKind::Begin));
  for (const std::uint32_t chunk : {0U, 1U, 2U}) BOOST_TEST(deliver(1, PieceKind::Input, chunk, 10));
  BOOST_TEST(deliver(2, PieceKind::Input, 0, 50));
  BOOST_TEST(operation->combine_one());
  BOOST_TEST((blamed() == PeerId{3}));  // although it was heard last
}

BOOST_FIXTURE_TEST_CASE(who_holds_up_a_chunk_that_others_have_overtaken_is_blamed, Fixture) {
  // Chunk 0 of rank 2 stands in one stream, its next ones have come by another.
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(deliver(rank, PieceKind::Begin));
  for (const std::uint32_t chunk : {0U, 1U, 2U}) BOOST_TEST(deliver(1, PieceKind::Input, chunk, 10));
  for (const std::uint32_t chunk : {1U, 2U}) BOOST_TEST(deliver(2, PieceKind::Input, chunk, 50));
  BOOST_TEST(operation->combine_one());
  BOOST_TEST(operation->combine_one());
  BOOST_TEST((blamed() == PeerId{3}));
}

BOOST_AUTO_TEST_CASE(who_does_not_take_its_results_is_blamed_when_nobody_owes_anything) {
  Fixture small(48);  // one chunk for each rank
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(small.deliver(rank, PieceKind::Begin, 0, 10));
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(small.deliver(rank, PieceKind::Input, 0, rank == 1 ? 30 : 20));
  BOOST_TEST(small.operation->combine_one());
  for (const std::uint32_t rank : {1U, 2U}) BOOST_TEST(small.deliver(rank, PieceKind::Result, 0, rank == 1 ? 50 : 40));
  BOOST_TEST(!small.send_all(2).empty());
  BOOST_TEST((small.blamed() == PeerId{2}));  // rank 1, although it was heard last
}

BOOST_AUTO_TEST_CASE(nobody_is_blamed_for_what_is_not_combined_here) {
  Fixture small(48);  // one chunk for each rank
  small.operation->sent(1, small.begin);
  for (const std::uint32_t rank : {1U, 2U}) {
    BOOST_TEST(small.deliver(rank, PieceKind::Begin, 0, 10));
    BOOST_TEST(small.deliver(rank, PieceKind::Input, 0, 20));
    BOOST_TEST(!small.send_all(rank).empty());
    BOOST_TEST(small.deliver(rank, PieceKind::Result, 0, 30));
  }
  BOOST_TEST((small.blamed() == PeerId{}));
}

BOOST_FIXTURE_TEST_CASE(an_exchange_begins_anew_once_and_only_before_anything_came, Fixture) {
  operation->sent(1, begin);
  BOOST_TEST(operation->restart(1));
  BOOST_TEST((operation->next(1)->header.kind == PieceKind::Begin));
  BOOST_TEST(!operation->restart(1));
  BOOST_TEST(deliver(2, PieceKind::Begin));
  BOOST_TEST(!operation->restart(2));
}

BOOST_FIXTURE_TEST_CASE(one_that_doubts_and_falls_silent_is_not_waited_for_for_ever, Fixture) {
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

BOOST_FIXTURE_TEST_CASE(a_doubt_is_said_again_over_the_next_lane, Fixture) {
  vote_on_nothing([] { return at(0); });
  operation->give_up(Error{ErrorName::PeerLost}, 2, true);
  BOOST_TEST(operation->restart(1));
  const auto words = operation->take_control(1);
  BOOST_REQUIRE(words.size() == 1U);
  BOOST_TEST((words.front().header.kind == PieceKind::Doubt));
}

BOOST_FIXTURE_TEST_CASE(who_was_frozen_until_after_the_deadline_commits_nothing_by_votes_alone, Fixture) {
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

/// Rank 2 stands still; the sum of rank 1, behind it, cannot come either.
struct RingFixture : Fixture {
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
    for (std::uint32_t rank = 1; rank <= slow; ++rank) BOOST_TEST(direct.deliver(rank, PieceKind::Input, 0, 2'000'000'000));
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

BOOST_AUTO_TEST_CASE(automatic_is_a_ring_where_many_vote_at_one_address_and_what_they_reduce_fits_one) {
  ChunkPool pool{256 * 1024};
  std::vector<std::byte> input(LOCAL_RING_BYTES);
  std::vector<std::byte> output(input.size());
  ReduceRequest wanted;
  wanted.op = {Epoch{1}, Sequence{1}};
  wanted.self = PeerId{1};
  wanted.input = input;
  wanted.output = output;
  wanted.vote = true;
  wanted.combine = ReduceOperator::Average;
  for (std::uint32_t rank = 0; rank < LOCAL_RING_RANKS; ++rank) {
    wanted.view.members.push_back(Member{PeerId{rank + 1}, "", {"10.0.0.1", static_cast<std::uint16_t>(rank + 1)}, rank});
    wanted.contributions.push_back({PeerId{rank + 1}, 1});
  }
  const auto chosen = [&](const std::function<void(ReduceRequest&)>& change) {
    auto request = wanted;
    change(request);
    const auto made = Operation::make(
        std::move(request), {3, &pool}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
    BOOST_REQUIRE(made.has_value());
    return (*made)->plan().schedule();
  };
  std::vector<Member> fewer(wanted.view.members.begin(), std::prev(wanted.view.members.end()));
  auto elsewhere = fewer;
  elsewhere.push_back(Member{PeerId{LOCAL_RING_RANKS}, "", {"10.0.0.2", 1}, LOCAL_RING_RANKS - 1});
  BOOST_TEST((chosen([](ReduceRequest&) {}) == Schedule::Ring));
  BOOST_TEST((chosen([](ReduceRequest& r) { r.vote = false; }) == Schedule::Direct), "nobody could tell who stands still in it");
  BOOST_TEST((chosen([](ReduceRequest& r) { r.type = DataType::F16; }) == Schedule::Direct));
  BOOST_TEST((chosen([](ReduceRequest& r) { r.type = DataType::F16, r.measured_ring = true; }) == Schedule::Direct));
  BOOST_TEST((chosen([](ReduceRequest& r) { r.vote = false, r.measured_ring = true; }) == Schedule::Ring));
  BOOST_TEST((chosen([](ReduceRequest& r) { r.codec = Codec::Int8Block; }) == Schedule::Direct));
  BOOST_TEST((chosen([&](ReduceRequest& r) { r.view = View{r.view.epoch, elsewhere}; }) == Schedule::Direct));
  BOOST_TEST((chosen([&](ReduceRequest& r) { r.view = View{r.view.epoch, fewer}, r.contributions.pop_back(); }) == Schedule::Direct));
}

BOOST_AUTO_TEST_CASE(chunks_that_no_payload_fits_into_are_refused) {
  Fixture fixture;
  ChunkPool tiny{8};
  auto request = fixture.request();
  request.codec = Codec::Int8MinMax;
  const auto made = Operation::make(
      std::move(request), {3, &tiny}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
  BOOST_REQUIRE(!made);
  BOOST_TEST((made.error().name == ErrorName::ReduceMismatch));
}

BOOST_FIXTURE_TEST_CASE(inputs_are_summed_where_they_lie_until_that_memory_is_needed, Fixture) {
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

BOOST_FIXTURE_TEST_CASE(what_is_lent_is_checked_unless_it_is_vouched_for, Fixture) {
  BOOST_TEST(deliver(1, PieceKind::Begin));
  std::vector<float> lent(CHUNK, 2.0F);
  BOOST_TEST((lend(1, lent, checksum(std::as_bytes(std::span{lent})) + 1).error().name == ErrorName::LaneBroken));
}

BOOST_FIXTURE_TEST_CASE(an_input_has_a_checksum_where_the_channel_does_not_vouch_for_it, Fixture) {
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

BOOST_FIXTURE_TEST_CASE(of_what_a_channel_vouches_for_only_inputs_need_no_checksum, Fixture) {
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

BOOST_FIXTURE_TEST_CASE(any_header_is_refused_or_gets_memory_that_is_ours, Fixture) {
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

BOOST_FIXTURE_TEST_CASE(a_request_that_contradicts_itself_is_refused, Fixture) {
  const auto refused = [&](auto change) {
    auto broken = request();
    change(broken);
    const auto made = Operation::make(
        std::move(broken), {3, &pool}, [](std::uint64_t, std::uint64_t) {}, [] { return at(0); });
    return !made && made.error().name == ErrorName::ReduceMismatch;
  };
  BOOST_TEST(refused([](ReduceRequest& r) { r.self = PeerId{9}; }));
  BOOST_TEST(refused([](ReduceRequest& r) { r.contributions.pop_back(); }));
  BOOST_TEST(refused([](ReduceRequest& r) { std::swap(r.contributions[0], r.contributions[1]); }));
  BOOST_TEST(refused([](ReduceRequest& r) { r.input = r.input.first(5); }));
  BOOST_TEST(refused([](ReduceRequest& r) {
    auto& members = r.view.members.edit();
    members[2] = members[1];
    r.contributions[2] = r.contributions[1];
  }));
}

BOOST_AUTO_TEST_SUITE_END()
