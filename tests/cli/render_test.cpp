// Owns the golden pictures of tables, status and JSON. PRIME_WRITE_GOLDENS=1 records them anew.
#include "cli/render/join_line.hpp"
#include "cli/render/journal_text.hpp"
#include "cli/render/plan_text.hpp"
#include "cli/render/result_text.hpp"
#include "cli/render/runs_text.hpp"
#include "cli/render/status_text.hpp"
#include "cli/render/step_table.hpp"
#include "cli/render/verification_text.hpp"
#include "runtime/telemetry/status_json.hpp"
#include "support.hpp"

namespace prime::cli {
namespace {

using telemetry::PeerJournal;
using telemetry::RunStatus;
using test::HERON;
using test::IBEX;
using test::LYNX;
using test::OTTER;

constexpr Style PLAIN{};
constexpr Style TERMINAL{true, true};

/// Six steps with everything that a table tells: a loss, a joiner, a leaver, an abort that nobody's departure explains.
test::HandwrittenJournal eventful_run() {
  auto journal = test::training_run();
  const auto lost = [&](const char* id, const char* name, const char* reason) {
    journal.add("peer_lost", {{"peer", id}, {"name", name}, {"reason", reason}})
        .add("outer_step_aborted", {{"outer_step", 2},
                                    {"operation", "1.2"},
                                    {"epoch", 2},
                                    {"reason", std::string{name} + " was lost: " + reason},
                                    {"cause", "peer_lost"},
                                    {"because_of", id}});
  };
  journal.add("outer_step_committed", test::committed(1, 4.158, {OTTER, HERON, LYNX}));
  lost(LYNX, "wild-lynx", "a peer was lost: connection closed [PR0502]");
  // Its trainers evaluated the state of step 1.
  auto second = test::committed(2, 3.902, {OTTER, HERON});
  second["held_out_loss"] = 4.2;
  journal.add("outer_step_committed", second);
  journal.add("peer_admitted", {{"peer", IBEX}, {"name", "dusk-ibex"}, {"epoch", 3}, {"revision", 2}});
  for (int attempt = 0; attempt < 2; ++attempt) journal.add("peer_late", {{"peer", HERON}, {"name", "calm-heron"}, {"outer_step", 3}});
  journal.add("outer_step_committed", test::committed(3, 3.711, {OTTER, HERON, IBEX}));
  journal.add("outer_step_aborted",
              {{"outer_step", 4}, {"operation", "3.4"}, {"epoch", 3}, {"reason", "brave-otter reports: a lane broke: timed out [PR0503]"}});
  journal.add("coordinator_stood_still", {{"for_s", 3.8}});
  journal.add("outer_step_committed", test::committed(4, 3.59, {OTTER, HERON, IBEX}));
  journal.add("peer_left", {{"peer", HERON}, {"name", "calm-heron"}, {"reason", "left"}});
  journal.add("outer_step_committed", test::committed(5, 3.4, {OTTER, IBEX}));
  return journal;
}

std::string table_of(const test::HandwrittenJournal& journal, const Style& style) {
  StepTable table{style};
  auto text = table.header();
  journal.read(JournalWriter::Coordinator, [&](const JournalEvent& event, const std::string&) { text += table.apply(event).value_or(""); });
  return text;
}

RunStatus status_of(const test::HandwrittenJournal& journal) {
  telemetry::RunJournal run;
  journal.read(JournalWriter::Coordinator, [&](const JournalEvent& event, const std::string& time) { run.apply(event, time); });
  return combine(run, {}, [](const telemetry::ProcessIdentity&) { return true; });
}

void golden(const std::string& name, const std::string& text) { test::check_golden("tests/cli/golden/" + name, text); }

RunStatus done_status() {
  auto journal = eventful_run();
  journal
      .add("final_report",
           {{"peer", OTTER}, {"sample", "int main(\x1b[31m) {\n}\n\n"}, {"checkpoint", "/state/step-000005"}, {"held_out_loss", 1.512}})
      .add("run_done", {{"outer_step", 5}, {"tokens", 15000}, {"digest", test::DIGEST}});
  return status_of(journal);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pictures)

BOOST_AUTO_TEST_CASE(a_plan_on_terminals_of_each_width_and_in_a_pipe) {
  manifest::Manifest manifest;
  manifest.shared.run = "quickstart";
  manifest.shared.sync.fragments.count = 2;
  manifest.shared.sync.wire.codec = manifest.shared.sync.wire.result_codec = Codec::Int8Block;
  const auto nothing_known = planning::make_plan(manifest, {});
  const auto all_known =
      planning::make_plan(manifest, {.link_bits_per_s = 100'000'000, .peers = 3, .step_time = 100ms, .mtbf = 24 * 60min, .recovery = 30s});
  BOOST_REQUIRE((nothing_known && all_known));
  golden("plan_unknown.txt", plan_text(*nothing_known, PLAIN));
  golden("plan.txt", plan_text(*all_known, PLAIN));
  for (const std::size_t width : {60U, 80U, 200U})
    golden("plan_" + std::to_string(width) + ".txt", plan_text(*all_known, {.unicode = true, .width = width}));
  golden("plan.json", plan_json(*all_known).dump(2) + "\n");
}

BOOST_AUTO_TEST_CASE(a_verification_shows_the_prompts_on_one_harmless_line_each) {
  Verification verification;
  verification.file.tokenizer = "bytes";
  verification.file.sequences.push_back({{0x1b, 'a', '\n', '"', 300}, {'b'}, {}, {}});
  verification.file.sequences.push_back({std::vector<std::uint32_t>(1000, 'x'), {'b'}, {}, {}});
  verification.file.sequences.resize(12, {{'y'}, {'b'}, {}, {}});
  const auto text = verification_text(verification);
  BOOST_TEST(text.starts_with("prompt 0, 5 tokens: \"\\x1ba\\n\\\"\\x12c\"\nprompt 1, 1000 tokens: \"" + std::string(60, 'x') + "…\"\n"),
             text);
  BOOST_TEST(text.find("and 2 more prompts\n") != std::string::npos, text);
  verification.file.tokenizer = std::string(64, 'a');
  BOOST_TEST(verification_text(verification).starts_with("prompt 0, 5 tokens: 27 97 10 34 300\n"));
}

BOOST_AUTO_TEST_CASE(what_could_not_be_saved_is_told_of_each_peer_and_of_the_run) {
  const auto peer = [](const std::string& name, std::uint64_t step, std::optional<std::string> checkpoint,
                       std::optional<std::string> problem) {
    telemetry::PeerJournal journal;
    journal.status.name = name;
    journal.status.outer_step = step;
    journal.checkpoint = std::move(checkpoint);
    journal.problem = std::move(problem);
    journal.ended = true;
    return journal;
  };
  RunStatus status;
  status.outer_step = 8;
  std::vector peers{peer("brave-otter", 8, "/s/step-000005", "No space left on device"),
                    peer("calm-heron", 8, {}, "No space left on device")};
  const std::vector<std::string> each{"brave-otter: No space left on device; it held outer step 8, and its checkpoint is of 5",
                                      "calm-heron: No space left on device; it held outer step 8, and has no checkpoint"};
  auto with_lost = each;
  with_lost.emplace_back("outer steps 6 to 8 were committed, and no peer here has saved them");
  BOOST_TEST(what_is_not_saved(status, peers) == with_lost, boost::test_tools::per_element());
  peers.push_back(peer("wild-lynx", 8, "/s/step-000008", {}));
  BOOST_TEST(what_is_not_saved(status, peers) == each, boost::test_tools::per_element());
  peers[2].checkpoint = "/s/step-000007";
  BOOST_TEST(what_is_not_saved(status, peers).back() == "outer step 8 was committed, and no peer here has saved it");
  BOOST_TEST(what_is_not_saved(status, std::span{peers}.subspan(2)).empty(), "nothing was to be saved that could not be");
  peers[2].ended = false;
  const std::vector<std::string> by_force{"wild-lynx was ended by force, with outer step 8",
                                          "outer step 8 was committed, and no peer here has saved it"};
  BOOST_TEST(what_is_not_saved(status, std::span{peers}.subspan(2)) == by_force, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_step_table_in_a_pipe) { golden("steps.txt", table_of(eventful_run(), PLAIN)); }
BOOST_AUTO_TEST_CASE(the_step_table_on_a_terminal) { golden("steps_terminal.txt", table_of(eventful_run(), TERMINAL)); }
BOOST_AUTO_TEST_CASE(the_step_table_drops_columns_where_there_is_no_room) {
  auto journal = eventful_run();
  journal.add("final_report", {{"peer", OTTER}, {"sample", ""}, {"checkpoint", "/s"}, {"held_out_loss", 1.512}});
  for (const auto width : {60U, 80U, 200U}) {
    const auto text = table_of(journal, Style{false, true, width});
    golden("steps_" + std::to_string(width) + ".txt", text);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) BOOST_TEST(line.size() <= width, line);
  }
}
BOOST_AUTO_TEST_CASE(a_watched_status_in_a_pipe_has_a_line_for_each_change) {
  auto journal = eventful_run();
  journal.add("final_report", {{"peer", OTTER}, {"sample", ""}, {"checkpoint", "/state/step-000005"}, {"held_out_loss", 1.512}})
      .add("run_done", {{"outer_step", 5}, {"tokens", 15000}, {"digest", test::DIGEST}});
  telemetry::RunJournal run;
  ChangeLines lines;
  std::string text;
  journal.read(JournalWriter::Coordinator, [&](const JournalEvent& event, const std::string& time) {
    run.apply(event, time);
    text += lines.next(combine(run, {}, [](const telemetry::ProcessIdentity&) { return true; }), PLAIN).value_or("");
  });
  golden("changes.txt", text);
}
BOOST_AUTO_TEST_CASE(who_hears_nothing_for_long_is_told_what_is_done_how_far_and_since_when) {
  const auto now = *store::parse_utc("2031-05-04T09:15:00.000Z");
  RunStatus status;
  status.state = telemetry::RunState::Training;
  status.outer_step = 4;
  BOOST_TEST(doing_text(status, "2031-05-04T09:14:29.000Z", now) == "for outer step 5 (for 31.0s)");
  BOOST_TEST(doing_text(status, "", now) == "for outer step 5");
  status.wait = {"the final checkpoint, which brave-otter writes", "2031-05-04T09:13:00.000Z", {}};
  auto& peer = status.peers.emplace_back();
  peer.name = "calm-heron";
  peer.state = telemetry::PeerState::Fetching;
  peer.transfer = telemetry::TransferStatus{TransferKind::Fetch, 3'200'000, 13'600'000, 81'000};
  BOOST_TEST(doing_text(status, "", now) ==
             "for the final checkpoint, which brave-otter writes (for 2m00s), calm-heron has fetched 3.1 MiB of 13.0 MiB, 79.1 KiB/s");
  status.state = telemetry::RunState::Done;
  BOOST_TEST(doing_text(status, "", now) == "for the peers here to end");
}
BOOST_AUTO_TEST_CASE(a_status_in_a_pipe) { golden("status.txt", status_text(status_of(eventful_run()), PLAIN)); }
BOOST_AUTO_TEST_CASE(a_status_on_a_terminal) { golden("status_terminal.txt", status_text(status_of(eventful_run()), TERMINAL)); }
BOOST_AUTO_TEST_CASE(a_device_that_the_machine_chose_is_told_as_long_as_its_peer_is_there) {
  auto status = status_of(eventful_run());
  status.peers[0].device = status.peers[1].device = "cpu, since there is no \x1b driver";  // the second one has left
  const auto text = status_text(status, PLAIN);
  BOOST_TEST(text.find("\nbrave-otter computes on cpu, since there is no ? driver\n") != std::string::npos, text);
  BOOST_TEST(text.find("calm-heron computes") == std::string::npos, text);
}
BOOST_AUTO_TEST_CASE(a_status_as_json) { golden("status.json", telemetry::to_json(status_of(eventful_run())).dump(2) + "\n"); }

BOOST_AUTO_TEST_CASE(a_status_with_a_relayed_lane) {
  auto journal = test::training_run();
  journal.add("lane_relayed", {{"peer", HERON}, {"name", "calm-heron"}, {"to", "wild-lynx"}, {"through", "brave-otter"}});
  golden("relayed.txt", status_text(status_of(journal), PLAIN));
  golden("relayed.json", telemetry::to_json(status_of(journal)).dump(2) + "\n");
}

BOOST_AUTO_TEST_CASE(a_status_with_the_rates_of_links_and_transfers) {
  auto journal = test::training_run();
  const auto link = [&](const char* peer, const char* name, const char* to, std::uint64_t bytes_per_s) {
    journal.add("link_rate", {{"peer", peer}, {"name", name}, {"to", to}, {"bytes_per_s", bytes_per_s}});
  };
  link(OTTER, "brave-otter", "calm-heron", 11'000'000);
  link(HERON, "calm-heron", "brave-otter", 230'000);
  journal.add("reduce_started", {{"outer_step", 2}, {"epoch", 1}, {"operation", "1.2"}, {"peers", 2}});
  journal.add("transfer_progress", {{"peer", HERON},
                                    {"name", "calm-heron"},
                                    {"kind", "reduce"},
                                    {"moved_bytes", 3'200'000},
                                    {"needed_bytes", 13'600'000},
                                    {"bytes_per_s", 81'000},
                                    {"elapsed_s", 40.0}});
  golden("rates.txt", status_text(status_of(journal), PLAIN));
  golden("rates.json", telemetry::to_json(status_of(journal)).dump(2) + "\n");
  // What was measured of a link is of no use once one of its ends is gone; what a transfer came to stays.
  journal.add("peer_left", {{"peer", OTTER}, {"name", "brave-otter"}, {"reason", "left"}});
  for (const auto& peer : status_of(journal).peers) BOOST_TEST(!peer.link.has_value());
  BOOST_TEST(status_of(journal).peers.at(1).transfer_bytes_per_s.value_or(0) == 81'000U);
}

BOOST_AUTO_TEST_CASE(a_sharded_run) {
  auto journal = test::sharded_run();
  golden("sharded.txt", status_text(status_of(journal), PLAIN));
  golden("sharded.json", telemetry::to_json(status_of(journal)).dump(2) + "\n");
  journal.add("outer_step_committed", test::committed(1, 2.5, {OTTER}));
  const auto lost = [&](const char* peer, int shard, const char* reason) {
    journal.add("peer_lost", {{"peer", peer},
                              {"name", "brave-otter." + std::to_string(shard)},
                              {"replica", "brave-otter"},
                              {"shard", shard},
                              {"reason", reason}});
  };
  lost(OTTER, 0, "lost peer: connection lost [PR0501]");
  lost(HERON, 1, "with brave-otter.0: lost peer: connection lost [PR0501]");
  journal.add("outer_step_committed", test::committed(2, 2.4, {LYNX}));
  golden("sharded_steps.txt", table_of(journal, PLAIN));
  auto status = status_of(journal);
  status.checkpoint = "/state/step-000002";
  golden("sharded_done.txt", result_text(status, DigestComparison{2, {}}, 161, PLAIN));
  std::vector<PeerJournal> peers(2);
  for (std::size_t shard = 0; shard < peers.size(); ++shard) {
    peers[shard].status.shard = shard;
    peers[shard].checkpoint = "/state/" + std::to_string(shard) + (shard == 0 ? "/step-000002" : "/step-000001");
  }
  BOOST_TEST(checkpoint_text(status, peers) == "/state/step-000002, of one shard; not all of the others are saved here");
  peers[1].checkpoint = "/state/1/step-000002";
  BOOST_TEST(checkpoint_text(status, peers) == "/state/step-000002, of one shard; those of the others are on this machine, too");
}

BOOST_AUTO_TEST_CASE(who_joins_a_sharded_run_starts_a_whole_replica_with_a_trainer) {
  manifest::Manifest manifest;
  const auto line = [&] { return join_line("primectl", "prime://a:1/run#key", manifest); };
  BOOST_TEST(line() == "primectl join 'prime://a:1/run#key'");
  BOOST_TEST(!lacks_trainer(manifest));
  manifest.shared.membership.shards = 3;
  BOOST_TEST(lacks_trainer(manifest), "which a standby's machine does not know");
  BOOST_TEST(line() == "primectl join 'prime://a:1/run#key' --shards 3 --detach --set 'local.trainer_command=[\"TRAINER\"]'");
  manifest.local.trainer_command = {"./mine", "a b"};
  BOOST_TEST(!lacks_trainer(manifest));
  BOOST_TEST(line() == "primectl join 'prime://a:1/run#key' --shards 3 --detach --set 'local.trainer_command=[\"./mine\", \"a b\"]'");
}

BOOST_AUTO_TEST_CASE(the_peers_of_a_replica_stand_one_below_the_other) {
  RunStatus status;
  for (const auto& [name, replica, shard] :
       {std::tuple{"b.1", "b", 1}, {"a.0", "a", 0}, {"c.0", "c", 0}, {"a.1", "a", 1}, {"b.0", "b", 0}, {"b.1 again", "b", 1}}) {
    auto& peer = status.peers.emplace_back();
    peer.name = name;
    peer.replica = replica;
    peer.shard = static_cast<std::uint64_t>(shard);
  }
  const auto text = status_text(status, PLAIN);
  std::vector<std::size_t> at;
  for (const auto* name : {"b.0 ", "b.1 ", "b.1 again ", "a.0 ", "a.1 ", "c.0 "}) at.push_back(text.find(name));
  BOOST_TEST(std::is_sorted(at.begin(), at.end()), text);
}

BOOST_AUTO_TEST_CASE(a_run_that_waits) {
  test::HandwrittenJournal journal;
  for (std::size_t i = 0; i < 5; ++i) journal.add(test::training_run().lines()[i].event, test::training_run().lines()[i].fields);
  golden("waiting.txt", status_text(status_of(journal), PLAIN));
}

BOOST_AUTO_TEST_CASE(a_run_that_failed_and_several_runs) {
  telemetry::RunJournal run;
  const auto journal = eventful_run();
  journal.read(JournalWriter::Coordinator, [&](const JournalEvent& event, const std::string& time) { run.apply(event, time); });
  auto failed = combine(run, {}, [](const telemetry::ProcessIdentity&) { return false; });
  failed.id = "other-zzzzzz";
  golden("failed.txt", status_text(failed, PLAIN));
  failed.begun.reset();
  const std::vector<telemetry::ListedRun> runs{{status_of(eventful_run()), "/s/quickstart-k7qd2a", 1'234'567},
                                               {failed, "/s/other-zzzzzz", 0}};
  golden("runs.txt", runs_text(runs, PLAIN));
  const auto now = *store::parse_utc("2031-05-04T12:14:01.000Z");
  for (const auto width : {60U, 80U, 200U})
    golden("runs_" + std::to_string(width) + ".txt", runs_text(runs, Style{false, true, width}, now));
  golden("runs.json", telemetry::to_json(runs).dump(2) + "\n");
}

BOOST_AUTO_TEST_CASE(a_run_that_lives_elsewhere) {
  auto status = status_of(eventful_run());
  status.elsewhere = {{"on `node7`", {"the coordinator (pid 4242 there)", "brave-otter (pid 7 there)"}},
                      {"on a machine that its files do not name", {"calm-heron"}, false}};
  status.coordinator_pid.reset();
  for (auto& peer : status.peers) peer.pid = peer.trainer_pid = std::nullopt;
  golden("elsewhere.txt", status_text(status, PLAIN));
  golden("elsewhere.json", telemetry::to_json(status).dump(2) + "\n");
  const telemetry::ListedRun listed{status, "/s/quickstart-k7qd2a", 999};
  golden("elsewhere_runs.txt", runs_text(std::span{&listed, 1}, PLAIN));
}

BOOST_AUTO_TEST_CASE(a_run_that_was_stopped) {
  auto journal = eventful_run();
  journal.add("run_stopped",
              {{"outer_step", 5}, {"reason", "the run was stopped before its end: by its owner, after outer step 5 [PR0510]"}});
  golden("stopped.txt", status_text(status_of(journal), PLAIN));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_run) {
  const auto status = done_status();
  golden("done.txt", result_text(status, DigestComparison{3, {}}, 161, PLAIN));
  golden("done_differing.txt", result_text(status, DigestComparison{1, {"wild-lynx"}}, 161, PLAIN));
  golden("result.json", result_json(status, "done").dump(2) + "\n");
}

BOOST_AUTO_TEST_CASE(no_escape_byte_without_colour_whatever_the_model_writes) {
  const auto text = result_text(done_status(), {}, 1, PLAIN) + table_of(eventful_run(), PLAIN) + status_text(done_status(), PLAIN);
  BOOST_TEST(text.find('\x1b') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(log_lines_quote_what_could_move_the_cursor) {
  test::HandwrittenJournal journal;
  journal.add("peer_lost", {{"peer", OTTER}, {"name", "evil\x1b[2J"}, {"reason", "two words"}, {"epoch", 3}});
  const auto figures = [](double value) {
    test::HandwrittenJournal of;
    of.add("peer_ready", {{"loss", value}});
    const auto text = journal_text({"coordinator", "", of.lines()[0]}, PLAIN);
    return text.substr(text.find("loss="));
  };
  BOOST_TEST(figures(3.1234567) == "loss=3.123\n");
  BOOST_TEST(figures(21437.81) == "loss=21438\n");
  BOOST_TEST(figures(0.000123456) == "loss=0.0001235\n");
  golden("log_line.txt", journal_text({"coordinator", "", journal.lines()[0]}, PLAIN));
}

BOOST_AUTO_TEST_CASE(digests_are_compared_at_the_last_step_only) {
  RunStatus status;
  status.outer_step = 5;
  status.digest = "aaaa";
  const auto peer = [](const char* name, std::uint64_t step, const char* digest) {
    PeerJournal journal;
    journal.status.name = name;
    journal.status.outer_step = step;
    journal.status.digest = digest;
    return journal;
  };
  const auto compared =
      compare_digests(status, {peer("otter", 5, "aaaa"), peer("heron", 5, "bbbb"), peer("lynx", 3, "cccc"), PeerJournal{}});
  BOOST_TEST(compared.equal == 1U);
  BOOST_TEST(compared.differing == std::vector<std::string>{"heron"}, boost::test_tools::per_element());
  const auto part = [&](const char* name, std::uint64_t shard, const char* digest) {
    auto journal = peer(name, 5, digest);
    journal.status.replica = "r";
    journal.status.shard = shard;
    return journal;
  };
  const auto in_parts =
      compare_digests(status, {part("a.0", 0, "bbbb"), part("a.1", 1, "cccc"), part("b.0", 0, "bbbb"), part("b.1", 1, "dddd")});
  BOOST_TEST(in_parts.equal == 3U);
  BOOST_TEST(in_parts.differing == std::vector<std::string>{"b.1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::cli
