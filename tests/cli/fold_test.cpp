// Owns the tests of the folds: journals written by hand, and the status that each of them gives.
#include "folds.hpp"
#include "runtime/telemetry/error_text.hpp"

namespace prime::telemetry {

using namespace test;

BOOST_AUTO_TEST_SUITE(coordinator_fold)

BOOST_AUTO_TEST_CASE(an_empty_journal_is_a_run_that_waits) {
  const auto run = fold(HandwrittenJournal{});
  BOOST_TEST(to_string(run.status.state) == "waiting");
  BOOST_TEST(!run.status.coordinator_here);
}

BOOST_AUTO_TEST_CASE(who_waits_for_the_rest_of_its_replica_says_for_whom) {
  auto journal = test::sharded_run();
  const auto status = fold(journal).status;
  BOOST_TEST(status.shards == 2U);
  BOOST_REQUIRE(status.peers.size() == 3U);
  BOOST_TEST(to_string(status.peers[0].state) == "training");
  BOOST_TEST(status.peers[0].reason == "", "its replica is whole by now");
  BOOST_TEST(status.peers[1].replica == "brave-otter");
  BOOST_TEST(status.peers[1].shard == 1U);
  BOOST_TEST(to_string(status.peers[2].state) == "joining");
  BOOST_TEST(status.peers[2].reason == "waits for shard 0 of replica wild-lynx");
}

BOOST_AUTO_TEST_CASE(a_replica_that_forms_slowly_tells_each_of_its_peers_who_is_still_missing) {
  HandwrittenJournal journal;
  const auto about = [&](const char* event, const char* id, int shard) {
    journal.add(event, {{"peer", id}, {"name", "r." + std::to_string(shard)}, {"replica", "r"}, {"shard", shard}, {"missing", "?"}});
  };
  journal.add("process_started", {{"pid", 100}, {"start_ticks", 5000}, {"run", "quickstart-k7qd2a"}, {"shards", 3}});
  const auto reasons = [&] {
    std::vector<std::string> said;
    for (const auto& peer : fold(journal).status.peers) said.push_back(peer.reason);
    return said;
  };
  about("shard_waits", OTTER, 0);
  BOOST_TEST(reasons() == std::vector<std::string>{"waits for shards 1, 2 of replica r"}, boost::test_tools::per_element());
  about("shard_waits", HERON, 2);
  BOOST_TEST(reasons() == std::vector<std::string>(2, "waits for shard 1 of replica r"), boost::test_tools::per_element());
  about("peer_lost", HERON, 2);
  BOOST_TEST(reasons()[0] == "waits for shards 1, 2 of replica r");
}

BOOST_AUTO_TEST_CASE(a_peer_of_a_run_that_is_served_elsewhere_says_itself_for_whom_of_its_replica_it_waits) {
  HandwrittenJournal own;
  own.add("process_started", {{"pid", 110}, {"start_ticks", 5001}, {"peer", OTTER}, {"name", "r.0"}, {"replica", "r"}, {"shard", 0}})
      .add("shard_waits", {{"replica", "r"}, {"missing", "shards 1, 2"}})
      .add("shard_waits", {{"replica", "r"}, {"missing", "shard 1"}})
      .add("trainer_bound", {{"trainer_pid", 111}});
  const auto reason = [&] { return combine(RunJournal{}, {fold_peer(own)}, everything_lives).peers.at(0).reason; };
  BOOST_TEST(reason() == "waits for shard 1 of replica r");
  own.add("replica_whole", {{"replica", "r"}});
  BOOST_TEST(reason() == "");
}

BOOST_AUTO_TEST_CASE(the_digest_of_a_sharded_run_is_no_peers_own) {
  auto journal = test::sharded_run();
  journal.add("state_founded",
              {{"peer", OTTER}, {"name", "x"}, {"replica", "brave-otter"}, {"shard", 0}, {"digest", std::string(32, 'a')}});
  BOOST_TEST(!fold(journal).status.digest);
  journal.add("outer_step_committed", test::committed(1, 2.5, {OTTER}));
  auto run = fold(journal);
  BOOST_TEST(run.status.digest.value() == DIGEST);
  BOOST_TEST(!run.status.peers[0].digest);
  BOOST_TEST(run.status.peers[0].outer_step.value() == 1U);
  HandwrittenJournal own;
  own.add("process_started",
          {{"pid", 110}, {"start_ticks", 5001}, {"peer", OTTER}, {"name", "x"}, {"replica", "brave-otter"}, {"shard", 0}})
      .add("outer_step_committed", {{"outer_step", 1}, {"digest", std::string(32, 'a')}});
  const auto status = combine(run, {fold_peer(own)}, everything_lives);
  BOOST_TEST(status.peers[0].digest.value() == std::string(32, 'a'));
  BOOST_TEST(status.digest.value() == DIGEST);
  const auto elsewhere = combine(RunJournal{}, {fold_peer(own)}, everything_lives);
  BOOST_TEST(elsewhere.outer_step == 1U);
  BOOST_TEST(!elsewhere.digest, "the coordinator is on another machine, and it alone knows that of all shards");
  BOOST_TEST(elsewhere.peers[0].replica == "brave-otter");
}

BOOST_AUTO_TEST_CASE(a_begun_step_is_training_with_all_its_members) {
  const auto status = fold(test::training_run()).status;
  BOOST_TEST(to_string(status.state) == "training");
  BOOST_TEST(status.id == "quickstart-k7qd2a");
  BOOST_TEST(status.name == "quickstart");
  BOOST_TEST(status.epoch == 1U);
  BOOST_TEST(status.digest.value() == DIGEST);
  BOOST_TEST(status.coordinator_address.value() == "127.0.0.1:7077");
  BOOST_REQUIRE(status.peers.size() == 3U);
  for (const auto& peer : status.peers) BOOST_TEST(to_string(peer.state) == "training");
  BOOST_TEST(status.peers[1].name == "calm-heron");
  BOOST_TEST(status.peers[1].pid.value() == 120U);
  BOOST_TEST(status.peers[1].trainer_pid.value() == 121U);
}

BOOST_AUTO_TEST_CASE(who_is_ready_and_waits_for_the_others_says_for_how_many) {
  HandwrittenJournal journal;
  journal.add("process_started", {{"pid", 100}, {"start_ticks", 5000}, {"run", "quickstart-k7qd2a"}});
  for (const auto* id : {OTTER, HERON}) journal.add("peer_joining", {{"peer", id}, {"name", "x"}, {"pid", 110}, {"address", "a:9"}});
  journal.add("peer_seated", {{"peer", OTTER}, {"trainer_pid", 111}, {"digest", DIGEST}})
      .add("waiting", {{"phase", "waiting"}, {"for", "peers: 1 of 3 are ready, joining: x; gives up 10min after the wait began"}});
  const auto status = combine(fold(journal), {}, everything_lives);
  BOOST_TEST(short_wait(status) == "waits for peers: 1 of 3 are ready");
  BOOST_TEST(status.peers[0].reason == "waits for peers: 1 of 3 are ready");
  BOOST_TEST(status.peers[1].reason == "", "its trainer starts");
}

BOOST_AUTO_TEST_CASE(a_wait_for_peers_names_itself_and_ends_when_the_step_goes_on) {
  auto journal = test::training_run();
  journal.add("waiting",
              {{"phase", "waiting"}, {"for", "peers: 1 of 2 are members; gives up 10min after the wait began"}, {"waited_s", 0.5}});
  BOOST_TEST(to_string(fold(journal).status.state) == "waiting");
  BOOST_TEST(fold(journal).status.wait.what.starts_with("peers: 1 of 2"));
  BOOST_TEST(fold(journal).status.wait.since.value().ends_with(".637Z"));  // half a second before the line's .137
  BOOST_TEST(!fold(journal).status.wait.until.has_value());
  journal.add("waiting", {{"phase", "training"}, {"for", ""}});
  BOOST_TEST(to_string(fold(journal).status.state) == "training");
  BOOST_TEST(!fold(journal).status.wait.since.has_value());
  BOOST_TEST(fold(journal).status.wait.what == "");
}

BOOST_AUTO_TEST_CASE(a_relayed_lane_is_known_until_it_is_direct_or_one_of_both_is_gone) {
  const auto relayed = [](test::HandwrittenJournal& journal) -> test::HandwrittenJournal& {
    return journal.add("lane_relayed", {{"peer", HERON}, {"name", "calm-heron"}, {"to", "wild-lynx"}, {"through", "brave-otter"}});
  };
  auto journal = test::training_run();
  BOOST_TEST(fold(relayed(journal)).status.relayed.size() == 1U);
  BOOST_TEST(fold(journal).status.relayed[0].through == "brave-otter");
  journal.add("lane_direct", {{"peer", LYNX}, {"name", "wild-lynx"}, {"to", "calm-heron"}});
  BOOST_TEST(fold(journal).status.relayed.empty());
  relayed(journal).add("peer_lost", {{"peer", LYNX}, {"name", "wild-lynx"}, {"reason", "gone"}});
  BOOST_TEST(fold(journal).status.relayed.empty());
}

BOOST_AUTO_TEST_CASE(a_wait_within_a_step_does_not_stop_the_run) {
  auto journal = test::training_run();
  journal.add("waiting",
              {{"phase", "training"},
               {"for", "inner steps of wild-lynx; who is not ready 2min after the first peer is loses its seat (`sync.deadline`)"}});
  BOOST_TEST(to_string(fold(journal).status.state) == "training");
}

BOOST_AUTO_TEST_CASE(members_reduce_and_an_abort_takes_them_back) {
  auto journal = test::training_run();
  journal.add("reduce_started", {{"outer_step", 1}, {"operation", "1.1"}, {"epoch", 1}, {"peers", 3}});
  for (const auto& peer : fold(journal).status.peers) BOOST_TEST(to_string(peer.state) == "reducing");
  journal.add("outer_step_aborted", {{"outer_step", 1}, {"operation", "1.1"}, {"epoch", 1}, {"reason", "a lane broke"}});
  for (const auto& peer : fold(journal).status.peers) BOOST_TEST(to_string(peer.state) == "training");
}

BOOST_AUTO_TEST_CASE(a_commit_moves_the_run_and_its_members) {
  auto journal = test::training_run();
  journal.add(
      "peer_ready",
      {{"peer", OTTER}, {"name", "brave-otter"}, {"outer_step", 1}, {"tokens_per_s", 7100.0}, {"trainer_pid", 999}, {"data_wait", 0.25}});
  auto fields = test::committed(1, 4.158, {OTTER, HERON, LYNX});
  fields["held_out_loss"] = 4.2;
  journal.add("outer_step_committed", fields);
  const auto status = fold(journal).status;
  BOOST_TEST(status.outer_step == 1U);
  BOOST_TEST(status.revision == 1U);
  BOOST_TEST(status.loss.value() == 4.158);
  BOOST_TEST(status.held_out_loss.value() == 4.2);
  BOOST_TEST(status.tokens == 3000U);
  BOOST_TEST(status.peers[0].outer_step.value() == 1U);
  BOOST_TEST(status.peers[0].tokens_per_s.value() == 7100.0);
  BOOST_TEST(status.peers[0].data_wait.value() == 0.25);
  BOOST_TEST(!status.peers[1].data_wait.has_value());
  BOOST_TEST(status.peers[0].trainer_pid.value() == 999U);
  BOOST_TEST(status.peers[0].restarts == 1U, "of a trainer elsewhere only its number is seen");
  BOOST_TEST(status.peers[0].restart_reason.empty());
}

BOOST_AUTO_TEST_CASE(a_held_out_loss_stays_until_the_next_one) {
  auto journal = test::training_run();
  auto fields = test::committed(1, 4.1, {OTTER});
  fields["held_out_loss"] = 4.2;
  journal.add("outer_step_committed", fields).add("outer_step_committed", test::committed(2, 3.9, {OTTER}));
  BOOST_TEST(fold(journal).status.held_out_loss.value() == 4.2);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_rolled_back_is_where_it_was_then) {
  auto journal = test::training_run();
  journal.add("outer_step_committed", test::committed(1, 4.1, {OTTER})).add("outer_step_committed", test::committed(2, 3.9, {OTTER}));
  journal.add("rolled_back", {{"epoch", 9}, {"from", 2}, {"outer_step", 1}, {"revision", 1}, {"digest", DIGEST}, {"tokens", 30}});
  const auto status = fold(journal).status;
  BOOST_TEST(to_string(status.state) == "waiting");
  BOOST_TEST(status.outer_step == 1U);
  BOOST_TEST(status.revision == 1U);
  BOOST_TEST(status.epoch == 9U);
  BOOST_TEST(status.tokens == 30U);
  BOOST_TEST(status.digest.value() == DIGEST);
}

BOOST_AUTO_TEST_CASE(lost_and_left_are_two_things_and_keep_their_reasons) {
  auto journal = test::training_run();
  journal.add("peer_lost", {{"peer", LYNX}, {"name", "wild-lynx"}, {"reason", "a peer was lost: connection closed [PR0502]"}})
      .add("peer_left", {{"peer", HERON}, {"name", "calm-heron"}, {"reason", "left"}});
  const auto status = fold(journal).status;
  BOOST_TEST(to_string(status.peers[2].state) == "lost");
  BOOST_TEST(status.peers[2].reason == "a peer was lost: connection closed [PR0502]");
  BOOST_TEST(to_string(status.peers[1].state) == "left");
  BOOST_TEST(to_string(status.peers[0].state) == "training");
}

BOOST_AUTO_TEST_CASE(a_joiner_fetches_holds_nothing_meanwhile_and_is_admitted) {
  auto journal = test::training_run();
  journal.add("outer_step_committed", {{"outer_step", 5}, {"epoch", 1}, {"revision", 20}, {"digest", DIGEST}});
  journal.add("peer_joining", {{"peer", IBEX}, {"name", "dusk-ibex"}, {"pid", 140}})
      .add("peer_seated", {{"peer", IBEX}, {"name", "dusk-ibex"}, {"trainer_pid", 141}});
  journal.add("peer_fetching", {{"peer", IBEX}, {"name", "dusk-ibex"}, {"donor", "brave-otter"}, {"revision", 22}, {"attempt", 1}});
  BOOST_TEST(to_string(fold(journal).status.peers[3].state) == "fetching");
  BOOST_TEST(!fold(journal).status.peers[3].outer_step.has_value());
  journal.add("peer_fetched", {{"peer", IBEX}, {"name", "dusk-ibex"}, {"revision", 22}, {"digest", DIGEST}});
  BOOST_TEST(to_string(fold(journal).status.peers[3].state) == "joining");
  journal.add("peer_admitted", {{"peer", IBEX}, {"name", "dusk-ibex"}, {"epoch", 2}, {"revision", 22}});
  BOOST_TEST(to_string(fold(journal).status.peers[3].state) == "training");
  BOOST_TEST(fold(journal).status.peers[3].outer_step.value() == 5U);
  BOOST_TEST(fold(journal).status.epoch == 2U);
}

BOOST_AUTO_TEST_CASE(a_done_run_has_its_final_report_and_no_peers_at_work) {
  auto journal = test::training_run();
  journal.add("outer_step_committed", test::committed(1, 1.5, {OTTER, HERON, LYNX}))
      .add("final_report", {{"peer", OTTER}, {"sample", "int main"}, {"checkpoint", "/x/step-000001"}, {"held_out_loss", 1.6}})
      .add("run_done", {{"outer_step", 1}, {"tokens", 3000}, {"digest", DIGEST}})
      .add("process_ended", {{"exit_code", 0}});
  const auto run = fold(journal);
  BOOST_TEST(run.ended);
  BOOST_TEST(to_string(run.status.state) == "done");
  BOOST_TEST(run.status.held_out_loss.value() == 1.6);
  BOOST_TEST(run.status.checkpoint.value() == "/x/step-000001");
  BOOST_TEST(run.status.sample == "int main");
  for (const auto& peer : run.status.peers) BOOST_TEST(to_string(peer.state) == "left");
}

BOOST_AUTO_TEST_CASE(a_failed_run_says_why) {
  auto journal = test::training_run();
  journal.add("run_failed", {{"outer_step", 0}, {"tokens", 0}, {"reason", "too few peers: 1 of 2 after 10min [PR0509]"}});
  const auto status = fold(journal).status;
  BOOST_TEST(to_string(status.state) == "failed");
  BOOST_TEST(status.reason == "too few peers: 1 of 2 after 10min [PR0509]");
}

BOOST_AUTO_TEST_CASE(a_run_that_its_owner_stopped_has_not_failed) {
  const std::string reason = "the run was stopped before its end: by its owner, after outer step 3 [PR0510]";
  for (const auto* event : {"run_stopped", "run_failed"}) {  // as older ones wrote it
    auto journal = test::training_run();
    journal.add(event, {{"outer_step", 3}, {"reason", reason}});
    journal.add("process_ended", {{"exit_code", 1}, {"reason", reason}});
    const auto run = fold(journal);
    BOOST_TEST(to_string(run.status.state) == "stopped");
    BOOST_TEST(is_over(run.status.state));
    BOOST_TEST(run.status.reason == reason);
    BOOST_TEST(run.ended);
    for (const auto& peer : run.status.peers) BOOST_TEST(to_string(peer.state) == "left");
    // Who watched it had it stopped because nobody was left.
    journal.add("process_ended", {{"exit_code", 1}, {"reason", "the trainer failed: exit status 1 [PR0601]"}});
    BOOST_TEST(to_string(fold(journal).status.state) == "failed");
    BOOST_TEST(fold(journal).status.reason.starts_with("the trainer failed"));
  }
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_told_twice_to_end_leaves_a_stopped_run) {
  auto journal = test::training_run();
  journal.add("process_ended", {{"exit_code", 130}, {"reason", "interrupted: the coordinator was told twice to end [PR0801]"}});
  BOOST_TEST(to_string(fold(journal).status.state) == "stopped");
  BOOST_TEST(fold(journal).status.reason.starts_with("interrupted"));
}

BOOST_AUTO_TEST_CASE(fields_of_a_wrong_type_and_unknown_events_change_nothing) {
  auto journal = test::training_run();
  const auto before = fold(journal).status;
  journal.add("peer_lost", {{"peer", 7}}).add("outer_step_begun", {{"epoch", "two"}}).add("from_the_future", {{"peer", OTTER}});
  BOOST_TEST((fold(journal).status == before));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(error_texts)

BOOST_AUTO_TEST_CASE(every_error_comes_back_from_its_text) {
  for (std::size_t index = 0; index < error_table().size(); ++index) {
    for (const auto* detail : {"", "what and where: 7"}) {
      const Error error{static_cast<ErrorName>(index), detail};
      BOOST_TEST((parse_error_text(to_string(error)) == error));
    }
  }
  BOOST_TEST(!parse_error_text("left").has_value());
}

BOOST_AUTO_TEST_CASE(a_short_reason_is_the_innermost_detail) {
  BOOST_TEST(short_reason("a peer was lost: connection closed [PR0502]") == "connection closed");
  BOOST_TEST(short_reason("the state could not be fetched: 3 attempts; the last: x [PR0508]") == "3 attempts; the last: x");
  BOOST_TEST(short_reason("a peer was lost: a lane broke [PR0503] [PR0502]") == "a lane broke");
  BOOST_TEST(short_reason("the training data differs from the run's: `a.h` is missing here. In detail: this peer finds 5 files [PR0306]") ==
             "`a.h` is missing here");
  BOOST_TEST(short_reason("otter reports: a lane broke [PR0503]") == "otter reports: a lane broke");
  BOOST_TEST(short_reason("the coordinator was lost: silent for 10s [PR0501]") == "the coordinator was lost: silent for 10s");
  BOOST_TEST(short_reason("left") == "left");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::telemetry
