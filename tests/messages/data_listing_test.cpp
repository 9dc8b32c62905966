// Proves that listings of any number of files fit, and that two of them tell in which files they differ.
#include "messages/data_listing.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "messages/data_identity.hpp"

BOOST_AUTO_TEST_SUITE(data_listing)

using namespace prime;
using Files = std::vector<ListedFile>;

namespace {

std::string differ(Files here, Files there) {
  for (auto* files : {&here, &there}) std::ranges::sort(*files, {}, &ListedFile::path);
  return listings_differ(listing_of(here), listing_of(there), "in the run");
}

std::uint64_t mark_of(const std::string& path, std::uint64_t bytes) { return std::hash<std::string>{}(path)*31 + bytes; }

Files many(std::size_t count) {
  Files files;
  for (std::size_t i = 0; i < count; ++i) {
    const auto path = "include/part" + std::to_string(i % 7) + "/folder" + std::to_string(i % 97) + "/file" + std::to_string(i) + ".h";
    files.push_back({path, i, mark_of(path, i)});
  }
  std::ranges::sort(files, {}, &ListedFile::path);
  return files;
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_few_files_each_difference_is_told) {
  const Files run{{"a.h", 5, 1}, {"b/c.h", 7, 2}, {"d.h", 9, 3}};
  BOOST_TEST(differ(run, run).empty());
  BOOST_TEST(differ({{"a.h", 5, 1}, {"b/c.h", 8, 4}, {"d.h", 9, 5}, {"e.h", 1, 6}}, run) ==
             "`b/c.h` has 8 bytes here and 7 in the run; `d.h` (9 bytes) begins with other text here; `e.h` (1 byte) is not in the run");
  BOOST_TEST(differ({{"a.h", 5, 1}, {"d.h", 9, 3}}, run) == "`b/c.h` (7 bytes in the run) is missing here");
  BOOST_TEST(differ({{"x/a.h", 5, 8}, {"x/b/c.h", 6, 9}, {"x/d.h", 9, 7}}, run) ==
             "`a.h` (5 bytes in the run) is missing here; `b/c.h` (7 bytes in the run) is missing here; "
             "`d.h` (9 bytes in the run) is missing here; `x/a.h` (5 bytes) is not in the run; and 2 more");
  BOOST_TEST(differ({{"one", 5, 1}}, {{"another", 6, 2}}) == "`one` has 5 bytes here and 6 in the run", "a name alone is no difference");
  BOOST_TEST(differ({{"\xC3\xA4\n%", 5, 1}, {"z", 1, 1}}, {{"z", 1, 1}}) == "`\xC3\xA4\n%` (5 bytes) is not in the run");
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_one_level_higher_or_lower_is_said_to_be_that) {
  const Files run{{"a.h", 5, 1}, {"b/c.h", 7, 2}, {"d.h", 9, 3}};
  const Files below{{"sub/a.h", 5, 8}, {"sub/b/c.h", 7, 9}, {"sub/d.h", 9, 7}};
  BOOST_TEST(differ(below, run) == "the same files lie under `sub/` here: let the path of the data lead to that folder");
  BOOST_TEST(differ(run, below) == "the same files lie under `sub/` in the run: let the path of the data lead to the folder above");
  auto more = below;
  more.push_back({"other.h", 3, 5});
  BOOST_TEST(differ(more, run) ==
             "the same files lie under `sub/` here (beside 1 other file): let the path of the data lead to that folder");
  auto deep = below;
  for (auto& file : deep) file.path = "two/levels/" + file.path;
  BOOST_TEST(differ(deep, run).starts_with("the same files lie under `two/levels/sub/` here"));
  BOOST_TEST(differ({{"x/a", 5, 1}, {"y/a", 5, 2}}, {{"b", 5, 3}, {"c", 6, 4}}).find("the same") == std::string::npos);
  // So many that files share lines: as many with as many bytes are the same.
  auto larger = many(5000);
  const auto all = larger;
  for (auto& file : larger) file.path = "data/" + file.path, file.mark = mark_of(file.path, file.bytes);
  BOOST_TEST(differ(larger, all).starts_with("the same files lie under `data/` here: "), differ(larger, all));
  BOOST_TEST(differ(all, larger).starts_with("the same files lie under `data/` in the run: "));
}

BOOST_AUTO_TEST_CASE(of_many_files_the_smallest_group_that_there_is_room_for_is_told) {
  const auto run = many(5000);
  const auto listing = listing_of(run);
  BOOST_TEST(listing.size() <= MAX_DATA_LISTING_BYTES);
  BOOST_TEST(listing.size() > MAX_DATA_LISTING_BYTES / 2, "the room is used");
  BOOST_TEST(differ(run, run).empty());
  auto fewer = run;
  const auto gone = fewer[2500];
  fewer.erase(fewer.begin() + 2500);
  const auto told = differ(fewer, run);
  const auto begins = told.find("files that begin with `include/part");
  BOOST_REQUIRE(begins == 0U);
  const auto beginning = told.substr(told.find('`') + 1, told.find('`', told.find('`') + 1) - told.find('`') - 1);
  BOOST_TEST(gone.path.starts_with(beginning), told);
  BOOST_TEST(beginning.size() > std::string{"include/part0/folder"}.size(), told);
  auto changed = run;
  changed[17].mark += 1;
  BOOST_TEST(differ(changed, run).starts_with("some of the "));
}

BOOST_AUTO_TEST_CASE(whatever_differs_is_found_whatever_the_groups) {
  std::mt19937_64 random{7};
  const auto run = many(600);
  for (int round = 0; round < 200; ++round) {
    auto other = run;
    const auto at = random() % other.size();
    switch (random() % 3) {
      case 0: other.erase(other.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: other[at].bytes += 1, other[at].mark += 1; break;
      default: other.resize(at + 1); break;
    }
    if (other.size() == run.size() && std::ranges::equal(other, run, {}, &ListedFile::mark, &ListedFile::mark)) continue;
    BOOST_TEST(!differ(other, run).empty());
    BOOST_TEST(!differ(run, other).empty());
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_listing_tells_nothing) {
  const auto good = listing_of(Files{{"a", 1, 1}, {"b", 2, 2}});
  BOOST_TEST(good == "1 1 00000001 a\n1 2 00000002 b\n");
  for (const std::string bad : {"", "1 1 00000001 a", "x\n", "1 1 1\n", "1 1 1 \n1 1 1 \n", "0 1 00000001 a\n", "-1 1 1 a\n", "1 1 zz a\n"})
    BOOST_TEST(listings_differ(bad, good, "there").empty(), bad);
  BOOST_TEST(listing_of({}).empty());
  BOOST_TEST(listing_of(Files{{std::string(MAX_DATA_LISTING_BYTES, 'x'), 1, 1}}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
