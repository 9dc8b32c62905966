// Owns the command lines of what only looks: `ls`, `status`, `attach`, `logs`.
#include <limits>

#include "cli/command_line/table.hpp"

namespace prime::cli {
namespace {

void add_ls(Table& table) {
  auto [ls, typed] = table.add<LsArguments>("ls", "list the runs of this machine, the one that began last first", "Observe");
  ls.footer("A run is listed as long as its files are there; `primectl remove` deletes them.");
}

void add_status(Table& table) {
  auto [status, typed] =
      table.add<StatusArguments>("status", "show one run and its peers; works from the journals when it has ended", "Observe");
  status.add_option("RUN", typed.run, RUN_HELP)->check(named());
  status.add_flag("-w,--watch", typed.watch, "show again whenever something changes, until the run ends");
  status.add_flag("--check", typed.check, "exit with 5 when the run has failed, or waits for peers");
}

void add_attach(Table& table) {
  auto [attach, typed] =
      table.add<AttachArguments>("attach", "show the table of a run that goes on in the background, from its first step on", "Observe");
  attach.add_option("RUN", typed.run, RUN_HELP)->check(named());
  attach.footer("Ctrl-C ends the watching alone. When the run ends it exits as `up` in the foreground does.");
}

void add_logs(Table& table) {
  auto [logs, typed] = table.add<LogsArguments>("logs", "show what the processes of a run did, merged by time", "Observe");
  logs.add_option("WHO", typed.who, "a peer's name or id, or `coordinator`; absent: all");
  logs.add_option("--run", typed.run, RUN_HELP)->type_name("RUN")->check(named());
  logs.add_flag("-f,--follow", typed.follow, "go on while the run lasts");
  logs.add_option("--since", typed.since, "only what is younger, such as 10min")->type_name("DURATION");
  logs.add_option("--tail", typed.tail, "only the last N lines [all; with --follow and without --since 20]")
      ->type_name("N")
      ->check(whole(0, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

void add_observing(Table& table) {
  add_ls(table);
  add_status(table);
  add_attach(table);
  add_logs(table);
}

}  // namespace prime::cli
