// Owns `primectl doctor`: what may keep this machine, or the way from it to a run, from training.
#include <algorithm>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/given_invite.hpp"
#include "cli/programs.hpp"
#include "cli/terminal.hpp"
#include "runtime/doctor/machine_checks.hpp"
#include "runtime/doctor/run_checks.hpp"
#include "runtime/launch/foreground_program.hpp"
#include "runtime/launch/launched_process.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

/// What is found that would stop a run.
constexpr int EXIT_UNHEALTHY = 5;

std::string_view word_of(doctor::Level level) {
  switch (level) {
    case doctor::Level::Good: return "good";
    case doctor::Level::Doubtful: return "doubtful";
    case doctor::Level::Stops: return "stops";
  }
  return "";
}

Role role_of(doctor::Level level) {
  switch (level) {
    case doctor::Level::Good: return Role::Good;
    case doctor::Level::Doubtful: return Role::Degraded;
    case doctor::Level::Stops: return Role::Bad;
  }
  return Role::Plain;
}

std::string json_of(const doctor::Findings& findings, bool healthy) {
  nlohmann::ordered_json object{{"schema", "primectl.doctor/1"}, {"healthy", healthy}, {"findings", nlohmann::ordered_json::array()}};
  for (const auto& each : findings)
    object["findings"].push_back({{"check", each.check}, {"level", word_of(each.level)}, {"text", each.text}, {"hint", each.hint}});
  return telemetry::dump(object) + "\n";
}

std::string text_of(const doctor::Findings& findings, const Style& style) {
  std::string text;
  for (const auto& each : findings) {
    text += paint(style, role_of(each.level), word_of(each.level)) + std::string(10 - word_of(each.level).size(), ' ') + each.check + ": " +
            harmless(each.text) + "\n";
    if (!each.hint.empty()) text += "          hint: " + each.hint + "\n";
  }
  return text;
}

/// Whether prime-trainer starts: without an agent it says so and ends. A trainer of one's own may do without it, so that nothing stops.
doctor::Finding trainer() {
  const auto program = trainer_program();
  std::string said;
  // As `timeout` has them: it ran too long; it or the shell could not run the program (126, 127); the signal that it ended by, above 128.
  constexpr int TOO_LONG = 124;
  constexpr int CANNOT_BE_RUN = 126;
  const auto status = launch::run_program({"/bin/sh", "-c", "unset PRIME_AGENT_SOCKET; exec timeout -k 1 10 \"$0\" 2>&1", program}, {},
                                          [&](std::string_view line) {
                                            if (said.empty()) said = line;
                                            return true;
                                          });
  const auto doubtful = [](std::string why, std::string hint) {
    return doctor::Finding{"trainer", doctor::Level::Doubtful, std::move(why), std::move(hint)};
  };
  const std::string own = "; a trainer of your own (`local.trainer_command`) does without";
  if (!status) return doubtful("prime-trainer does not start: " + to_string(status.error()), "see what is at " + program + own);
  const int code = WIFEXITED(*status) ? WEXITSTATUS(*status) : CANNOT_BE_RUN;
  if (code == TOO_LONG)
    return doubtful("prime-trainer did not end within 10 s, though no agent had started it", "see what is at " + program + own);
  if (code < CANNOT_BE_RUN) return {"trainer", doctor::Level::Good, program + " starts"};
  const auto why = "prime-trainer does not start: " + (said.empty() ? launch::describe_wait_status(*status) : said);
  const auto libtorch = libtorch_hint(said);
  return doubtful(why, (libtorch.empty() ? "see what is at " + program : libtorch) + own);
}

}  // namespace

int run_command(const DoctorArguments& arguments, Terminal& terminal) {
  for (const auto& text : arguments.overrides)
    if (!text.starts_with("local."))
      return terminal.complain(Error{ErrorName::Usage, "`--set " + text + "`: only keys of `local` are this machine's"});
  auto loaded = manifest::parse_manifest("version: 1\nrun: doctor\n", "the defaults", arguments.overrides);
  if (!loaded) {
    terminal.complain(manifest::render(loaded));
    return info(manifest::first_error(loaded).name).exit_code;
  }
  const auto root = telemetry::state_root(arguments.common.state_dir);
  if (!root) return terminal.complain(root.error());
  std::optional<GivenInvite> given;
  if (!arguments.invite.empty()) {
    auto parsed = given_invite(arguments.invite);
    if (!parsed) return terminal.complain(parsed.error());
    given.emplace(*std::move(parsed));
  }
  auto findings = doctor::examine_machine(*root);
  findings.push_back(trainer());
  if (given) {
    auto of_run = doctor::examine_run(given->invite, loaded.manifest->local.network);
    if (!of_run) return terminal.complain(of_run.error());
    findings.insert(findings.end(), of_run->begin(), of_run->end());
  }
  const bool healthy = std::ranges::none_of(findings, [](const auto& each) { return each.level == doctor::Level::Stops; });
  terminal.print(terminal.json() ? json_of(findings, healthy) : text_of(findings, terminal.style()));
  return healthy ? 0 : EXIT_UNHEALTHY;
}

}  // namespace prime::cli
