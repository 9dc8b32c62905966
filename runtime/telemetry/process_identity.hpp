// Owns who a process is: its number, its start time, and the place where both mean something. A number that was used again fools nobody,
// nor does the same number on another machine that sees the same files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>

namespace prime::telemetry {

/// A PID namespace of one start of one kernel. Only there can a process be looked up, or be sent a signal.
struct Place {
  std::string boot;                 ///< the kernel's id of itself, random at each start of each machine; empty: the place is not known
  std::uint64_t pid_namespace = 0;  ///< its inode
  std::string host;                 ///< the host's name, for people alone: containers and copies may share it
  [[nodiscard]] bool known() const { return !boot.empty(); }
  friend bool operator==(const Place&, const Place&) = default;
};

/// Of this process.
const Place& here();
inline bool is_here(const Place& place) { return place.boot == here().boot && place.pid_namespace == here().pid_namespace; }

struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat
  Place place = {};               ///< not known where an older version told of the process
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Of a process of this PID namespace; start_ticks is 0 when it is gone.
ProcessIdentity identify(pid_t pid);
/// Empty when there is no such process here, or only what its parent has not reaped yet.
std::optional<std::uint64_t> start_ticks(pid_t pid);
/// Here. Of a process elsewhere it is false, whatever has its number here.
bool is_alive(const ProcessIdentity& process);

/// Of the first event of a journal.
template <class Started>
ProcessIdentity identity_of(const Started& event) {
  return {static_cast<pid_t>(event.pid),
          event.start_ticks,
          {event.boot_id.value_or(""), event.pid_namespace.value_or(0), event.host.value_or("")}};
}

/// The words of a lock file: pid, start_ticks, boot_id, pid_namespace, host.
nlohmann::json to_json(const ProcessIdentity& process);
/// What is missing, or no such value, stays empty.
ProcessIdentity identity_from(const nlohmann::json& fields);

/// For people, where a process lives that is not here: "on `node7`".
std::string place_text(const Place& place);

}  // namespace prime::telemetry
