// Owns the way from an event to a line of this process's journal.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>

#include "actors/ports.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/memory_kills.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime {

/// What becomes of a line for which the disk has no room.
enum class NoRoom : std::uint8_t {
  EndsProcess,  ///< of a coordinator: what was not recorded must not be done (law 8)
  IsKept,       ///< of a peer, which decides nothing: it holds the state, and writes the line when there is room again
};

/// A journal that was removed, or cannot be written where that matters, ends the process at once. Safe from any thread.
class RecordJournal final : public JournalPort {
 public:
  static Result<RecordJournal> open(const std::filesystem::path& path, NoRoom no_room = NoRoom::EndsProcess);
  RecordJournal(RecordJournal&&) noexcept;
  RecordJournal& operator=(RecordJournal&&) noexcept;
  ~RecordJournal() override;
  void append(const JournalEvent& event) override;

 private:
  struct Kept;
  RecordJournal(store::Journal journal, NoRoom no_room);
  std::unique_ptr<Kept> kept_;
};

/// The event that each process begins with: who it is, and on which machine (telemetry/process_identity).
template <class Started>
Started process_started(const std::string& role, const std::string& run) {
  const auto self = telemetry::identify(::getpid());
  Started event;
  event.pid = static_cast<std::uint32_t>(self.pid);
  event.start_ticks = self.start_ticks;
  event.boot_id = self.place.boot;
  event.pid_namespace = self.place.pid_namespace;
  event.host = self.place.host;
  const auto kills = telemetry::MemoryKills::now();
  if (!kills.group.empty()) event.memory_group = kills.group;
  event.group_kills = kills.in_group;
  event.machine_kills = kills.on_machine;
  event.role = role;
  event.run = run;
  event.protocol = PROTOCOL_VERSION;
  return event;
}
/// The event that each process ends with.
events::ProcessEnded process_ended(const Result<void>& outcome);

}  // namespace prime
