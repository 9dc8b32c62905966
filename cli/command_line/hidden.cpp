// Owns the command lines that only this program itself types.
#include "cli/command_line/table.hpp"

namespace prime::cli {
namespace {

void add_complete(Table& table) {
  auto [complete, typed] = table.add<CompleteArguments>("__complete", "words that a shell completes with", "");
  complete.add_option("KIND", typed.kind)->required()->check(CLI::IsMember({"runs", "peers"}).description(""));
  complete.add_option("TYPED", typed.typed);
}

void add_coordinator(Table& table) {
  auto [coordinator, typed] = table.add<CoordinatorArguments>("coordinator", "serve a run (started by `up`)", "");
  coordinator.add_option("--guard", typed.guard);
  coordinator.add_flag("--again", typed.again);
  coordinator.add_option("--killed", typed.killed);
  coordinator.add_option("--directory", typed.directory)->required();
  coordinator.add_option("--ready-fd", typed.ready_descriptor)->required();
}

void add_agent(Table& table) {
  auto [agent, typed] = table.add<AgentArguments>("agent", "take part in a run (started by `up` and `join -d`)", "");
  agent.add_option("--directory", typed.directory)->required();
  agent.add_option("--ready-fd", typed.ready_descriptor)->required();
}

}  // namespace

void add_hidden(Table& table) {
  add_complete(table);
  add_coordinator(table);
  add_agent(table);
}

}  // namespace prime::cli
