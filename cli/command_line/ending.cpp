// Owns the command lines of what stands still or ends: `leave`, `pause`, `resume`, `down`, `remove`.
#include <charconv>

#include "cli/command_line/table.hpp"

namespace prime::cli {
namespace {

constexpr unsigned MAX_DAYS = 36'500;

void add_leave(Table& table) {
  auto [leave, typed] = table.add<LeaveArguments>("leave", "let peers of this machine leave a run; the others see `left`", "Start");
  leave.add_option("PEER", typed.peer, "name or id, or a unique prefix; absent: all peers that run here")->check(named());
  leave.add_option("--run", typed.run, RUN_HELP)->type_name("RUN")->check(named());
}

void add_pause(Table& table) {
  auto [pause, to_pause] = table.add<PauseArguments>("pause", "hold a run between two outer steps; its peers keep their seats", "Start");
  pause.add_option("RUN", to_pause.run, RUN_HELP)->check(named());
  pause.footer(
      "To be typed on the machine that has the coordinator. The outer step that is under way ends first. Meanwhile peers may join, leave\n"
      "and die, and no limit of a wait ends the run. It stays paused also when its coordinator is started again.");
  auto [resume, to_resume] = table.add<ResumeArguments>("resume", "let a run go on that `pause` holds", "Start");
  resume.add_option("RUN", to_resume.run, RUN_HELP)->check(named());
}

void add_down(Table& table) {
  auto [down, typed] = table.add<DownArguments>("down", "end what runs here of a run; what was trained is saved", "Start");
  down.add_option("RUN", typed.run, RUN_HELP)->check(named());
  down.footer("A run that another machine or container has in the same state directory is left alone (PR0406), and ends by `down` there.");
}

/// "7d" or any other duration.
std::optional<Duration> parse_age(const std::string& text) {
  unsigned days = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, days);
  if (error == std::errc{} && std::string_view{rest, end} == "d" && days <= MAX_DAYS) return std::chrono::hours{24} * days;
  return parse_duration(text);
}

void add_remove(Table& table) {
  auto [remove, typed] = table.add<RemoveArguments>("remove", "delete the files of runs that have ended, checkpoints with them", "Start");
  auto* const runs = remove.add_option("RUN", typed.runs, "run id or a unique prefix of it")->check(named());
  auto* const all = remove.add_flag("--all", typed.all, "all runs that have ended")->excludes(runs);
  auto* const older = remove
                          .add_option_function<std::string>(
                              "--older",
                              [&typed = typed](const std::string& text) {
                                typed.older = parse_age(text);
                                if (!typed.older)
                                  throw CLI::ValidationError("--older", "`" + text + "` is no age such as 7d, 12h or 30min");
                              },
                              "all runs that have ended, and of which nothing was heard for so long, such as 7d")
                          ->type_name("AGE")
                          ->excludes(runs)
                          ->excludes(all);
  remove.add_flag("-y,--yes", typed.yes, "do not ask; `--all` and `--older` ask on a terminal, and need this elsewhere");
  remove.footer(
      "What may live, here or on another machine or container that shares the state directory, is never deleted: one that is named is\n"
      "refused, and `--all` and `--older` say what they keep, and why.");
  table.needs_one_of(remove, {runs, all, older}, "name a run, or give `--all` or `--older AGE`");
}

}  // namespace

void add_ending(Table& table) {
  add_leave(table);
  add_pause(table);
  add_down(table);
  add_remove(table);
}

}  // namespace prime::cli
