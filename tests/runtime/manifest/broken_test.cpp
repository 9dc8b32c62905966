// Owns what people see when a manifest is wrong: one golden text for each broken manifest.
#include "runtime/manifest/load.hpp"
#include "tests/runtime/manifest/support.hpp"

using namespace prime;
using namespace prime::manifest;

BOOST_AUTO_TEST_SUITE(broken_manifests)

BOOST_AUTO_TEST_CASE(every_broken_manifest_is_refused_with_its_golden_text) {
  const auto folder = test::repository() / "tests/runtime/manifest/broken";
  const auto manifests = test::files_with(folder, ".yaml");
  BOOST_TEST(manifests.size() >= 25U);
  for (const auto& path : manifests) {
    const auto outcome = parse_manifest(test::read_file(path), path.filename().string());
    BOOST_TEST_CONTEXT(path) { BOOST_TEST(!outcome.manifest.has_value()); }
    auto golden = path;
    test::check_golden(golden.replace_extension(".txt"), render(outcome));
  }
}

BOOST_AUTO_TEST_CASE(every_problem_says_what_where_and_what_next) {
  for (const auto& path : test::files_with(test::repository() / "tests/runtime/manifest/broken", ".yaml")) {
    const auto outcome = parse_manifest(test::read_file(path), path.filename().string());
    BOOST_TEST_CONTEXT(path) {
      BOOST_TEST(!outcome.problems.empty());
      BOOST_TEST(outcome.problems.size() <= MAX_PROBLEMS);
      for (const auto& problem : outcome.problems) {
        BOOST_TEST(!problem.message.empty());
        BOOST_TEST(problem.file == path.filename().string());
        BOOST_TEST((problem.line == 0) == (problem.column == 0));
        BOOST_TEST((!problem.hint.empty() || !info(problem.name).hint.empty()));
        BOOST_TEST(info(problem.name).exit_code == 2);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_control_character_of_a_manifest_reaches_the_terminal) {
  for (const auto& path : test::files_with(test::repository() / "tests/runtime/manifest/broken", ".yaml")) {
    const auto text = render(parse_manifest(test::read_file(path), "x.yaml"));
    BOOST_TEST_CONTEXT(path) { BOOST_TEST((text.find('\x1b') == std::string::npos)); }
  }
}

BOOST_AUTO_TEST_CASE(more_than_twenty_problems_are_counted_but_not_shown) {
  std::string text = "version: 1\nrun: x\n";
  for (int i = 0; i < 25; ++i) text += "nonsense" + std::to_string(i) + ": 1\n";
  const auto outcome = parse_manifest(text, "x.yaml");
  BOOST_TEST(outcome.problems.size() == MAX_PROBLEMS);
  BOOST_TEST(outcome.omitted == 5U);
}

BOOST_AUTO_TEST_CASE(a_manifest_that_is_no_file_or_too_large_is_refused_by_name) {
  BOOST_TEST((load_manifest("/nonexistent/run.yaml").problems.at(0).name == ErrorName::ManifestUnreadable));
  BOOST_TEST((load_manifest("/").problems.at(0).name == ErrorName::ManifestUnreadable));
  const auto large = parse_manifest(std::string(MAX_MANIFEST_BYTES + 1, '#'), "x.yaml");
  BOOST_TEST((large.problems.at(0).name == ErrorName::ManifestSyntax));
  BOOST_TEST(large.problems.at(0).message.find("too large") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
