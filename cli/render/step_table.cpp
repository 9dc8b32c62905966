#include "cli/render/step_table.hpp"

#include <algorithm>
#include <array>
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
  unsigned drop;  ///< as Column::drop
};
/// Fixed widths: a line is printed before the next one is known.
constexpr std::array COLUMNS{FixedColumn{"step", 5, 0},  FixedColumn{"loss", 7, 0},  FixedColumn{"held-out", 8, 0},
                             FixedColumn{"tok/s", 7, 2}, FixedColumn{"peers", 6, 1}, FixedColumn{"reduce", 8, 3},
                             FixedColumn{"wire", 9, 4}};
constexpr std::string_view NOTE_GAP = "   ";

/// What a contribution is of: a peer, or the replica whose peers make it together.
std::string member_of(const Who& who) { return who.replica.empty() ? to_string(who.peer) : who.replica; }

/// A replica comes and goes as a whole, and a line for each of its peers tells of it.
std::string name_of(const Who& who) { return who.replica.empty() ? who.name : who.replica; }

/// Which columns leave room for a note.
std::vector<std::size_t> shown_at(std::size_t width) {
  std::vector<Column> columns;
  std::vector<std::size_t> widths;
  for (const auto& column : COLUMNS) {
    columns.push_back({column.title, Align::Right, column.drop});
    widths.push_back(column.width);
  }
  columns.push_back({"note"});
  widths.push_back(NOTE_GAP.size() + width);
  auto shown = kept_columns(columns, widths, width);
  shown.pop_back();
  return shown;
}

}  // namespace

StepTable::StepTable(Style style) : style_(style), shown_(shown_at(style.width)) {}

std::string StepTable::line(const std::vector<std::string>& cells, const std::string& note, Role role) const {
  std::string text;
  for (const auto i : shown_) text += (i > shown_.front() ? "  " : "") + cell(cells.at(i), COLUMNS.at(i).width, Align::Right);
  if (note.empty()) return text + "\n";
  const auto before = text.size() + NOTE_GAP.size();
  const auto left = style_.width - std::min(style_.width, before);
  return text + std::string{NOTE_GAP} + paint(style_, role, style_.width > 0 ? cut(note, left) : note) + "\n";
}

std::string StepTable::header() const {
  std::vector<std::string> titles;
  for (const auto& column : COLUMNS) titles.emplace_back(column.title);
  auto text = line(titles, "note", Role::Plain);
  text.pop_back();
  return paint(style_, Role::Strong, text) + "\n";
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
  if (const auto* e = std::get_if<events::FinalReport>(&event); e != nullptr && e->held_out_loss)
    return evaluated(last_, *e->held_out_loss);
  const auto* done = std::get_if<events::OuterStepCommitted>(&event);
  if (done == nullptr) return std::nullopt;
  last_ = done->outer_step.value;
  // Its trainers evaluated what they began with.
  const bool found = done->held_out_loss && last_ > 0;
  return (found ? evaluated(last_ - 1, *done->held_out_loss) : std::string{}) + row(*done);
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
  const bool refused = !member && lost_by != nullptr && telemetry::is_refusal(*lost_by);
  const std::string how = refused ? " refused (" : " lost (";
  notes_.push_back(name_of(who) + (lost_by == nullptr ? " left" : how + telemetry::short_reason(lost_by->text) + ")"));
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

std::string StepTable::evaluated(std::uint64_t step, double loss) const {
  std::vector<std::string> cells(COLUMNS.size(), UNKNOWN);
  cells[0] = std::to_string(step);
  cells[2] = loss_figure(loss);
  return line(cells, {}, Role::Plain);
}

std::string StepTable::row(const events::OuterStepCommitted& done) {
  const auto known = [](double figure) { return std::isfinite(figure) ? std::optional{figure} : std::nullopt; };
  const auto contributors = done.contributors.size();
  const auto text = note(contributors);
  auto shown = line({std::to_string(done.outer_step.value), loss_figure(known(done.loss)), UNKNOWN, rate_figure(known(done.tokens_per_s)),
                     std::to_string(contributors) + "/" + std::to_string(expected_),
                     short_time_figure(std::chrono::duration<double>(done.reduce_s).count()), bytes_figure(done.wire_bytes)},
                    text, lost_ || !aborts_.empty() ? Role::Degraded : Role::Plain);
  notes_.clear();
  gone_.clear();
  aborts_.clear();
  lost_ = false;
  return shown;
}

}  // namespace prime::cli
