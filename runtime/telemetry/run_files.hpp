// Owns where runs keep their files on this machine, and how a run is found by what a person types.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace prime::telemetry {

/// `chosen`, else $XDG_STATE_HOME/primectl, else ~/.local/state/primectl. Usage when none of them is set, or `chosen` is a run's directory.
Result<std::filesystem::path> state_root(const std::string& chosen);

/// The same for commands that only read: StorageFailed when it cannot be read, or was named and is not there; Usage when it was named,
/// has no runs, and its folder `primectl` has some.
Result<std::filesystem::path> existing_state_root(const std::string& chosen);
/// Of a directory that vanished while somebody needed it.
bool is_gone(const std::filesystem::path& directory);
Error state_gone(const std::filesystem::path& directory);

/// Whether the file system of this directory has no room for a line of a journal.
bool has_no_room(const std::filesystem::path& directory);

std::filesystem::path coordinator_journal(const std::filesystem::path& run_directory);
/// Of all peers that ever ran here, in the order of their directories' names.
std::vector<std::filesystem::path> peer_journals(const std::filesystem::path& run_directory);

/// Whether it has the journals of a run.
bool is_run(const std::filesystem::path& directory);
/// "1 run that you may not read: small-aaaaaa; try sudo", of those below the root whose names begin so; empty when there is none.
std::string unreadable_runs(const std::filesystem::path& root, std::string_view name = {});
/// The run directories below the root, by name.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& root);
/// Those that a person may mean: the one whose id is `name`, else all whose ids begin with it. A name with a `/` is a run's own directory,
/// wherever that is.
std::vector<std::filesystem::path> runs_called(const std::filesystem::path& root, std::string_view name);
/// RunUnknown: none is called so, or, of an empty name, there is none at all.
Error unknown_run(const std::filesystem::path& root, std::string_view name);
/// The one whose id is `name`, or begins with it. RunUnknown, or RunAmbiguous with the ids that match.
Result<std::filesystem::path> find_run(const std::filesystem::path& root, std::string_view name);

/// Of all files below it, as they are read; what cannot be looked at counts as nothing.
std::uint64_t size_of_files(const std::filesystem::path& directory);
/// When a process of the run last wrote a line in its journal here, by the clock of the file system.
std::optional<std::filesystem::file_time_type> last_written(const std::filesystem::path& run_directory);

}  // namespace prime::telemetry
