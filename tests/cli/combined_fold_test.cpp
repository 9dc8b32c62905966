// Owns the tests of what several journals and living processes say together.
#include "folds.hpp"

namespace prime::telemetry {

using namespace test;

namespace {

HandwrittenJournal local_otter() {
  HandwrittenJournal journal;
  journal
      .add("process_started",
           {{"pid", 110}, {"start_ticks", 5001}, {"role", "agent"}, {"run", "quickstart-k7qd2a"}, {"peer", OTTER}, {"name", "brave-otter"}})
      .add("welcome", {{"ordinal", 0}})
      .add("trainer_bound", {{"trainer_pid", 111}, {"elements", 1000}});
  return journal;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(combined)

BOOST_AUTO_TEST_CASE(a_coordinator_without_an_end_and_without_a_process_was_lost) {
  const auto run = fold(test::training_run());
  BOOST_TEST(to_string(combine(run, {}, everything_lives).state) == "training");
  const auto status = combine(run, {}, nothing_lives);
  BOOST_TEST(to_string(status.state) == "failed");
  BOOST_TEST(status.reason == "the coordinator was lost; 3 peers that are kept elsewhere may live");
  for (const auto& peer : status.peers) {
    BOOST_TEST(to_string(peer.state) == "training", "it may live: another machine, or another state directory, knows");
    BOOST_TEST(peer.reason == "so it was told last; it is kept elsewhere");
    BOOST_TEST(!peer.tokens_per_s.has_value());
  }
  const auto here = combine(run, {fold_peer(local_otter())}, nothing_lives);
  BOOST_TEST(to_string(here.peers[0].state) == "lost", "whose process is known to be gone");
  BOOST_TEST(here.reason == "the coordinator was lost; 2 peers that are kept elsewhere may live");
}

BOOST_AUTO_TEST_CASE(who_was_refused_is_no_peer_of_the_run_in_any_record) {
  const std::string refused = "the training data differs from the run's: `0.txt` is missing here [PR0306]";
  auto journal = test::training_run();
  journal.add("peer_joining", {{"peer", BEAR}, {"name", "wrong-bear"}, {"pid", 9}, {"address", "127.0.0.1:9"}})
      .add("peer_seated", {{"peer", BEAR}, {"name", "wrong-bear"}, {"trainer_pid", 10}, {"digest", DIGEST}})
      .add("peer_lost", {{"peer", BEAR}, {"name", "wrong-bear"}, {"reason", refused}});
  const auto run = fold(journal);
  BOOST_TEST(run.status.peers.size() == 3U, "no row of the run's");
  // Where it joined beside one that was taken.
  HandwrittenJournal bear;
  bear.add("process_started",
           {{"pid", 9}, {"start_ticks", 9}, {"role", "agent"}, {"run", "quickstart-k7qd2a"}, {"peer", BEAR}, {"name", "wrong-bear"}})
      .add("welcome", {{"ordinal", 3}})
      .add("trainer_bound", {{"trainer_pid", 10}, {"elements", 1000}})
      .add("peer_ended", {{"revision", 0}, {"phase", "waiting"}, {"reason", refused}})
      .add("process_ended", {{"exit_code", 4}, {"reason", refused}});
  auto otter = local_otter();
  otter.add("outer_step_begun", {{"outer_step", 3}, {"epoch", 1}, {"contributes", true}, {"first_sample", 0}})
      .add("peer_ended", {{"revision", 3}, {"phase", "leaving"}})
      .add("process_ended", {{"exit_code", 0}});
  const auto beside = combine(RunJournal{}, {fold_peer(otter), fold_peer(bear)}, nothing_lives);
  BOOST_TEST(to_string(beside.state) == "left", "the one that took part has left");
  BOOST_TEST(beside.peers.size() == 1U);
  const auto alone = combine(RunJournal{}, {fold_peer(bear)}, nothing_lives);
  BOOST_TEST(to_string(alone.state) == "left", "for this machine: the run itself may go on");
  BOOST_TEST(alone.reason == "wrong-bear was not taken: " + refused);
}

BOOST_AUTO_TEST_CASE(of_each_fragment_it_is_said_how_far_it_is_and_whom_it_waits_for) {
  auto journal = test::training_run();
  const auto shown = [&](const auto& alive) {
    std::string text;
    for (const auto& fragment : combine(fold(journal), {}, alive).fragments) {
      text += (text.empty() ? "" : ", ") + std::to_string(fragment.version) + " " + std::string{to_string(fragment.state)};
      for (const auto& name : fragment.waiting_for) text += " " + name;
    }
    return text;
  };
  const auto commit = [&](int fragment, int version) {
    journal.add("round_committed",
                {{"fragment", fragment}, {"version", version}, {"revision", 2 * version + fragment - 1}, {"digest", DIGEST}});
  };
  BOOST_TEST(shown(everything_lives) == "", "no commit has told of them");
  commit(0, 1);
  commit(1, 1);
  journal.add("outer_step_committed", {{"outer_step", 1}, {"revision", 2}, {"digest", DIGEST}});
  journal.add("outer_step_begun", {{"outer_step", 2}, {"epoch", 1}, {"peers", 3}});
  journal.add("peer_ready", {{"peer", HERON}, {"name", "calm-heron"}, {"outer_step", 2}, {"trainer_pid", 121}});
  BOOST_TEST(shown(everything_lives) == "1 collecting brave-otter wild-lynx, 1 collecting brave-otter wild-lynx");
  for (const auto& [id, name] : {std::pair{OTTER, "brave-otter"}, {LYNX, "wild-lynx"}})
    journal.add("peer_ready", {{"peer", id}, {"name", name}, {"outer_step", 2}, {"trainer_pid", 1}});
  journal.add("reduce_started", {{"outer_step", 2}, {"epoch", 1}, {"operation", "1.3"}});
  BOOST_TEST(shown(everything_lives) == "1 reducing, 1 collecting");
  journal.add("reduce_started", {{"outer_step", 2}, {"epoch", 1}, {"operation", "1.4#1"}});
  BOOST_TEST(shown(everything_lives) == "1 reducing, 1 reducing");
  journal.add("outer_step_aborted", {{"outer_step", 2}, {"operation", "1.4#1"}});
  BOOST_TEST(shown(everything_lives) == "1 reducing, 1 collecting");
  commit(0, 2);
  BOOST_TEST(shown(everything_lives) == "2 committed, 1 collecting");
  BOOST_TEST(shown(nothing_lives) == "2 committed, 1 committed");
}

BOOST_AUTO_TEST_CASE(a_run_that_has_ended_needs_no_living_process) {
  auto journal = test::training_run();
  journal.add("run_done", {{"outer_step", 1}}).add("process_ended", {{"exit_code", 0}});
  BOOST_TEST(to_string(combine(fold(journal), {}, nothing_lives).state) == "done");
}

BOOST_AUTO_TEST_CASE(a_run_is_not_over_for_a_living_peer_that_alone_holds_what_is_saved_nowhere) {
  auto journal = test::training_run();
  journal.add("run_stopped",
              {{"outer_step", 12}, {"reason", "the run was stopped before its end: by its owner, after outer step 12 [PR0510]"}});
  auto own = local_otter();
  own.add("outer_step_committed", {{"outer_step", 12}, {"digest", std::string(32, 'a')}});
  const auto otter = [&](const auto& alive, const std::vector<PeerJournal>& others = {}) {
    std::vector local{fold_peer(own)};
    local.insert(local.end(), others.begin(), others.end());
    for (const auto& peer : combine(fold(journal), local, alive).peers)
      if (peer.id == OTTER) return std::string{to_string(peer.state)} + ": " + peer.reason;
    return std::string{};
  };
  BOOST_TEST(otter(everything_lives) == "saving: lives, and has not saved outer step 12");
  BOOST_TEST(otter(nothing_lives).starts_with("left: "));
  HandwrittenJournal other;
  other.add("checkpoint_written", {{"path", "/s/step-000011"}, {"reason", "periodic"}});
  BOOST_TEST(otter(everything_lives, {fold_peer(other)}).starts_with("saving: "));
  other.add("checkpoint_written", {{"path", "/s/step-000012"}, {"reason", "stopped"}});
  BOOST_TEST(otter(everything_lives, {fold_peer(other)}).starts_with("left: "));
  own.add("checkpoint_written", {{"path", "/s/step-000012"}, {"reason", "stopped"}});
  BOOST_TEST(otter(everything_lives).starts_with("left: "));
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_its_guard_starts_again_is_waited_for_with_the_cause) {
  auto journal = test::training_run();
  const auto before = combine(fold(journal), {}, everything_lives);
  const std::string cause = "a file could not be read or written: decisions.json: No space left on device [PR0701]";
  journal.add("process_ended", {{"exit_code", 1}, {"reason", cause}});
  const auto kept_away = combine(fold(journal), {}, everything_lives);
  BOOST_TEST(to_string(kept_away.state) == "waiting");
  BOOST_TEST(kept_away.wait.what == "the coordinator, which is kept from going on: " + cause);
  BOOST_TEST((kept_away.peers == before.peers), "nobody has left");
  const auto given_up = combine(fold(journal), {}, nothing_lives);
  BOOST_TEST(to_string(given_up.state) == "failed");
  BOOST_TEST(given_up.reason == cause);
  journal.add("process_started", {{"pid", 101}, {"start_ticks", 1}, {"run", "quickstart-k7qd2a"}});
  const auto tries = combine(fold(journal), {}, everything_lives);
  BOOST_TEST((tries.peers == before.peers));
  BOOST_TEST(tries.wait.what == "the coordinator, which is kept from going on: " + cause, "until one listens");
  BOOST_TEST(tries.coordinator_pid.value() == 101U);
  auto otter = local_otter();
  otter.add("coordinator_lost", {{"reason", "its connection closed"}, {"gives_up_after_s", 60.0}});
  const auto looked_for = combine(fold(journal), {fold_peer(otter)}, everything_lives);
  BOOST_TEST((looked_for.wait == WaitStatus{tries.wait.what, "2031-05-04T09:14:04.137Z", "2031-05-04T09:15:04.137Z"}));
  otter.add("coordinator_back", {{"after_s", 20.0}});
  BOOST_TEST(to_string(combine(fold(journal), {fold_peer(otter)}, everything_lives).state) == "training", "somebody else leads");
  journal.add("coordinator_listening", {{"address", "127.0.0.1:7077"}});
  BOOST_TEST(to_string(combine(fold(journal), {}, everything_lives).state) == "training");
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_stands_by_says_for_whom_until_it_leads) {
  HandwrittenJournal journal;
  journal.add("process_started", {{"pid", 100}, {"start_ticks", 1}, {"run", "quickstart-k7qd2a"}})
      .add("standing_by", {{"for", "10.0.0.1:7077"}, {"address", "10.0.0.2:7077"}});
  const auto standby = combine(fold(journal), {}, everything_lives);
  BOOST_TEST(to_string(standby.state) == "standby");
  BOOST_TEST(standby.stands_by_for.value() == "10.0.0.1:7077");
  BOOST_TEST(standby.coordinator_address.value() == "10.0.0.2:7077");
  BOOST_TEST(!standby.took_over);
  journal.add("leading", {{"address", "10.0.0.2:7077"}});
  const auto leader = combine(fold(journal), {}, everything_lives);
  BOOST_TEST(to_string(leader.state) == "waiting");
  BOOST_TEST(!leader.stands_by_for.has_value());
  BOOST_TEST(leader.took_over);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_leads_again_at_once_goes_on_as_it_was) {
  auto journal = test::training_run();
  journal.add("process_started", {{"pid", 101}, {"start_ticks", 1}, {"run", "quickstart-k7qd2a"}}).add("leading", {{"address", "a:1"}});
  const auto status = combine(fold(journal), {}, everything_lives);
  BOOST_TEST(to_string(status.state) == "training");
  BOOST_TEST(!status.took_over);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_ahead_of_a_dead_coordinator_follows_another_one) {
  const auto run = fold(test::training_run());
  const auto agents_live = [](const ProcessIdentity& process) { return process.pid == 110; };
  auto otter = local_otter();
  otter.add("outer_step_begun", {{"outer_step", 1}, {"epoch", 1}}).add("coordinator_back", {{"after_s", 2.0}});
  BOOST_TEST(to_string(combine(run, {fold_peer(otter)}, agents_live).state) == "waiting");
  otter.add("outer_step_committed", {{"outer_step", run.status.outer_step + 1}, {"digest", DIGEST}});
  const auto status = combine(run, {fold_peer(otter)}, agents_live);
  BOOST_TEST(to_string(status.state) == "training");
  BOOST_TEST(status.outer_step == run.status.outer_step + 1);
  BOOST_TEST(!status.coordinator_here);
  BOOST_REQUIRE(status.peers.size() == 1U);
  BOOST_TEST(to_string(combine(run, {fold_peer(otter)}, nothing_lives).state) == "failed");
  auto stopped = otter;
  const std::string by_owner = "the run was stopped before its end: by its owner, after outer step 2 [PR0510]";
  stopped.add("peer_ended", {{"reason", by_owner}}).add("process_ended", {{"exit_code", 1}, {"reason", by_owner}});
  const auto ended = combine(run, {fold_peer(stopped)}, nothing_lives);
  BOOST_TEST(to_string(ended.state) == "stopped", "there, and not failed here");
  BOOST_TEST(ended.outer_step == run.status.outer_step + 1);
  otter.add("run_done", {{"outer_step", 3}}).add("process_ended", {{"exit_code", 0}});
  BOOST_TEST(to_string(combine(run, {fold_peer(otter)}, nothing_lives).state) == "done");
}

BOOST_AUTO_TEST_CASE(a_dead_coordinator_is_waited_for_as_long_as_a_peer_here_does) {
  const auto run = fold(test::training_run());
  const auto agents_live = [](const ProcessIdentity& process) { return process.pid == 110; };
  auto otter = local_otter();
  const auto at_first = combine(run, {fold_peer(otter)}, agents_live);
  BOOST_TEST(to_string(at_first.state) == "waiting");
  const std::string gone =
      "the coordinator, which is gone, and its guard with it: nothing on this machine starts it again; the peers save what they hold when "
      "they give up, or at once by `primectl down quickstart-k7qd2a`";
  BOOST_TEST(at_first.wait.what == gone);
  BOOST_TEST(!at_first.coordinator_pid.has_value());
  BOOST_TEST(to_string(at_first.peers[1].state) == "training", "what is elsewhere is not known");
  otter.add("coordinator_lost", {{"reason", "its connection closed"}, {"gives_up_after_s", 60.0}});
  const auto status = combine(run, {fold_peer(otter)}, agents_live);
  BOOST_TEST(to_string(status.state) == "waiting");
  BOOST_TEST((status.wait == WaitStatus{gone, "2031-05-04T09:14:04.137Z", "2031-05-04T09:15:04.137Z"}));
  BOOST_TEST(status.reason.empty());
  otter.add("process_ended", {{"exit_code", 1}, {"reason", "the coordinator was lost: it did not come back within 60.0 s [PR0501]"}});
  BOOST_TEST(to_string(combine(run, {fold_peer(otter)}, nothing_lives).state) == "failed");
}

BOOST_AUTO_TEST_CASE(an_agent_that_is_gone_is_lost_before_the_coordinator_notices) {
  const auto run = fold(test::training_run());
  const auto status = combine(run, {fold_peer(local_otter())}, [](const ProcessIdentity& process) { return process.pid == 100; });
  BOOST_TEST(to_string(status.state) == "training");
  BOOST_TEST(to_string(status.peers[0].state) == "lost");
  BOOST_TEST(status.peers[0].reason == "its agent is gone");
}

BOOST_AUTO_TEST_CASE(who_is_gone_without_a_word_was_not_killed_for_memory_because_somebody_was) {
  const TemporaryDirectory directory;
  const auto counter = directory.path() / "memory.events";
  std::ofstream(counter) << "oom 9\noom_kill 4\n";
  HandwrittenJournal otter;
  otter.add("process_started", {{"pid", 110},
                                {"start_ticks", 5001},
                                {"run", "quickstart-k7qd2a"},
                                {"peer", OTTER},
                                {"name", "brave-otter"},
                                {"boot_id", here().boot},
                                {"memory_group", counter.string()},
                                {"group_kills", 3},
                                {"machine_kills", 3}});
  const std::string kills = "; the kernel has killed processes of its cgroup for want of memory since it began";
  const auto reason_after = [&](const std::string& event, const nlohmann::json& reason) {
    auto journal = test::training_run();
    if (!event.empty()) journal.add(event, {{"peer", OTTER}, {"name", "brave-otter"}, {"reason", reason}});
    return combine(fold(journal), {fold_peer(otter)}, [](const ProcessIdentity& process) { return process.pid == 100; }).peers[0].reason;
  };
  BOOST_TEST(reason_after("", {}) == "its agent is gone" + kills);
  BOOST_TEST(reason_after("peer_lost", "silent for 10s") == "silent for 10s" + kills);
  BOOST_TEST(reason_after("peer_left", "it was done") == "it was done", "it said goodbye");
  std::ofstream(counter) << "oom_kill 3\n";
  BOOST_TEST(reason_after("", {}) == "its agent is gone");
}

BOOST_AUTO_TEST_CASE(a_peer_knows_its_own_state_better) {
  auto journal = local_otter();
  journal.add("outer_step_committed", {{"outer_step", 7}, {"digest", std::string(32, 'f')}})
      .add("trainer_restarting", {{"reason", "killed by SIGKILL"}});
  const auto status = combine(fold(test::training_run()), {fold_peer(journal)}, everything_lives);
  BOOST_TEST(status.peers[0].outer_step.value() == 7U);
  BOOST_TEST(status.peers[0].digest.value() == std::string(32, 'f'));
  BOOST_TEST(!status.peers[0].trainer_pid.has_value());
  BOOST_TEST(status.peers[0].reason == "the trainer is started again: killed by SIGKILL");
  BOOST_TEST(to_string(status.peers[0].state) == "training");
  BOOST_TEST(status.peers[0].restarts == 1U);
  BOOST_TEST(status.peers[0].restart_reason == "killed by SIGKILL");
  journal.add("trainer_bound", {{"trainer_pid", 777}, {"elements", 3}}).add("trainer_restarting", {{"reason", "exit status 3"}});
  const auto again = combine(fold(test::training_run()), {fold_peer(journal)}, everything_lives);
  BOOST_TEST(again.peers[0].restarts == 2U);
  BOOST_TEST(again.peers[0].restart_reason == "exit status 3");
}

BOOST_AUTO_TEST_CASE(who_has_no_descriptors_left_says_so_until_it_is_over) {
  auto otter = local_otter();
  otter.add("descriptors_used_up", {{"reason", "it can open no file"}});
  auto run = test::training_run();
  run.add("descriptors_used_up", {{"reason", "it can open no file"}});
  const auto status = combine(fold(run), {fold_peer(otter)}, everything_lives);
  BOOST_TEST(status.peers[0].reason == "it can open no file");
  BOOST_TEST(status.problems == std::vector<std::string>{"the coordinator: it can open no file"}, boost::test_tools::per_element());
  BOOST_TEST(to_string(status.state) == "training", "what is open already works on");
  BOOST_TEST(combine(fold(run), {fold_peer(otter)}, nothing_lives).problems.empty());
  otter.add("descriptors_free", {{"after_s", 3.0}});
  run.add("descriptors_free", {{"after_s", 3.0}});
  const auto over = combine(fold(run), {fold_peer(otter)}, everything_lives);
  BOOST_TEST(over.peers[0].reason.empty());
  BOOST_TEST(over.problems.empty());
}

BOOST_AUTO_TEST_CASE(data_that_is_not_that_of_the_run_before_is_a_problem_that_is_told) {
  auto run = test::training_run();
  run.add("data_founded", {{"peer", OTTER}, {"name", "brave-otter"}, {"data", "7 files"}, {"differs", "`a.txt` (5 bytes) is not there"}});
  BOOST_TEST(combine(fold(run), {}, everything_lives).problems ==
                 std::vector<std::string>{"the data is not that of the run that this one goes on from: `a.txt` (5 bytes) is not there"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_stands_still_is_waited_for_by_all_its_peers) {
  const auto run = fold(test::training_run());
  auto otter = local_otter();
  otter.add("coordinator_lost", {{"reason", "silent for 11s"}, {"gives_up_after_s", 120.0}});
  HandwrittenJournal heron;
  heron.add("process_started", {{"pid", 120}, {"start_ticks", 5002}, {"peer", HERON}, {"name", "calm-heron"}});
  const auto one_of_two = combine(run, {fold_peer(otter), fold_peer(heron)}, everything_lives);
  BOOST_TEST(to_string(one_of_two.state) == "training");
  BOOST_TEST(one_of_two.wait.what.empty());
  BOOST_TEST(one_of_two.peers[0].reason == "waits for the coordinator: silent for 11s");

  heron.add("coordinator_lost", {{"reason", "silent for 12s"}, {"gives_up_after_s", 120.0}});
  const auto both = combine(run, {fold_peer(otter), fold_peer(heron)}, everything_lives);
  BOOST_TEST(to_string(both.state) == "waiting");
  BOOST_TEST((both.wait == WaitStatus{"the coordinator: silent for 11s", "2031-05-04T09:14:04.137Z", "2031-05-04T09:16:04.137Z"}));
  const auto one_dead =
      combine(run, {fold_peer(otter), fold_peer(heron)}, [](const ProcessIdentity& process) { return process.pid != 120; });
  BOOST_TEST(to_string(one_dead.state) == "waiting");
  const auto elsewhere = combine(RunJournal{}, {fold_peer(otter), fold_peer(heron)}, everything_lives);
  BOOST_TEST(elsewhere.wait.what == "the coordinator: silent for 11s");

  otter.add("coordinator_back", {{"after_s", 20.0}});
  const auto back = combine(run, {fold_peer(otter), fold_peer(heron)}, everything_lives);
  BOOST_TEST(to_string(back.state) == "training");
  BOOST_TEST(back.peers[0].reason.empty());
}

BOOST_AUTO_TEST_CASE(a_journal_that_has_no_room_is_said_to_be_old) {
  auto otter = fold_peer(local_otter());
  const auto reason = [&](const auto& alive) { return combine(fold(test::training_run()), {otter}, alive).peers[0].reason; };
  BOOST_TEST(reason(everything_lives).empty());
  otter.no_room = true;
  BOOST_TEST(reason(everything_lives) == "its disk is full: its journal has no room, and what is told of this peer may be old");
  otter.absence = WaitStatus{"the coordinator: silent for 10s", {}, {}};
  BOOST_TEST(reason(everything_lives).starts_with("waits for the coordinator: silent for 10s; its disk is full"));
  BOOST_TEST(reason([](const ProcessIdentity& process) { return process.pid == 100; }) == "its agent is gone");
}

BOOST_AUTO_TEST_CASE(a_state_that_could_not_be_saved_is_told_until_another_one_is) {
  const auto run = fold(test::training_run());
  auto otter = local_otter();
  otter.add("checkpoint_failed", {{"reason", "No space left on device"}});
  BOOST_TEST(combine(run, {fold_peer(otter)}, everything_lives).checkpoint_problem == "brave-otter: No space left on device");
  auto ended = test::training_run();
  ended.add("run_done", {{"outer_step", 1}});
  BOOST_TEST(combine(fold(ended), {fold_peer(otter)}, everything_lives).checkpoint_problem.empty());
  otter.add("checkpoint_written", {{"path", "/x/step-000003"}});
  BOOST_TEST(combine(run, {fold_peer(otter)}, everything_lives).checkpoint_problem.empty());
}

BOOST_AUTO_TEST_CASE(without_a_coordinator_here_the_local_peers_tell) {
  auto journal = local_otter();
  journal.add("outer_step_begun", {{"outer_step", 3}, {"epoch", 1}}).add("outer_step_committed", {{"outer_step", 3}, {"digest", DIGEST}});
  auto status = combine(RunJournal{}, {fold_peer(journal)}, everything_lives);
  BOOST_TEST(status.id == "quickstart-k7qd2a");
  BOOST_TEST(status.name == "quickstart");
  BOOST_TEST(to_string(status.state) == "training");
  BOOST_TEST(status.outer_step == 3U);
  journal.add("run_done", {{"outer_step", 3}, {"digest", DIGEST}, {"finalist", false}})
      .add("peer_ended", {{"revision", 3}, {"phase", "finishing"}})
      .add("process_ended", {{"exit_code", 0}});
  status = combine(RunJournal{}, {fold_peer(journal)}, nothing_lives);
  BOOST_TEST(to_string(status.state) == "done");
  BOOST_TEST(to_string(status.peers[0].state) == "left");
}

BOOST_AUTO_TEST_CASE(without_a_coordinator_here_a_run_is_left_when_its_peers_left_and_failed_when_one_was_lost) {
  const auto seen = [](nlohmann::json ending) {
    auto journal = local_otter();
    journal.add("outer_step_committed", {{"outer_step", 3}, {"digest", DIGEST}}).add("peer_ended", ending);
    ending["exit_code"] = 1;
    journal.add("process_ended", ending);
    return combine(RunJournal{}, {fold_peer(journal)}, nothing_lives);
  };
  const std::string stopped = "the run was stopped before its end: by its owner [PR0510]";
  BOOST_TEST(to_string(seen({{"reason", stopped}}).state) == "stopped");
  BOOST_TEST(seen({{"reason", stopped}}).reason == stopped);
  BOOST_TEST(to_string(seen({{"reason", stopped}}).peers[0].state) == "left");
  BOOST_TEST(to_string(seen(nlohmann::json::object()).state) == "left");
  BOOST_TEST(seen(nlohmann::json::object()).reason == "the peers of this machine left; the run may go on elsewhere");
  BOOST_TEST(to_string(seen({{"reason", "interrupted: by SIGINT [PR0801]"}}).state) == "left");
  BOOST_TEST(to_string(seen({{"reason", "the coordinator was lost [PR0501]"}}).state) == "failed");
}

BOOST_AUTO_TEST_CASE(a_peer_that_ended_by_an_error_was_lost_with_its_words) {
  auto journal = local_otter();
  journal.add("peer_ended", {{"revision", 3}, {"phase", "training"}, {"reason", "the coordinator was lost: silent for 10s [PR0501]"}})
      .add("checkpoint_written", {{"path", "/x/step-000003"}, {"reason", "…"}})
      .add("process_ended", {{"exit_code", 1}, {"reason", "the coordinator was lost: silent for 10s [PR0501]"}});
  const auto peer = fold_peer(journal);
  BOOST_TEST(to_string(peer.status.state) == "lost");
  BOOST_TEST(peer.exit_code.value() == 1U);
  BOOST_TEST(peer.checkpoint.value() == "/x/step-000003");
  const auto status = combine(fold(test::training_run()), {peer}, nothing_lives);
  BOOST_TEST(to_string(status.peers[0].state) == "lost");
  BOOST_TEST(status.checkpoint.value() == "/x/step-000003");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::telemetry
