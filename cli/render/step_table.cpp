#include "cli/render/step_table.hpp"

#include <algorithm>

#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/journal_fields.hpp"

namespace prime::cli {
namespace {

using telemetry::count_field;
using telemetry::real_field;
using telemetry::text_field;

struct FixedColumn {
  const char* title;
  std::size_t width;
};
/// Fixed widths: a line is printed before the next one is known.
constexpr FixedColumn COLUMNS[] = {{"step", 5}, {"loss", 7}, {"held-out", 8}, {"tok/s", 7}, {"peers", 6}, {"reduce", 8}, {"wire", 9}};

/// What a contribution is of: a peer, or the replica whose peers make it together.
std::string member_of(const nlohmann::json& fields) {
  return text_field(fields, "replica").value_or(text_field(fields, "peer").value_or(text_field(fields, "name").value_or("")));
}

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

std::optional<std::string> StepTable::apply(const store::JournalLine& line) {
  const auto& fields = line.fields;
  // A replica comes and goes as a whole, and a line for each of its peers tells of it.
  const auto replica = text_field(fields, "replica");
  const auto name = replica ? *replica : text_field(fields, "name").value_or("a peer");
  if (line.event == "outer_step_begun") begun_ = true;
  if (line.event == "peer_admitted") {
    const bool fresh = members_.insert(member_of(fields)).second;
    expected_ = std::max(expected_, members_.size());
    if (begun_ && fresh) notes_.push_back(name + " joined");
  }
  if (line.event == "peer_left" || line.event == "peer_lost") on_gone(name, line.event == "peer_left", fields);
  // An outer step that is tried again tells of it again.
  if (auto late = name + " late"; line.event == "peer_late" && std::find(notes_.begin(), notes_.end(), late) == notes_.end())
    notes_.push_back(std::move(late));
  if (auto absent = name + " is waited for"; line.event == "peer_absent" && std::find(notes_.begin(), notes_.end(), absent) == notes_.end())
    notes_.push_back(std::move(absent));
  if (line.event == "pause_ended")
    notes_.push_back("paused until " + std::to_string(count_field(fields, "members").value_or(0)) + " peers were there");
  if (line.event == "rolled_back") notes_.push_back("rolled back to step " + std::to_string(count_field(fields, "outer_step").value_or(0)));
  if (line.event == "coordinator_restarted") notes_.emplace_back("the coordinator was killed and is back");
  if (line.event == "outer_step_aborted") {
    const auto reason = text_field(fields, "reason").value_or("no reason");
    const bool explained = std::any_of(gone_.begin(), gone_.end(), [&](const std::string& who) { return reason.starts_with(who + " "); });
    if (!explained) aborts_.push_back(reason);
  }
  if (line.event != "outer_step_committed") return std::nullopt;
  return row(fields);
}

void StepTable::on_gone(const std::string& name, bool left, const nlohmann::json& fields) {
  const bool member = members_.erase(member_of(fields)) > 0;
  // Of a replica the first line has told it; who waited in vain for the others of its own never was a part of the run.
  if (!member && text_field(fields, "replica")) return;
  if (member && left) --expected_;
  if (member && !left) lost_ = true;
  gone_.push_back(name);
  notes_.push_back(left ? name + " left"
                        : name + " lost (" + telemetry::short_reason(text_field(fields, "reason").value_or("no reason")) + ")");
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

std::string StepTable::row(const nlohmann::json& fields) {
  const auto list = fields.find("contributors");
  const auto contributors = list != fields.end() && list->is_array() ? list->size() : 0;
  const auto text = note(contributors);
  const auto line = fixed_line({std::to_string(count_field(fields, "outer_step").value_or(0)), loss_figure(real_field(fields, "loss")),
                                loss_figure(real_field(fields, "held_out_loss")), rate_figure(real_field(fields, "tokens_per_s")),
                                std::to_string(contributors) + "/" + std::to_string(expected_),
                                short_time_figure(real_field(fields, "reduce_s")), bytes_figure(count_field(fields, "wire_bytes"))},
                               paint(style_, lost_ || !aborts_.empty() ? Role::Degraded : Role::Plain, text));
  notes_.clear();
  gone_.clear();
  aborts_.clear();
  lost_ = false;
  return line;
}

}  // namespace prime::cli
