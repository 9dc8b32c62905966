// Owns which runs there are on this machine, and which of them a person means.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::telemetry {

/// Observers of these directories, settled: all at once, so that what one watches for, it watches for as long as all. `waits` is called
/// once, if they have to wait.
std::vector<RunObserver> observe(std::span<const std::filesystem::path> directories, const std::function<void()>& waits = {});

/// One run of this machine, as a list has it.
struct ListedRun {
  RunStatus status;
  std::filesystem::path directory;
  std::uint64_t size_bytes = 0;  ///< of its files
};
/// All below the root, the one that began last first.
std::vector<ListedRun> observe_all(const std::filesystem::path& root, const std::function<void()>& waits = {});
/// "here" when this machine has its coordinator, "peers here" when it has none; or where its processes live that only their files tell of.
std::string where_of(const RunStatus& status);

/// The run that a person means. Whatever the name leaves open, the only run that is active is meant, else the only one there is.
/// RunUnknown when there is none, or none of several is active; RunAmbiguous when several are. Both name the candidates.
Result<std::filesystem::path> select_run(const std::filesystem::path& root, const std::string& name,
                                         const std::function<void()>& waits = {});

}  // namespace prime::telemetry
