// Owns what people see when a scenario file is wrong: one golden text for each broken one. And the freshness of the schema for editors.
#include "runtime/simulation/scenario_file.hpp"
#include "tests/runtime/manifest/support.hpp"

using namespace prime;

BOOST_AUTO_TEST_CASE(every_broken_scenario_is_refused_with_its_golden_text) {
  const auto files = test::files_with(test::repository() / "tests/sim/broken", ".yaml");
  BOOST_TEST(files.size() >= 14U);
  for (const auto& path : files) {
    const auto outcome = sim::parse_scenario(test::read_file(path), path.filename().string());
    BOOST_TEST_CONTEXT(path) {
      BOOST_TEST(!outcome);
      for (const auto& problem : outcome.problems) BOOST_TEST(info(problem.name).exit_code == 2);
    }
    auto golden = path;
    test::check_golden(golden.replace_extension(".txt"), render(outcome));
  }
}

BOOST_AUTO_TEST_CASE(a_scenario_that_is_no_file_is_refused_by_name) {
  BOOST_TEST((sim::load_scenario("/nonexistent/x.yaml").problems.at(0).name == ErrorName::ManifestUnreadable));
  BOOST_TEST(render(sim::load_scenario("/")).starts_with("error: the scenario cannot be read: it is not a regular file"));
}

BOOST_AUTO_TEST_CASE(the_committed_schema_is_the_one_of_the_key_tables) {
  test::check_golden(test::repository() / "manifests/schema/scenario.v1.json", sim::scenario_schema());
}
