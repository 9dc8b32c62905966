#include "runtime/telemetry/status_json.hpp"

#include <cmath>
#include <string>

namespace prime::telemetry {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json or_null(const std::optional<double>& value) { return value && std::isfinite(*value) ? Json(*value) : Json(nullptr); }
Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

/// Version 1 of the schema has no word of its own for a run that its owner stopped: there it failed, and the reason says how.
std::string_view word_of(RunState state) { return to_string(state == RunState::Stopped ? RunState::Failed : state); }

Json fragments_json(const std::vector<FragmentStatus>& fragments) {
  Json list = Json::array();
  for (const auto& [version, state, waiting_for] : fragments)
    list.push_back(Json{{"id", list.size()}, {"version", version}, {"state", to_string(state)}, {"waiting_for", waiting_for}});
  return list;
}

Json run_json(const RunStatus& status) {
  return Json{{"id", status.id},
              {"name", status.name},
              {"state", word_of(status.state)},
              {"begun", or_null(status.begun)},
              {"outer_step", status.outer_step},
              {"epoch", status.epoch},
              {"revision", status.revision},
              {"digest", or_null(status.digest)},
              {"fragments", fragments_json(status.fragments)},
              {"loss", or_null(status.loss)},
              {"held_out_loss", or_null(status.held_out_loss)},
              {"held_out_tokens", status.held_out_tokens},
              {"evaluation_problem", or_null(status.evaluation_problem)},
              {"tokens", status.tokens},
              {"tokens_per_s", or_null(status.tokens_per_s)},
              {"stands_by_for", or_null(status.stands_by_for)},
              {"waiting_for", or_null(status.wait.what)},
              {"waiting_since", or_null(status.wait.since)},
              {"waiting_until", or_null(status.wait.until)},
              {"paused_since", or_null(status.paused_since)},
              {"reason", or_null(status.reason)},
              {"checkpoint", or_null(status.checkpoint)},
              {"checkpoint_problem", or_null(status.checkpoint_problem)},
              {"problems", status.problems}};
}

/// Of a peer that is gone there is no process, and its number may be another one's by now.
Json peer_json(const PeerStatus& peer) {
  const auto process = [&](const std::optional<std::uint64_t>& pid) { return is_gone(peer.state) ? Json() : or_null(pid); };
  Json row{{"id", peer.id},
           {"name", peer.name},
           {"pid", process(peer.pid)},
           {"trainer_pid", process(peer.trainer_pid)},
           {"state", to_string(peer.state)},
           {"outer_step", or_null(peer.outer_step)},
           {"digest", or_null(peer.digest)},
           {"tokens_per_s", or_null(peer.tokens_per_s)},
           {"data_wait", or_null(peer.data_wait)},
           {"device", or_null(peer.device)},
           {"reason", or_null(peer.reason)},
           {"restarts", peer.restarts},
           {"restart_reason", or_null(peer.restart_reason)}};
  row["transfer"] = peer.transfer ? Json{{"kind", to_string(peer.transfer->kind)},
                                         {"moved_bytes", peer.transfer->moved_bytes},
                                         {"needed_bytes", peer.transfer->needed_bytes},
                                         {"bytes_per_s", peer.transfer->bytes_per_s}}
                                  : Json();
  row["transfer_bytes_per_s"] = or_null(peer.transfer_bytes_per_s);
  row["link"] = peer.link ? Json{{"to", peer.link->to}, {"bytes_per_s", peer.link->bytes_per_s}} : Json();
  if (!peer.replica.empty()) row.update({{"replica", peer.replica}, {"shard", peer.shard}});
  return row;
}

}  // namespace

Json to_json(const RunStatus& status) {
  Json peers = Json::array();
  for (const auto& peer : status.peers) peers.push_back(peer_json(peer));
  Json relayed = Json::array();
  for (const auto& lane : status.relayed) relayed.push_back(Json{{"from", lane.from}, {"to", lane.to}, {"through", lane.through}});
  Json elsewhere = Json::array();
  for (const auto& there : status.elsewhere)
    elsewhere.push_back(Json{{"place", there.place}, {"processes", there.processes}, {"certain", there.certain}});
  return Json{{"schema", "primectl.status/1"},
              {"run", run_json(status)},
              {"coordinator", Json{{"pid", or_null(status.coordinator_pid)}, {"address", or_null(status.coordinator_address)}}},
              {"peers", std::move(peers)},
              {"relayed", std::move(relayed)},
              {"elsewhere", std::move(elsewhere)}};
}

Json to_json(std::span<const ListedRun> runs) {
  Json list = Json::array();
  for (const auto& [status, directory, size_bytes] : runs)
    list.push_back(Json{{"id", status.id},
                        {"name", status.name},
                        {"state", to_string(status.state)},
                        {"outer_step", status.outer_step},
                        {"begun", or_null(status.begun)},
                        {"size_bytes", size_bytes},
                        {"where", where_of(status)},
                        {"state_dir", directory.string()},
                        {"loss", or_null(status.loss)},
                        {"waiting_for", or_null(status.wait.what)},
                        {"reason", or_null(status.reason)},
                        {"checkpoint", or_null(status.checkpoint)}});
  return Json{{"schema", "primectl.runs/1"}, {"runs", std::move(list)}};
}

std::string dump(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace prime::telemetry
