// Owns the checks of reading Parquet that need no pyarrow: what is said where Python or the library is missing, and that a process that
// says nonsense, or falls over, is named. `parquet_test.py` has the format itself.
#include "runtime/trainer/data/record_reader.hpp"
#include "tests/runtime/trainer/data/support.hpp"

BOOST_AUTO_TEST_SUITE(data_parquet)

namespace {

using namespace prime;
using namespace prime::data;
using namespace prime::data::test;

/// printf's words for a frame: the tag, row group and row below 8, and so many bytes behind it.
std::string frame(char tag, int group, int row, const std::string& text, const std::string& size = {}) {
  const auto octal = [](int value) { return "\\00" + std::to_string(value); };
  const std::string zero = "\\000";
  return std::string("printf '") + tag + octal(group) + zero + zero + zero + octal(row) + zero + zero + zero + zero + zero + zero + zero +
         (size.empty() ? octal(static_cast<int>(text.size())) + zero + zero + zero : size) + text + "'\n";
}

Result<Corpus> opened(const Folder& folder, OnError on_error = OnError::Stop) {
  auto source = source_of(folder.write("f.parquet", "PAR1"), DataFormat::Parquet);
  source.on_error = on_error;
  return data::test::open(folder, {source}, 1);
}

BOOST_AUTO_TEST_CASE(rows_become_documents_and_broken_ones_are_named_with_group_and_row) {
  const Folder folder;
  const Interpreter python(folder, frame('t', 1, 1, "one") + frame('t', 2, 1, "") + frame('n', 2, 2, "") + frame('t', 2, 3, "three") +
                                       frame('l', 2, 4, "") + frame('e', 0, 0, ""));
  const auto stopped = opened(folder);
  BOOST_REQUIRE(!stopped);
  BOOST_TEST(stopped.error().detail.starts_with(folder.path("f.parquet") + ":2/2: has null as `text`, not a text"), stopped.error().detail);
  const auto skipped = opened(folder, OnError::Skip);
  BOOST_REQUIRE(skipped.has_value());
  BOOST_TEST(documents_of(*skipped) == "one|three|");
  BOOST_TEST(skipped->sources()[0].counts.skipped == 2U);
}

BOOST_AUTO_TEST_CASE(a_machine_without_the_library_is_told_what_to_install) {
  const Folder folder;
  const std::string remedy = ": install it (`python3 -m pip install pyarrow`), or let PRIME_PYTHON name an interpreter that has it";
  const auto said = [&] {
    // Records are passed over, and a library that is not there is none.
    const auto corpus = opened(folder, OnError::Skip);
    BOOST_REQUIRE(!corpus);
    BOOST_TEST((corpus.error().name == ErrorName::ProcessFailed));
    return corpus.error().detail;
  };
  const auto begins = folder.path("f.parquet") + ": Parquet is read by Python's pyarrow, and `";
  {
    const Interpreter python("/nowhere/python");
    BOOST_TEST(said() == begins + "/nowhere/python` could not be started (No such file or directory)" + remedy);
  }
  const Interpreter python(folder, frame('m', 0, 0, "no pyarrow", "\\012\\000\\000\\000"));
  BOOST_TEST(said() == begins + folder.path("python") + "` has none (no pyarrow)" + remedy);
}

BOOST_AUTO_TEST_CASE(a_process_that_falls_over_or_says_nonsense_ends_with_its_name) {
  const std::vector<std::pair<std::string, std::string>> all{
      {frame('t', 1, 1, "one") + "exit 3", "with exit code 3"},
      {frame('t', 1, 1, "on", "\\003\\000\\000\\000"), "with exit code 0"},
      {"kill -9 $$", "by signal 9"},
      {frame('?', 1, 1, "one") + "sleep 1000", "by signal 9"},
      {frame('t', 1, 1, "", "\\377\\377\\377\\377") + "sleep 1000", "by signal 9"},
      {frame('b', 1, 1, "", "\\377\\377\\377\\000") + "sleep 1000", "by signal 9"},
  };
  for (const auto& [script, how] : all) {
    const Folder folder;
    // What replaces the shell is what is killed.
    const Interpreter python(folder, script.ends_with("sleep 1000") ? script.substr(0, script.size() - 10) + "exec sleep 1000" : script);
    const auto corpus = opened(folder);
    BOOST_REQUIRE(!corpus);
    BOOST_TEST((corpus.error().name == ErrorName::ProcessFailed));
    BOOST_TEST(corpus.error().detail ==
               folder.path("f.parquet") + ": `" + folder.path("python") + "`, which reads this Parquet file, ended in between, " + how);
  }
}

BOOST_AUTO_TEST_CASE(who_asks_again_after_the_process_has_ended_is_told_the_same) {
  const Folder folder;
  const Interpreter python(folder, "exit 3");
  const auto reader = open_parquet(folder.write("f.parquet", "PAR1"), "text");
  BOOST_REQUIRE(reader.has_value());
  Record record;
  const auto first = (*reader)->next(record);
  BOOST_REQUIRE(!first);
  const auto second = (*reader)->next(record);
  BOOST_REQUIRE(!second);
  BOOST_TEST(first.error().detail.ends_with("with exit code 3"));
  BOOST_TEST(second.error().detail == first.error().detail);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
