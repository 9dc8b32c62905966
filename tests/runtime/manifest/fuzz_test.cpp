// Owns the promise that no bytes, however mangled, end the process or go unanswered.
#include <random>

#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/load.hpp"
#include "tests/runtime/manifest/support.hpp"

using namespace prime;
using namespace prime::manifest;

namespace {

/// Bytes that mean something to YAML come often, so that more than the first check is reached.
char draw_byte(std::mt19937_64& random) {
  static constexpr std::string_view MEANINGFUL = "{}[]:,#\"'|>&*!?-%@`~\n \t\r.0123456789eE+\\<=_nulltruefalse";
  if (random() % 4 == 0) return static_cast<char>(random() % 256);
  return MEANINGFUL[random() % MEANINGFUL.size()];
}

void mutate(std::string& text, std::mt19937_64& random) {
  const auto at = random() % (text.size() + 1);
  switch (random() % 4) {
    case 0: text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), draw_byte(random)); break;
    case 1: text.erase(at, 1 + random() % 8); break;
    case 2:
      if (at < text.size()) text[at] = draw_byte(random);
      break;
    case 3: text.insert(at, text.substr(random() % (text.size() + 1), random() % 40)); break;
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fuzz)

BOOST_AUTO_TEST_CASE(mangled_manifests_are_answered_and_never_crash) {
  const auto original = test::read_file(test::repository() / "manifests/quickstart.yaml");
  std::mt19937_64 random{1};
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    auto text = original;
    for (auto count = 1 + random() % 4; count > 0; --count) mutate(text, random);
    const auto outcome = parse_manifest(text, "x.yaml");
    BOOST_REQUIRE(outcome.manifest.has_value() == outcome.problems.empty());
    if (outcome.manifest) {
      ++accepted;
      BOOST_REQUIRE(check(*outcome.manifest).has_value());
    } else {
      BOOST_REQUIRE(render(outcome).starts_with("error: "));
    }
  }
  // Both ways were taken: many a mutation only touches a comment.
  BOOST_TEST(accepted > 100);
  BOOST_TEST(accepted < 9'900);
}

BOOST_AUTO_TEST_CASE(mangled_overrides_are_answered_and_never_crash) {
  std::mt19937_64 random{2};
  for (int round = 0; round < 2'000; ++round) {
    std::vector<std::string> overrides{"train.optimizer={adamw: {betas: [0.9, 0.95]}}"};
    for (auto count = 1 + random() % 4; count > 0; --count) mutate(overrides.front(), random);
    const auto outcome = parse_manifest("version: 1\nrun: x\n", "x.yaml", overrides);
    BOOST_REQUIRE(outcome.manifest.has_value() == outcome.problems.empty());
    if (!outcome.manifest) BOOST_REQUIRE(render(outcome).starts_with("error: "));
  }
}

BOOST_AUTO_TEST_SUITE_END()
