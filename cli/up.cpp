// Owns `primectl up`: from a manifest to a run, in the background or watched until its end.
#include <chrono>
#include <cstdlib>

#include "cli/attendance.hpp"
#include "cli/commands.hpp"
#include "cli/data_progress.hpp"
#include "cli/going_on.hpp"
#include "cli/interrupts.hpp"
#include "cli/observing.hpp"
#include "cli/peer_json.hpp"
#include "cli/programs.hpp"
#include "cli/render/figures.hpp"
#include "cli/render/join_line.hpp"
#include "cli/render/shell_word.hpp"
#include "cli/render/told_addresses.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/find_checkpoint.hpp"
#include "runtime/launch/start_run.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

/// What each address is to others, by how it looks.
nlohmann::ordered_json told_json(const Addresses& addresses) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& each : told(addresses)) list.push_back({{"address", each.address}, {"reached_from", each.reached_from}});
  return list;
}

std::string names_of(const launch::StartedRun& run) {
  std::string names;
  for (const auto& peer : run.peers) names += (names.empty() ? "" : ", ") + peer.name;
  return names;
}

nlohmann::ordered_json to_json(const launch::StartedRun& run) {
  auto peers = nlohmann::ordered_json::array();
  for (const auto& peer : run.peers) peers.push_back(peer_json(peer));
  return {{"schema", "primectl.up/1"},
          {"run_id", run.run},
          {"invite", run.invite},
          {"state_dir", run.directory.string()},
          {"coordinator",
           {{"pid", run.coordinator_pid},
            {"address", net::format_endpoint(run.addresses.list.front())},
            {"addresses", told_json(run.addresses)}}},
          {"peers", std::move(peers)}};
}

/// A newer checkpoint, and how to go on from it all the same.
std::string passed_over_text(const launch::PassedOver& newer) {
  std::string names;
  for (const auto& name : newer.missing) names += (names.empty() ? "" : ", ") + name;
  return "passes over outer step " + std::to_string(newer.outer_step.value) + ": what the trainer of " + names +
         " had for itself then was not saved before the end; `--from " + newer.paths.front().string() +
         "` goes on from there, with fresh private state";
}

Result<launch::RunRequest> request_of(const UpArguments& arguments, manifest::Manifest manifest, Terminal& terminal) {
  const auto peers = arguments.local.value_or(1);
  PRIME_CHECK(launch::check_start(manifest, peers, arguments.quorum.value_or(0), tells_of_data(terminal, "Compiling")));
  PRIME_TRY(auto root, telemetry::state_root(arguments.common.state_dir));
  PRIME_TRY(auto listen,
            net::parse_endpoint(!arguments.listen.empty() ? arguments.listen : manifest.local.network.listen.value_or("127.0.0.1:0")));
  // The coordinator has the port of `local.network.listen` itself, unless a flag gives it another one.
  const std::uint32_t first_peer_port = arguments.listen.empty() ? 1 : 0;
  launch::RunRequest request{own_program(),
                             std::move(root),
                             std::move(manifest),
                             peers,
                             arguments.quorum.value_or(0),
                             std::move(listen),
                             first_peer_port,
                             {},
                             {},
                             {},
                             {},
                             -1};
  if (arguments.from) {
    if (peers == 0) return fail(ErrorName::Usage, "`--from` needs a peer that holds the state from the start, and `--local 0` starts none");
    if (arguments.from->empty()) return fail(ErrorName::Usage, "`--from` names nothing: a checkpoint's path, or a run");
    PRIME_TRY(auto found, launch::find_checkpoint(request.state_root, *arguments.from, request.manifest, says_that_it_watches(terminal)));
    if (launch::is_older(found))
      terminal.warn("goes on from outer step " + std::to_string(found.state.outer_step.value) + "; " +
                    std::to_string(found.newest.outer_step.value) + " was committed, but " + launch::what_is_missing(found.newest, "it"));
    if (const auto& newer = found.passed_over) terminal.warn(passed_over_text(*newer));
    auto on = launch::continuation_of(found.privates, found.state, peers, request.quorum);
    if (!on.fresh.empty())
      terminal.warn(
          "the run does not go on exactly, and the loss may rise for a step: trainers begin without what they had for themselves, "
          "as moments of an optimizer; " +
          on.fresh);
    request.private_states = std::move(on.paths);
    request.fresh = std::move(on.fresh);
    request.checkpoints = std::move(found.paths);
    request.origin = std::move(found.state);
  }
  return request;
}

/// Which addresses the invite has, and which of them are of little use to others.
void say_what_is_told(const launch::RunRequest& request, const Addresses& addresses, Terminal& terminal) {
  if (net::is_loopback(request.listen.host) && request.manifest.local.network.advertise.empty()) return;
  if (const auto listening = net::listening_for(request.listen); !listening.name.empty())
    terminal.warn("`" + listening.name +
                  "` is this machine's loopback to itself (see /etc/hosts): the run listens at all addresses instead");
  std::string list;
  bool useful = false;
  for (const auto& each : told(addresses)) {
    list += (list.empty() ? "" : ", ") + each.address + " (from " + each.reached_from + ")";
    useful = useful || !each.looks_local;
  }
  terminal.say("Invite", "leads to " + list);
  for (const auto& each : told(addresses))
    if (each.looks_local) terminal.warn(each.address + " looks local: it leads there from " + each.reached_from + " alone");
  if (!useful) terminal.warn("no other machine can join by these; `local.network.advertise` names the address that leads here");
}

/// Who can use the line that follows. It is a line of its own, so that it pastes as a whole.
std::string join_text(const launch::RunRequest& request) {
  const bool loopback = net::is_loopback(request.listen.host);
  return loopback ? "from this machine (`--listen HOST:PORT` lets others in) by" : "by";
}

/// "a coordinator and 3 replicas of 2 peers each"
std::string what_starts(const launch::RunRequest& request) {
  if (request.peers == 0) return "a coordinator alone";
  const auto shards = request.manifest.shared.membership.shards;
  return "a coordinator and " + plural(request.peers, shards > 1 ? "replica" : "peer") +
         (shards > 1 ? " of " + std::to_string(shards) + " peers each" : std::string{});
}

/// All shards are of one step.
std::string checkpoint_text(const launch::RunRequest& request) {
  const auto more = request.checkpoints.size() - 1;
  return request.checkpoints.front().string() + (more > 0 ? " and those of " + plural(more, "other shard") : std::string{}) +
         " (after outer step " + std::to_string(request.origin->outer_step.value) + ")" +
         (!request.private_states.empty() && request.fresh.empty() ? ", each trainer with what one had for itself then" : "");
}

/// Empty where the manifest names no etcd.
std::string standby_line(const launch::StartedRun& run, const launch::RunRequest& request) {
  const auto& etcd = request.manifest.shared.membership.standby.etcd;
  std::string urls;
  for (const auto& url : etcd) urls += (urls.empty() ? "" : ",") + url;
  return etcd.empty() ? "" : "  " + typed_program() + " standby " + shell_word(run.invite) + " --etcd " + shell_word(urls);
}

std::string background_text(const launch::StartedRun& run, const launch::RunRequest& request, const std::string& state_dir) {
  const auto line = [&](const char* command) { return "  " + typed_program() + command + run.run + state_dir_option(state_dir) + "\n"; };
  const auto standby = standby_line(run, request);
  return "run " + run.run + " goes on in the background\n\n" + line(" status ") + line(" down ") + "\njoin it " + join_text(request) +
         "\n\n  " + join_line(typed_program(), run.invite, request.manifest) + "\n" +
         (standby.empty() ? "" : "\nlet another machine stand by for this one\n\n" + standby + "\n");
}

}  // namespace

int run_command(const UpArguments& arguments, Terminal& terminal) {
  auto loaded = manifest::load_manifest(arguments.file, arguments.overrides);
  if (!loaded) {
    terminal.complain(manifest::render(loaded));
    return info(manifest::first_error(loaded).name).exit_code;
  }
  terminal.say("Validating", arguments.file + " (digest " + to_string(manifest::run_digest(*loaded.manifest)).substr(0, 8) + ")");
  auto request = request_of(arguments, std::move(*loaded.manifest), terminal);
  if (!request) return terminal.complain(request.error());
  // Not before: while a large checkpoint is verified a signal ends this process, as nothing has begun.
  Interrupts interrupts;
  request->interrupt = interrupts.descriptor();
  terminal.say("Starting", what_starts(*request) + " on this machine");
  if (request->origin) terminal.say("Continuing", checkpoint_text(*request));
  const auto since = std::chrono::steady_clock::now();
  auto run = launch::start_run(*request);
  if (!run) return terminal.complain(run.error());
  if (const auto kept = keep_start(run->directory, arguments); !kept) terminal.warn(to_string(kept.error()));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
  terminal.say("Ready", run->run + " at " + net::format_endpoint(run->addresses.list.front()) + " in " + elapsed_figure(took.count()) +
                            (run->peers.empty() ? std::string{} : ": " + names_of(*run)));
  say_what_is_told(*request, run->addresses, terminal);
  if (arguments.detach) {
    if (terminal.json()) terminal.print(telemetry::dump(to_json(*run)) + "\n");
    else terminal.print(background_text(*run, *request, arguments.common.state_dir));
    return 0;
  }
  terminal.say("Join", join_text(*request) + "\n  " + join_line(typed_program(), run->invite, request->manifest));
  if (const auto standby = standby_line(*run, *request); !standby.empty()) terminal.say("Stand by", "on another machine by\n" + standby);
  const bool may_move = !request->manifest.shared.membership.standby.etcd.empty();
  return Attendance{terminal, interrupts, *run, arguments.common.state_dir, may_move}.until_the_end();
}

}  // namespace prime::cli
