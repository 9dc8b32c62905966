// Owns `primectl validate`: all problems of all files, and nothing started.
#include <algorithm>

#include "cli/commands.hpp"
#include "cli/render/data_text.hpp"
#include "cli/render/style.hpp"
#include "cli/terminal.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

nlohmann::ordered_json to_json(const std::string& file, const manifest::LoadOutcome& outcome) {
  auto problems = nlohmann::ordered_json::array();
  for (const auto& problem : outcome.problems)
    problems.push_back({{"code", info(problem.name).code},
                        {"file", problem.file},
                        {"line", problem.line},
                        {"column", problem.column},
                        {"message", problem.message},
                        {"hint", problem.hint}});
  nlohmann::ordered_json result{{"schema", "primectl.validate/1"}, {"file", file}, {"valid", bool{outcome}}};
  if (outcome) result["run_digest"] = to_string(manifest::run_digest(*outcome.manifest));
  result["problems"] = std::move(problems);
  return result;
}

/// Of a mix that changes over the run.
std::string mix_text(const std::vector<manifest::Source>& sources) {
  std::string text;
  if (std::none_of(sources.begin(), sources.end(), [](const auto& source) { return source.weight.changes(); })) return text;
  const auto shares = data::shares_of(sources);
  for (std::size_t i = 0; i < sources.size(); ++i)
    text += "  " + sources[i].paths.front() + (sources[i].paths.size() > 1 ? " …" : "") + ": " + shares_text(shares[i]) + "\n";
  return harmless_page(text);
}

}  // namespace

int run_command(const ValidateArguments& arguments, Terminal& terminal) {
  int exit_code = 0;
  for (const auto& file : arguments.files) {
    const auto outcome = manifest::load_manifest(file, arguments.overrides);
    if (!outcome) exit_code = info(manifest::first_error(outcome).name).exit_code;
    if (terminal.json()) terminal.print(telemetry::dump(to_json(file, outcome)) + "\n");
    else if (outcome)
      terminal.print(file + ": valid, digest " + to_string(manifest::run_digest(*outcome.manifest)).substr(0, 8) +
                     " (whether its data is there, `up` looks)\n" + mix_text(outcome.manifest->shared.data.sources));
    else terminal.complain(manifest::render(outcome));
  }
  return exit_code;
}

}  // namespace prime::cli
