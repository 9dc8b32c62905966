// Owns the way from a Record to a line of this process's journal.
#pragma once

#include <filesystem>

#include "actors/ports.hpp"
#include "runtime/store/journal.hpp"

namespace prime {

/// A journal that cannot be written ends the process at once: what was not recorded must not be done (law 8).
class RecordJournal final : public JournalPort {
 public:
  static Result<RecordJournal> open(const std::filesystem::path& path);
  void append(const Record& record) override;

 private:
  explicit RecordJournal(store::Journal journal) : journal_(std::move(journal)) {}
  store::Journal journal_;
};

/// The record that each process begins with; pid and start time together name a process even when pids are used again.
Record process_started(const std::string& role, const std::string& run);
/// The record that each process ends with.
Record process_ended(const Result<void>& outcome);

}  // namespace prime
