#include "cli/render/status_text.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/error_text.hpp"

namespace prime::cli {
namespace {

using telemetry::PeerState;
using telemetry::PeerStatus;
using telemetry::RunState;
using telemetry::RunStatus;

constexpr std::size_t SPARKLINE_WIDTH = 16;
constexpr std::size_t SHOWN_DIGEST = 8;

Role role_of(RunState state) {
  switch (state) {
    case RunState::Training:
    case RunState::Done: return Role::Good;
    case RunState::Waiting:
    case RunState::Paused: return Role::Degraded;
    case RunState::Standby:
    case RunState::Left:
    case RunState::Stopped: return Role::Plain;
    case RunState::Failed: return Role::Bad;
  }
  return Role::Plain;
}

template <class T>
std::string or_unknown(const std::optional<T>& value) {
  return value ? std::to_string(*value) : UNKNOWN;
}
std::string short_digest(const std::optional<std::string>& digest) { return digest ? digest->substr(0, SHOWN_DIGEST) : UNKNOWN; }

std::string headline(const RunStatus& status, const Style& style) {
  auto text = paint(style, Role::Strong, status.id) + "  " + paint(style, role_of(status.state), to_string(status.state));
  text += "  step " + std::to_string(status.outer_step);
  if (status.loss) text += "  loss " + loss_figure(status.loss);
  if (const auto bars = sparkline(status.losses, SPARKLINE_WIDTH, style.unicode); !bars.empty() && style.unicode) text += " " + bars;
  if (status.held_out_loss) text += "  held-out " + loss_figure(status.held_out_loss);
  if (status.tokens_per_s && !is_over(status.state)) text += "  " + rate_figure(status.tokens_per_s) + " tok/s";
  if (status.digest) text += "  digest " + short_digest(status.digest);
  return text + "\n";
}

std::string per_second(std::uint64_t bytes_per_s) { return format_byte_count(bytes_per_s) + "/s"; }

std::string progress_of(const telemetry::TransferStatus& transfer) {
  return format_byte_count(transfer.moved_bytes) + " of " + format_byte_count(transfer.needed_bytes) + ", " +
         per_second(transfer.bytes_per_s);
}

/// Why it is not training, or how far it is with what takes long.
std::string reason_of(const PeerStatus& peer) {
  if (!peer.reason.empty() || !peer.transfer) return harmless(telemetry::short_reason(peer.reason));
  return progress_of(*peer.transfer);
}

/// Of trainers that died and were started again, by peer.
std::string restarts_of(const RunStatus& status) {
  std::string text;
  for (const auto& peer : status.peers) {
    if (peer.restarts == 0) continue;
    const auto times = peer.restarts == 1 ? std::string{"once"} : std::to_string(peer.restarts) + " times";
    text += "Trainer of " + harmless(peer.name) + " started again " + times;
    if (!peer.restart_reason.empty())
      text += (peer.restarts == 1 ? ": " : ", last: ") + harmless(telemetry::short_reason(peer.restart_reason));
    text += "\n";
  }
  return text;
}

/// How fast the links are, as far as that was measured; a line each for those of the ring and for what long transfers came to.
std::string rates_of(const RunStatus& status) {
  std::string links;
  std::string transfers;
  for (const auto& peer : status.peers) {
    if (telemetry::is_gone(peer.state)) continue;
    const auto name = harmless(peer.name);
    if (peer.link)
      links += (links.empty() ? "" : ", ") + name + " to " + harmless(peer.link->to) + " " + per_second(peer.link->bytes_per_s);
    if (peer.transfer_bytes_per_s) transfers += (transfers.empty() ? "" : ", ") + name + " " + per_second(*peer.transfer_bytes_per_s);
  }
  return (links.empty() ? "" : "Links of the ring: " + links + "\n") +
         (transfers.empty() ? "" : "Last long transfer, sent and received: " + transfers + "\n");
}

/// With as much of its id as `leave` needs, where another one that takes part is called so as well.
std::string name_in(const RunStatus& status, const PeerStatus& peer) {
  constexpr std::size_t SHOWN_ID = 8;
  if (peer.name.empty()) return peer.id;
  const bool shared = std::ranges::any_of(status.peers, [&](const PeerStatus& other) {
    return other.id != peer.id && other.name == peer.name && !telemetry::is_gone(other.state);
  });
  return shared && !telemetry::is_gone(peer.state) ? peer.name + " (" + peer.id.substr(0, SHOWN_ID) + ")" : peer.name;
}

/// Who has its seat in a run that is held does not train.
std::string_view state_in(const RunStatus& status, const PeerStatus& peer) {
  return status.state == RunState::Paused && peer.state == PeerState::Training ? "waiting" : to_string(peer.state);
}

std::vector<std::string> peer_row(const RunStatus& status, const PeerStatus& peer, bool sharded) {
  // The number of a process that is gone may be somebody else's by now; a program that looks for it by its number finds it in the JSON.
  const auto process = [&](const std::optional<std::uint64_t>& pid) { return telemetry::is_gone(peer.state) ? UNKNOWN : or_unknown(pid); };
  std::vector<std::string> row{harmless(name_in(status, peer)), std::string{state_in(status, peer)},
                               or_unknown(peer.outer_step),     rate_figure(peer.tokens_per_s),
                               short_digest(peer.digest),       process(peer.pid),
                               process(peer.trainer_pid),       reason_of(peer)};
  // A peer has any name that it was given.
  if (sharded) row.insert(row.begin() + 1, {harmless(peer.replica), peer.replica.empty() ? UNKNOWN : std::to_string(peer.shard)});
  return row;
}

std::string time_of_day(const std::string& utc) { return utc.size() == 24 ? utc.substr(11, 8) + "Z" : utc; }

/// The peers of a replica one below the other, wherever its first one is; all else in the order of arrival.
std::vector<PeerStatus> by_replica(const std::vector<PeerStatus>& peers) {
  std::map<std::string, std::size_t> first;
  std::vector<std::tuple<std::size_t, std::uint64_t, std::size_t>> places;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const auto& replica = peers[i].replica;
    places.emplace_back(replica.empty() ? i : first.try_emplace(replica, i).first->second, peers[i].shard, i);
  }
  std::sort(places.begin(), places.end());
  std::vector<PeerStatus> sorted;
  for (const auto& [replica, shard, i] : places) sorted.push_back(peers[i]);
  return sorted;
}

/// Of a step there are many phases; who is at one is at work.
PeerState coarse(PeerState state) { return state == PeerState::Reducing ? PeerState::Training : state; }

/// "2 training, 1 lost"
std::string counts_of(const RunStatus& status) {
  std::map<PeerState, std::uint64_t> counts;
  for (const auto& peer : status.peers) ++counts[coarse(peer.state)];
  std::string text;
  for (const auto& [state, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string{to_string(state)};
  return text;
}

/// "wild-lynx lost (connection closed)", of each peer that stands elsewhere than before.
std::string moves_of(const RunStatus& before, const RunStatus& now) {
  std::string text;
  for (const auto& peer : now.peers) {
    const auto known = std::ranges::find(before.peers, peer.id, &PeerStatus::id);
    if (known != before.peers.end() && coarse(known->state) == coarse(peer.state)) continue;
    const auto why = is_over(now.state) ? std::string{} : harmless(telemetry::short_reason(peer.reason));
    text += (text.empty() ? "" : ", ") + harmless(peer.name.empty() ? peer.id : peer.name) + " " +
            std::string{to_string(coarse(peer.state))} + (why.empty() || why == to_string(peer.state) ? "" : " (" + why + ")");
  }
  return text;
}

}  // namespace

std::string span_of(const telemetry::WaitStatus& wait) {
  if (!wait.since) return "";
  return " (since " + time_of_day(*wait.since) + (wait.until ? ", until " + time_of_day(*wait.until) : std::string{}) + ")";
}

std::string device_text(const PeerStatus& peer) { return harmless(peer.name) + " computes on " + harmless(peer.device); }

std::string doing_text(const RunStatus& status, const std::string& step_since, std::chrono::system_clock::time_point now) {
  const auto since = [&](const std::string& time) {
    const auto begun = store::parse_utc(time);
    return begun ? " (for " + elapsed_figure(std::max(std::chrono::duration<double>(now - *begun).count(), 0.0)) + ")" : std::string{};
  };
  if (is_over(status.state)) return "for the peers here to end";
  auto text = status.wait.what.empty() ? "for outer step " + std::to_string(status.outer_step + 1) + since(step_since)
                                       : "for " + harmless(status.wait.what) + since(status.wait.since.value_or(step_since));
  for (const auto& peer : status.peers)
    if (peer.transfer && !telemetry::is_gone(peer.state))
      text +=
          ", " + harmless(peer.name) + (peer.state == PeerState::Fetching ? " has fetched " : " has moved ") + progress_of(*peer.transfer);
  return text;
}

std::optional<std::string> ChangeLines::next(const RunStatus& now, const Style& style) {
  auto text = headline(now, style);
  text.pop_back();
  const auto add = [&](const std::string& part) { text += part.empty() ? "" : "  " + part; };
  add(counts_of(now));
  if (!now.wait.what.empty() && now.state != RunState::Training) add("waiting for " + harmless(now.wait.what));
  if (!now.reason.empty()) add(harmless(telemetry::short_reason(now.reason)));
  if (!now.checkpoint_problem.empty()) add("not saved: " + harmless(now.checkpoint_problem));
  if (is_over(now.state) && now.checkpoint) add("checkpoint " + *now.checkpoint);
  const auto moves = last_.empty() || is_over(now.state) ? std::string{} : moves_of(before_, now);
  before_ = now;
  if (std::exchange(last_, text) == text && moves.empty()) return std::nullopt;
  add(moves);
  return text + "\n";
}

std::string checkpoint_text(const RunStatus& status, std::span<const telemetry::PeerJournal> peers) {
  if (!status.checkpoint || !is_sharded(status)) return status.checkpoint.value_or("");
  const auto step_of = [](const std::string& path) { return std::filesystem::path{path}.filename(); };
  std::set<std::uint64_t> saved;
  for (const auto& peer : peers)
    if (peer.checkpoint && step_of(*peer.checkpoint) == step_of(*status.checkpoint)) saved.insert(peer.status.shard);
  return *status.checkpoint + ", of one shard" +
         (saved.size() == status.shards ? "; those of the others are on this machine, too" : "; not all of the others are saved here");
}

std::string status_text(const RunStatus& status, const Style& style, std::span<const telemetry::PeerJournal> peers) {
  auto text = headline(status, style);
  if (status.coordinator_address) {
    text += "coordinator at " + *status.coordinator_address;
    if (status.coordinator_pid && !is_over(status.state)) text += ", pid " + std::to_string(*status.coordinator_pid);
    text += "\n";
  }
  if (status.stands_by_for && !is_over(status.state)) text += "stands by for the coordinator at " + harmless(*status.stands_by_for) + "\n";
  if (!status.peers.empty()) {
    std::vector<std::vector<std::string>> rows;
    const bool sharded = is_sharded(status);
    for (const auto& peer : by_replica(status.peers)) rows.push_back(peer_row(status, peer, sharded));
    std::vector<Column> titles{{"PEER"},
                               {"STATE"},
                               {"STEP", Align::Right},
                               {"TOK/S", Align::Right, 1},
                               {"DIGEST", Align::Left, 3},
                               {"PID", Align::Right, 2},
                               {"TRAINER", Align::Right, 4},
                               {"REASON"}};
    if (sharded) titles.insert(titles.begin() + 1, {{"REPLICA", Align::Left, 5}, {"SHARD", Align::Right, 6}});
    text += columns(titles, rows, style);
  }
  text += restarts_of(status);
  for (const auto& peer : status.peers)
    if (!peer.device.empty() && !telemetry::is_gone(peer.state)) text += device_text(peer) + "\n";
  text += rates_of(status);
  for (const auto& lane : status.relayed)
    text += "Lane " + harmless(lane.from) + " to " + harmless(lane.to) + " relayed through " + harmless(lane.through) + "\n";
  for (const auto& there : status.elsewhere) {
    text += (there.certain ? "Elsewhere, " : "Elsewhere, perhaps, ") + harmless(there.place) + ":";
    for (const auto& process : there.processes) text += (&process == &there.processes.front() ? " " : ", ") + harmless(process);
    text += " (only their files are seen from here)\n";
  }
  if (status.paused_since && !is_over(status.state))
    text += paint(style, Role::Degraded, "Paused") + " since " + time_of_day(*status.paused_since) + ", by `primectl pause`" +
            (status.state == RunState::Training ? "; the outer step that is under way ends first" : "") + "; `primectl resume " +
            status.id + "` lets it go on\n";
  const bool held = status.paused_since && status.state == RunState::Paused;
  if (!status.wait.what.empty() && !held) text += "Waiting for " + harmless(status.wait.what) + span_of(status.wait) + "\n";
  for (const auto& problem : status.problems) text += paint(style, Role::Degraded, "Problem:") + " " + harmless(problem) + "\n";
  if (status.state == RunState::Stopped) text += "Stopped: " + harmless(telemetry::short_reason(status.reason)) + "\n";
  else if (status.state == RunState::Left) text += "Left: " + harmless(telemetry::short_reason(status.reason)) + "\n";
  else if (!status.reason.empty()) text += paint(style, Role::Bad, "Failed:") + " " + harmless(status.reason) + "\n";
  if (!status.checkpoint_problem.empty()) text += paint(style, Role::Bad, "Not saved:") + " " + harmless(status.checkpoint_problem) + "\n";
  if (status.checkpoint) text += "Checkpoint " + checkpoint_text(status, peers) + "\n";
  return text;
}

}  // namespace prime::cli
