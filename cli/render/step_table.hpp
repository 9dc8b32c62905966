// Owns the table of a running `up`: one line for each committed outer step, with what happened since the last one.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/render/style.hpp"
#include "runtime/store/journal.hpp"

namespace prime::cli {

class StepTable {
 public:
  explicit StepTable(Style style) : style_(style) {}
  [[nodiscard]] std::string header() const;
  /// Takes the coordinator's next line; returns a line of the table, with line break, when an outer step was committed.
  std::optional<std::string> apply(const store::JournalLine& line);

 private:
  void on_gone(const std::string& name, bool left, const nlohmann::json& fields);
  std::string row(const nlohmann::json& fields);
  std::string note(std::size_t contributors);

  Style style_;
  bool begun_ = false;
  std::set<std::string> members_;    ///< ids
  std::size_t expected_ = 0;         ///< the most members so far, without those that left
  bool lost_ = false;                ///< a member, since the last line
  std::vector<std::string> notes_;   ///< since the last line
  std::vector<std::string> gone_;    ///< names that went since the last line
  std::vector<std::string> aborts_;  ///< reasons of aborts that no departure explains
};

}  // namespace prime::cli
