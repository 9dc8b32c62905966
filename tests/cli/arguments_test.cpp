// Owns the tests of the command line's language.
#include "cli/arguments.hpp"

#include "cli/glossary.hpp"
#include "runtime/telemetry/run_status.hpp"
#include "support.hpp"

namespace prime::cli {
namespace {

template <class T>
T parsed(const std::vector<std::string>& words) {
  const auto result = parse_arguments(words);
  BOOST_REQUIRE(result.has_value());
  return std::get<T>(std::get<Arguments>(*result));
}

std::string refusal(const std::vector<std::string>& words) {
  const auto result = parse_arguments(words);
  BOOST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().name == ErrorName::Usage));
  return result.error().detail;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(arguments)

BOOST_AUTO_TEST_CASE(up_takes_its_options_in_any_order) {
  const auto up = parsed<UpArguments>(
      {"up", "--local", "3", "run.yaml", "--set", "train.batch=2", "-d", "-o", "json", "--set", "run=x", "--state-dir", "/s"});
  BOOST_TEST(up.file == "run.yaml");
  BOOST_TEST(up.local.value() == 3U);
  BOOST_TEST(up.detach);
  BOOST_TEST((up.common.format == Format::Json));
  BOOST_TEST(up.common.state_dir == "/s");
  BOOST_TEST(up.overrides == (std::vector<std::string>{"train.batch=2", "run=x"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(join_takes_one_shard_of_a_replica_or_starts_a_whole_one) {
  const auto one = parsed<JoinArguments>({"join", "prime://x", "--replica", "calm-heron", "--shard", "1"});
  BOOST_TEST(one.replica == "calm-heron");
  BOOST_TEST(one.shard.value() == 1U);
  BOOST_TEST(!one.shards);
  BOOST_TEST(parsed<JoinArguments>({"join", "prime://x", "--shards", "4", "-d"}).shards.value() == 4U);
  BOOST_TEST(refusal({"join", "prime://x", "--shard", "1"}).find("--replica") != std::string::npos);
  BOOST_TEST(refusal({"join", "prime://x", "--shards", "4"}).find("--detach") != std::string::npos);
  refusal({"join", "prime://x", "--replica", "r", "--shard", "1", "--shards", "4", "-d"});
  for (const auto* shard : {"-1", "64", "x", ""}) refusal({"join", "prime://x", "--replica", "r", "--shard", shard});
  for (const auto* shards : {"1", "65", "x"}) refusal({"join", "prime://x", "-d", "--shards", shards});
  for (const auto* name : {"", "a.b", "-x", "A"})
    BOOST_TEST(refusal({"join", "prime://x", "--shard", "1", "--replica", name}).find("the name of a replica") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_trainer_is_named_by_its_command_line) {
  const auto up = parsed<UpArguments>({"up", "run.yaml", "--trainer", R"(python3 'my train.py' --lr "a \"b\"" c\ d '')", "--set", "run=x"});
  BOOST_TEST(up.overrides ==
                 (std::vector<std::string>{"run=x", R"(local.trainer_command=["python3", "my train.py", "--lr", "a \"b\"", "c d", ""])"}),
             boost::test_tools::per_element());
  BOOST_TEST(refusal({"up", "run.yaml", "--trainer", "python3 'x"}).find("a ' in `python3 'x` is not closed") != std::string::npos);
  BOOST_TEST(refusal({"up", "run.yaml", "--trainer", " "}).find("no program is named") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_stands_behind_two_dashes_of_join_is_the_trainers) {
  const auto join = parsed<JoinArguments>({"join", "prime://x", "--name", "bob", "--", "python3", "train.py", "--name", "x", "--", "-d"});
  BOOST_TEST(join.invite == "prime://x");
  BOOST_TEST(join.name == "bob");
  BOOST_TEST(!join.detach);
  BOOST_TEST(join.overrides.back() == R"(local.trainer_command=["python3", "train.py", "--name", "x", "--", "-d"])");
  BOOST_TEST(parsed<JoinArguments>({"join", "-d", "--", "train"}).invite.empty());
  BOOST_TEST(refusal({"join", "prime://x", "python3"}).find("`python3` is no invite; a trainer's words stand behind `--`") !=
             std::string::npos);
  BOOST_TEST(refusal({"join", "prime://x", "--"}).find("nothing stands behind `--`") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(plan_takes_quantities_with_their_units) {
  const auto plan = parsed<PlanArguments>({"plan", "run.yaml", "--link", "100Mbit/s", "--peers", "3", "--step-time", "250ms", "--mtbf",
                                           "168h", "--recovery", "30s", "--set", "sync.wire.codec=int8"});
  BOOST_TEST(plan.file == "run.yaml");
  BOOST_TEST(plan.link_bits_per_s.value() == 100'000'000U);
  BOOST_TEST(plan.peers.value() == 3U);
  BOOST_TEST((plan.step_time == Duration{250ms}));
  BOOST_TEST((plan.mtbf == Duration{168 * 60min}));
  BOOST_TEST((plan.recovery == Duration{30s}));
  BOOST_TEST(plan.overrides == (std::vector<std::string>{"sync.wire.codec=int8"}), boost::test_tools::per_element());
  BOOST_TEST((!parsed<PlanArguments>({"plan", "run.yaml"}).link_bits_per_s));
  for (const auto* wrong : {"100", "100Mb/s", "0Mbit/s", "-1Mbit/s", "fast"})
    BOOST_TEST(refusal({"plan", "run.yaml", "--link", wrong}) ==
               "--link: `" + std::string{wrong} + "` is no rate such as 40Mbit/s or 1Gbit/s: a whole number above 0 and its unit");
  for (const std::string flag : {"--step-time", "--mtbf"})
    for (const auto* wrong : {"1", "0s", "0.8s", "-1s", "soon"})
      BOOST_TEST(refusal({"plan", "run.yaml", flag, wrong}) ==
                 flag + ": `" + wrong + "` is no duration such as 250ms, 30s, 10min or 2h: a whole number above 0 and its unit");
  BOOST_TEST(refusal({"plan", "run.yaml", "--recovery", "30s"}).find("--mtbf") != std::string::npos);
  refusal({"plan", "run.yaml", "--peers", "0"});
  refusal({"plan"});
}

BOOST_AUTO_TEST_CASE(simulate_takes_one_seed_or_a_range_of_them) {
  const auto one = parsed<SimulateArguments>({"simulate", "x.yaml", "--seed", "18446744073709551615", "--peers", "32"});
  BOOST_TEST(one.file == "x.yaml");
  BOOST_TEST(one.seeds.first == 18446744073709551615U);
  BOOST_TEST(one.seeds.last == 18446744073709551615U);
  BOOST_TEST(!one.range);
  BOOST_TEST(one.peers.value() == 32U);
  const auto several = parsed<SimulateArguments>({"simulate", "--seeds", "3..9", "x.yaml"});
  BOOST_TEST(several.seeds.first == 3U);
  BOOST_TEST(several.seeds.last == 9U);
  BOOST_TEST(several.range);
  const auto neither = parsed<SimulateArguments>({"simulate", "x.yaml"});
  BOOST_TEST(neither.seeds.first == 1U);
  BOOST_TEST(neither.seeds.last == 1U);
  for (const auto* range : {"9..3", "3", "3..", "..3", "3...9", "-1..2", "1..2x", ""})
    BOOST_TEST(refusal({"simulate", "x.yaml", "--seeds", range}).find("is no range such as 1..200") != std::string::npos);
  for (const char* seed : {"-1", "1..2", "0x7", "18446744073709551616", "seven"})
    BOOST_TEST(refusal({"simulate", "x.yaml", "--seed", seed}).find("is no number from 0 to 18446744073709551615") != std::string::npos);
  BOOST_TEST(refusal({"simulate", "x.yaml", "--seeds", "1..2", "--seed", "3"}).find("--seed") != std::string::npos);
  refusal({"simulate", "x.yaml", "--peers", "0"});
  refusal({"simulate"});
}

/// Each takes decimal digits within its bounds, and nothing that a library would make a number of: signs, octals, fractions, rests.
BOOST_AUTO_TEST_CASE(numbers_are_numbers_or_refused) {
  using Line = std::vector<std::string>;
  const auto generate = [](const std::string& word) { return Line{"generate", "m", word}; };
  const auto build = [](const std::string& word) { return Line{"commitment", "build", "f", "--tensor", "h", word}; };
  std::vector<Line> refused;
  for (const std::string wrong : {"abc", "18446744073709551616", "-1", "+1", "1.5", "", "0x10", "1e3", "7 ", " 7", "1_000"}) {
    for (const auto* flag : {"--tokens=", "--k=", "--segment=", "--batch=", "--threads=", "--seed="})
      refused.push_back(generate(flag + wrong));
    for (const auto* flag : {"--k=", "--tokens=", "--prefill="}) refused.push_back(build(flag + wrong));
    refused.push_back({"up", "r.yaml", "--local=" + wrong});
    refused.push_back({"up", "r.yaml", "--quorum=" + wrong});
    refused.push_back({"bench", "allreduce", "--repeat=" + wrong});
    refused.push_back({"bench", "allreduce", "--tags=" + wrong});
    refused.push_back({"bench", "allreduce", "--peers=" + wrong});
    refused.push_back({"simulate", "x.yaml", "--peers=" + wrong});
  }
  for (const auto* wrong : {"nan", "inf", "-0.1", "100.5", "", "warm", "0x1p3", "1 "})
    refused.push_back(generate(std::string{"--temperature="} + wrong));
  for (const auto& line : refused) BOOST_TEST(refusal(line).find("--") != std::string::npos, line.back());
  BOOST_TEST(refusal(generate("--k=0")).find("`0` is no whole number from 1 to 8192") != std::string::npos);
  BOOST_TEST(refusal(generate("--temperature=nan")).find("`nan` is no number from 0 to 100") != std::string::npos);
  BOOST_TEST(parsed<GenerateArguments>(generate("--seed=18446744073709551615")).seed == UINT64_MAX);
  BOOST_TEST(parsed<GenerateArguments>(generate("--seed=010")).seed == 10U);
  BOOST_TEST(parsed<GenerateArguments>(generate("--temperature=0.75")).temperature == 0.75);
  BOOST_TEST(parsed<CommitmentArguments>(build("--prefill")).prefill == 1U);
  BOOST_TEST(parsed<CommitmentArguments>(build("--prefill=600")).prefill == 600U);
  BOOST_TEST(parsed<CommitmentArguments>({"commitment", "build", "--prefill", "f", "--tensor", "h"}).files.front() == "f");
}

BOOST_AUTO_TEST_CASE(an_empty_word_is_no_file_and_no_threshold) {
  const auto named = [](std::vector<std::string> line, const std::string& flag) {
    line.push_back(flag + "=");
    BOOST_TEST(refusal(line) == flag + ": nothing stands behind the `=`");
    line.back() = flag;
    line.emplace_back();
    BOOST_TEST(refusal(line).find("it names nothing") != std::string::npos, flag);
  };
  for (const auto* flag : {"--prove", "--prompts", "--prompt-tokens"}) named({"generate", "m", "--prompt", "x"}, flag);
  named({"verify", "f", "--model", "m"}, "--thresholds");
  for (const auto* flag : {"--thresholds", "--proofs"}) named({"commitment", "check", "f", "--tensor", "h"}, flag);
  for (const auto& line : {std::vector<std::string>{"verify", "", "--model", "m"}, {"commitment", "check", "", "--tensor", "h"}})
    BOOST_TEST(refusal(line).find("it names nothing") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_override_never_swallows_the_file) {
  const auto up = parsed<UpArguments>({"up", "--set", "train.batch=2", "run.yaml"});
  BOOST_TEST(up.file == "run.yaml");
}

BOOST_AUTO_TEST_CASE(join_needs_no_invite_on_its_line) {
  BOOST_TEST(parsed<JoinArguments>({"join"}).invite == "");
  BOOST_TEST(parsed<JoinArguments>({"join", "prime://x", "--trainer-fd", "3"}).trainer_descriptor.value() == 3);
}

BOOST_AUTO_TEST_CASE(a_misspelled_command_is_told_the_nearest) {
  BOOST_TEST(refusal({"stauts"}) == "no command `stauts`; did you mean `status`?");
  BOOST_TEST(refusal({"quack"}) == "no command `quack`");
}

BOOST_AUTO_TEST_CASE(a_misspelled_option_is_told_the_nearest) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"up", "--locl", "3", "run.yaml"},
                                                                 {"up", "run.yaml", "--locl=3"},
                                                                 {"up", "run.yaml", "--quorum", "0", "--locl", "3"},
                                                                 {"up", "--locl"}})
    BOOST_TEST(refusal(words) == "no option `--locl`; did you mean `--local`?");
  BOOST_TEST(refusal({"status", "--colour"}) == "no option `--colour`; did you mean `--color`?");
  BOOST_TEST(refusal({"status", "--nonsense"}) == "no option `--nonsense`");
  BOOST_TEST(refusal({"join", "--trainer-df", "3"}) == "no option `--trainer-df`");  // what is not shown is not suggested
  BOOST_TEST(refusal({"--hlp"}) == "no option `--hlp`; did you mean `--help`?");
  BOOST_TEST(refusal({"logs", "--", "a", "--since"}).find("no option") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(wrong_lines_are_refused_with_their_cause) {
  BOOST_TEST(refusal({"up"}).find("FILE") != std::string::npos);
  BOOST_TEST(refusal({"up", "a", "--local", "65"}).find("--local") != std::string::npos);
  BOOST_TEST(refusal({"status", "--colour"}).find("--colour") != std::string::npos);
  BOOST_TEST(refusal({"status", "-o", "xml"}).find("xml") != std::string::npos);
  for (const auto* command : {"remove", "down", "leave", "status"})
    BOOST_TEST(refusal({command, ""}).find("names nothing") != std::string::npos, "an empty word would be a prefix of every name");
  BOOST_TEST(refusal({"join", "--name", "a\x1b[31m"}).find("control characters") != std::string::npos);
  BOOST_TEST(refusal({"join", "--name", "coordinator"}).find("the coordinator has this name") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(options_of_the_output_stand_before_the_command_or_after_it) {
  using Line = std::vector<std::string>;
  for (const auto& line : {Line{"-o", "json", "--state-dir", "/s", "-q", "status", "small", "--watch"},
                           {"-ojson", "-q", "status", "--state-dir=/s", "-w", "small"},
                           {"--output=json", "--state-dir", "/s", "status", "small", "-wq"}}) {
    const auto status = parsed<StatusArguments>(line);
    BOOST_TEST((status.common.format == Format::Json));
    BOOST_TEST(status.common.state_dir == "/s");
    BOOST_TEST(status.common.quiet);
    BOOST_TEST(status.run == "small");
    BOOST_TEST(status.watch);
    BOOST_TEST(command_of(line) == "status");
  }
  BOOST_TEST(refusal({"-o", "xml", "status"}).find("xml") != std::string::npos);
  BOOST_TEST(refusal({"-o", "json"}) == "a command is missing");
  BOOST_TEST(refusal({"-q"}) == "a command is missing");
  BOOST_TEST(refusal({"-o", "json", "stauts"}) == "no command `stauts`; did you mean `status`?");
  BOOST_TEST(refusal({"--local", "3", "up", "run.yaml"}) == "no option `--local`");
  BOOST_TEST(parsed<LogsArguments>({"logs", "-o", "json", "--", "-o"}).who == "-o");
}

BOOST_AUTO_TEST_CASE(version_is_a_command_and_a_flag) {
  for (const auto& line : std::vector<std::vector<std::string>>{{"version"}, {"--version"}, {"--color", "never", "--version"}})
    BOOST_TEST((parsed<VersionArguments>(line).common.format == Format::Table));
  for (const auto& line : std::vector<std::vector<std::string>>{{"-o", "json", "--version"}, {"--version", "-o", "json"}})
    BOOST_TEST((parsed<VersionArguments>(line).common.format == Format::Json));
}

BOOST_AUTO_TEST_CASE(help_is_a_command_and_a_flag) {
  const auto text = [](const std::vector<std::string>& line) { return std::get<HelpText>(parse_arguments(line).value()).text; };
  BOOST_TEST(text({"help"}) == text({"--help"}));
  BOOST_TEST(text({"help", "up"}) == text({"up", "--help"}));
  BOOST_TEST(refusal({"help", "stauts"}) == "no command `stauts`; did you mean `status`?");
  BOOST_TEST(refusal({"help", "agent"}).starts_with("no command `agent`"), "it is hidden");
}

BOOST_AUTO_TEST_CASE(remove_is_told_what) {
  BOOST_TEST(parsed<RemoveArguments>({"remove", "a", "b"}).runs.size() == 2U);
  BOOST_TEST(parsed<RemoveArguments>({"remove", "--all", "--yes"}).yes);
  const auto older = [](const char* age) { return *parsed<RemoveArguments>({"remove", "--older", age}).older; };
  BOOST_TEST((older("7d") == std::chrono::hours{7 * 24}));
  BOOST_TEST((older("12h") == std::chrono::hours{12}));
  BOOST_TEST((older("0d") == Duration{0}));
  for (const auto* age : {"7", "d", "-1d", "7days", "1.5d", "99999d", "soon"})
    BOOST_TEST(refusal({"remove", "--older", age}) == "--older: `" + std::string{age} + "` is no age such as 7d, 12h or 30min");
  BOOST_TEST(refusal({"remove"}) == "name a run, or give `--all` or `--older AGE`");
  BOOST_TEST(refusal({"remove", "--yes"}) == "name a run, or give `--all` or `--older AGE`");
  refusal({"remove", "--all", "small"});
  refusal({"remove", "--all", "--older", "7d"});
}

BOOST_AUTO_TEST_CASE(help_is_a_text_and_names_no_hidden_command) {
  for (const auto& words : std::vector<std::vector<std::string>>{{}, {"--help"}}) {
    const auto text = std::get<HelpText>(parse_arguments(words).value()).text;
    BOOST_TEST(text.find("status") != std::string::npos);
    BOOST_TEST(text.find("started by `up`") == std::string::npos);
  }
  BOOST_TEST(std::get<HelpText>(parse_arguments({"join", "--help"}).value()).text.find("trainer-fd") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_reference_page_is_that_of_this_table) { test::check_golden("docs/CLI.md", reference_page()); }

BOOST_AUTO_TEST_CASE(the_glossary_is_that_of_the_words) {
  test::check_golden("docs/GLOSSARY.md", glossary_page());
  BOOST_TEST(find_words("Inner-Step").size() == 1U);
  BOOST_TEST(find_words("trainer").size() == 2U);
  BOOST_TEST(find_words("nonsense").empty());
  using enum telemetry::RunState;
  for (const auto state : {Waiting, Training, Paused, Standby, Done, Stopped, Left, Failed})
    BOOST_TEST(!find_words(to_string(state)).empty());
  for (int state = 0; state <= static_cast<int>(telemetry::PeerState::Lost); ++state)
    BOOST_TEST(!find_words(to_string(telemetry::PeerState{state})).empty(), to_string(telemetry::PeerState{state}));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::cli
