// Owns `--set a.b=value`: same types and rules as the file, and problems that name the override.
#include "runtime/manifest/load.hpp"
#include "tests/runtime/manifest/support.hpp"

using namespace prime;
using namespace prime::manifest;

namespace {

constexpr std::string_view TEXT = "version: 1\nrun: x\ntrain: {batch: 3, schedule: {cosine: {warmup: 5}}}\n";

LoadOutcome with(const std::vector<std::string>& overrides, std::string_view text = TEXT) {
  return parse_manifest(text, "x.yaml", overrides);
}

Diagnostic problem_of(const std::string& override_text) {
  const auto outcome = with({override_text});
  BOOST_REQUIRE(outcome.problems.size() == 1);
  return outcome.problems.front();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(overrides)

BOOST_AUTO_TEST_CASE(an_override_replaces_or_adds_a_value) {
  const auto manifest = with({"train.batch=5", "sync.outer.nesterov.momentum=0.5", "local.threads=2"}).manifest.value();
  BOOST_TEST(manifest.shared.train.batch == 5U);
  BOOST_TEST(manifest.shared.sync.outer.momentum == 0.5);
  BOOST_TEST(manifest.local.threads == 2U);
  BOOST_TEST((manifest.shared.train.schedule == manifest::Schedule{Cosine{5, 0.1}}));
}

BOOST_AUTO_TEST_CASE(the_last_of_two_overrides_wins) {
  BOOST_TEST(with({"train.batch=5", "train.batch=6"}).manifest.value().shared.train.batch == 6U);
}

BOOST_AUTO_TEST_CASE(an_override_may_be_a_list_or_a_map) {
  const auto manifest = with({"train.optimizer.adamw.betas=[0.8, 0.9]", "train.schedule={constant: {}}"}).manifest.value();
  BOOST_TEST((std::get<AdamW>(manifest.shared.train.optimizer).betas == std::array{0.8, 0.9}));
  BOOST_TEST((manifest.shared.train.schedule == manifest::Schedule{Constant{}}));
}

BOOST_AUTO_TEST_CASE(a_text_needs_no_quotes_in_an_override) {
  const auto manifest = with({"data.include=*.h", "data.path=/a=b # c", "local.network.listen=\"[::]:1\""}).manifest.value();
  BOOST_TEST(manifest.shared.data.include == "*.h");
  BOOST_TEST(manifest.shared.data.path == "/a=b # c");
  BOOST_TEST(manifest.local.network.listen.value() == "[::]:1");
}

BOOST_AUTO_TEST_CASE(an_override_can_mend_the_file) {
  BOOST_TEST(with({"train.batch=3"}, "version: 1\nrun: x\ntrain: {batch: 0}\n").manifest.has_value());
}

BOOST_AUTO_TEST_CASE(a_problem_of_an_override_names_the_override) {
  const auto problem = problem_of("train.batch=0");
  BOOST_TEST((problem.name == ErrorName::ManifestValue));
  BOOST_TEST(problem.file == "--set train.batch=0");
  BOOST_TEST(problem.line == 0U);
  BOOST_TEST(render(problem, TEXT) ==
             "error: `train.batch` must be an integer ≥ 1, found `0` [PR0203]\n"
             " --> --set train.batch=0\n"
             "hint: for example `batch: 16`\n");
}

BOOST_AUTO_TEST_CASE(overrides_meet_the_same_rules_as_the_file) {
  BOOST_TEST((problem_of("train.bach=5").name == ErrorName::ManifestUnknownKey));
  BOOST_TEST(problem_of("train.bach=5").hint == "did you mean `batch`?");
  for (const auto& [written, meant] : {std::pair{"gpu", "cuda"},
                                       {"GPU1", "cuda:1"},
                                       {"cuda:0x", "cuda:0"},
                                       {"cuda:01", "cuda:1"},
                                       {"Cuda", "cuda"},
                                       {"CPU", "cpu"},
                                       {"cdua:7", "cuda:7"}})
    BOOST_TEST(problem_of(std::string{"local.device="} + written).hint == std::string{"did you mean `"} + meant + "`?", written);
  for (const auto* written : {"cuda:100", "tpu-pod", "7"})
    BOOST_TEST(problem_of(std::string{"local.device="} + written).hint.find("did you mean") == std::string::npos, written);
  BOOST_TEST((problem_of("train.batch=").name == ErrorName::ManifestValue));
  BOOST_TEST((problem_of("train.batch=\"5\"").hint == "remove the quotes"));
  BOOST_TEST(problem_of("train.batch.size=5").message == "`train.batch` must be an integer ≥ 1, found a map");
  BOOST_TEST((problem_of("data.per_file=12").name == ErrorName::ManifestValue));
  BOOST_TEST((problem_of("model.dim=98").message == "`model.dim` must be a multiple of `model.heads`, found 98 and 4"));
  BOOST_TEST((problem_of("train.optimizer.adamw.betas=[0.9").name == ErrorName::ManifestSyntax));
}

BOOST_AUTO_TEST_CASE(what_is_no_assignment_is_wrong_usage) {
  for (const auto* text : {"", "=", "train.batch", "=5", ".train=5", "train.=5", "train..batch=5", "a=\x1b"}) BOOST_TEST_CONTEXT(text) {
      BOOST_TEST((problem_of(text).name == ErrorName::Usage));
    }
}

BOOST_AUTO_TEST_SUITE_END()
