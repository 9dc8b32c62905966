// Proves that readers see whole lines in order, whatever happens to the writer, the disk or the length of a line.
#include "runtime/store/journal.hpp"

#include <algorithm>
#include <thread>

#include "scratch.hpp"

BOOST_AUTO_TEST_SUITE(journal)

using namespace prime;
using namespace prime::store;

namespace {

std::vector<JournalLine> all_lines(const std::filesystem::path& path) {
  JournalReader reader{path};
  std::vector<JournalLine> all;
  for (;;) {
    auto lines = reader.read_new();
    BOOST_REQUIRE(lines);
    if (lines->empty()) return all;
    all.insert(all.end(), lines->begin(), lines->end());
  }
}

void require_counted_from_one(const std::vector<JournalLine>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) BOOST_REQUIRE(lines[i].seq == i + 1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_says_when_which_and_what) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  auto journal = Journal::open(path);
  BOOST_REQUIRE(journal);
  BOOST_TEST(journal->append("peer_lost", {{"peer", "brave-otter"}, {"epoch", 4}}).value() == 1u);
  BOOST_TEST(journal->append("commit", nlohmann::json::object(), true).value() == 2u);
  const auto text = content_of(path);
  auto first = text.substr(0, text.find('\n'));
  std::replace_if(
      first.begin(), first.begin() + 30, [](char c) { return c >= '0' && c <= '9'; }, 'd');
  BOOST_TEST(first == R"({"t":"dddd-dd-ddTdd:dd:dd.dddZ","seq":1,"event":"peer_lost","epoch":4,"peer":"brave-otter"})");
  BOOST_TEST(text.back() == '\n');
}

BOOST_AUTO_TEST_CASE(times_are_rfc_3339_in_utc_with_milliseconds) {
  using namespace std::chrono;
  BOOST_TEST(format_utc(system_clock::time_point{}) == "1970-01-01T00:00:00.000Z");
  BOOST_TEST(format_utc(system_clock::time_point{seconds{951'782'399} + milliseconds{7}}) == "2000-02-28T23:59:59.007Z");
  BOOST_TEST((parse_utc("2000-02-28T23:59:59.007Z") == system_clock::time_point{seconds{951'782'399} + milliseconds{7}}));
  for (const auto* const other : {"", "2000-02-28", "2000-02-28T23:59:59Z", "2000-02-28T23:59:59.007", "2000-02-28T23:59:59.007Z ", "soon"})
    BOOST_TEST(!parse_utc(other).has_value(), other);
}

BOOST_AUTO_TEST_CASE(a_reader_follows_growth_and_waits_for_the_end_of_a_line) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  JournalReader reader{path};
  BOOST_TEST(reader.read_new().value().empty());
  auto journal = Journal::open(path);
  BOOST_REQUIRE(journal && journal->append("one", {}) && journal->append("two", {}));
  BOOST_TEST(reader.read_new().value().size() == 2u);
  BOOST_TEST(reader.read_new().value().empty());
  std::ofstream{path, std::ios::app} << R"({"seq":3,"event":"th)";
  BOOST_TEST(reader.read_new().value().empty());
  std::ofstream{path, std::ios::app} << "ree\"}\n";
  const auto lines = reader.read_new().value();
  BOOST_REQUIRE(lines.size() == 1u);
  BOOST_TEST(lines.front().event == "three");
  BOOST_TEST(reader.skipped() == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_not_a_journal_line_is_skipped_and_counted) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  put(path, "\nnot json\n[1]\n{\"seq\":\"1\",\"event\":\"x\"}\n{\"seq\":1}\n" + std::string(JOURNAL_LINE_BYTES_MAX, ' ') +
                "\n{\"seq\":1,\"event\":\"good\"}\n");
  JournalReader reader{path};
  const auto lines = reader.read_new().value();
  BOOST_REQUIRE(lines.size() == 1u);
  BOOST_TEST(lines.front().event == "good");
  BOOST_TEST(reader.skipped() == 6u);
}

BOOST_AUTO_TEST_CASE(a_file_without_line_ends_is_a_named_error_and_not_an_endless_wait) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  put(path, std::string(JOURNAL_READ_BYTES_MAX, '\0'));
  JournalReader reader{path};
  const auto lines = reader.read_new();
  BOOST_REQUIRE(!lines);
  BOOST_TEST((lines.error().name == ErrorName::StorageFailed));
}

BOOST_AUTO_TEST_CASE(a_reopened_journal_continues_and_cuts_off_a_torn_last_line) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  {
    auto journal = Journal::open(path);
    BOOST_REQUIRE(journal && journal->append("one", {}) && journal->append("two", {}));
  }
  std::ofstream{path, std::ios::app} << R"({"t":"2031-01-01T00:00:00.000Z","seq":3,"ev)";
  auto journal = Journal::open(path);
  BOOST_REQUIRE(journal);
  BOOST_TEST(journal->append("three", {}).value() == 3u);
  JournalReader reader{path};
  const auto lines = reader.read_new().value();
  BOOST_REQUIRE(lines.size() == 3u);
  require_counted_from_one(lines);
  BOOST_TEST(lines.back().event == "three");
  BOOST_TEST(reader.skipped() == 0u);
}

BOOST_AUTO_TEST_CASE(a_journal_has_one_writer) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  auto first = Journal::open(path);
  BOOST_REQUIRE(first);
  const auto second = Journal::open(path);
  BOOST_REQUIRE(!second);
  BOOST_TEST(second.error().detail.find("another process is writing") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_line_too_long_or_with_a_field_of_ours_is_refused_and_takes_no_number) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  auto journal = Journal::open(path);
  BOOST_REQUIRE(journal);
  BOOST_TEST(!journal->append("long", {{"text", std::string(JOURNAL_LINE_BYTES_MAX, 'x')}}));
  BOOST_TEST(!journal->append("mine", {{"seq", 7}}));
  BOOST_TEST(journal->append("fits", {{"text", std::string(JOURNAL_LINE_BYTES_MAX - 200, 'x')}}).value() == 1u);
  BOOST_TEST(journal->append("bytes", {{"text", "\xff\xfe"}}).value() == 2u);
  require_counted_from_one(all_lines(path));
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_no_part_of_a_line) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  auto journal = Journal::open(path);
  BOOST_REQUIRE(journal && journal->append("before", {}));
  {
    const FileSizeLimit limit{1000};
    const auto written = journal->append("during", {{"text", std::string(5000, 'x')}}, true);
    BOOST_REQUIRE(!written);
    BOOST_TEST((written.error().name == ErrorName::StorageFailed));
  }
  BOOST_TEST(journal->append("after", {}).value() == 2u);
  const auto lines = all_lines(path);
  BOOST_REQUIRE(lines.size() == 2u);
  BOOST_TEST(lines.back().event == "after");
}

BOOST_AUTO_TEST_CASE(threads_append_whole_lines_in_the_order_of_their_numbers) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  auto journal = Journal::open(path);
  BOOST_REQUIRE(journal);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&journal, thread] {
      for (int i = 0; i < 500; ++i) (void)journal->append("event", {{"thread", thread}, {"i", i}});
    });
  threads.clear();
  const auto lines = all_lines(path);
  BOOST_TEST(lines.size() == 2000u);
  require_counted_from_one(lines);
}

BOOST_AUTO_TEST_CASE(a_killed_writer_leaves_whole_lines_and_the_next_one_continues) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "journal.jsonl";
  for (int round = 0; round < 5; ++round) {
    kill_once_reached([&](const auto& reached) {
      auto journal = Journal::open(path);
      if (!journal) ::_exit(1);
      for (int i = 0;; ++i) {
        if (i == 200) reached();
        if (!journal->append("event", {{"text", std::string(static_cast<std::size_t>(i % 2000), 'x')}}, i % 50 == 0)) ::_exit(1);
      }
    });
    const auto lines = all_lines(path);
    BOOST_TEST(lines.size() >= 200u * static_cast<unsigned>(round + 1));
    require_counted_from_one(lines);
  }
}

BOOST_AUTO_TEST_CASE(a_journal_whose_file_is_gone_takes_no_more_lines) {
  const ScratchDirectory scratch;
  const auto folder = scratch.path() / "run";
  std::filesystem::create_directory(folder);
  auto journal = Journal::open(folder / "journal.jsonl");
  BOOST_REQUIRE(journal && journal->append("one", {}));
  std::filesystem::rename(folder, scratch.path() / "elsewhere");
  BOOST_CHECK(journal->append("two", {}).error().name == ErrorName::StorageFailed);
  BOOST_TEST(!journal->removed());
  std::filesystem::rename(scratch.path() / "elsewhere", folder);
  BOOST_TEST(journal->append("three", {}).value() == 2u);
  std::filesystem::remove_all(folder);
  BOOST_TEST(journal->removed());
  const auto refused = journal->append("four", {});
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().detail.find("gone") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
