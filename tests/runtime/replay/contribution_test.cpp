// Checks what a peer keeps of a round: the same comes back, and what is damaged is named.
#include "runtime/store/contribution.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/runtime/store/scratch.hpp"

BOOST_AUTO_TEST_SUITE(contribution)

using namespace prime;
using namespace prime::store;

namespace {

KeptContribution kept() {
  return {"small-abcdef",
          PeerId{7},
          {3, OuterStep{12}},
          "2.41",
          {{PeerId{7}, 100}, {PeerId{9}, 0}},
          true,
          {Real{0.1}, Real{1e-300}, Real{0.0}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_kept_comes_back) {
  const ScratchDirectory scratch;
  const std::vector<float> values{1.5F, -0.0F, 1e-42F};
  const std::vector<float> residual{0.25F, 0.5F, -1.0F};
  const auto path = contribution_path(scratch.path(), kept().round);
  for (const bool feedback : {true, false}) {  // the second replaces the first
    BOOST_REQUIRE(write_contribution(scratch.path(), kept(), values, feedback ? residual : std::vector<float>{}));
    const auto loaded = read_contribution(path).value();
    BOOST_TEST((loaded.of == kept()));
    BOOST_TEST((loaded.of.round.fragment == 3U && loaded.of.round.version == OuterStep{12}));
    BOOST_TEST(std::memcmp(loaded.values.data(), values.data(), sizeof(float) * values.size()) == 0);
    BOOST_TEST((loaded.residual == (feedback ? residual : std::vector<float>{})));
  }
}

BOOST_AUTO_TEST_CASE(what_is_damaged_is_named) {
  const ScratchDirectory scratch;
  const auto path = contribution_path(scratch.path(), kept().round);
  for (const std::string file : {"contribution.safetensors", "contribution.json", "listing.json"}) {
    BOOST_REQUIRE(write_contribution(scratch.path(), kept(), std::vector<float>{1, 2, 3}, {}));
    std::fstream{path / file, std::ios::in | std::ios::out}
        .seekp(static_cast<std::streamoff>(std::filesystem::file_size(path / file) / 2))
        .put('\x7f');
    const auto refused = read_contribution(path);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().name == ErrorName::CheckpointCorrupt), file << ": " << to_string(refused.error()));
    std::filesystem::remove(path / file);
    BOOST_TEST(!read_contribution(path));
  }
  BOOST_TEST(!peek_contribution(scratch.path() / "nowhere"));
}

BOOST_AUTO_TEST_SUITE_END()
