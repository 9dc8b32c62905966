#include "cli/render/step_table.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"
#include "runtime/telemetry/error_text.hpp"

namespace prime::cli {
namespace {

struct FixedColumn {
  const char* title;
  std::size_t width;
};
/// Fixed widths: a line is printed before the next one is known.
constexpr FixedColumn COLUMNS[] = {{"step", 5}, {"loss", 7}, {"held-out", 8}, {"tok/s", 7}, {"peers", 6}, {"reduce", 8}, {"wire", 9}};

/// What a contribution is of: a peer, or the replica whose peers make it together.
std::string member_of(const Who& who) { return who.replica.empty() ? to_string(who.peer) : who.replica; }

/// A replica comes and goes as a whole, and a line for each of its peers tells of it.
std::string name_of(const Who& who) { return who.replica.empty() ? who.name : who.replica; }

std::string fixed_line(const std::vector<std::string>& cells, const std::string& note) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "  " : "") + cell(cells[i], COLUMNS[i].width, Align::Right);
  return line + (note.empty() ? "" : "   " + note) + "\n";
}

}  // namespace

std::string StepTable::header() const {
  std::vector<std::string> titles;
  for (const auto& column : COLUMNS) titles.emplace_back(column.title);
  auto line = fixed_line(titles, "note");
  line.pop_back();
  return paint(style_, Role::Strong, line) + "\n";
}

std::optional<std::string> StepTable::apply(const JournalEvent& event) {
  if (std::holds_alternative<events::OuterStepBegun>(event)) begun_ = true;
  if (const auto* e = std::get_if<events::PeerAdmitted>(&event)) {
    const bool fresh = members_.insert(member_of(e->who)).second;
    expected_ = std::max(expected_, members_.size());
    if (begun_ && fresh) notes_.push_back(name_of(e->who) + " joined");
  }
  if (const auto* e = std::get_if<events::PeerLeft>(&event)) on_gone(e->who, nullptr);
  if (const auto* e = std::get_if<events::PeerLost>(&event)) on_gone(e->who, &e->reason);
  if (const auto* e = std::get_if<events::PeerLate>(&event)) note_once(name_of(e->who) + " late");
  if (const auto* e = std::get_if<events::PeerAbsent>(&event)) note_once(name_of(e->who) + " is waited for");
  if (const auto* e = std::get_if<events::PauseEnded>(&event))
    notes_.push_back("paused until " + std::to_string(e->members) + " peers were there");
  if (const auto* e = std::get_if<events::RolledBack>(&event))
    notes_.push_back("rolled back to step " + std::to_string(e->outer_step.value));
  if (const auto* e = std::get_if<events::CoordinatorRestarted>(&event))
    notes_.push_back(e->reason ? "the coordinator is back: " + *e->reason : "the coordinator was killed and is back");
  if (const auto* e = std::get_if<events::CoordinatorStoodStill>(&event))
    notes_.push_back("the coordinator stood still for " + short_time_figure(std::chrono::duration<double>(e->for_s).count()));
  if (const auto* e = std::get_if<events::OuterStepAborted>(&event))
    if (!e->because_of || !gone_.contains(*e->because_of)) aborts_.push_back(e->reason);
  const auto* done = std::get_if<events::OuterStepCommitted>(&event);
  return done != nullptr ? std::optional{row(*done)} : std::nullopt;
}

void StepTable::note_once(std::string note) {
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
}

void StepTable::on_gone(const Who& who, const Cause* lost_by) {
  const bool member = members_.erase(member_of(who)) > 0;
  gone_.insert(who.peer);
  // Of a replica the first line has told it; who waited in vain for the others of its own never was a part of the run.
  if (!member && !who.replica.empty()) return;
  std::erase(notes_, name_of(who) + " is waited for");
  if (member && lost_by == nullptr) --expected_;
  if (member && lost_by != nullptr) lost_ = true;
  notes_.push_back(name_of(who) + (lost_by == nullptr ? " left" : " lost (" + telemetry::short_reason(lost_by->text) + ")"));
}

std::string StepTable::note(std::size_t contributors) {
  if (!aborts_.empty()) {
    const auto times = aborts_.size() == 1 ? std::string{"tried again"} : "tried again " + std::to_string(aborts_.size()) + " times";
    notes_.push_back(times + " (" + telemetry::short_reason(aborts_.back()) + ")");
  }
  std::string text;  // names and reasons of other machines
  for (const auto& part : notes_) text += (text.empty() ? "" : ", ") + part;
  if (lost_) text += "; averaged " + std::to_string(contributors);
  return harmless(text);
}

std::string StepTable::row(const events::OuterStepCommitted& done) {
  const auto known = [](double figure) { return std::isfinite(figure) ? std::optional{figure} : std::nullopt; };
  const auto contributors = done.contributors.size();
  const auto text = note(contributors);
  const auto line = fixed_line({std::to_string(done.outer_step.value), loss_figure(known(done.loss)), loss_figure(done.held_out_loss),
                                rate_figure(known(done.tokens_per_s)), std::to_string(contributors) + "/" + std::to_string(expected_),
                                short_time_figure(std::chrono::duration<double>(done.reduce_s).count()), bytes_figure(done.wire_bytes)},
                               paint(style_, lost_ || !aborts_.empty() ? Role::Degraded : Role::Plain, text));
  notes_.clear();
  gone_.clear();
  aborts_.clear();
  lost_ = false;
  return line;
}

}  // namespace prime::cli
