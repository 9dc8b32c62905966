#include "runtime/telemetry/run_journal.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/journal_fields.hpp"

namespace prime::telemetry {
namespace {

using Fields = nlohmann::json;

/// The row of the peer that a line is about; nullptr when it names none.
PeerStatus* peer_of(RunStatus& status, const Fields& fields) {
  const auto id = text_field(fields, "peer");
  if (!id) return nullptr;
  PeerStatus* found = nullptr;
  for (auto& peer : status.peers)
    if (peer.id == *id) found = &peer;
  if (found == nullptr) {
    found = &status.peers.emplace_back();
    found->id = *id;
  }
  if (auto name = text_field(fields, "name")) found->name = std::move(*name);
  if (auto replica = text_field(fields, "replica")) found->replica = std::move(*replica);
  if (const auto shard = count_field(fields, "shard")) found->shard = *shard;
  return found;
}

/// The members of the view, as far as a fold knows them: whoever trains or reduces.
template <class Change>
void for_members(RunStatus& status, Change change) {
  for (auto& peer : status.peers)
    if (peer.state == PeerState::Training || peer.state == PeerState::Reducing) change(peer);
}

void set_members(RunStatus& status, PeerState state) {
  for_members(status, [state](PeerStatus& peer) { peer.state = state; });
}

void end_run(RunStatus& status, RunState state, const std::string& reason) {
  status.state = state;
  status.wait = {};
  status.relayed.clear();
  for (auto& peer : status.peers) {
    if (is_gone(peer.state)) continue;
    peer.state = PeerState::Left;
    peer.tokens_per_s.reset();
    peer.reason = reason;
  }
}

/// By its owner, or by all peers leaving it; not by what went wrong.
void end_early(RunStatus& status, const std::string& reason) {
  const auto state = is_stop(reason) ? RunState::Stopped : RunState::Failed;
  if (status.state == state) return;
  status.reason = reason;
  end_run(status, state, reason);
}

void note_counters(RunStatus& status, const Fields& fields) {
  if (const auto epoch = count_field(fields, "epoch")) status.epoch = *epoch;
}

/// Of a lane the last that was told counts, whichever end opened it.
void on_lane(RunStatus& status, const Fields& fields) {
  RelayedLane lane{text_field(fields, "name").value_or(""), text_field(fields, "to").value_or(""),
                   text_field(fields, "through").value_or("")};
  std::erase_if(status.relayed, [&](const RelayedLane& known) {
    return (known.from == lane.from && known.to == lane.to) || (known.from == lane.to && known.to == lane.from);
  });
  if (!lane.through.empty()) status.relayed.push_back(std::move(lane));
}

void forget_lanes(RunStatus& status, const std::string& name) {
  std::erase_if(status.relayed, [&](const RelayedLane& lane) { return lane.from == name || lane.to == name; });
}

void on_peer(RunStatus& status, PeerState state, const Fields& fields) {
  auto* const peer = peer_of(status, fields);
  if (peer == nullptr) return;
  peer->state = state;
  if (const auto pid = count_field(fields, "pid")) peer->pid = pid;
  if (const auto trainer = count_field(fields, "trainer_pid")) peer->trainer_pid = trainer;
  if (auto digest = text_field(fields, "digest")) peer->digest = std::move(digest);
  if (const auto revision = count_field(fields, "revision"); revision && state != PeerState::Fetching) peer->outer_step = revision;
  peer->reason = text_field(fields, "reason").value_or("");
  if (!is_gone(state)) return;
  peer->tokens_per_s.reset();
  forget_lanes(status, peer->name);
}

/// Of a replica that is not whole, each peer waits for the same ones.
void name_missing(RunStatus& status, const std::string& replica) {
  const auto waits = [&](const PeerStatus& peer) { return peer.replica == replica && peer.state == PeerState::Joining; };
  std::string missing;
  std::size_t count = 0;
  for (std::uint64_t shard = 0; shard < status.shards; ++shard) {
    const auto holds = [&](const PeerStatus& peer) { return waits(peer) && peer.shard == shard; };
    if (std::any_of(status.peers.begin(), status.peers.end(), holds)) continue;
    missing += (count++ == 0 ? "" : ", ") + std::to_string(shard);
  }
  for (auto& peer : status.peers)
    if (waits(peer))
      peer.reason = count == 0 ? "" : (count == 1 ? "waits for shard " : "waits for shards ") + missing + " of replica " + replica;
}

void on_shard_waits(RunStatus& status, const Fields& fields) {
  on_peer(status, PeerState::Joining, fields);
  name_missing(status, text_field(fields, "replica").value_or(""));
}

void on_gone(RunStatus& status, PeerState state, const Fields& fields) {
  const auto* const peer = peer_of(status, fields);
  const bool waited = peer != nullptr && peer->state == PeerState::Joining && !peer->reason.empty();
  on_peer(status, state, fields);
  if (waited && !peer->replica.empty()) name_missing(status, std::string{peer->replica});
}

void on_ready(RunStatus& status, const Fields& fields) {
  auto* const peer = peer_of(status, fields);
  if (peer == nullptr) return;
  if (const auto speed = real_field(fields, "tokens_per_s")) peer->tokens_per_s = speed;
  if (const auto trainer = count_field(fields, "trainer_pid"); trainer.value_or(0) != 0) peer->trainer_pid = trainer;
}

void note_held_out(RunStatus& status, const Fields& fields) {
  const auto loss = real_field(fields, "held_out_loss");
  if (!loss) return;
  status.held_out_loss = loss;
  status.held_out_tokens = count_field(fields, "held_out_tokens").value_or(0);
}

void on_committed(RunStatus& status, const Fields& fields) {
  note_counters(status, fields);
  status.outer_step = count_field(fields, "outer_step").value_or(status.outer_step);
  status.revision = count_field(fields, "revision").value_or(status.revision);
  status.digest = text_field(fields, "digest");
  status.loss = real_field(fields, "loss");
  note_held_out(status, fields);
  status.tokens_per_s = real_field(fields, "tokens_per_s");
  status.tokens = count_field(fields, "tokens").value_or(status.tokens);
  if (status.loss) status.losses.push_back(*status.loss);
  if (status.losses.size() > REMEMBERED_LOSSES) status.losses.erase(status.losses.begin());
  for_members(status, [&](PeerStatus& peer) {
    peer.state = PeerState::Training;
    peer.outer_step = status.outer_step;
    // That of a shard is told by its own peers alone.
    if (peer.replica.empty()) peer.digest = status.digest;
    else peer.digest.reset();
  });
}

void on_rolled_back(RunStatus& status, const Fields& fields) {
  note_counters(status, fields);
  status.state = RunState::Waiting;
  status.outer_step = status.revision = count_field(fields, "revision").value_or(status.revision);
  status.digest = text_field(fields, "digest");
  status.tokens = count_field(fields, "tokens").value_or(status.tokens);
}

void on_waiting(RunStatus& status, const Fields& fields) {
  const auto waited = real_field(fields, "waited_s");
  status.wait = {text_field(fields, "for").value_or(""), time_field(fields, waited ? std::optional{-*waited} : std::nullopt),
                 time_field(fields, real_field(fields, "left_s"))};
  // Waiting for peers stops the run; every other wait is a part of an outer step.
  const bool stands = status.state == RunState::Waiting || status.state == RunState::Paused;
  if (text_field(fields, "phase") != "waiting") {
    if (stands && status.epoch > 0) status.state = RunState::Training;
  } else if (!stands) {
    status.state = RunState::Waiting;
  }
}

void on_final_state_saved(RunStatus& status, const Fields& fields) {
  if (auto checkpoint = text_field(fields, "checkpoint"); checkpoint && !checkpoint->empty()) status.checkpoint = std::move(checkpoint);
  status.checkpoint_problem.clear();
}

void on_final_save_failed(RunStatus& status, const Fields& fields) {
  status.checkpoint_problem = text_field(fields, "name").value_or("a peer") + ": " + text_field(fields, "reason").value_or("");
}

void on_final_report(RunStatus& status, const Fields& fields) {
  note_held_out(status, fields);
  if (auto checkpoint = text_field(fields, "checkpoint"); checkpoint && !checkpoint->empty()) status.checkpoint = std::move(checkpoint);
  status.evaluation_problem = text_field(fields, "evaluation_problem").value_or("");
  status.sample = text_field(fields, "sample").value_or("");
}

void on_started(RunJournal& journal, const Fields& fields) {
  journal.ended = false;
  if (auto before = std::exchange(journal.before_the_end, std::nullopt)) journal.status = *std::move(before);
  journal.coordinator = identity_from(fields);
  journal.guard = ProcessIdentity{static_cast<pid_t>(count_field(fields, "guard_pid").value_or(0)),
                                  count_field(fields, "guard_start_ticks").value_or(0), journal.coordinator.place};
  journal.status.coordinator_here = true;
  journal.status.coordinator_pid = count_field(fields, "pid");
  journal.status.shards = count_field(fields, "shards").value_or(1);
  if (auto run = text_field(fields, "run")) journal.status.id = std::move(*run);
  journal.status.name = text_field(fields, "name").value_or(run_name(journal.status.id));
}

void on_ended(RunJournal& journal, const Fields& fields) {
  journal.ended = true;
  auto& status = journal.status;
  // Who watched it may know better than the coordinator, which was only told to end.
  if (is_over(status.state) && status.state != RunState::Stopped) return;
  if (!is_over(status.state)) journal.before_the_end = status;
  end_early(status, text_field(fields, "reason").value_or("the coordinator was ended"));
}

void on_standing_by(RunStatus& status, const Fields& fields) {
  status.state = RunState::Standby;
  status.wait = {};
  status.coordinator_address = text_field(fields, "address");
  status.stands_by_for = text_field(fields, "for").value_or("");
}

void on_leading(RunStatus& status) {
  if (!status.stands_by_for) return;  // it leads again, or from the start
  status.took_over = true;
  status.stands_by_for.reset();
  status.state = RunState::Waiting;
}

void on_begun(RunStatus& status, const Fields& fields) {
  note_counters(status, fields);
  status.state = RunState::Training;
  set_members(status, PeerState::Training);
}

void on_ended_early(RunStatus& status, const Fields& fields) { end_early(status, text_field(fields, "reason").value_or("the run failed")); }

using RunJournalRule = JournalRule<RunJournal>;

/// Events that change the status; all others are for `logs` only.
constexpr std::array RUN_RULES{
    RunJournalRule{"process_started", on_started},
    RunJournalRule{"process_ended", on_ended},
    RunJournalRule{"coordinator_listening",
                   [](RunJournal& j, const Fields& f) { j.status.coordinator_address = text_field(f, "address"); }},
    RunJournalRule{"standing_by", [](RunJournal& j, const Fields& f) { on_standing_by(j.status, f); }},
    RunJournalRule{"leading", [](RunJournal& j, const Fields&) { on_leading(j.status); }},
    RunJournalRule{"state_founded",
                   [](RunJournal& j, const Fields& f) {
                     if (!text_field(f, "replica")) j.status.digest = text_field(f, "digest");  // else it is of a shard
                   }},
    RunJournalRule{"run_continues",
                   [](RunJournal& j, const Fields& f) {
                     j.status.outer_step = j.status.revision = count_field(f, "revision").value_or(0);
                     j.status.digest = text_field(f, "digest");
                     j.status.tokens = count_field(f, "tokens").value_or(0);
                   }},
    RunJournalRule{"shard_waits", [](RunJournal& j, const Fields& f) { on_shard_waits(j.status, f); }},
    RunJournalRule{"peer_joining", [](RunJournal& j, const Fields& f) { on_peer(j.status, PeerState::Joining, f); }},
    RunJournalRule{"peer_seated", [](RunJournal& j, const Fields& f) { on_peer(j.status, PeerState::Joining, f); }},
    RunJournalRule{"peer_fetching", [](RunJournal& j, const Fields& f) { on_peer(j.status, PeerState::Fetching, f); }},
    RunJournalRule{"peer_fetched", [](RunJournal& j, const Fields& f) { on_peer(j.status, PeerState::Joining, f); }},
    RunJournalRule{"peer_admitted",
                   [](RunJournal& j, const Fields& f) {
                     on_peer(j.status, PeerState::Training, f);
                     note_counters(j.status, f);
                   }},
    RunJournalRule{"peer_left", [](RunJournal& j, const Fields& f) { on_gone(j.status, PeerState::Left, f); }},
    RunJournalRule{"peer_lost", [](RunJournal& j, const Fields& f) { on_gone(j.status, PeerState::Lost, f); }},
    RunJournalRule{"correlated_loss",
                   [](RunJournal& j, const Fields& f) {
                     if (text_field(f, "policy") == "pause") j.status.state = RunState::Paused;
                   }},
    RunJournalRule{"pause_ended", [](RunJournal& j, const Fields&) { j.status.state = RunState::Waiting; }},
    RunJournalRule{"peer_ready", [](RunJournal& j, const Fields& f) { on_ready(j.status, f); }},
    RunJournalRule{"outer_step_begun", [](RunJournal& j, const Fields& f) { on_begun(j.status, f); }},
    RunJournalRule{"reduce_started",
                   [](RunJournal& j, const Fields& f) {
                     note_counters(j.status, f);
                     set_members(j.status, PeerState::Reducing);
                   }},
    RunJournalRule{"outer_step_aborted", [](RunJournal& j, const Fields&) { set_members(j.status, PeerState::Training); }},
    RunJournalRule{"outer_step_committed", [](RunJournal& j, const Fields& f) { on_committed(j.status, f); }},
    RunJournalRule{"lane_relayed", [](RunJournal& j, const Fields& f) { on_lane(j.status, f); }},
    RunJournalRule{"lane_direct", [](RunJournal& j, const Fields& f) { on_lane(j.status, f); }},
    RunJournalRule{"rolled_back", [](RunJournal& j, const Fields& f) { on_rolled_back(j.status, f); }},
    RunJournalRule{"waiting", [](RunJournal& j, const Fields& f) { on_waiting(j.status, f); }},
    RunJournalRule{"final_state_saved", [](RunJournal& j, const Fields& f) { on_final_state_saved(j.status, f); }},
    RunJournalRule{"final_save_failed", [](RunJournal& j, const Fields& f) { on_final_save_failed(j.status, f); }},
    RunJournalRule{"final_report", [](RunJournal& j, const Fields& f) { on_final_report(j.status, f); }},
    RunJournalRule{"run_done", [](RunJournal& j, const Fields&) { end_run(j.status, RunState::Done, "the run is done"); }},
    RunJournalRule{"run_stopped", [](RunJournal& j, const Fields& f) { on_ended_early(j.status, f); }},
    RunJournalRule{"run_failed", [](RunJournal& j, const Fields& f) { on_ended_early(j.status, f); }},
};

}  // namespace

void RunJournal::apply(const store::JournalLine& line) { apply_rules(RUN_RULES, *this, line.event, line.fields); }

}  // namespace prime::telemetry
