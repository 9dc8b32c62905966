#include "cli/going_on.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/programs.hpp"
#include "cli/render/shell_word.hpp"
#include "messages/units.hpp"
#include "runtime/launch/find_checkpoint.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* FILE_NAME = "start.json";
constexpr const char* SCHEMA = "prime.start/1";

/// As they were typed: what they name is found from the folder in which they were.
struct Start {
  fs::path folder;
  std::vector<std::string> words;
};

std::vector<std::string> words_of(const UpArguments& arguments) {
  std::vector<std::string> words{arguments.file};
  const auto add = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
  if (arguments.local && *arguments.local > 0) add("--local", std::to_string(*arguments.local));
  if (arguments.quorum) add("--quorum", std::to_string(*arguments.quorum));
  if (!arguments.listen.empty()) add("--listen", arguments.listen);
  for (const auto& text : arguments.overrides) add("--set", text);
  if (arguments.detach) words.emplace_back("--detach");
  return words;
}

std::optional<Start> read_start(const fs::path& run_directory) {
  const auto text = store::read_file(run_directory / FILE_NAME, 1 * MIB);
  if (!text) return std::nullopt;
  const auto object = nlohmann::json::parse(*text, nullptr, false);
  if (!object.is_object() || object.value("schema", nlohmann::json{}) != SCHEMA) return std::nullopt;
  const auto words = object.find("words");
  if (words == object.end() || !words->is_array() || words->empty()) return std::nullopt;
  Start start{object.value("folder", std::string{}), {}};
  for (const auto& word : *words) start.words.push_back(word.is_string() ? word.get<std::string>() : std::string{});
  return start;
}

void set_outer_steps(std::vector<std::string>& words, std::uint64_t outer_steps) {
  constexpr std::string_view KEY = "train.outer_steps=";
  for (std::size_t i = 1; i + 1 < words.size();) {
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    if (words[i] == "--set" && words[i + 1].starts_with(KEY)) words.erase(at, at + 2);
    else ++i;
  }
  words.insert(words.end(), {"--set", std::string{KEY} + std::to_string(outer_steps)});
}

/// `outer_steps`: to which the run goes on instead of where its start says; 0: as that says.
std::string line_to_go_on(const fs::path& run_directory, const fs::path& saved, const std::string& state_dir,
                          std::uint64_t outer_steps = 0) {
  std::error_code ignored;
  auto start = read_start(run_directory).value_or(Start{fs::current_path(ignored), {(saved / "prime" / "manifest.yaml").string()}});
  if (outer_steps > 0) set_outer_steps(start.words, outer_steps);
  const bool elsewhere = start.folder != fs::current_path(ignored);
  auto line = elsewhere ? "cd " + shell_word(start.folder.string()) + " && " + shell_word(own_program()) : typed_program();
  line += " up";
  for (const auto& word : start.words) line += " " + shell_word(word);
  return line + " --from " + run_directory.filename().string() +
         state_dir_option(state_dir.empty() ? state_dir : fs::absolute(state_dir, ignored).string());
}

}  // namespace

Result<void> keep_start(const fs::path& run_directory, const UpArguments& arguments) {
  std::error_code ignored;
  const nlohmann::json object{{"schema", SCHEMA}, {"folder", fs::current_path(ignored).string()}, {"words", words_of(arguments)}};
  return store::write_file_atomically(run_directory / FILE_NAME,
                                      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

WayOn way_on(const fs::path& run_directory, const fs::path& saved, const std::string& state_dir) {
  const auto shared = launch::read_manifest(run_directory);
  // Of a run that has made all its steps, so many more.
  const bool whole = shared && telemetry::step_of_checkpoint(saved.string()) >= shared->train.outer_steps;
  WayOn way{{}, "there", line_to_go_on(run_directory, saved, state_dir, whole ? std::uint64_t{2} * shared->train.outer_steps : 0)};
  if (!shared || shared->membership.shards == 1) return way;
  const auto found = launch::newest_of_all_shards(run_directory, shared->membership.shards);
  if (!found) return {found.error().detail, {}, {}};
  const auto step = std::to_string(found->state.outer_step.value);
  way.from = "outer step " + step;
  if (launch::is_older(*found))
    way.lacking = launch::what_is_missing(found->newest, "outer step " + std::to_string(found->newest.outer_step.value)) +
                  "; the newest step of which all shards are is " + step;
  return way;
}

bool hint_is_way_on(const Error& error) { return error.name == ErrorName::CoordinatorLost || error.name == ErrorName::RunStopped; }

std::vector<NextStep> next_steps(const fs::path& run_directory, const fs::path& saved, std::uint64_t outer_step,
                                 const std::string& state_dir) {
  std::vector<NextStep> steps;
  std::error_code ignored;
  const auto path = shell_word(saved.string());
  // What transformers read; a trainer of somebody's own may leave no such files.
  const bool model = fs::exists(saved / "config.json", ignored);
  if (model)
    steps.push_back(
        {"Load", "python3 -c 'import sys, transformers; print(transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1]))' " + path});
  if (model)
    steps.push_back({"", "by a python3 that has torch and transformers, as a virtual environment after `pip install torch transformers`"});
  const auto shared = launch::read_manifest(run_directory);
  if (shared && shared->membership.shards == 1) steps.push_back({"Go on", line_to_go_on(run_directory, saved, state_dir, outer_step * 2)});
  if (model) steps.push_back({"Export", "mkdir model && cp " + path + "/*.json " + path + "/*.safetensors model/"});
  return steps;
}

std::string text_of(const WayOn& way) {
  std::string text = way.lacking.empty() ? "" : "\n" + way.lacking + "\n";
  if (!way.line.empty()) text += "\ngo on from " + way.from + " by\n\n  " + way.line + "\n";
  return text;
}

}  // namespace prime::cli
