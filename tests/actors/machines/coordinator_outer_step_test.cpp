// Owns the tests of the outer step: begin, ready, reduce, vote, commit, abort, end.
#include <boost/test/unit_test.hpp>

#include "actors/coordinator/run_end_machine.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(coordinator_outer_step)

using namespace prime;
using namespace prime::coordinator;

namespace {

constexpr Digest NEXT{4, 4};

Bench trio() {
  Bench bench{2, 3};
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  return bench;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranges_of_samples_are_disjoint_within_and_between_steps) {
  auto bench = trio();
  for (std::uint64_t i = 0; i < 3; ++i) BOOST_TEST(bench.sent<BeginStep>()[i].second.first_sample == i * 10);
  bench.commit({1, 2, 3}, NEXT);
  for (std::uint64_t i = 0; i < 3; ++i) BOOST_TEST(bench.sent<BeginStep>()[i].second.first_sample == 30 + i * 10);
}

BOOST_AUTO_TEST_CASE(a_run_that_begins_with_three_says_how_many_are_ready_and_who_is_coming) {
  Bench bench{2, 3};
  bench.seat(1);
  bench.greet(2);
  BOOST_TEST(bench.state.waiting.what.starts_with("peers: 1 of 3 are ready, joining: p2; gives up 10m00s"), bench.state.waiting.what);
}

BOOST_AUTO_TEST_CASE(a_wait_for_many_names_the_first_of_them) {
  Bench bench{2, 20};
  bench.state.options.max_peers = 20;
  for (std::uint64_t peer = 1; peer <= 20; ++peer) bench.seat(peer);
  BOOST_TEST(bench.state.waiting.what ==
             "inner steps of p1, p2, p3, p4, p5, p6, p7, p8 and 12 more; a trainer that stands still is started again by its agent");
}

BOOST_AUTO_TEST_CASE(once_the_peer_behind_a_broken_link_is_lost_the_reduce_is_tried_at_once) {
  auto bench = trio();
  for (const std::uint64_t peer : {1, 2, 3}) bench.ready(peer, 100);
  bench.hear(1, ReduceFailed{bench.state.operation, PeerId{3}, Error{ErrorName::LaneBroken}});
  BOOST_TEST(bench.sent<StartReduce>().empty());
  bench.lose(3);
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(each_wait_says_since_when_and_until_when) {
  auto bench = trio();
  BOOST_CHECK(bench.state.waiting.since == bench.now);
  BOOST_TEST(!bench.state.waiting.until.has_value());  // the agents watch their trainers
  bench.pass(3s);
  bench.ready(1, 100);
  const auto first = bench.now;
  BOOST_CHECK(bench.state.waiting.since == first);
  BOOST_CHECK(bench.state.waiting.until == first + bench.state.options.deadline);
  bench.pass(2s);
  bench.ready(2, 100);
  BOOST_CHECK(bench.state.waiting.since == first);
  const auto waiting = bench.journaled<events::Waiting>().at(0);
  BOOST_CHECK(waiting.waited_s == 2s);
  BOOST_CHECK(waiting.left_s == bench.state.options.deadline - 2s);
}

BOOST_AUTO_TEST_CASE(weights_are_those_of_the_survivors_and_never_of_an_earlier_attempt) {
  auto bench = trio();
  bench.ready(1, 100);
  bench.ready(2, 200);
  bench.ready(3, 300);
  BOOST_TEST(bench.sent<StartReduce>().size() == 3U);
  const auto first = bench.state.operation;
  bench.lose(2);
  const auto aborts = bench.sent<Abort>();
  BOOST_REQUIRE(aborts.size() == 2U);
  BOOST_CHECK(aborts[0].second.op == first);
  const auto again = bench.sent<StartReduce>();
  BOOST_REQUIRE(again.size() == 2U);
  const auto& message = again[0].second;
  BOOST_CHECK(first < message.op);
  BOOST_CHECK(message.contributions == (std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{3}, 300}}));
}

BOOST_AUTO_TEST_CASE(a_commit_needs_every_vote_and_is_journaled_before_it_is_told) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  bench.vote(1, NEXT);
  bench.vote(2, NEXT);
  BOOST_TEST(bench.sent<Commit>().empty());
  bench.vote(3, NEXT);
  BOOST_TEST(bench.sent<Commit>().size() == 3U);
  const auto record = bench.position_of<events::OuterStepCommitted>();
  BOOST_REQUIRE(record.has_value());
  BOOST_CHECK(info(std::get<JournalEvent>(bench.effects[*record])).durability == Durability::Durable);
  for (std::size_t i = 0; i < *record; ++i) BOOST_TEST(!std::holds_alternative<Send>(bench.effects[i]));
}

BOOST_AUTO_TEST_CASE(a_commit_tells_the_figures_of_its_contributors) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer)
    bench.hear(peer, Ready{OuterStep{1}, Revision{}, 100, 10, Real{1.0}, HeldOutLoss{Real{2.0}, 50}, Real{1.0}, 1});
  bench.pass(1s);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, NEXT);
  const auto committed = bench.journaled<events::OuterStepCommitted>().at(0);
  BOOST_TEST(committed.outer_step.value == 1U);
  BOOST_TEST(committed.revision.value == 1U);
  BOOST_CHECK(committed.digest == NEXT);
  BOOST_CHECK(committed.contributors == (std::vector{PeerId{1}, PeerId{2}, PeerId{3}}));
  BOOST_TEST(committed.weight == 300U);
  BOOST_TEST(committed.tokens == 300U);
  BOOST_TEST(committed.loss == 1.0);
  BOOST_TEST(committed.tokens_per_s == 3.0);
  BOOST_TEST(committed.wire_bytes == 3U);
  BOOST_CHECK(committed.reduce_s == Duration{1});
  BOOST_TEST(committed.next_sample == 30U);
  BOOST_TEST(committed.held_out_loss.value() == 2.0);
  BOOST_TEST(committed.held_out_tokens.value() == 150U);
}

BOOST_AUTO_TEST_CASE(who_cannot_reduce_at_all_goes_and_the_others_reduce_without_it) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  bench.hear(2, ReduceFailed{bench.state.operation, PeerId{}, Error{ErrorName::ReduceMismatch, "other tensors"}});
  BOOST_TEST(bench.reason == "p2 cannot reduce");
  BOOST_CHECK(bench.dismissed(2) == ErrorName::ReduceMismatch);
  BOOST_TEST(bench.state.view.members.size() == 2U);
  BOOST_TEST(bench.state.rounds[0].operation->contributions.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_vote_on_an_operation_that_was_aborted_counts_for_nothing) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  const auto first = bench.state.operation;
  bench.lose(3);
  bench.hear(1, Vote{first, NEXT, 1, 1});
  bench.vote(2, NEXT);
  BOOST_TEST(bench.sent<Commit>().empty());
}

BOOST_AUTO_TEST_CASE(the_minority_of_a_parity_vote_goes_and_the_others_reduce_again) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  bench.vote(1, Digest{9, 9});
  bench.vote(2, NEXT);
  bench.vote(3, NEXT);
  BOOST_CHECK(bench.dismissed(1) == ErrorName::ParityBroken);
  BOOST_TEST(bench.sent<Commit>().empty());
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(doubt_is_answered_by_commit_by_abort_or_by_silence_while_undecided) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  const auto op = bench.state.operation;
  bench.hear(1, InDoubt{op});
  BOOST_TEST(bench.effects.empty());
  BOOST_CHECK(bench.probes == std::vector{Probe::DoubtUndecided});
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, NEXT);
  bench.hear(1, InDoubt{op});
  BOOST_REQUIRE(bench.sent<Commit>().size() == 1U);
  BOOST_CHECK(bench.sent<Commit>()[0].second.state == NEXT);
  bench.hear(1, InDoubt{OperationId{op.epoch, Sequence{op.sequence.value - 1}}});
  BOOST_TEST(bench.sent<Abort>().size() == 1U);
  bench.hear(1, InDoubt{OperationId{op.epoch, op.sequence.next()}});
  BOOST_TEST(bench.effects.empty(), "a standby that took over has started it, and may commit it");
}

BOOST_AUTO_TEST_CASE(a_joiner_weighs_nothing_in_the_step_that_it_enters) {
  auto bench = trio();
  bench.ready(1, 100);
  bench.ready(2, 100);
  bench.seat(4);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 1U);
  BOOST_TEST(!begun[0].second.contribute);
  bench.ready(3, 100);
  BOOST_TEST(bench.sent<StartReduce>().empty());
  bench.ready(4, 0);
  BOOST_REQUIRE(bench.sent<StartReduce>().size() == 4U);
  BOOST_TEST(bench.sent<StartReduce>()[0].second.contributions[3].weight == 0U);
}

BOOST_AUTO_TEST_CASE(an_idle_answer_that_crosses_the_promotion_is_no_offence) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.ready(1, 100);
  bench.seat(3);
  bench.lose(2);  // peer 3 has not answered yet, and must train now
  BOOST_REQUIRE(bench.sent<BeginStep>().size() == 1U);
  BOOST_TEST(bench.sent<BeginStep>()[0].second.contribute);
  bench.ready(3, 0);
  BOOST_TEST(!bench.dismissed(3).has_value());
  bench.ready(3, 50);
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_contributor_that_weighs_nothing_is_sent_away) {
  auto bench = trio();
  bench.ready(1, 0);
  BOOST_CHECK(bench.dismissed(1) == ErrorName::ProtocolViolation);
}

BOOST_AUTO_TEST_CASE(the_slow_are_evicted_at_the_deadline_behind_the_first) {
  auto bench = trio();
  bench.pass(1min);
  bench.ready(1, 100);
  bench.ready(2, 100);
  bench.pass(120s);
  BOOST_TEST(!bench.dismissed(3).has_value());
  bench.pass(1ms);
  BOOST_CHECK(bench.dismissed(3) == ErrorName::DeadlineExceeded);
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(while_the_coordinator_itself_stands_still_nobody_becomes_late) {
  // Less than the heartbeat limit would show, more than the rest of the deadline; whichever event is the first one afterwards.
  for (const bool ticks_first : {false, true}) {
    auto bench = trio();
    bench.state.options.deadline = 6s;
    bench.state.options.heartbeat_limit = 30s;
    bench.ready(1, 100);
    bench.pass(1s);
    if (ticks_first) bench.freeze(8s);
    else bench.now += 8s;
    bench.ready(2, 100);
    BOOST_TEST(!bench.dismissed(3).has_value());
    bench.ready(3, 100);
    BOOST_TEST(bench.sent<StartReduce>().size() == 3U);

    bench.vote(1, NEXT);
    bench.pass(1s);
    if (ticks_first) bench.freeze(8s);
    else bench.now += 8s;
    bench.vote(2, NEXT);
    BOOST_TEST((bench.state.phase == Phase::Reducing));
    bench.vote(3, NEXT);
    BOOST_TEST(bench.state.revision.value == 1U);
  }
}

BOOST_AUTO_TEST_CASE(the_time_that_the_coordinator_stood_still_is_added_to_the_deadline_and_no_more) {
  auto bench = trio();
  bench.state.options.deadline = 6s;
  bench.state.options.heartbeat_limit = 30s;
  bench.ready(1, 100);
  bench.ready(2, 100);
  bench.pass(2s);
  bench.freeze(20s);
  bench.pass(4s);
  BOOST_TEST(!bench.dismissed(3).has_value());
  bench.pass(1ms);
  BOOST_CHECK(bench.dismissed(3) == ErrorName::DeadlineExceeded);
}

BOOST_AUTO_TEST_CASE(a_peer_that_recovers_the_run_is_not_late_behind_those_who_were_ready_long_ago) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.ready(1, 100);
  bench.lose(2);
  bench.pass(5min);  // alone, waiting
  BOOST_CHECK(bench.state.phase == Phase::Waiting);
  bench.seat(3);
  bench.pass(150s);
  BOOST_TEST(bench.state.peers.contains(PeerId{3}));
  bench.ready(3, 0);  // what it answered to its entry, before it was promoted
  bench.ready(3, 50);
  BOOST_CHECK(bench.state.phase == Phase::Reducing);
}

BOOST_AUTO_TEST_CASE(an_entrant_is_judged_from_its_own_entry) {
  auto bench = trio();
  bench.ready(1, 100);
  bench.ready(2, 100);
  bench.pass(119s);
  bench.ready(3, 100);
  bench.seat(4);
  for (std::uint64_t peer = 1; peer <= 3; ++peer)
    if (bench.state.phase == Phase::Reducing) bench.vote(peer, NEXT);
  bench.pass(2s);
  BOOST_TEST(bench.state.peers.contains(PeerId{4}));
}

BOOST_AUTO_TEST_CASE(a_broken_link_is_tried_again_later_and_later_and_costs_the_younger_one_at_the_fifth_time) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  const Duration delays[] = {500ms, 1s, 2s, 4s};
  for (const auto delay : delays) {
    bench.hear(1, ReduceFailed{bench.state.operation, PeerId{2}, Error{ErrorName::LaneBroken}});
    BOOST_CHECK(bench.state.phase == Phase::Training);
    bench.pass(delay - 1ms);
    BOOST_CHECK(bench.state.phase == Phase::Training);
    bench.pass(1ms);
    BOOST_CHECK(bench.state.phase == Phase::Reducing);
  }
  bench.hear(1, ReduceFailed{bench.state.operation, PeerId{2}, Error{ErrorName::LaneBroken}});
  BOOST_CHECK(bench.dismissed(2) == ErrorName::LaneBroken);

  // It takes part anew at once, and its link is as broken as before: the step ends without it, and the next one begins with it.
  BOOST_REQUIRE((bench.state.phase == Phase::Reducing));
  bench.hear(1, ReduceFailed{bench.state.operation, PeerId{3}, Error{ErrorName::LaneBroken}});  // its end broke this one, too
  BOOST_REQUIRE((bench.state.phase == Phase::Training));
  bench.seat(4);
  bench.pass(500ms);
  BOOST_REQUIRE((bench.state.phase == Phase::Reducing));
  BOOST_TEST(bench.state.rounds[0].operation->contributions.size() == 2U);
  BOOST_CHECK(bench.state.peers.at(PeerId{4}).seat == Seat::CaughtUp);
  for (const std::uint64_t peer : {1U, 3U}) bench.vote(peer, NEXT);
  BOOST_REQUIRE((bench.state.phase == Phase::Training));
  bench.hear(4, Fetched{bench.state.revision, NEXT});
  BOOST_CHECK(bench.state.peers.at(PeerId{4}).seat == Seat::Member);
}

BOOST_AUTO_TEST_CASE(who_does_not_vote_is_evicted_a_quarter_after_the_deadline) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  bench.vote(1, NEXT);
  bench.vote(2, NEXT);
  bench.pass(150s);
  BOOST_CHECK(bench.state.phase == Phase::Reducing);
  bench.pass(1ms);
  BOOST_CHECK(bench.dismissed(3) == ErrorName::DeadlineExceeded);
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
}

/// As the heartbeats say: 1.7 M parameters at 2 Mbit/s take longer than any sensible deadline.
BOOST_AUTO_TEST_CASE(a_reduce_that_moves_bytes_is_alive_however_long_it_lasts_and_tells_how_far_it_is) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  bench.vote(1, NEXT);
  bench.vote(2, NEXT);
  std::uint64_t moved = 0;
  for (int minute = 0; minute < 120; ++minute) {
    bench.pass(1min);
    bench.hear(3, Heartbeat{0, moved += 1000});
  }
  BOOST_CHECK(bench.state.phase == Phase::Reducing);
  bench.pass(10s);
  const auto told = bench.journaled<events::TransferProgress>();
  BOOST_REQUIRE(!told.empty());
  BOOST_TEST(told.back().who.peer.value == 3U);
  BOOST_TEST(told.back().moved_bytes == 120'000U);
  BOOST_TEST(told.back().bytes_per_s == 16U);
  bench.pass(140s);
  BOOST_CHECK(bench.state.phase == Phase::Reducing);
  bench.pass(1ms);
  BOOST_CHECK(bench.dismissed(3) == ErrorName::DeadlineExceeded);
  const auto aborted = bench.journaled<events::OuterStepAborted>().at(0);
  BOOST_CHECK(aborted.behind == PeerId{3});
  BOOST_CHECK(aborted.moved_bytes == 120'000U);
  BOOST_TEST(aborted.reason == "nothing of the reduce moved any more; p3 has moved 117.2 KiB of about 32 B in 122m30s, 16 B/s");
}

BOOST_AUTO_TEST_CASE(what_a_peer_moved_since_its_last_heartbeat_is_no_part_of_the_reduce_that_begins) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, NEXT);  // a quick one, of which no heartbeat has told
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.hear(peer, Heartbeat{0, 4000});  // as each begins it
  bench.pass(10s);
  for (const auto& told : bench.journaled<events::TransferProgress>()) BOOST_TEST(told.moved_bytes == 0U);
  bench.hear(2, Heartbeat{0, 4500});
  bench.pass(10s);
  std::map<std::uint64_t, std::uint64_t> moved;
  for (const auto& told : bench.journaled<events::TransferProgress>()) moved[told.who.peer.value] = told.moved_bytes;
  BOOST_TEST(moved[1] == 0U);
  BOOST_TEST(moved[2] == 500U);
}

BOOST_AUTO_TEST_CASE(of_a_long_reduce_every_member_without_a_vote_is_told_of_the_slowest_first) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.hear(peer, Heartbeat{0, 0});
  bench.pass(9s);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.hear(peer, Heartbeat{0, 4000 - 1000 * peer});
  bench.pass(1s);
  const auto told = bench.journaled<events::TransferProgress>();
  BOOST_REQUIRE(told.size() == 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(told[i].who.peer.value == 3 - i);
    BOOST_TEST(told[i].moved_bytes == 1000 * (i + 1));
    BOOST_TEST(told[i].bytes_per_s == 100 * (i + 1));
  }
  bench.vote(3, NEXT);
  bench.pass(10s);
  BOOST_TEST(bench.journaled<events::TransferProgress>().size() == 2U, "who is done with it is not told of");
}

BOOST_AUTO_TEST_CASE(after_three_tries_that_ended_alike_the_run_says_what_it_would_change) {
  auto bench = trio();
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  for (std::uint32_t tries = 1; tries <= 3; ++tries) {
    bench.hear(1, ReduceFailed{bench.state.operation, PeerId{3}, Error{ErrorName::DeadlineExceeded, "nothing moved"}});
    BOOST_CHECK(bench.journaled<events::OuterStepAborted>().at(0).alike == tries);
    BOOST_TEST((bench.state.waiting.what.find("what would help: a longer `sync.deadline`") != std::string::npos) == (tries == 3));
    bench.pass(10s);
    BOOST_CHECK(bench.state.phase == Phase::Reducing);
  }
  BOOST_TEST(bench.state.waiting.what.find("3 tries ended alike") != std::string::npos, bench.state.waiting.what);
  bench.hear(1, ReduceFailed{bench.state.operation, PeerId{3}, Error{ErrorName::LaneBroken, "reset"}});
  BOOST_CHECK(bench.journaled<events::OuterStepAborted>().at(0).alike == 1U);
}

BOOST_AUTO_TEST_CASE(one_peer_never_makes_a_step_alone_and_stops_at_once_if_the_manifest_says_so) {
  for (const bool stop : {false, true}) {
    Bench bench;
    bench.state.plan.stop_when_alone = stop;
    bench.seat(1);
    bench.seat(2);
    bench.ready(1, 100);
    bench.lose(2);
    bench.pass(250ms);
    BOOST_TEST(bench.sent<StartReduce>().empty());
    BOOST_TEST((bench.finished() != nullptr) == stop);
  }
}

BOOST_AUTO_TEST_CASE(the_last_step_makes_the_oldest_the_finalist_and_another_one_when_it_is_lost) {
  Bench bench{2, 3, 1};
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  bench.greet(4);
  bench.commit({1, 2, 3}, NEXT);
  BOOST_CHECK(bench.dismissed(4) == ErrorName::RunDone);
  BOOST_TEST(bench.sent<RunDone>()[0].second.finalist);
  bench.lose(1);
  BOOST_REQUIRE(bench.sent<RunDone>().size() == 1U);
  BOOST_TEST(bench.sent<RunDone>()[0].first == 2U);
  bench.hear(2, StateSaved{"/final", ""});
  bench.hear(2, FinalReport{HeldOutLoss{Real{1.0}, 10}, "text", ""});
  bench.hear(3, FinalReport{HeldOutLoss{Real{4.0}, 20}, "", ""});
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_TEST(!bench.finished()->cause.has_value());
  const auto report = bench.journaled<events::FinalReport>().at(0);
  BOOST_TEST(report.held_out_loss.value() == 3.0, "parts are summed by their tokens");
  BOOST_TEST(report.held_out_tokens.value() == 30U);
  BOOST_TEST(!report.evaluation_problem.has_value());
}

BOOST_AUTO_TEST_CASE(all_share_the_evaluation_of_a_state_and_so_nobody_is_late_for_it) {
  Bench bench{3, 3, 9};
  bench.state.plan.evaluate_every = 1;
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  bench.commit({1, 2, 3}, NEXT);
  const auto begins = bench.sent<BeginStep>();
  BOOST_REQUIRE(begins.size() == 3U);
  for (std::uint32_t i = 0; i < 3; ++i) BOOST_TEST((begins[i].second.evaluate == HeldOutShare{i, 3}));
}

BOOST_AUTO_TEST_CASE(the_state_is_saved_before_anything_else_and_another_one_is_asked_when_that_fails_or_takes_long) {
  Bench bench{3, 3, 1};
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  bench.commit({1, 2, 3}, NEXT);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.hear(peer, FinalReport{});
  BOOST_TEST(bench.finished() == nullptr, "all have evaluated, and the state is on no disk");
  bench.hear(1, StateSaved{"", "no space left"});
  BOOST_REQUIRE(bench.sent<RunDone>().size() == 1U);
  BOOST_TEST(bench.sent<RunDone>()[0].first == 2U);
  BOOST_TEST(bench.sent<RunDone>()[0].second.finalist);
  bench.pass(run_end::save_limit(bench.state));
  BOOST_TEST(bench.sent<RunDone>().empty());
  bench.pass(1ms);
  BOOST_REQUIRE(bench.sent<RunDone>().size() == 1U);
  BOOST_TEST(bench.sent<RunDone>()[0].first == 3U);
  bench.hear(2, StateSaved{"/slow", ""});
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_TEST(!bench.finished()->cause.has_value(), "who was slow has it");
}

BOOST_AUTO_TEST_CASE(when_no_disk_has_room_all_are_asked_again_until_the_run_fails_by_name) {
  Bench bench{2, 2, 1};
  for (std::uint64_t peer = 1; peer <= 2; ++peer) bench.seat(peer);
  bench.commit({1, 2}, NEXT);
  for (std::uint64_t peer = 1; peer <= 2; ++peer) bench.hear(peer, StateSaved{"", "no space left"});
  BOOST_TEST(bench.sent<RunDone>().empty());
  bench.pass(RETRY_SAVE_AFTER);
  BOOST_REQUIRE(bench.sent<RunDone>().size() == 1U);
  bench.hear(1, StateSaved{"", "no space left"});
  BOOST_TEST(bench.sent<RunDone>().size() == 1U, "the other one, too");
  bench.hear(2, StateSaved{"", "no space left"});
  for (int minutes = 0; bench.finished() == nullptr && minutes < 30; ++minutes) bench.pass(1min);
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_REQUIRE(bench.finished()->cause.has_value());
  BOOST_CHECK(bench.finished()->cause->name == ErrorName::StorageFailed);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_stopped_while_it_evaluates_is_done_when_its_state_is_saved_and_stopped_when_not) {
  for (const bool saved : {true, false}) {
    Bench bench{2, 2, 1};
    for (std::uint64_t peer = 1; peer <= 2; ++peer) bench.seat(peer);
    bench.commit({1, 2}, NEXT);
    if (saved) bench.hear(1, StateSaved{"/final", ""});
    bench.on(StopRequested{});
    BOOST_REQUIRE(bench.finished() != nullptr);
    BOOST_TEST(bench.finished()->cause.has_value() == !saved);
    BOOST_TEST(bench.position_of<events::FinalReport>().has_value() == saved);
  }
}

BOOST_AUTO_TEST_CASE(the_final_evaluation_has_a_limit_and_nobody_left_is_an_end_as_well) {
  Bench slow{2, 2, 1};
  slow.seat(1);
  slow.seat(2);
  slow.commit({1, 2}, NEXT);
  slow.hear(1, StateSaved{"/final", ""});
  slow.pass(10min);
  BOOST_TEST(slow.finished() == nullptr);
  slow.pass(1ms);
  BOOST_REQUIRE(slow.finished() != nullptr);
  BOOST_TEST(!slow.finished()->cause.has_value());

  Bench deserted{2, 2, 1};
  deserted.seat(1);
  deserted.seat(2);
  deserted.commit({1, 2}, NEXT);
  deserted.lose(1);
  deserted.lose(2);
  BOOST_TEST(deserted.finished() == nullptr, "nobody has saved the state: who holds it last may come back");
  for (int seconds = 0; deserted.finished() == nullptr && seconds < 120; ++seconds) deserted.pass(1s, 2);
  BOOST_REQUIRE(deserted.finished() != nullptr);
  BOOST_CHECK(deserted.finished()->cause->name == ErrorName::TooFewPeers);
}

namespace {

/// Two members are ready, and a third peer's fetches were overtaken twice.
Bench held() {
  Bench bench{2, 2, 9};
  bench.seat(1);
  bench.seat(2);
  bench.seat(3, Digest{5, 5});
  for (std::uint64_t revision = 0; revision < 2; ++revision) {
    bench.commit({1, 2}, Digest{10 + revision, 0});
    bench.hear(3, FetchFailed{bench.state.peers.at(PeerId{3}).fetch.donor, Revision{revision}, Error{ErrorName::FetchFailed}});
    bench.pass(1s);
  }
  bench.ready(1, 100);
  bench.ready(2, 100);
  return bench;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_waits_for_a_joiner_no_longer_than_the_deadline_however_its_fetch_goes_on) {
  auto bench = held();
  for (std::uint64_t second = 1; second <= 120; ++second) {
    BOOST_CHECK(bench.state.phase == Phase::Training);
    bench.pass(1s);
    bench.hear(3, Heartbeat{0, second});
  }
  bench.pass(1s);
  BOOST_CHECK(bench.state.phase == Phase::Reducing);
  BOOST_CHECK(bench.state.peers.at(PeerId{3}).seat == Seat::Fetching);
}

BOOST_AUTO_TEST_CASE(after_two_overtaken_fetches_the_reduce_waits_for_the_joiner) {
  auto bench = held();
  BOOST_CHECK(bench.state.phase == Phase::Training);
  bench.hear(3, Fetched{Revision{2}, Digest{11, 0}});
  bench.ready(3, 0);
  BOOST_CHECK(bench.state.phase == Phase::Reducing);
}

BOOST_AUTO_TEST_SUITE_END()
