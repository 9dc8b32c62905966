#include "runtime/telemetry/peer_journal.hpp"

#include <array>
#include <string_view>

#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/journal_fields.hpp"

namespace prime::telemetry {
namespace {

using Fields = nlohmann::json;

void on_started(PeerJournal& journal, const Fields& fields) {
  journal.agent = identity_from(fields);
  journal.status.pid = count_field(fields, "pid");
  journal.run = text_field(fields, "run").value_or("");
  journal.instead_of = text_field(fields, "instead_of").value_or("");
  journal.ended = false;
  journal.status.id = text_field(fields, "peer").value_or("");
  journal.status.name = text_field(fields, "name").value_or("");
  journal.status.replica = text_field(fields, "replica").value_or("");
  journal.status.shard = count_field(fields, "shard").value_or(0);
}

void on_committed(PeerJournal& journal, const Fields& fields) {
  journal.status.state = PeerState::Training;
  journal.status.outer_step = count_field(fields, "outer_step");
  journal.status.digest = text_field(fields, "digest");
}

void on_fetched(PeerJournal& journal, const Fields& fields) {
  journal.status.state = PeerState::Joining;
  journal.status.outer_step = count_field(fields, "revision");
  journal.status.digest = text_field(fields, "digest");
}

void on_trainer(PeerJournal& journal, const Fields& fields) {
  journal.status.trainer_pid = count_field(fields, "trainer_pid");
  journal.status.reason.clear();
}

void on_trainer_restarting(PeerJournal& journal, const Fields& fields) {
  journal.status.trainer_pid.reset();
  journal.status.reason = "the trainer is started again: " + text_field(fields, "reason").value_or("");
}

/// Without a reason it left, and with its run when that is stopped; with another one it was lost.
PeerState state_after(const std::optional<std::string>& reason) { return reason && !is_stop(*reason) ? PeerState::Lost : PeerState::Left; }

void on_saving(PeerJournal& journal, const Fields& fields) {
  journal.saving = true;
  journal.status.state = PeerState::Saving;
  journal.status.reason = "saves what it holds: " + text_field(fields, "reason").value_or("");
}

void on_peer_ended(PeerJournal& journal, const Fields& fields) {
  journal.saving = false;
  const auto reason = text_field(fields, "reason");
  journal.status.state = state_after(reason);
  journal.status.reason = reason.value_or(journal.run_done ? "the run is done" : "left");
}

void on_coordinator_lost(PeerJournal& journal, const Fields& fields) {
  journal.absence = {"the coordinator: " + text_field(fields, "reason").value_or("no reason"), time_field(fields, 0.0),
                     time_field(fields, real_field(fields, "gives_up_after_s"))};
}

void on_ended(PeerJournal& journal, const Fields& fields) {
  journal.ended = true;
  journal.exit_code = count_field(fields, "exit_code");
  if (is_gone(journal.status.state)) return;
  const auto reason = text_field(fields, "reason");
  journal.status.state = state_after(reason);
  journal.status.reason = reason.value_or("left");
}

using PeerJournalRule = JournalRule<PeerJournal>;

constexpr std::array PEER_RULES{
    PeerJournalRule{"process_started", on_started},
    PeerJournalRule{"process_ended", on_ended},
    PeerJournalRule{"trainer_bound", on_trainer},
    PeerJournalRule{"trainer_restarting", on_trainer_restarting},
    PeerJournalRule{"state_fetching", [](PeerJournal& j, const Fields&) { j.status.state = PeerState::Fetching; }},
    PeerJournalRule{"state_fetched", on_fetched},
    PeerJournalRule{"outer_step_begun", [](PeerJournal& j, const Fields&) { j.status.state = PeerState::Training; }},
    PeerJournalRule{"reduce_started", [](PeerJournal& j, const Fields&) { j.status.state = PeerState::Reducing; }},
    PeerJournalRule{"outer_step_aborted", [](PeerJournal& j, const Fields&) { j.status.state = PeerState::Training; }},
    PeerJournalRule{"outer_step_committed", on_committed},
    PeerJournalRule{"run_done", [](PeerJournal& j, const Fields&) { j.run_done = true; }},
    PeerJournalRule{"checkpoint_written",
                    [](PeerJournal& j, const Fields& f) {
                      j.checkpoint = text_field(f, "path");
                      j.problem.reset();
                    }},
    PeerJournalRule{"checkpoint_failed", [](PeerJournal& j, const Fields& f) { j.problem = text_field(f, "reason"); }},
    PeerJournalRule{"state_saving", on_saving},
    PeerJournalRule{"coordinator_lost", on_coordinator_lost},
    PeerJournalRule{"shard_waits", [](PeerJournal& j, const Fields& f) { j.lacks = text_field(f, "missing").value_or(""); }},
    PeerJournalRule{"replica_whole", [](PeerJournal& j, const Fields&) { j.lacks.clear(); }},
    PeerJournalRule{"coordinator_back", [](PeerJournal& j, const Fields&) { j.absence.reset(); }},
    PeerJournalRule{"peer_ended", on_peer_ended},
};

}  // namespace

void PeerJournal::apply(const store::JournalLine& line) { apply_rules(PEER_RULES, *this, line.event, line.fields); }

}  // namespace prime::telemetry
