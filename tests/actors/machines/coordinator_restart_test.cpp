// Owns the tests of a coordinator that is killed: what it keeps, when, and what becomes of its members (law 8).
#include <boost/test/unit_test.hpp>

#include "coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(coordinator_restart)

using namespace prime;
using namespace prime::coordinator;

namespace {

constexpr Digest NEXT{2, 2};

/// Keeps what the machine says is to be kept, as a disk would.
struct Killable : Bench {
  using Bench::Bench;
  std::optional<Snapshot> disk;

  void event(const Event& e) {
    on(e);
    if (decided) disk = decided;
  }
  void says(std::uint64_t peer, FromPeer message) { event(Received{PeerId{peer}, std::move(message)}); }
  void seats(std::uint64_t peer) {
    says(peer, hello_of(peer));
    says(peer, Seated{Revision{}, INITIAL, LAYOUT, 3, 1});
  }
  void trains(std::uint64_t peer) { says(peer, Ready{state.step(), state.revision, 100, 10, Real{1.0}, {}, Real{1.0}, 1}); }
  void votes(std::uint64_t peer) { says(peer, Vote{state.operation, NEXT, 1, 1}); }
  void die_and_return() { state = disk ? restore({state.options, state.plan}, *disk, now) : initial({state.options, state.plan}, now); }
  void returns(std::uint64_t peer) {
    auto hello = hello_of(peer);
    hello.returning = true;
    says(peer, hello);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(whatever_is_told_to_members_was_kept_before) {
  Killable bench;
  const auto told = [&] { return !bench.sent<BeginStep>().empty() || !bench.sent<StartReduce>().empty() || !bench.sent<Commit>().empty(); };
  int decisions = 0;
  const auto check = [&] {
    if (!told()) return;
    ++decisions;
    BOOST_TEST(bench.decided.has_value());
  };
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer), check();
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer), check();
  for (const std::uint64_t peer : {1U, 2U}) bench.votes(peer), check();
  BOOST_TEST(decisions == 3);  // the step, the reduce, the commit with the next step
}

BOOST_AUTO_TEST_CASE(other_data_is_refused_after_a_restart_too) {
  Killable bench;
  const DataIdentity data{Digest{5, 5}, "7 files"};
  for (const std::uint64_t peer : {1U, 2U}) {
    bench.says(peer, Bench::hello_of(peer));
    bench.says(peer, Seated{Revision{}, INITIAL, LAYOUT, 3, 1, data});
  }
  BOOST_REQUIRE(bench.disk);
  bench.die_and_return();
  bench.says(3, Bench::hello_of(3));
  bench.says(3, Seated{Revision{}, INITIAL, LAYOUT, 3, 1, {Digest{6, 6}, "9 files"}});
  BOOST_CHECK(bench.dismissed(3) == ErrorName::DataMismatch);
}

BOOST_AUTO_TEST_CASE(members_that_come_back_keep_their_seats_their_epoch_and_their_samples) {
  Killable bench;
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  const auto view = bench.state.view;
  const auto first_sample = bench.state.rounds[0].work.at(PeerId{2}).first_sample;
  bench.die_and_return();
  BOOST_TEST((bench.state.view == view));
  bench.returns(2);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 1U);
  BOOST_TEST(begun[0].first == 2U);
  BOOST_TEST(begun[0].second.first_sample == first_sample);
  BOOST_TEST(begun[0].second.rank == 1U);
  BOOST_TEST(bench.state.waiting.what.find("the return of p1") == 0U);
  bench.returns(1);
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
  BOOST_TEST((bench.state.view == view));
}

BOOST_AUTO_TEST_CASE(what_was_in_flight_is_void_and_its_number_is_not_used_again) {
  Killable bench;
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  const auto op = bench.state.operation;
  bench.votes(1);
  bench.die_and_return();
  bench.returns(1);
  bench.says(1, InDoubt{op});
  BOOST_REQUIRE(bench.sent<Abort>().size() == 1U);
  BOOST_TEST((bench.sent<Abort>()[0].second.op == op));
  bench.returns(2);
  bench.says(2, Vote{op, NEXT, 1, 1});
  BOOST_TEST(bench.state.revision.value == 0U);
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  BOOST_TEST((op < bench.state.operation));
  for (const std::uint64_t peer : {1U, 2U}) bench.votes(peer);
  BOOST_TEST(bench.state.revision.value == 1U);
}

BOOST_AUTO_TEST_CASE(a_commit_that_was_decided_is_told_to_whom_it_had_not_reached) {
  Killable bench;
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  for (const std::uint64_t peer : {1U, 2U}) bench.votes(peer);
  const auto op = bench.state.rounds[0].last->commit.op;
  bench.die_and_return();
  BOOST_TEST(bench.state.revision.value == 1U);
  BOOST_TEST((bench.state.digest == NEXT));
  bench.returns(1);
  BOOST_REQUIRE(bench.sent<Commit>().size() == 1U);
  BOOST_TEST((bench.sent<Commit>()[0].second.op == op));
  BOOST_TEST(bench.sent<Abort>().empty());
  BOOST_TEST(bench.sent<BeginStep>()[0].second.step.value == 2U);
  bench.says(1, InDoubt{op});
  BOOST_TEST(bench.sent<Commit>().size() == 1U);
}

BOOST_AUTO_TEST_CASE(who_does_not_come_back_in_time_is_lost_and_later_refused_as_stale) {
  Killable bench(1, 2);
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  bench.die_and_return();
  bench.returns(1);
  bench.pass(bench.state.options.heartbeat_limit, 2);
  BOOST_TEST(bench.state.view.members.size() == 2U);
  bench.pass(1ms, 2);
  BOOST_TEST(bench.state.view.members.size() == 1U);
  bench.returns(2);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::Evicted);
}

BOOST_AUTO_TEST_CASE(a_run_in_which_nothing_was_decided_begins_anew) {
  Killable bench;
  bench.seats(1);
  bench.die_and_return();
  BOOST_TEST(bench.state.peers.empty());
  BOOST_TEST(!bench.state.digest.has_value());
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_run_that_has_lost_all_members_before_its_first_commit_uses_no_number_twice) {
  Killable bench;
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  const auto op = bench.state.operation;
  for (const std::uint64_t peer : {1U, 2U}) {
    bench.event(ConnectionLost{PeerId{peer}, "reset"});
    bench.event(ProcessGone{PeerId{peer}, "refused"});
  }
  bench.die_and_return();
  BOOST_TEST(!bench.state.digest.has_value());
  for (const std::uint64_t peer : {3U, 4U}) bench.seats(peer);
  bench.event(Tick{});
  for (const std::uint64_t peer : {3U, 4U}) bench.trains(peer);
  BOOST_TEST((op.epoch < bench.state.operation.epoch));
  BOOST_TEST((op.sequence < bench.state.operation.sequence));
}

BOOST_AUTO_TEST_CASE(a_run_that_was_stopped_before_it_had_members_stays_stopped) {
  Killable bench;
  bench.event(StopRequested{});
  bench.die_and_return();
  BOOST_CHECK(bench.state.phase == Phase::Over);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_over_stays_over) {
  Killable bench;
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  bench.event(StopRequested{});
  BOOST_REQUIRE(bench.finished() != nullptr);
  bench.die_and_return();
  BOOST_CHECK(bench.state.phase == Phase::Over);
  BOOST_CHECK(bench.state.end_cause->name == ErrorName::RunStopped);
}

BOOST_AUTO_TEST_CASE(a_run_that_goes_on_from_a_checkpoint_begins_where_that_ended) {
  Killable bench;
  bench.state.plan.origin = Origin{Revision{7}, OuterStep{7}, NEXT, 700, 7000};
  bench.state = initial({bench.state.options, bench.state.plan}, bench.now);
  const auto brings = [&](std::uint64_t peer, Revision revision, Digest digest) {
    bench.says(peer, Bench::hello_of(peer));
    bench.says(peer, Seated{revision, digest, LAYOUT, 3, 1});
  };
  brings(3, Revision{}, INITIAL);  // without the checkpoint: it waits for a donor, and founds nothing
  BOOST_TEST((bench.state.digest == NEXT));
  for (const std::uint64_t peer : {1U, 2U}) brings(peer, Revision{7}, NEXT);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 2U);
  BOOST_TEST(begun[0].second.step.value == 8U);
  BOOST_TEST(begun[0].second.base.value == 7U);
  BOOST_TEST(begun[0].second.first_sample == 700U);
}

BOOST_AUTO_TEST_CASE(members_that_gave_up_a_coordinator_which_stood_still_itself_keep_their_seats) {
  Killable bench;
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  const auto view = bench.state.view;
  bench.freeze(bench.state.options.heartbeat_limit * 2);
  // In whatever order it hears of the old connections' ends and of the new ones.
  bench.event(ConnectionLost{PeerId{1}, "reset"});
  bench.returns(1);
  BOOST_TEST(bench.sent<Abort>().size() == 2U);
  bench.returns(2);
  BOOST_TEST((bench.state.view == view));
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
  bench.event(ConnectionLost{PeerId{1}, "reset"});
  bench.event(ProcessGone{PeerId{1}, "refused"});
  BOOST_TEST(bench.state.view.members.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_done_ends_when_all_who_are_to_come_back_have_heard_it) {
  Killable bench(2, 2, 1);
  for (const std::uint64_t peer : {1U, 2U}) bench.seats(peer);
  for (const std::uint64_t peer : {1U, 2U}) bench.trains(peer);
  for (const std::uint64_t peer : {1U, 2U}) bench.votes(peer);
  BOOST_CHECK(bench.state.phase == Phase::Finishing);
  bench.die_and_return();
  bench.returns(1);
  bench.says(1, StateSaved{"/final", ""});
  bench.says(1, FinalReport{});
  BOOST_TEST(bench.finished() == nullptr);
  bench.returns(2);
  BOOST_TEST(bench.sent<RunDone>().size() == 1U);
  BOOST_TEST(bench.finished() == nullptr, "it has not answered for its part of the evaluation");
  bench.says(2, FinalReport{});
  BOOST_CHECK(bench.dismissed(2) == ErrorName::RunDone);
  BOOST_TEST(bench.finished() != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
