// Proves law 9 for single files and directories: replaced wholly or not at all, and nothing of a failed or killed writer is seen.
#include "runtime/store/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.hpp"

BOOST_AUTO_TEST_SUITE(atomic_file)

using namespace prime;
using namespace prime::store;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(a_file_is_replaced_and_nothing_else_is_left) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "state.json";
  BOOST_REQUIRE(write_file_atomically(path, "first, and longer"));
  BOOST_REQUIRE(write_file_atomically(path, "second"));
  BOOST_TEST(content_of(path) == "second");
  BOOST_TEST(names_in(scratch.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_replaces_a_file_may_be_read_by_whom_that_could_be_read_by) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "secret";
  BOOST_REQUIRE(write_file_atomically(path, "old"));
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  BOOST_REQUIRE(write_file_atomically(path, "new"));
  BOOST_TEST(content_of(path) == "new");
  BOOST_TEST((fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write)));
}

BOOST_AUTO_TEST_CASE(a_failed_write_keeps_the_old_file_and_names_the_path_and_the_cause) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "state.json";
  BOOST_REQUIRE(write_file_atomically(path, "old"));
  {
    const FileSizeLimit limit{1000};
    const auto written = write_file_atomically(path, std::string(5000, 'x'));
    BOOST_REQUIRE(!written);
    BOOST_TEST((written.error().name == ErrorName::StorageFailed));
    BOOST_TEST(written.error().detail.find("state.json") != std::string::npos);
    BOOST_TEST(written.error().detail.find("File too large") != std::string::npos);
  }
  BOOST_TEST(content_of(path) == "old");
  BOOST_TEST(names_in(scratch.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_file_in_a_missing_directory_is_a_named_error) {
  const ScratchDirectory scratch;
  const auto written = write_file_atomically(scratch.path() / "missing" / "file", "x");
  BOOST_REQUIRE(!written);
  BOOST_TEST((written.error().name == ErrorName::StorageFailed));
}

BOOST_AUTO_TEST_CASE(a_link_stays_and_what_it_leads_to_is_replaced) {
  const ScratchDirectory scratch;
  fs::create_directory(scratch.path() / "far");
  put(scratch.path() / "far" / "file", "old");
  fs::create_symlink("far/file", scratch.path() / "near");
  fs::create_symlink(scratch.path() / "near", scratch.path() / "nearer");
  fs::create_symlink("far/new", scratch.path() / "dangling");
  BOOST_REQUIRE(write_file_atomically(scratch.path() / "nearer", "new"));
  BOOST_REQUIRE(write_file_atomically(scratch.path() / "dangling", "made"));
  BOOST_TEST(content_of(scratch.path() / "far" / "file") == "new");
  BOOST_TEST(content_of(scratch.path() / "far" / "new") == "made");
  for (const auto* link : {"near", "nearer", "dangling"}) BOOST_TEST(fs::is_symlink(scratch.path() / link));
  fs::create_symlink("loop", scratch.path() / "loop");
  BOOST_TEST(!write_file_atomically(scratch.path() / "loop", "x"));
}

BOOST_AUTO_TEST_CASE(a_device_or_a_fifo_is_written_into_and_never_replaced) {
  const ScratchDirectory scratch;
  const auto fifo = scratch.path() / "fifo";
  BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  BOOST_REQUIRE(check_writable(fifo));
  BOOST_REQUIRE(write_file_atomically(fifo, "through"));
  char text[16] = {};
  BOOST_TEST(::read(reader, text, sizeof text) == 7);
  BOOST_TEST(std::string{text} == "through");
  ::close(reader);
  BOOST_TEST(fs::is_fifo(fifo));
  // A link to it, since whoever replaces what is at that name does so with the rights of whoever tests.
  fs::create_symlink("/dev/null", scratch.path() / "null");
  BOOST_REQUIRE(check_writable(scratch.path() / "null"));
  BOOST_REQUIRE(write_file_atomically(scratch.path() / "null", "gone"));
  BOOST_TEST(fs::is_character_file("/dev/null"));
  BOOST_TEST(fs::is_symlink(scratch.path() / "null"));
  // What a process has open, as /dev/stdout is.
  const auto opened = scratch.path() / "opened";
  const int file = ::open(opened.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  BOOST_REQUIRE(::write(file, "before ", 7) == 7);
  BOOST_REQUIRE(write_file_atomically("/dev/fd/" + std::to_string(file), "after"));
  ::close(file);
  BOOST_TEST(content_of(opened) == "before after");
}

BOOST_AUTO_TEST_CASE(what_could_not_be_written_is_known_beforehand) {
  const ScratchDirectory scratch;
  put(scratch.path() / "file", "old");
  for (const auto& path : {scratch.path() / "new", scratch.path() / "file"}) BOOST_TEST(check_writable(path).has_value());
  const auto says = [&](const fs::path& path, const char* cause) {
    for (const auto& outcome : {check_writable(path), write_file_atomically(path, "x")}) {
      BOOST_REQUIRE(!outcome);
      BOOST_TEST((outcome.error().name == ErrorName::StorageFailed));
      BOOST_TEST(outcome.error().detail.find(cause) != std::string::npos, outcome.error().detail);
    }
  };
  says(scratch.path(), "Is a directory");
  says(scratch.path() / std::string(300, 'n'), "File name too long");
  says(scratch.path() / "missing" / "file", "No such file");
  says(scratch.path() / "file" / "below", "Not a directory");
  BOOST_TEST(content_of(scratch.path() / "file") == "old");
  BOOST_TEST(names_in(scratch.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_a_killed_writer_left_does_not_become_part_of_the_next_file) {
  const ScratchDirectory scratch;
  put(scratch.path() / ".state.json.writing", "a long tail of somebody who died");
  BOOST_REQUIRE(write_file_atomically(scratch.path() / "state.json", "new"));
  BOOST_TEST(content_of(scratch.path() / "state.json") == "new");
  BOOST_TEST(names_in(scratch.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(processes_that_write_one_file_at_once_leave_one_whole_version) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "state.json";
  std::vector<pid_t> children;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    const pid_t child = ::fork();
    if (child == 0) {
      int failures = 0;
      for (int round = 0; round < 20; ++round) failures += write_file_atomically(path, std::string(100'000, letter)) ? 0 : 1;
      ::_exit(failures);
    }
    children.push_back(child);
  }
  for (const auto child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    BOOST_TEST(status == 0);
  }
  const auto content = content_of(path);
  BOOST_REQUIRE(content.size() == 100'000u);
  BOOST_TEST(content == std::string(100'000, content.front()));
  BOOST_TEST(names_in(scratch.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_directory_appears_at_commit_and_not_before) {
  const ScratchDirectory scratch;
  const auto target = scratch.path() / "deep" / "step";
  auto transaction = DirectoryTransaction::begin(target);
  BOOST_REQUIRE(transaction);
  fs::create_directory(transaction->staging() / "inner");
  put(transaction->staging() / "inner" / "file", "content");
  BOOST_TEST(!fs::exists(target));
  BOOST_REQUIRE(transaction->commit());
  BOOST_TEST(content_of(target / "inner" / "file") == "content");
  BOOST_TEST(names_in(target.parent_path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_directory_whose_place_was_removed_does_not_bring_it_back) {
  const ScratchDirectory scratch;
  BOOST_TEST(!DirectoryTransaction::begin(scratch.path() / "removed" / "checkpoints" / "step"));
  BOOST_TEST(names_in(scratch.path()).empty());
}

BOOST_AUTO_TEST_CASE(an_abandoned_directory_is_removed) {
  const ScratchDirectory scratch;
  {
    auto transaction = DirectoryTransaction::begin(scratch.path() / "step");
    BOOST_REQUIRE(transaction);
    put(transaction->staging() / "file", "content");
  }
  BOOST_TEST(names_in(scratch.path()).empty());
}

BOOST_AUTO_TEST_CASE(an_older_directory_is_replaced_as_a_whole) {
  const ScratchDirectory scratch;
  for (const std::string content : {"old", "new"}) {
    auto transaction = DirectoryTransaction::begin(scratch.path() / "step");
    BOOST_REQUIRE(transaction);
    put(transaction->staging() / content, content);
    BOOST_REQUIRE(transaction->commit());
  }
  BOOST_TEST(names_in(scratch.path()) == std::vector<std::string>{"step"}, boost::test_tools::per_element());
  BOOST_TEST(names_in(scratch.path() / "step") == std::vector<std::string>{"new"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_second_writer_of_the_same_directory_is_refused_and_the_first_is_undisturbed) {
  const ScratchDirectory scratch;
  auto first = DirectoryTransaction::begin(scratch.path() / "step");
  BOOST_REQUIRE(first);
  put(first->staging() / "file", "first");
  const auto second = DirectoryTransaction::begin(scratch.path() / "step");
  BOOST_REQUIRE(!second);
  BOOST_TEST(second.error().detail.find("another process is writing") != std::string::npos);
  const auto other = DirectoryTransaction::begin(scratch.path() / "other");  // must not take the living one for a leftover
  BOOST_REQUIRE(first->commit());
  BOOST_TEST(content_of(scratch.path() / "step" / "file") == "first");
}

BOOST_AUTO_TEST_CASE(what_a_killed_writer_left_is_removed_by_the_next_one) {
  const ScratchDirectory scratch;
  kill_once_reached([&](const auto& reached) {
    auto transaction = DirectoryTransaction::begin(scratch.path() / "step-1");
    put(transaction->staging() / "half", "hal");
    reached();
    for (;;) ::pause();
  });
  BOOST_TEST(names_in(scratch.path()) == std::vector<std::string>{".step-1.writing"}, boost::test_tools::per_element());
  { const auto next = DirectoryTransaction::begin(scratch.path() / "step-2"); }
  BOOST_TEST(names_in(scratch.path()).empty());
}

BOOST_AUTO_TEST_CASE(removing_a_directory_removes_all_and_a_missing_one_is_no_error) {
  const ScratchDirectory scratch;
  fs::create_directories(scratch.path() / "step" / "inner");
  put(scratch.path() / "step" / "inner" / "file", "x");
  BOOST_REQUIRE(remove_directory_atomically(scratch.path() / "step"));
  BOOST_REQUIRE(remove_directory_atomically(scratch.path() / "step"));
  BOOST_TEST(names_in(scratch.path()).empty());
}

BOOST_AUTO_TEST_SUITE_END()
