// Owns the hidden `primectl agent`: the process of one peer. `up` and `join -d` start it.
#include <optional>
#include <utility>

#include "cli/commands.hpp"
#include "cli/programs.hpp"
#include "cli/render/join_line.hpp"
#include "cli/terminal.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/readiness.hpp"

namespace prime::cli {
namespace {

Result<void> take_part(const AgentArguments& arguments, std::optional<int>& ready, std::vector<std::string>& options_to_join) {
  PRIME_TRY(const auto text, launch::take_plan_from_stdin());
  PRIME_TRY(auto plan, launch::parse_agent_plan(text));
  if (!plan.name.empty()) options_to_join = {"--name", plan.name};
  PRIME_TRY(auto invite, net::parse_invite(plan.invite));
  AgentOptions options{std::move(invite),
                       arguments.directory,
                       std::move(plan.name),
                       std::move(plan.local),
                       trainer_program(),
                       std::move(plan.checkpoint),
                       std::move(plan.private_state),
                       std::nullopt,
                       plan.shard,
                       std::move(plan.replica),
                       plan.shards};
  const auto welcome = [&](const AgentIdentity& self) {
    if (const auto first = std::exchange(ready, std::nullopt))
      launch::announce(*first, nlohmann::json{{"peer", to_string(self.peer)}, {"name", self.name}, {"directory", self.directory.string()}});
  };
  return run_agent(std::move(options), {welcome, [](const Error&) {}});
}

}  // namespace

int run_command(const AgentArguments& arguments, Terminal& terminal) {
  std::optional<int> ready = arguments.ready_descriptor;
  std::vector<std::string> options_to_join;
  const auto outcome = take_part(arguments, ready, options_to_join);
  if (outcome) return 0;
  if (ready) launch::announce(*ready, outcome.error());
  const auto again = joins_again(outcome.error()) ? std::optional{join_again_hint(typed_program(), options_to_join)} : std::nullopt;
  return terminal.complain(outcome.error(), again);
}

}  // namespace prime::cli
