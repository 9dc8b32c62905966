// Owns the tests of the lock of a run's directory, and of what is known of processes on other machines, with the file system's answers
// given.
#include "runtime/telemetry/run_lock.hpp"

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "runtime/telemetry/run_observer.hpp"
#include "support.hpp"

namespace prime::telemetry {
namespace {

namespace fs = std::filesystem;
using test::HandwrittenJournal;

constexpr const char* OTHER_BOOT = "11111111-2222-3333-4444-555555555555";

ProcessIdentity on_node9() { return {4242, 77, {OTHER_BOOT, 4026531836, "node9"}}; }

void write_holder(const fs::path& directory, const ProcessIdentity& holder, const std::string& count = "0\n") {
  std::ofstream{directory / "lock"} << to_json(holder).dump() << "\n" << count;
}

/// Of files that several machines share: their locks prove nothing. What is awaited comes at once, what never comes is waited for shortly.
LockTerms shared(Duration silence) { return {Duration{10ms}, silence, false}; }
constexpr Duration SHORT{200ms};
constexpr Duration GENEROUS{60s};

}  // namespace

BOOST_AUTO_TEST_SUITE(run_lock)

BOOST_AUTO_TEST_CASE(an_identity_is_read_as_it_was_written_and_damage_names_nobody) {
  BOOST_TEST((identity_from(to_json(on_node9())) == on_node9()));
  const auto damaged = identity_from({{"pid", "12"}, {"start_ticks", -1}, {"boot_id", 7}});
  BOOST_TEST((damaged == ProcessIdentity{}));
  BOOST_TEST(!damaged.place.known());
}

BOOST_AUTO_TEST_CASE(who_has_our_number_on_another_boot_or_in_another_namespace_is_not_us) {
  const auto self = identify(::getpid());
  BOOST_TEST(is_alive(self));
  auto other = self;
  other.place.boot = OTHER_BOOT;
  BOOST_TEST(!is_alive(other));
  other = self;
  ++other.place.pid_namespace;
  BOOST_TEST(!is_alive(other));
}

BOOST_AUTO_TEST_CASE(a_directory_has_one_holder_and_is_free_when_it_goes) {
  const test::TemporaryDirectory directory;
  LockWatch watch{directory.path()};
  BOOST_TEST((watch.look({}, false) == Presence::Gone));
  {
    const auto first = RunLock::take(directory.path());
    BOOST_REQUIRE(first.has_value());
    BOOST_TEST((watch.look({}, false) == Presence::Here));
    BOOST_TEST((watch.holder() == identify(::getpid())));
    const auto second = RunLock::take(directory.path());
    BOOST_REQUIRE(!second.has_value());
    BOOST_TEST((second.error().name == ErrorName::StorageFailed));
    BOOST_TEST(second.error().detail == "process " + std::to_string(::getpid()) + " writes " + directory.path().string() + " already");
  }
  BOOST_TEST((watch.look({}, false) == Presence::Gone));
  BOOST_TEST(RunLock::take(directory.path()).has_value());
}

BOOST_AUTO_TEST_CASE(on_files_that_machines_share_a_count_that_grows_is_a_living_holder_and_one_that_stands_is_not) {
  const test::TemporaryDirectory directory;
  write_holder(directory.path(), on_node9());
  LockWatch living{directory.path(), shared(GENEROUS)};
  BOOST_TEST((living.look({}, false) == Presence::Unsettled));
  BOOST_TEST((living.look({}, false) == Presence::Unsettled));
  write_holder(directory.path(), on_node9(), "00000000000000000001\n");
  BOOST_TEST((living.look({}, false) == Presence::Elsewhere));
  BOOST_TEST((living.look({}, false) == Presence::Elsewhere));
  LockWatch dead{directory.path(), shared(SHORT)};
  BOOST_TEST((settled_look(dead, {}, false) == Presence::Gone));
}

BOOST_AUTO_TEST_CASE(a_count_has_been_seen_to_stand_still_for_as_long_as_somebody_looked) {
  const test::TemporaryDirectory directory;
  write_holder(directory.path(), on_node9());
  LockWatch watch{directory.path(), {2s, 15s, false}};
  auto now = monotonic_now();
  const auto look_after = [&](Duration pause) { return watch.look({}, false, now += pause); };
  BOOST_TEST((look_after(0s) == Presence::Unsettled));
  BOOST_TEST((look_after(10min) == Presence::Unsettled), "the look took so long since the file server was away, for the holder as well");
  for (int seconds = 2; seconds < 15; ++seconds) BOOST_TEST((look_after(1s) == Presence::Unsettled));
  BOOST_TEST((look_after(1s) == Presence::Gone));
  write_holder(directory.path(), on_node9(), "1\n");
  BOOST_TEST((look_after(1s) == Presence::Elsewhere), "its machine goes on");
}

BOOST_AUTO_TEST_CASE(a_holder_that_counts_nothing_is_known_by_its_lock_alone) {
  const test::TemporaryDirectory directory;
  const LockTerms own{Duration{10ms}, GENEROUS, true};
  write_holder(directory.path(), on_node9(), "");
  BOOST_TEST((LockWatch{directory.path(), own}.look({}, false) == Presence::Gone));
  BOOST_TEST((LockWatch{directory.path(), shared(SHORT)}.look({}, false) == Presence::Unknown),
             "a host's own lock is not seen in its guest");
  BOOST_TEST(!RunLock::take(directory.path(), shared(SHORT)).has_value());
  // A guest of the machine that has the files for itself.
  write_holder(directory.path(), on_node9());
  BOOST_TEST((LockWatch{directory.path(), own}.look({}, false) == Presence::Unsettled));
}

BOOST_AUTO_TEST_CASE(a_holder_on_shared_files_gives_signs_of_life_that_another_machine_sees) {
  const test::TemporaryDirectory directory;
  const auto lock = RunLock::take(directory.path(), shared(GENEROUS));
  BOOST_REQUIRE(lock.has_value());
  const auto before = test::file_text(directory.path() / "lock");
  while (test::file_text(directory.path() / "lock") == before) std::this_thread::sleep_for(LOOK_EVERY);
  BOOST_TEST(test::file_text(directory.path() / "lock").starts_with(to_json(identify(::getpid())).dump()));
}

BOOST_AUTO_TEST_CASE(who_is_silent_may_be_followed_and_who_is_not_is_named) {
  const test::TemporaryDirectory directory;
  write_holder(directory.path(), on_node9());
  BOOST_TEST(RunLock::take(directory.path(), shared(SHORT)).has_value());
  write_holder(directory.path(), on_node9());
  std::jthread beats([&](const std::stop_token& stop) {
    for (std::uint64_t count = 0; !stop.stop_requested(); ++count) {
      std::ofstream{directory.path() / "lock.next"} << to_json(on_node9()).dump() << "\n" << count << "\n";
      fs::rename(directory.path() / "lock.next", directory.path() / "lock");
      std::this_thread::sleep_for(LOOK_EVERY);
    }
  });
  const auto refused = RunLock::take(directory.path(), shared(GENEROUS));
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().name == ErrorName::RunElsewhere));
  BOOST_TEST(refused.error().detail == "a process on `node9` (pid 4242 there) writes " + directory.path().string());
}

BOOST_AUTO_TEST_CASE(a_holder_that_stood_still_and_was_followed_ends_when_it_goes_on) {
  const test::TemporaryDirectory directory;
  const auto child = ::fork();
  if (child == 0) {
    const auto lock = RunLock::take(directory.path(), shared(GENEROUS));
    ::raise(SIGSTOP);
    std::this_thread::sleep_for(GENEROUS);
    ::_exit(99);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  write_holder(directory.path(), on_node9());
  ::kill(child, SIGCONT);
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == info(ErrorName::RunElsewhere).exit_code);
  BOOST_TEST(test::file_text(directory.path() / "lock").starts_with(to_json(on_node9()).dump()), "what is another's is not released");
}

BOOST_AUTO_TEST_CASE(who_was_followed_between_two_beats_does_not_release_what_is_anothers) {
  const test::TemporaryDirectory directory;
  {
    const auto lock = RunLock::take(directory.path(), {GENEROUS, GENEROUS, false});
    BOOST_REQUIRE(lock.has_value());
    write_holder(directory.path(), on_node9());
  }
  BOOST_TEST(test::file_text(directory.path() / "lock").starts_with(to_json(on_node9()).dump()));
}

BOOST_AUTO_TEST_CASE(a_run_on_shared_files_is_settled_by_watching_and_an_older_version_cannot_be_told) {
  const test::TemporaryDirectory root;
  const auto run = root.path() / "r-aaaaaa";
  HandwrittenJournal journal;
  auto started = to_json(on_node9());
  started["run"] = "r-aaaaaa";
  journal.add("process_started", started);
  journal.write(coordinator_journal(run));
  write_holder(run / "coordinator", on_node9());
  RunObserver observer{run, is_alive, shared(SHORT)};
  observer.update();
  BOOST_TEST(!observer.settled());
  BOOST_TEST(!is_over(observer.status().state), "who may live elsewhere is not lost yet");
  BOOST_TEST(
      lives_elsewhere(observer).value().detail ==
      "r-aaaaaa lives on `node9`: the coordinator (pid 4242 there); `primectl down r-aaaaaa` there ends it; if that machine is gone for "
      "good, its lock goes with the file server's lease (NFS: some minutes)");
  bool waited = false;
  observer.settle([&] { waited = true; });
  BOOST_TEST(waited);
  BOOST_TEST(observer.status().reason == "the coordinator was lost, on `node9`");
  BOOST_TEST(!lives_elsewhere(observer).has_value());
  // What somebody has taken away says that its holder is gone for good; of an older version there never was any.
  fs::remove(run / "coordinator" / "lock");
  RunObserver without{run, is_alive, shared(GENEROUS)};
  without.update();
  BOOST_TEST(!lives_elsewhere(without).has_value());
  HandwrittenJournal older;
  older.add("process_started", {{"pid", 4242}, {"start_ticks", 77}, {"run", "r-aaaaaa"}});
  older.write(coordinator_journal(run));
  RunObserver old{run, is_alive, shared(GENEROUS)};
  old.update();
  BOOST_REQUIRE(lives_elsewhere(old).has_value());
  BOOST_TEST(lives_elsewhere(old)->detail.find("may live on a machine that its files do not name") != std::string::npos);
  BOOST_TEST(old.status().reason == "the coordinator was lost");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::telemetry
