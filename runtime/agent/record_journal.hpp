// Owns the way from a Record to a line of this process's journal.
#pragma once

#include <filesystem>
#include <memory>

#include "actors/ports.hpp"
#include "runtime/store/journal.hpp"

namespace prime {

/// What becomes of a line for which the disk has no room.
enum class NoRoom : std::uint8_t {
  EndsProcess,  ///< of a coordinator: what was not recorded must not be done (law 8)
  IsKept,       ///< of a peer, which decides nothing: it holds the state, and writes the line when there is room again
};

/// A journal that is gone, or cannot be written where that matters, ends the process at once. Safe from any thread.
class RecordJournal final : public JournalPort {
 public:
  static Result<RecordJournal> open(const std::filesystem::path& path, NoRoom no_room = NoRoom::EndsProcess);
  RecordJournal(RecordJournal&&) noexcept;
  RecordJournal& operator=(RecordJournal&&) noexcept;
  ~RecordJournal() override;
  void append(const Record& record) override;

 private:
  struct Kept;
  RecordJournal(store::Journal journal, std::filesystem::path path, NoRoom no_room);
  std::unique_ptr<Kept> kept_;
};

/// The record that each process begins with: who it is, and on which machine (telemetry/process_identity).
Record process_started(const std::string& role, const std::string& run);
/// The record that each process ends with.
Record process_ended(const Result<void>& outcome);

}  // namespace prime
