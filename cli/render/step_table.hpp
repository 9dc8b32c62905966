// Owns the table of a running `up`: one line for each committed outer step, with what happened since the last one, and one for each
// held-out loss, which is known a step later than the state that it is of.
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
  /// On a terminal as many columns as fit beside a note, which is cut to what is left.
  explicit StepTable(Style style);
  [[nodiscard]] std::string header() const;
  /// Takes the coordinator's next event; returns lines of the table, each with its line break, when an outer step was committed or a
  /// held-out loss is known.
  std::optional<std::string> apply(const JournalEvent& event);

 private:
  void on_gone(const Who& who, const Cause* lost_by);
  /// What an outer step that is tried again would tell again.
  void note_once(std::string note);
  [[nodiscard]] std::string line(const std::vector<std::string>& cells, const std::string& note, Role role) const;
  [[nodiscard]] std::string evaluated(std::uint64_t step, double loss) const;
  std::string row(const events::OuterStepCommitted& done);
  std::string note(std::size_t contributors);

  Style style_;
  std::vector<std::size_t> shown_;  ///< which columns
  std::uint64_t last_ = 0;          ///< committed outer step
  bool begun_ = false;
  std::set<std::string> members_;    ///< peers by id, or replicas by name
  std::size_t expected_ = 0;         ///< the most members so far, without those that left
  bool lost_ = false;                ///< a member, since the last line
  std::vector<std::string> notes_;   ///< since the last line
  std::set<PeerId> gone_;            ///< who went since the last line
  std::vector<std::string> aborts_;  ///< reasons of aborts that no departure explains
};

}  // namespace prime::cli
