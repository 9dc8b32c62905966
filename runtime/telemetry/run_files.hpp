// Owns where runs keep their files on this machine, and how a run is found by what a person types.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace prime::telemetry {

/// `chosen`, else $XDG_STATE_HOME/primectl, else ~/.local/state/primectl. Usage when none of them is set.
Result<std::filesystem::path> state_root(const std::string& chosen);

std::filesystem::path coordinator_journal(const std::filesystem::path& run_directory);
/// Of all peers that ever ran here, in the order of their directories' names.
std::vector<std::filesystem::path> peer_journals(const std::filesystem::path& run_directory);

/// The run directories below the root, by name.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& root);
/// The one whose id is `name`, or begins with it. RunUnknown, or RunAmbiguous with the ids that match.
Result<std::filesystem::path> find_run(const std::filesystem::path& root, std::string_view name);

}  // namespace prime::telemetry
