// Proves that a directory which is moved under a process is found, and that one which was removed is not.
#include "runtime/store/kept_place.hpp"

#include "tests/runtime/store/scratch.hpp"

namespace prime::store {

BOOST_AUTO_TEST_SUITE(kept_place)

BOOST_AUTO_TEST_CASE(a_directory_that_was_moved_is_found_and_one_that_was_removed_is_not) {
  const ScratchDirectory scratch;
  const auto here = scratch.path() / "run";
  const auto there = scratch.path() / "other" / "run";
  std::filesystem::create_directories(here);
  std::filesystem::create_directories(there.parent_path());
  const KeptPlace place{here};
  BOOST_TEST(place.now() == here);
  BOOST_TEST(!place.moved().has_value());
  BOOST_TEST(!place.removed());
  std::filesystem::rename(here, there);
  BOOST_TEST(!place.removed());
  BOOST_TEST(place.now() == there);
  BOOST_REQUIRE(place.moved().has_value());
  BOOST_TEST(place.moved()->detail.starts_with(here.string() + " was moved to " + there.string()), place.moved()->detail);
  std::filesystem::create_directory(here);
  BOOST_TEST(place.now() == there, "what has its name now is another one");
  std::filesystem::remove_all(there);
  BOOST_TEST(!place.moved().has_value());
  BOOST_TEST(place.removed());
  BOOST_TEST(place.now() == here);
  const KeptPlace nowhere{scratch.path() / "nowhere"};
  BOOST_TEST(!nowhere.moved().has_value());
  BOOST_TEST(!nowhere.removed());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::store
