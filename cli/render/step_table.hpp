// Owns the table of a running `up`: one line for each committed outer step, with what happened since the last one.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/render/style.hpp"
#include "messages/events.hpp"

namespace prime::cli {

class StepTable {
 public:
  explicit StepTable(Style style) : style_(style) {}
  [[nodiscard]] std::string header() const;
  /// Takes the coordinator's next event; returns a line of the table, with line break, when an outer step was committed.
  std::optional<std::string> apply(const JournalEvent& event);

 private:
  void on_gone(const Who& who, const Cause* lost_by);
  /// What an outer step that is tried again would tell again.
  void note_once(std::string note);
  std::string row(const events::OuterStepCommitted& done);
  std::string note(std::size_t contributors);

  Style style_;
  bool begun_ = false;
  std::set<std::string> members_;    ///< peers by id, or replicas by name
  std::size_t expected_ = 0;         ///< the most members so far, without those that left
  bool lost_ = false;                ///< a member, since the last line
  std::vector<std::string> notes_;   ///< since the last line
  std::set<PeerId> gone_;            ///< who went since the last line
  std::vector<std::string> aborts_;  ///< reasons of aborts that no departure explains
};

}  // namespace prime::cli
