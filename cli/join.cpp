// Owns `primectl join`: this machine becomes a peer, in this process or in the background.
#include <algorithm>
#include <numeric>
#include <optional>

#include "cli/commands.hpp"
#include "cli/given_invite.hpp"
#include "cli/going_on.hpp"
#include "cli/interrupts.hpp"
#include "cli/join_progress.hpp"
#include "cli/peer_json.hpp"
#include "cli/programs.hpp"
#include "cli/render/join_line.hpp"
#include "cli/render/shell_word.hpp"
#include "cli/terminal.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/launch/start_run.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/shortage.hpp"
#include "runtime/store/checkpoint.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

struct Joiner {
  net::Invite invite;
  std::string invite_text;
  manifest::Local local;
  std::filesystem::path directory;  ///< of the run, on this machine
};

/// The shared half comes from the run, so only `local` keys may be given; a text that has no other stands for it.
manifest::LoadOutcome load_local(const JoinArguments& arguments) {
  if (!arguments.local_manifest.empty()) return manifest::load_manifest(arguments.local_manifest, arguments.overrides);
  return manifest::parse_manifest("version: 1\nrun: joining\n", "the defaults", arguments.overrides);
}

/// What only this machine's files of the run tell: that it is over, or that a peer here has that name.
Result<void> check_own_files(const std::filesystem::path& directory, const std::string& name) {
  telemetry::RunObserver observer{directory};
  observer.update();
  const auto status = observer.status();
  const auto shared = launch::read_manifest(directory);
  // Of a coordinator that may move another one may lead the run.
  const bool may_move = !shared || !shared->membership.standby.etcd.empty();
  if (status.coordinator_here && observer.run().ended && is_over(status.state) && !may_move)
    return fail(ErrorName::RunDone, status.id + " is " + std::string{to_string(status.state)});
  for (const auto& peer : observer.local_peers()) {
    const auto row = std::ranges::find(status.peers, peer.status.id, &telemetry::PeerStatus::id);
    // Who was lost to the run may be replaced under its name, also while it stands still.
    const bool takes_part = !peer.ended && telemetry::is_alive(peer.agent) && (row == status.peers.end() || !is_gone(row->state));
    if (!name.empty() && peer.status.name == name && takes_part)
      return fail(ErrorName::Usage, "`--name " + name + "`: peer " + peer.status.id + " of " + directory.filename().string() +
                                        " has this name on this machine, and runs; give another one, or none");
  }
  return {};
}

Result<Joiner> prepare(const JoinArguments& arguments, manifest::Local local) {
  PRIME_TRY(auto given, given_invite(arguments.invite));
  auto& [text, invite] = given;
  // It becomes a part of a directory's name, and is shown on other machines.
  if (!arguments.name.empty() && !net::is_run_id(arguments.name))
    return fail(ErrorName::Usage, "`--name " + arguments.name + "`: a name is " + std::string{net::RUN_ID_RULE});
  if (arguments.shards && !arguments.name.empty())
    return fail(ErrorName::Usage,
                "`--name` is of one peer, and `--shards` starts several, named after their replica; `--replica` names it");
  if (!arguments.replica.empty() && !arguments.shard && !arguments.shards)
    return fail(ErrorName::Usage, "`--replica " + arguments.replica + "` says of what this peer is a part; `--shard` says which part");
  PRIME_CHECK(check_descriptors(1, 1));  // how large the run is, it hears later
  PRIME_CHECK(launch::check_trainer(local));
  PRIME_TRY(const auto root, telemetry::state_root(arguments.common.state_dir));
  auto directory = root / invite.run;
  PRIME_CHECK(check_own_files(directory, arguments.name));
  return Joiner{std::move(invite), std::move(text), std::move(local), std::move(directory)};
}

void print_json(const std::vector<launch::StartedPeer>& peers, const Joiner& joiner, Terminal& terminal) {
  nlohmann::ordered_json object{{"schema", "primectl.join/1"},
                                {"run_id", joiner.invite.run},
                                {"state_dir", joiner.directory.string()},
                                {"peer", peer_json(peers.front())}};
  if (peers.size() > 1) {
    object.erase("peer");
    for (const auto& peer : peers) object["peers"].push_back(peer_json(peer));
  }
  terminal.print(telemetry::dump(object) + "\n");
}

/// What `leave` takes for this peer alone: its name, unless another one that runs here is called so as well.
std::string way_to_name(const launch::StartedPeer& peer, const std::filesystem::path& run) {
  telemetry::RunObserver observer{run};
  observer.update();
  const auto here = observer.local_peers();
  const bool shared = std::any_of(here.begin(), here.end(), [&](const telemetry::PeerJournal& other) {
    return other.status.name == peer.name && other.status.id != peer.id && !other.ended && telemetry::is_alive(other.agent);
  });
  return shared ? peer.id : peer.name;
}

void print_text(const std::vector<launch::StartedPeer>& peers, const JoinArguments& arguments, const Joiner& joiner, Terminal& terminal) {
  const auto& name = peers.size() > 1 ? peers.front().replica : peers.front().name;
  const auto leaver = peers.size() > 1 ? name : way_to_name(peers.front(), joiner.directory);
  const auto of_run = joiner.invite.run + state_dir_option(arguments.common.state_dir);
  // Its data and its tensors are compared with the run's when its trainer has bound them: until then nobody knows whether it may stay.
  terminal.print(name + " is welcome in " + joiner.invite.run + " and joins it in the background" +
                 (peers.size() > 1 ? ", " + std::to_string(peers.size()) + " peers that each hold a shard" : std::string{}) + "\n\n  " +
                 typed_program() + " status " + of_run + "   whether it trains, and else why not\n  " + typed_program() + " leave " +
                 leaver + " --run " + of_run + "\n");
}

int join_detached(const JoinArguments& arguments, const Joiner& joiner, Terminal& terminal) {
  Interrupts interrupts;
  launch::PeerRequest request{own_program(),
                              joiner.directory,
                              joiner.invite_text,
                              arguments.name,
                              joiner.local,
                              arguments.replica,
                              {arguments.shard.value_or(0)},
                              arguments.shards.value_or(0),
                              interrupts.descriptor()};
  if (arguments.shards) {
    request.shards.resize(*arguments.shards);
    std::iota(request.shards.begin(), request.shards.end(), 0U);
    if (request.replica.empty()) request.replica = launch::draw_replica_name();
  }
  const auto peers = launch::start_peers(request);
  if (!peers) return terminal.complain(peers.error());
  if (terminal.json()) print_json(*peers, joiner, terminal);
  else print_text(*peers, arguments, joiner, terminal);
  return 0;
}

/// As they were typed, but for the invite.
std::vector<std::string> options_of(const JoinArguments& arguments) {
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--name", arguments.name);
  add("--replica", arguments.replica);
  if (arguments.shard) add("--shard", std::to_string(*arguments.shard));
  add("--local-manifest", arguments.local_manifest);
  // The last one is the trainer's, where its words were given.
  const auto own = arguments.overrides.size() - (arguments.trainer.empty() ? 0 : 1);
  for (std::size_t i = 0; i < own; ++i) add("--set", arguments.overrides[i]);
  add("--state-dir", arguments.common.state_dir);
  if (arguments.trainer.empty()) return words;
  words.emplace_back("--");
  words.insert(words.end(), arguments.trainer.begin(), arguments.trainer.end());
  return words;
}

/// A joiner has no manifest of its own that the general hint could mean.
std::optional<std::string> hint_of(const Error& error, const std::filesystem::path& run_directory, const std::filesystem::path& own,
                                   const JoinArguments& arguments) {
  if (const auto libtorch = libtorch_hint(error.detail); !libtorch.empty()) return libtorch;
  if (joins_again(error)) return join_again_hint(typed_program(), options_of(arguments));
  if (!hint_is_way_on(error)) return std::nullopt;
  const std::string again =
      error.name == ErrorName::CoordinatorLost ? "when the run is served again, this `join` takes part in it anew" : "";
  const auto saved = store::list_checkpoints(own / "checkpoints");
  if (saved.empty())
    return again.empty() ? "this peer held no state to go on from" : again + "; this peer held no state to go on from without it";
  const auto way = way_on(run_directory, saved.back().path, arguments.common.state_dir);
  if (way.line.empty()) return again.empty() ? way.lacking : again + "; " + way.lacking;
  return (again.empty() ? again : again + "; ") + "`" + way.line + "` goes on from outer step " +
         std::to_string(saved.back().outer_step.value) + ", which is in " + saved.back().path.string();
}

int join_here(const JoinArguments& arguments, Joiner joiner, Terminal& terminal) {
  std::optional<JoinProgress> progress;
  const bool tells = !arguments.common.quiet && !arguments.trainer_descriptor;
  const auto coordinator = net::format_addresses(joiner.invite.addresses);
  if (tells) terminal.say("Joining", joiner.invite.run + " at " + coordinator);
  AgentOptions options{std::move(joiner.invite),
                       joiner.directory,
                       arguments.name,
                       std::move(joiner.local),
                       trainer_program(),
                       {},
                       {},
                       arguments.trainer_descriptor,
                       arguments.shard.value_or(0),
                       arguments.replica};
  options.attended = true;
  std::filesystem::path own;  // of its last life
  const auto run_directory = options.directory;
  const auto welcome = [&](const AgentIdentity& self) {
    own = self.directory;
    if (tells) progress.emplace(terminal, self.directory, self.name, coordinator);
  };
  const auto rejoining = [&](const Error& cause) {
    progress.reset();
    if (tells) terminal.say("Rejoining", "as a new peer: " + telemetry::short_reason(prime::to_string(cause)), Role::Degraded);
  };
  const auto outcome = run_agent(std::move(options), {welcome, rejoining});
  progress.reset();
  if (outcome) return 0;
  return terminal.complain(outcome.error(), hint_of(outcome.error(), run_directory, own, arguments));
}

}  // namespace

int run_command(const JoinArguments& arguments, Terminal& terminal) {
  for (const auto& text : arguments.overrides)
    if (!text.starts_with("local."))
      return terminal.complain(
          Error{ErrorName::Usage, "`--set " + text + "`: a joiner sets only keys of `local`; the rest comes from the run"});
  auto loaded = load_local(arguments);
  if (!loaded) {
    terminal.complain(manifest::render(loaded));
    return info(manifest::first_error(loaded).name).exit_code;
  }
  auto joiner = prepare(arguments, std::move(loaded.manifest->local));
  if (!joiner) return terminal.complain(joiner.error());
  return arguments.detach ? join_detached(arguments, *joiner, terminal) : join_here(arguments, std::move(*joiner), terminal);
}

}  // namespace prime::cli
