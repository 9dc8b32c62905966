// Owns the command lines of what ends: `leave`, `down`, `remove`.
#include "cli/command_line/table.hpp"

namespace prime::cli {
namespace {

void add_leave(Table& table) {
  auto [leave, typed] = table.add<LeaveArguments>("leave", "let peers of this machine leave a run; the others see `left`", "Start");
  leave.add_option("PEER", typed.peer, "name or id, or a unique prefix; absent: all peers that run here")->check(named());
  leave.add_option("--run", typed.run, RUN_HELP)->check(named());
}

void add_down(Table& table) {
  auto [down, typed] = table.add<DownArguments>("down", "end what runs here of a run; what was trained is saved", "Start");
  down.add_option("RUN", typed.run, RUN_HELP)->check(named());
  down.footer("A run that another machine or container has in the same state directory is left alone (PR0406), and ends by `down` there.");
}

void add_remove(Table& table) {
  auto [remove, typed] = table.add<RemoveArguments>("remove", "delete the files of runs that have ended, checkpoints with them", "Start");
  remove.add_option("RUN", typed.runs, "run id or a unique prefix of it")->required()->check(named());
  remove.footer("What may live, here or on another machine or container that shares the state directory, is refused by name.");
}

}  // namespace

void add_ending(Table& table) {
  add_leave(table);
  add_down(table);
  add_remove(table);
}

}  // namespace prime::cli
