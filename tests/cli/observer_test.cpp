// Owns the tests of discovery and observation: journals on disk, processes that live and do not.
#include <unistd.h>

#include "runtime/telemetry/notice_board.hpp"
#include "runtime/telemetry/process_identity.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "support.hpp"

namespace prime::telemetry {
namespace {

namespace fs = std::filesystem;
using test::HandwrittenJournal;
using test::HERON;
using test::LYNX;
using test::OTTER;

HandwrittenJournal coordinator_of(const std::string& run, const ProcessIdentity& process) {
  HandwrittenJournal journal;
  journal.add("process_started", {{"pid", process.pid}, {"start_ticks", process.start_ticks}, {"role", "coordinator"}, {"run", run}});
  return journal;
}

ProcessIdentity myself() { return {::getpid(), start_ticks(::getpid()).value()}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(observer)

BOOST_AUTO_TEST_CASE(this_process_lives_and_one_that_had_its_number_before_does_not) {
  BOOST_TEST(is_alive(myself()));
  BOOST_TEST(!is_alive({::getpid(), myself().start_ticks - 1}));
  BOOST_TEST(!is_alive({0, 0}));
}

BOOST_AUTO_TEST_CASE(a_torn_last_line_is_read_when_it_is_whole) {
  const test::TemporaryDirectory root;
  const auto journal = root.path() / "r-aaaaaa" / "coordinator" / "journal.jsonl";
  coordinator_of("r-aaaaaa", myself()).write(journal);
  const std::string line = R"({"t":"2031-05-04T09:14:02.137Z","seq":2,"event":"coordinator_listening","address":"127.0.0.1:1"})";
  std::ofstream(journal, std::ios::app) << line.substr(0, 40);
  RunObserver observer{root.path() / "r-aaaaaa"};
  observer.update();
  BOOST_TEST(!observer.status().coordinator_address.has_value());
  std::ofstream(journal, std::ios::app) << line.substr(40) << "\n";
  BOOST_TEST(observer.update().size() == 1U);
  BOOST_TEST(observer.status().coordinator_address.value() == "127.0.0.1:1");
}

BOOST_AUTO_TEST_CASE(where_a_trainer_computes_is_told_once_it_is_bound) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  const auto peer = run / "peers" / "brave-otter-00000000";
  HandwrittenJournal journal;
  const auto me = myself();
  journal.add(
      "process_started",
      {{"pid", me.pid}, {"start_ticks", me.start_ticks}, {"role", "agent"}, {"run", "r-aaaaaa"}, {"peer", OTTER}, {"name", "brave-otter"}});
  journal.write(peer / "journal.jsonl");
  RunObserver observer{run};
  observer.update();
  BOOST_TEST(observer.status().peers.at(0).device == "");
  journal.add("trainer_bound", {{"trainer_pid", 1}, {"elements", 1000}, {"device", "cpu, since there is no driver"}});
  journal.write(peer / "journal.jsonl");
  observer.update();
  BOOST_TEST(observer.status().peers.at(0).device == "cpu, since there is no driver");
  journal.add("trainer_bound", {{"trainer_pid", 2}, {"elements", 1000}});
  journal.write(peer / "journal.jsonl");
  observer.update();
  BOOST_TEST(observer.status().peers.at(0).device == "", "the next life of the trainer tells nothing");
}

BOOST_AUTO_TEST_CASE(a_line_that_tells_what_is_not_of_its_form_is_damaged_and_one_of_a_newer_version_is_not) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  coordinator_of("r-aaaaaa", myself())
      .add("from_the_future", {{"peer", 7}})
      .add("coordinator_listening", {{"address", "127.0.0.1:1"}, {"speed", "light"}})
      .write(coordinator_journal(run));
  RunObserver observer{run};
  BOOST_TEST(observer.update().size() == 3U);
  BOOST_TEST(observer.damage().empty());
  std::ofstream(coordinator_journal(run), std::ios::app)
      << R"({"t":"2031-05-04T09:14:02.137Z","seq":4,"event":"outer_step_begun","epoch":"two"})"
      << "\n";
  const auto lines = observer.update();
  BOOST_TEST(lines.size() == 1U, "`logs` shows it as it is");
  BOOST_TEST(!lines.at(0).event.has_value());
  BOOST_REQUIRE(observer.damage().size() == 1U);
  BOOST_TEST(observer.damage()[0].lines == 1U);
}

BOOST_AUTO_TEST_CASE(peers_that_appear_later_are_followed_too) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  coordinator_of("r-aaaaaa", myself()).write(coordinator_journal(run));
  RunObserver observer{run};
  observer.update();
  BOOST_TEST(observer.local_peers().empty());
  HandwrittenJournal peer;
  peer.add("process_started",
           {{"pid", ::getpid()}, {"start_ticks", myself().start_ticks}, {"run", "r-aaaaaa"}, {"peer", OTTER}, {"name", "brave-otter"}});
  peer.write(run / "peers" / "brave-otter-000000a1" / "journal.jsonl");
  const auto lines = observer.update();
  BOOST_REQUIRE(lines.size() == 1U);
  BOOST_TEST(lines[0].source == "brave-otter");
  BOOST_TEST(to_string(observer.status().peers.at(0).state) == "joining");
}

BOOST_AUTO_TEST_CASE(whom_the_coordinator_never_let_in_is_no_peer_of_the_run) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  coordinator_of("r-aaaaaa", myself()).write(coordinator_journal(run));
  HandwrittenJournal refused;
  refused.add("process_started", {{"pid", 0}, {"start_ticks", 0}, {"run", "r-aaaaaa"}, {"peer", OTTER}, {"name", "brave-otter"}});
  refused.add("process_ended", {{"exit_code", 4}, {"reason", "refused"}});
  refused.write(run / "peers" / "brave-otter-000000a1" / "journal.jsonl");
  RunObserver observer{run};
  observer.update();
  BOOST_TEST(observer.status().peers.empty());
}

BOOST_AUTO_TEST_CASE(who_takes_part_anew_stands_for_the_lives_before_and_the_newest_checkpoint_for_the_run) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  coordinator_of("r-aaaaaa", myself()).write(coordinator_journal(run));
  const auto life = [&](const std::string& id, const std::string& before, const std::string& checkpoint) {
    HandwrittenJournal peer;
    nlohmann::json started{
        {"pid", ::getpid()}, {"start_ticks", myself().start_ticks}, {"run", "r-aaaaaa"}, {"peer", id}, {"name", "brave-otter"}};
    if (!before.empty()) started["instead_of"] = before;
    peer.add("process_started", started);
    peer.add("checkpoint_written", {{"path", checkpoint}, {"reason", "…"}});
    peer.write(run / "peers" / ("brave-otter-" + id) / "journal.jsonl");
  };
  life(OTTER, "", "/x/step-000007");
  life(LYNX, "", "/x/step-000035");
  life(HERON, OTTER, "/x/step-000009");
  RunObserver observer{run};
  observer.update();
  BOOST_TEST(observer.local_lives().size() == 3U);
  std::vector<std::string> ids;
  for (const auto& peer : observer.local_peers()) ids.push_back(peer.status.id);
  BOOST_TEST(ids == (std::vector<std::string>{HERON, LYNX}), boost::test_tools::per_element());
  BOOST_TEST(observer.status().checkpoint.value() == "/x/step-000035");
}

BOOST_AUTO_TEST_CASE(the_last_words_of_who_ended_between_the_look_and_the_question_are_heard) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  auto journal = coordinator_of("r-aaaaaa", {7, 7});
  journal.write(coordinator_journal(run));
  const auto ends_when_asked = [&](const ProcessIdentity& process) {
    if (process == ProcessIdentity{7, 7}) {
      journal.add("run_done", {});
      journal.add("process_ended", {{"exit_code", 0}});
      journal.write(coordinator_journal(run));
    }
    return false;
  };
  RunObserver observer{run, ends_when_asked};
  observer.update();
  BOOST_TEST(to_string(observer.status().state) == "done");
}

BOOST_AUTO_TEST_CASE(what_ended_a_coordinator_that_had_no_room_in_its_journal_is_shown_by_its_guard) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  HandwrittenJournal journal;
  journal.add("process_started",
              {{"pid", 7}, {"start_ticks", 7}, {"guard_pid", ::getpid()}, {"guard_start_ticks", 8}, {"run", "r-aaaaaa"}});
  journal.write(coordinator_journal(run));
  const std::string full = "a file could not be read or written: write journal.jsonl: No space left on device [PR0701]";
  const auto waits_for = [&] {
    RunObserver observer{run, [](const ProcessIdentity& process) { return process.pid == ::getpid(); }};
    observer.update();
    return observer.status().wait.what;
  };
  BOOST_TEST(waits_for() == "the coordinator, which its guard starts again");
  NoticeBoard board;
  board.show({full});
  BOOST_TEST(waits_for() == "the coordinator, which is kept from going on: " + full);
  board.show({});
  BOOST_TEST(waits_for() == "the coordinator, which its guard starts again");
}

BOOST_AUTO_TEST_CASE(a_disk_that_takes_no_entry_of_the_ledger_is_what_the_run_waits_for) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  coordinator_of("r-aaaaaa", myself())
      .add("outer_step_begun", {{"outer_step", 3}, {"epoch", 1}, {"peers", 2}})
      .write(coordinator_journal(run));
  const auto status = [&](bool alive) {
    RunObserver observer{run, [=](const ProcessIdentity& process) { return alive && process.pid == ::getpid(); }};
    observer.update();
    return observer.status();
  };
  NoticeBoard board;
  BOOST_TEST(to_string(status(true).state) == "training");
  board.show({{},
              "the disk of /x/decisions.json, which takes no entry of the coordinator's ledger",
              "2031-05-04T09:14:02.137Z",
              "2031-05-04T09:15:02.137Z"});
  const auto stuck = status(true);
  BOOST_TEST(to_string(stuck.state) == "waiting");
  BOOST_TEST(stuck.wait.what == "the disk of /x/decisions.json, which takes no entry of the coordinator's ledger");
  BOOST_TEST(stuck.wait.since.value() == "2031-05-04T09:14:02.137Z");
  BOOST_TEST(stuck.wait.until.value() == "2031-05-04T09:15:02.137Z");
  BOOST_TEST(status(false).wait.what.find("/x/decisions.json") == std::string::npos, "of a process that is gone nothing is believed");
  board.show({});
  BOOST_TEST(to_string(status(true).state) == "training");
}

BOOST_AUTO_TEST_CASE(what_is_shown_is_read_whole_or_not_at_all) {
  NoticeBoard board;
  BOOST_TEST((read_notice(::getpid()) == std::nullopt), "nothing was shown yet");
  const Notice long_one{std::string(5000, 'x'), std::string(5000, '\xff'), "now", std::string(5000, 't')};
  board.show(long_one);
  const auto read = read_notice(::getpid());
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(read->obstacle == std::string(600, 'x'));
  BOOST_TEST(read->since == "now");
  BOOST_TEST(read->until == std::string(32, 't'));
  board.show({{}, std::string(5000, '\xff')});
  BOOST_TEST(read_notice(::getpid())->unwritten.size() > 600U, "each bad byte is replaced");
  BOOST_TEST(!read_notice(0).has_value());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_shown_where_it_is_now) {
  const test::TemporaryDirectory root;
  const auto told = [](const std::string& peer) { return "/old/state/r-aaaaaa/peers/" + peer + "/checkpoints/step-000004"; };
  const auto run = root.path() / "r-aaaaaa";
  HandwrittenJournal ada;
  ada.add("process_started", {{"pid", 9}, {"start_ticks", 9}, {"run", "r-aaaaaa"}, {"peer", OTTER}, {"name", "ada"}})
      .add("checkpoint_written", {{"path", told("ada-1")}, {"reason", "every 4 outer steps"}})
      .write(run / "peers" / "ada-1" / "journal.jsonl");
  const auto shown = [&](const std::string& peer) {
    coordinator_of("r-aaaaaa", {7, 7})
        .add("final_state_saved", {{"peer", OTTER}, {"name", "ada"}, {"checkpoint", told(peer)}})
        .write(coordinator_journal(run));
    RunObserver observer{run, [](const ProcessIdentity&) { return false; }};
    observer.update();
    BOOST_TEST(observer.local_peers().at(0).checkpoint.value() == (run / "peers" / "ada-1" / "checkpoints" / "step-000004").string());
    return observer.status().checkpoint.value();
  };
  fs::create_directories(run / "peers" / "ada-1" / "checkpoints" / "step-000004");
  BOOST_TEST(shown("ada-1") == (run / "peers" / "ada-1" / "checkpoints" / "step-000004").string());
  BOOST_TEST(shown("bob-2") == told("bob-2"), "that of another machine");
}

BOOST_AUTO_TEST_CASE(runs_are_found_by_unique_prefixes) {
  const test::TemporaryDirectory root;
  for (const auto* run : {"one-aaaaaa", "one-bbbbbb", "two-cccccc"}) coordinator_of(run, {}).write(coordinator_journal(root.path() / run));
  fs::create_directories(root.path() / "not-a-run");
  BOOST_TEST(list_runs(root.path()).size() == 3U);
  BOOST_TEST(find_run(root.path(), "two")->filename() == "two-cccccc");
  BOOST_TEST(find_run(root.path(), "one-a")->filename() == "one-aaaaaa");
  BOOST_TEST((find_run(root.path(), "one").error().name == ErrorName::RunAmbiguous));
  BOOST_TEST((find_run(root.path(), "three").error().name == ErrorName::RunUnknown));
  BOOST_TEST((find_run(root.path() / "nowhere", "one").error().name == ErrorName::RunUnknown));
}

BOOST_AUTO_TEST_CASE(without_a_name_the_active_run_is_meant) {
  const test::TemporaryDirectory root;
  coordinator_of("one-aaaaaa", {}).write(coordinator_journal(root.path() / "one-aaaaaa"));
  BOOST_TEST(select_run(root.path(), "")->filename() == "one-aaaaaa");
  coordinator_of("two-bbbbbb", {}).write(coordinator_journal(root.path() / "two-bbbbbb"));
  const auto none = select_run(root.path(), "").error();
  BOOST_TEST((none.name == ErrorName::RunUnknown));
  BOOST_TEST(none.detail == "none is active; those that have ended: one-aaaaaa, two-bbbbbb");
  coordinator_of("three-cccccc", myself()).write(coordinator_journal(root.path() / "three-cccccc"));
  BOOST_TEST(select_run(root.path(), "")->filename() == "three-cccccc");
  coordinator_of("four-dddddd", myself()).write(coordinator_journal(root.path() / "four-dddddd"));
  const auto several = select_run(root.path(), "").error();
  BOOST_TEST((several.name == ErrorName::RunAmbiguous));
  BOOST_TEST(several.detail == "four-dddddd, three-cccccc");
}

BOOST_AUTO_TEST_CASE(a_name_means_the_active_one_of_all_that_begin_so) {
  const test::TemporaryDirectory root;
  const auto add = [&](const char* run, std::optional<ProcessIdentity> alive) {
    coordinator_of(run, alive.value_or(ProcessIdentity{})).write(coordinator_journal(root.path() / run));
  };
  add("small-aaaaaa", {});
  BOOST_TEST(select_run(root.path(), "small")->filename() == "small-aaaaaa", "also when it has ended");
  add("small-bbbbbb", {});
  BOOST_TEST(select_run(root.path(), "small").error().detail ==
             "`small`: none is active; those that have ended: small-aaaaaa, small-bbbbbb");
  add("small-cccccc", myself());
  add("large-dddddd", myself());
  BOOST_TEST(select_run(root.path(), "small")->filename() == "small-cccccc");
  BOOST_TEST(select_run(root.path(), "small-a")->filename() == "small-aaaaaa");
  add("small-eeeeee", myself());
  const auto several = select_run(root.path(), "small").error();
  BOOST_TEST((several.name == ErrorName::RunAmbiguous));
  BOOST_TEST(several.detail == "`small`: small-cccccc, small-eeeeee");
  BOOST_TEST((select_run(root.path(), "tiny").error().name == ErrorName::RunUnknown));
  // What is to be removed is named exactly enough: nobody guesses there.
  BOOST_TEST((find_run(root.path(), "small").error().name == ErrorName::RunAmbiguous));
}

BOOST_AUTO_TEST_CASE(runs_are_listed_the_newest_first_with_the_size_of_their_files) {
  const test::TemporaryDirectory root;
  const auto add = [&](const char* run, const char* begun) {
    const auto path = coordinator_journal(root.path() / run);
    fs::create_directories(path.parent_path());
    std::ofstream(path) << R"({"t":")" << begun << R"(","seq":1,"event":"process_started","pid":1,"start_ticks":1,"run":")" << run
                        << "\"}\n";
  };
  add("old-aaaaaa", "2031-05-04T09:14:02.137Z");
  add("new-bbbbbb", "2031-05-05T09:14:02.137Z");
  add("older-cccccc", "2030-12-04T09:14:02.137Z");
  fs::create_directories(root.path() / "old-aaaaaa" / "checkpoints");
  std::ofstream(root.path() / "old-aaaaaa" / "checkpoints" / "model") << std::string(5000, 'x');
  fs::create_symlink("/usr", root.path() / "old-aaaaaa" / "elsewhere");
  const auto runs = observe_all(root.path());
  BOOST_REQUIRE(runs.size() == 3U);
  BOOST_TEST(runs[0].status.id == "new-bbbbbb");
  BOOST_TEST(runs[1].status.id == "old-aaaaaa");
  BOOST_TEST(runs[2].status.id == "older-cccccc");
  BOOST_TEST(runs[0].status.begun.value() == "2031-05-05T09:14:02.137Z");
  BOOST_TEST(runs[1].size_bytes == 5000 + fs::file_size(coordinator_journal(runs[1].directory)));
  BOOST_TEST(where_of(runs[0].status) == "here");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::telemetry
