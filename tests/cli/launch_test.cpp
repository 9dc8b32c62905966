// Owns the tests of starting and ending processes, with /bin/sh in the place of primectl.
#include <csignal>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/membership/replicas.hpp"
#include "runtime/launch/coordinator_guard.hpp"
#include "runtime/launch/find_checkpoint.hpp"
#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/launched_process.hpp"
#include "runtime/launch/readiness.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/launch/start_run.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/store/checkpoint.hpp"
#include "runtime/store/private_state.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "support.hpp"

namespace prime::launch {
namespace {

constexpr Duration GENEROUS{60s};

LaunchedProcess shell(const test::TemporaryDirectory& directory, const std::string& script, const std::string& input = {}) {
  auto process = LaunchedProcess::start({{"/bin/sh", "-c", script}, input, directory.path() / "log"});
  BOOST_REQUIRE(process.has_value());
  return std::move(*process);
}

manifest::Manifest small_manifest() {
  manifest::Manifest manifest;
  manifest.shared.run = "small";
  return manifest;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(launch)

BOOST_AUTO_TEST_CASE(a_process_is_ready_when_it_says_so) {
  const test::TemporaryDirectory directory;
  auto process = shell(directory, R"(read word; echo "{\"heard\": \"$word\"}" >&3; exec sleep 600)", "hello\n");
  const auto said = process.readiness(GENEROUS, -1);
  BOOST_REQUIRE(said.has_value());
  BOOST_TEST(said->value("heard", "") == "hello");
  BOOST_TEST(telemetry::is_alive(process.identity()));
  BOOST_TEST(::getsid(process.pid()) == process.pid());
  BOOST_TEST(stop_processes(std::vector{process.identity()}, StopLimits{GENEROUS}) == 0U);
  BOOST_TEST(describe_wait_status(process.reap().value()) == "killed by SIGTERM");
  BOOST_TEST(!telemetry::is_alive(process.identity()));
}

BOOST_AUTO_TEST_CASE(an_error_in_its_place_comes_out_as_that_error) {
  const test::TemporaryDirectory directory;
  auto process = shell(directory, R"(echo '{"error":{"name":"AddressTaken","detail":"127.0.0.1:1","context":["listening"]}}' >&3)");
  const auto said = process.readiness(GENEROUS, -1);
  BOOST_REQUIRE(!said.has_value());
  BOOST_TEST((said.error().name == ErrorName::AddressTaken));
  BOOST_TEST(said.error().detail == "127.0.0.1:1");
  BOOST_TEST(said.error().context.at(0) == "listening");
}

BOOST_AUTO_TEST_CASE(an_end_without_a_word_shows_the_end_of_its_own_log) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "log") << "of an older process\n";
  auto process = shell(directory, "echo it broke >&2; exit 3");
  const auto said = process.readiness(GENEROUS, -1);
  BOOST_REQUIRE(!said.has_value());
  BOOST_TEST((said.error().name == ErrorName::ProcessFailed));
  BOOST_TEST(said.error().detail.find("it broke") != std::string::npos);
  BOOST_TEST(said.error().detail.find("older") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_end_by_a_signal_is_told_as_one) {
  const test::TemporaryDirectory directory;
  auto process = shell(directory, "kill -SEGV $$");
  const auto said = process.readiness(GENEROUS, -1);
  BOOST_REQUIRE(!said.has_value());
  BOOST_TEST(said.error().detail.find("it ended (killed by SIGSEGV); ") == 0U);
  BOOST_TEST(said.error().detail.find("log is empty") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_error_that_it_printed_before_it_died_is_that_error) {
  const test::TemporaryDirectory directory;
  const Error error{ErrorName::StorageFailed, "write /x/journal.jsonl: No space left on device"};
  auto process = shell(directory, "cat >&2; exit 1", "one\n" + render(error));
  const auto said = process.readiness(GENEROUS, -1);
  BOOST_REQUIRE(!said.has_value());
  BOOST_TEST((said.error() == error));
  BOOST_TEST((process.last_error() == error));
}

BOOST_AUTO_TEST_CASE(a_program_that_is_not_there_cannot_be_started) {
  const test::TemporaryDirectory directory;
  const auto process = LaunchedProcess::start({{"/nowhere/primectl"}, {}, directory.path() / "log"});
  BOOST_REQUIRE(!process.has_value());
  BOOST_TEST((process.error().name == ErrorName::ProcessFailed));
}

BOOST_AUTO_TEST_CASE(the_wait_for_readiness_ends_at_its_limit_and_by_an_interrupt) {
  const test::TemporaryDirectory directory;
  auto process = shell(directory, "exec sleep 600");
  BOOST_TEST((process.readiness(Duration{1ms}, -1).error().name == ErrorName::DeadlineExceeded));
  int interrupt[2];
  BOOST_REQUIRE(::pipe(interrupt) == 0);
  BOOST_REQUIRE(::write(interrupt[1], "x", 1) == 1);
  BOOST_TEST((process.readiness(GENEROUS, interrupt[0]).error().name == ErrorName::Interrupted));
  stop_processes(std::vector{process.identity()}, StopLimits{GENEROUS});
  ::close(interrupt[0]);
  ::close(interrupt[1]);
}

BOOST_AUTO_TEST_CASE(who_ignores_the_request_is_killed_or_left) {
  const test::TemporaryDirectory directory;
  auto process = shell(directory, "trap '' TERM; echo '{}' >&3; while :; do sleep 1; done");
  BOOST_REQUIRE(process.readiness(GENEROUS, -1).has_value());
  BOOST_TEST(stop_processes(std::vector{process.identity()}, StopLimits{Duration{10ms}, -1, false}) == 1U);
  BOOST_TEST(telemetry::is_alive(process.identity()));
  BOOST_TEST(stop_processes(std::vector{process.identity()}, StopLimits{Duration{10ms}}) == 1U);
  BOOST_TEST(describe_wait_status(process.reap().value()) == "killed by SIGKILL");
}

BOOST_AUTO_TEST_CASE(a_stranger_with_the_same_number_is_left_alone) {
  const test::TemporaryDirectory directory;
  auto process = shell(directory, "exec sleep 600");
  const telemetry::ProcessIdentity older{process.pid(), process.identity().start_ticks - 1};
  BOOST_TEST(stop_processes(std::vector{older}, StopLimits{GENEROUS}) == 0U);
  BOOST_TEST(telemetry::is_alive(process.identity()));
  stop_processes(std::vector{process.identity()}, StopLimits{GENEROUS});
}

BOOST_AUTO_TEST_CASE(a_guard_tries_for_as_long_as_peers_look_for_its_coordinator) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "coordinator");
  const auto program = directory.path() / "coordinator.sh";
  std::ofstream(program) << "#!/bin/sh\necho start >> " << (directory.path() / "starts").string()
                         << "\necho 'error: a file could not be read or written: no room [PR0701]'\n"
                            "case \"$*\" in *--again*) ;; *) echo '{\"port\": 7}' >&3 ;; esac\nexit 1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const CoordinatorPlan plan{"small-abcdef", small_manifest(), Endpoint{"::1", 7}, 1, {}, {}};
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  const auto begun = std::chrono::steady_clock::now();
  const auto ended = guard_coordinator({program.string(), directory.path(), format_plan(plan), 4s}, [](const nlohmann::json&) {});
  const auto tried = std::chrono::steady_clock::now() - begun;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  BOOST_REQUIRE(!ended.has_value());
  BOOST_TEST((ended.error().name == ErrorName::StorageFailed));
  BOOST_TEST((tried >= 4s), "it gave up after " << std::chrono::duration<double>(tried).count() << " s");
}

BOOST_AUTO_TEST_CASE(plans_survive_their_way) {
  CoordinatorPlan coordinator{"small-abcdef",
                              small_manifest(),
                              Endpoint{"::1", 7},
                              3,
                              store::CheckpointState{"older", Revision{4}, OuterStep{4}, 5, 6, Digest{7, 8}},
                              "of 3 peers, and 2 start here",
                              {"brave-otter", "calm-heron"},
                              "prime://x"};
  coordinator.manifest.local.threads = 4;
  BOOST_TEST((parse_coordinator_plan(format_plan(coordinator)).value() == coordinator));
  auto divided = coordinator;
  divided.origin->division = {2, FragmentPattern::Balanced};
  divided.origin->versions = {OuterStep{4}, OuterStep{4}};
  BOOST_TEST((parse_coordinator_plan(format_plan(divided)).value() == divided));
  divided.origin->versions.pop_back();
  BOOST_TEST((parse_coordinator_plan(format_plan(divided)).error().name == ErrorName::InternalError), "and not begun from nothing");
  auto at_all_addresses = coordinator;
  at_all_addresses.listen = net::listen_towards({"10.0.0.6"});
  BOOST_TEST((parse_coordinator_plan(format_plan(at_all_addresses)).value() == at_all_addresses));
  const auto key = net::RunKey::generate();
  const auto elsewhere = parse_coordinator_plan(format_standby_plan(coordinator, key)).value();
  BOOST_TEST((elsewhere.manifest.shared == coordinator.manifest.shared));
  BOOST_TEST((elsewhere.origin == coordinator.origin));
  BOOST_TEST(elsewhere.start_quorum == 3U);
  BOOST_TEST((elsewhere.founders == coordinator.founders));
  BOOST_TEST((elsewhere.manifest.local == manifest::Local{}), "one machine's business");
  BOOST_TEST(elsewhere.invite == "", "the key is in it");
  BOOST_TEST(elsewhere.key_check == net::key_check(key, "small-abcdef"));
  BOOST_TEST(elsewhere.key_check != net::key_check(net::RunKey::generate(), "small-abcdef"));
  BOOST_TEST(elsewhere.key_check != net::key_check(key, "small-abcdeg"));
  auto local = small_manifest().local;
  local.trainer_command = {"python3", "a b.py"};
  local.threads = 4;
  const AgentPlan agent{"prime://x", "brave-otter", local, "/a/checkpoint", "/a/private", "calm-heron", 3, 4};
  BOOST_TEST((parse_agent_plan(format_plan(agent)).value() == agent));
  BOOST_TEST((parse_agent_plan("").error().name == ErrorName::Usage));
  BOOST_TEST((parse_coordinator_plan("[]").error().name == ErrorName::Usage));
}

BOOST_AUTO_TEST_CASE(lines_that_are_no_readiness_are_none) {
  for (const auto* line : {"", "hello", "[1]", R"({"error": 3})"}) BOOST_TEST(!parse_readiness(line).has_value());
}

BOOST_AUTO_TEST_CASE(an_invite_is_readable_by_its_owner_only) {
  const test::TemporaryDirectory root;
  const auto directory = root.path() / "small-abcdef";
  BOOST_REQUIRE(make_run_directory(directory, small_manifest()).has_value());
  for (const auto* invite : {"prime://first", "prime://second"}) {
    BOOST_REQUIRE(write_invite(directory, invite).has_value());
    BOOST_TEST(read_invite(directory).value() == invite);
  }
  struct stat entry {};
  BOOST_REQUIRE(::stat((directory / "invite").c_str(), &entry) == 0);
  BOOST_TEST((entry.st_mode & 0777) == 0600U);
}

BOOST_AUTO_TEST_CASE(run_ids_differ_and_may_stand_in_an_invite) {
  const auto one = make_run_id("small");
  BOOST_TEST(one.size() == std::string{"small-xxxxxx"}.size());
  BOOST_TEST(one != make_run_id("small"));
  BOOST_TEST(one.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567-") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_cannot_work_is_refused_before_anything_starts) {
  auto manifest = small_manifest();
  BOOST_TEST((check_start(manifest, 9, 0).error().name == ErrorName::Usage));
  BOOST_TEST((check_start(manifest, 1, 9).error().name == ErrorName::Usage));
  BOOST_TEST(check_start(manifest, 1, 9).error().detail.find("8") != std::string::npos);
  manifest.shared.data.path = "/nowhere";
  BOOST_TEST((check_start(manifest, 1, 0).error().name == ErrorName::DataUnreadable));
  for (const auto* there : {"sh", "/bin/sh"}) {
    manifest.local.trainer_command = {there, "mine"};  // whatever it reads is its own business
    BOOST_TEST(check_start(manifest, 1, 0).has_value());
  }
  for (const auto* missing : {"no-such-program", "./no-such-program", "/etc/passwd", "/etc"}) {
    manifest.local.trainer_command = {missing};
    const auto refused = check_start(manifest, 1, 0);
    BOOST_REQUIRE_MESSAGE(!refused, missing);
    BOOST_TEST((refused.error().name == ErrorName::ProcessFailed));
    BOOST_TEST(refused.error().detail.find(missing) != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_is_too_large_for_the_descriptors_here_is_refused_with_both_numbers) {
  auto manifest = small_manifest();
  manifest.local.trainer_command = {"sh"};
  manifest.shared.membership.peers = {1, 1000};
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const auto refused = [&](std::uint32_t peers, std::uint32_t quorum, rlim_t allowed) {
    const rlimit few{allowed, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto checked = check_start(manifest, peers, quorum);
    ::setrlimit(RLIMIT_NOFILE, &before);
    return checked ? std::string{} : to_string(checked.error());
  };
  BOOST_TEST(refused(3, 0, 70).empty());
  BOOST_TEST(refused(3, 0, 69) ==
             "memory, descriptors or threads are used up: a process in a run of 3 peers needs 70 open descriptors, and `ulimit -n` "
             "allows 69 [PR0708]");
  BOOST_TEST(refused(3, 4, 70).find("a run of 4 peers needs 72") != std::string::npos);
  manifest.shared.membership.peers.minimum = 300;
  manifest.shared.sync.wire.streams = 4;
  BOOST_TEST(refused(3, 0, 1024).find("a run of 300 peers needs 1564") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_model_in_parts_needs_a_trainer_that_holds_one) {
  auto manifest = small_manifest();
  manifest.shared.membership.shards = 2;
  const auto refused = check_start(manifest, 1, 0);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().name == ErrorName::Usage));
  BOOST_TEST(refused.error().detail.find("`local.trainer_command` must name a trainer of your own") != std::string::npos);
  manifest.local.trainer_command = {"sh"};
  BOOST_TEST(check_start(manifest, 1, 0).has_value());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_model_is_refused_and_one_without_a_manifest_that_is_understood_is_not) {
  const test::TemporaryDirectory root;
  auto manifest = small_manifest();
  store::CheckpointContent content;
  content.state = {"small-abcdef", Revision{4}, OuterStep{4}, 5, 6, Digest{7, 8}};
  content.manifest = manifest::shared_yaml(manifest);
  const auto path = store::write_checkpoint(root.path(), content).value();
  BOOST_TEST(find_checkpoint(root.path(), path.string(), manifest).has_value());
  for (const auto& none : {root.path(), path / "model.safetensors"}) {
    const auto said = find_checkpoint(root.path(), none.string(), manifest);
    BOOST_REQUIRE(!said.has_value());
    BOOST_TEST((said.error().name == ErrorName::Usage));
    BOOST_TEST(said.error().detail.find("is no checkpoint; name a run") != std::string::npos, said.error().detail);
  }
  manifest.shared.model.heads = 2;
  const auto refused = find_checkpoint(root.path(), path.string(), manifest);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().name == ErrorName::StateMismatch));
  BOOST_TEST(refused.error().detail == "`model.heads` is 2 here and 4 there (" + path.string() + ")");
  content.manifest = "from: another version\n";
  BOOST_REQUIRE(store::write_checkpoint(root.path(), content).has_value());
  BOOST_TEST(find_checkpoint(root.path(), path.string(), manifest).has_value());
}

BOOST_AUTO_TEST_CASE(a_state_that_was_saved_between_two_fragments_goes_on_divided_as_it_is) {
  const test::TemporaryDirectory root;
  auto manifest = small_manifest();
  store::CheckpointContent content;
  content.state = {"small-abcdef", Revision{9}, OuterStep{4}, 5, 6, Digest{7, 8}};
  content.state.division.count = 2;
  content.state.versions = {OuterStep{5}, OuterStep{4}};
  content.manifest = manifest::shared_yaml(manifest);
  const auto path = store::write_checkpoint(root.path(), content).value();
  const auto refused = find_checkpoint(root.path(), path.string(), manifest);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().name == ErrorName::StateMismatch));
  BOOST_TEST(refused.error().detail.find("go on from it with `sync.fragments: {count: 2, pattern: strided}`") != std::string::npos,
             refused.error().detail);
  manifest.shared.sync.fragments.count = 2;
  BOOST_TEST((find_checkpoint(root.path(), path.string(), manifest).value().state == content.state));
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_from_the_newest_state_that_was_not_undone) {
  const test::TemporaryDirectory root;
  const auto manifest = small_manifest();
  const auto run = root.path() / "small-abcdef";
  const auto save = [&](const std::string& peer, std::uint64_t step, std::uint64_t digest) {
    test::HandwrittenJournal{}.add("process_started").write(run / "peers" / peer / "journal.jsonl");
    store::CheckpointContent content;
    content.state = {"small-abcdef", Revision{step}, OuterStep{step}, 5, 6, Digest{digest, 8}};
    content.manifest = manifest::shared_yaml(manifest);
    BOOST_REQUIRE(store::write_checkpoint(run / "peers" / peer / "checkpoints", content).has_value());
  };
  const auto state = [](std::uint64_t revision, std::uint64_t digest) {
    return nlohmann::json{{"outer_step", revision}, {"revision", revision}, {"digest", to_string(Digest{digest, 8})}};
  };
  const auto found = [&] { return find_checkpoint(root.path(), "small-abcdef", manifest).value().state.state; };

  test::HandwrittenJournal journal;
  journal.add("process_started").add("outer_step_committed", state(1, 1)).add("outer_step_committed", state(2, 2));
  journal.write(telemetry::coordinator_journal(run));
  save("ada", 1, 1);
  save("bob", 2, 2);
  BOOST_TEST((found() == Digest{2, 8}));

  journal.add("rolled_back", state(1, 1));
  journal.write(telemetry::coordinator_journal(run));
  BOOST_TEST((found() == Digest{1, 8}), "bob was lost before the rollback, and what he saved is void");

  journal.add("outer_step_committed", state(2, 3));
  journal.write(telemetry::coordinator_journal(run));
  BOOST_TEST(is_older(find_checkpoint(root.path(), "small-abcdef", manifest).value()), "what was done again is not saved yet");
  save("cyd", 2, 3);
  BOOST_TEST((found() == Digest{3, 8}), "of two of the same step the one that stands");
  BOOST_TEST(!is_older(find_checkpoint(root.path(), "small-abcdef", manifest).value()));
}

BOOST_AUTO_TEST_CASE(whose_newest_checkpoint_is_damaged_hears_from_which_outer_step_the_run_can_go_on) {
  const test::TemporaryDirectory root;
  const auto manifest = small_manifest();
  const auto run = root.path() / "small-abcdef";
  const auto save = [&](const std::string& peer, std::uint64_t step) {
    test::HandwrittenJournal{}.add("process_started").write(run / "peers" / peer / "journal.jsonl");
    store::CheckpointContent content;
    content.state = {"small-abcdef", Revision{step}, OuterStep{step}, 5, 6, Digest{step, 8}};
    content.manifest = manifest::shared_yaml(manifest);
    return store::write_checkpoint(run / "peers" / peer / "checkpoints", content).value();
  };
  const auto damage = [](const std::filesystem::path& path) { std::filesystem::resize_file(path / "model.safetensors", 1); };
  const auto found = [&] { return find_checkpoint(root.path(), "small-abcdef", manifest); };
  const auto says = [&](const std::string& what) { return found().error().detail.find(what) != std::string::npos; };
  const auto first = save("ada", 1);
  const auto second = save("ada", 2);
  const auto third = save("bob", 3);
  damage(third);
  BOOST_REQUIRE((found().error().name == ErrorName::CheckpointCorrupt));
  BOOST_TEST(says(third.string() + ": model.safetensors has another size"), found().error().detail);
  BOOST_TEST(
      says("; that of outer step 2 is whole: without " + third.string() + ", which somebody has to remove, `--from` goes on from there"),
      found().error().detail);
  damage(second);
  BOOST_TEST(says("that of outer step 1 is whole: without " + third.string() + " and " + second.string()), found().error().detail);
  damage(first);
  BOOST_TEST(says("; of no older outer step is a whole one here"), found().error().detail);
  for (const auto& path : {first, second, third}) std::filesystem::remove_all(path);
  const auto fourth = save("bob", 4);
  damage(save("ada", 4));
  BOOST_TEST((found()->paths == std::vector{fourth}), "of the same step any whole one will do");
  const auto fifth = save("bob", 5);
  std::ofstream{fifth / "prime" / "checkpoint.json"} << R"({"schema": "prime.checkpoint/2", "writer": "prime 9.1.0"})";
  BOOST_REQUIRE((found().error().name == ErrorName::CheckpointFormat));
  BOOST_TEST(says("is of format prime.checkpoint/2, written by prime 9.1.0; this is prime "), found().error().detail);
  BOOST_TEST(says("; to go on from outer step 4 instead, which this one reads: `--from " + fourth.string() + "`"), found().error().detail);
}

BOOST_AUTO_TEST_CASE(a_sharded_run_goes_on_from_the_newest_step_of_which_every_shard_has_a_checkpoint) {
  const test::TemporaryDirectory root;
  auto manifest = small_manifest();
  manifest.shared.membership.shards = 2;
  const auto run = root.path() / "small-abcdef";
  const auto save = [&](const std::string& peer, std::uint32_t shard, std::uint64_t step, std::uint64_t digest) {
    test::HandwrittenJournal{}.add("process_started").write(run / "peers" / peer / "journal.jsonl");
    store::CheckpointContent content;
    content.state = {"small-abcdef", Revision{step}, OuterStep{step}, 5, 6, Digest{digest, 8}, shard, 2};
    content.manifest = manifest::shared_yaml(manifest);
    return store::write_checkpoint(run / "peers" / peer / "checkpoints", content).value();
  };
  const auto combined = [](std::uint64_t a, std::uint64_t b) { return membership::combined(std::vector{Digest{a, 8}, Digest{b, 8}}); };
  const auto found = [&] { return find_checkpoint(root.path(), "small-abcdef", manifest); };
  const auto committed = [](std::uint64_t revision, const Digest& digest) {
    return nlohmann::json{{"outer_step", revision}, {"revision", revision}, {"digest", to_string(digest)}};
  };
  test::HandwrittenJournal journal;
  journal.add("process_started").add("outer_step_committed", committed(1, combined(1, 11)));
  journal.write(telemetry::coordinator_journal(run));

  const auto first = save("ada.0", 0, 1, 1);
  BOOST_TEST(found().error().detail.find("no outer step of which all 2 shards have a whole checkpoint here") != std::string::npos);
  BOOST_TEST(found().error().detail.find("here: shard 1 of outer step 1 is saved nowhere here") != std::string::npos,
             found().error().detail);
  const auto second = save("bob.1", 1, 1, 11);
  save("ada.0", 0, 2, 2);
  BOOST_REQUIRE(found().has_value());
  BOOST_TEST((found()->paths == std::vector{first, second}), "of step 2 one shard is missing");
  BOOST_TEST(what_is_missing(found()->newest, "it") == "shard 1 of it is saved nowhere here");
  BOOST_TEST((found()->state.state == combined(1, 11)));
  BOOST_TEST((found()->state.outer_step == OuterStep{1}));

  save("bob.1", 1, 2, 12);
  journal.add("outer_step_committed", committed(2, combined(2, 12))).add("rolled_back", committed(1, combined(1, 11)));
  journal.write(telemetry::coordinator_journal(run));
  BOOST_TEST((found()->state.state == combined(1, 11)), "step 2 was undone");
  BOOST_TEST(!is_older(*found()), "and is nothing that lacks");
  const auto anew = save("cyd.1", 1, 2, 13);
  const auto anew_too = save("eve.0", 0, 2, 3);
  journal.add("outer_step_committed", committed(2, combined(3, 13)));
  journal.write(telemetry::coordinator_journal(run));
  BOOST_TEST((found()->paths == std::vector{anew_too, anew}), "and done again");

  save("ada.0", 0, 3, 4);
  BOOST_TEST((found()->state.outer_step == OuterStep{2}), "of step 3 one shard is missing");
  BOOST_TEST(is_older(*found()));
  BOOST_TEST((found()->newest.outer_step == OuterStep{3}));
  BOOST_TEST(what_is_missing(found()->newest, "outer step 3") == "shard 1 of outer step 3 is saved nowhere here");
  const auto torn = save("bob.1", 1, 3, 14);
  std::filesystem::resize_file(torn / "model.safetensors", 1);
  BOOST_TEST((found().error().name == ErrorName::CheckpointCorrupt), "step 3 was complete before that damage");
  BOOST_TEST(found().error().detail.find("all shards of outer step 2 are whole: without " + torn.string()) != std::string::npos,
             found().error().detail);
  std::filesystem::remove_all(torn);
  BOOST_TEST((found()->state.outer_step == OuterStep{2}), "as it said");

  journal.add("outer_step_committed", committed(3, combined(4, 14))).add("outer_step_committed", committed(4, combined(5, 15)));
  journal.write(telemetry::coordinator_journal(run));
  BOOST_TEST(what_is_missing(found()->newest, "outer step 4") == "outer step 4 is saved nowhere here");

  const auto alone = find_checkpoint(root.path(), first.string(), manifest);
  BOOST_TEST(alone.error().detail.find("is one shard of 2; name the run") != std::string::npos);
  manifest.shared.membership.shards = 1;
  BOOST_TEST((found().error().name == ErrorName::StateMismatch));
}

BOOST_AUTO_TEST_CASE(trainers_go_on_by_rank_where_each_of_this_machine_has_saved_what_it_had_for_itself) {
  const test::TemporaryDirectory root;
  auto manifest = small_manifest();
  manifest.shared.membership.shards = 2;
  const auto run = root.path() / "small-abcdef";
  const std::vector<std::vector<store::CheckpointMember>> members{
      {{PeerId{0x1111111100000000}, "ada.0"}, {PeerId{0x3333333300000000}, "bob.0"}},
      {{PeerId{0x2222222200000000}, "ada.1"}, {PeerId{0x4444444400000000}, "bob.1"}}};
  const auto place = [&](std::uint32_t rank, std::uint32_t shard) {
    const auto& [peer, name] = members[shard][rank];
    return run / "peers" / (name + "-" + to_string(peer).substr(0, 8)) / "checkpoints";
  };
  const auto save_private = [&](std::uint64_t step, std::uint32_t rank, std::uint32_t shard, bool late = false) {
    const store::PrivateState state{
        "small-abcdef", members[shard][rank].peer, Revision{step}, OuterStep{step}, Digest{step, shard}, {}, false, late};
    return store::write_private_state(place(rank, shard), state, {}).value();
  };
  const auto save = [&](std::uint64_t step) {
    for (std::uint32_t shard = 0; shard < 2; ++shard) {
      store::CheckpointContent content;
      content.state = {"small-abcdef", Revision{step}, OuterStep{step}, 5, 6, Digest{step, shard}, shard, 2};
      content.state.members = members[shard];
      content.state.private_state = true;
      content.manifest = manifest::shared_yaml(manifest);
      BOOST_REQUIRE(store::write_checkpoint(place(0, shard), content).has_value());
      for (std::uint32_t rank = 0; rank < 2; ++rank) save_private(step, rank, shard);
    }
  };
  for (std::uint32_t peer = 0; peer < 4; ++peer)
    test::HandwrittenJournal{}.add("process_started").write(place(peer / 2, peer % 2).parent_path() / "journal.jsonl");
  const auto found = [&] { return find_checkpoint(root.path(), "small-abcdef", manifest).value(); };
  const auto on = [&](std::uint32_t replicas, std::uint32_t quorum = 0) {
    const auto all = found();
    return continuation_of(all.privates, all.state, replicas, quorum);
  };
  save(1);
  save(2);
  BOOST_TEST((found().state.outer_step == OuterStep{2}));
  BOOST_TEST(on(2).fresh == "");
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    for (std::uint32_t shard = 0; shard < 2; ++shard) BOOST_TEST((on(2).paths[rank][shard] == place(rank, shard) / "private-000002"));
  BOOST_TEST(on(3).fresh == "the checkpoint is of 2 replicas, and 3 start here");
  BOOST_TEST(on(3).paths.empty());
  BOOST_TEST(on(2, 1).fresh == "`--quorum` lets the first outer step begin before all are there");
  save_private(2, 1, 0, true);
  BOOST_TEST(on(2).fresh == "bob.0 was at work that the checkpoint lacks");
  save(2);

  const auto torn = place(1, 1) / "private-000002";
  std::filesystem::resize_file(torn / "private.json", 3);
  const auto damaged = find_checkpoint(root.path(), "small-abcdef", manifest);
  BOOST_REQUIRE(!damaged.has_value());
  BOOST_TEST((damaged.error().name == ErrorName::CheckpointCorrupt));
  BOOST_TEST(damaged.error().detail.find(torn.string() + ": private.json has another size; without " + torn.string()) != std::string::npos,
             damaged.error().detail);
  std::filesystem::remove_all(torn);
  BOOST_TEST((found().state.outer_step == OuterStep{1}), "bob.1 was killed while it saved step 2");
  BOOST_REQUIRE(found().passed_over.has_value());
  BOOST_TEST((found().passed_over->outer_step == OuterStep{2}));
  BOOST_TEST((found().passed_over->missing == std::vector<std::string>{"bob.1"}));
  BOOST_TEST(on(2).fresh == "");
  std::filesystem::remove_all(place(0, 0) / "private-000001");
  BOOST_TEST((found().state.outer_step == OuterStep{2}), "no older one is better");
  BOOST_TEST(on(2).fresh == "what the trainer of bob.1 had is not here");
  BOOST_TEST(on(2).paths[1][1].empty());
  save(1);
  std::filesystem::remove_all(place(1, 1).parent_path());
  BOOST_TEST((found().state.outer_step == OuterStep{2}), "what was on another machine is missed and not waited for");
  BOOST_TEST(on(2).fresh == "what the trainer of bob.1 had is not here");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::launch
