#include "runtime/telemetry/run_choice.hpp"

#include <algorithm>
#include <thread>

#include "runtime/telemetry/run_files.hpp"

namespace prime::telemetry {
namespace fs = std::filesystem;
namespace {

/// More than a person reads; `primectl ls` has them all.
constexpr std::size_t SHOWN_CANDIDATES = 8;

std::vector<ListedRun> newest_first(std::span<const fs::path> directories, const std::function<void()>& waits) {
  std::vector<ListedRun> runs;
  for (const auto& observer : observe(directories, waits)) runs.push_back({observer.status(), observer.directory()});
  std::ranges::sort(runs, [](const ListedRun& a, const ListedRun& b) {
    return a.status.begun != b.status.begun ? a.status.begun > b.status.begun : a.directory < b.directory;
  });
  return runs;
}

std::string names_of(std::span<const ListedRun> runs) {
  std::string names;
  for (const auto& run : runs.first(std::min(runs.size(), SHOWN_CANDIDATES)))
    names += (names.empty() ? "" : ", ") + run.directory.filename().string();
  if (runs.size() > SHOWN_CANDIDATES) names += " and " + std::to_string(runs.size() - SHOWN_CANDIDATES) + " more";
  return names;
}

}  // namespace

std::vector<RunObserver> observe(std::span<const fs::path> directories, const std::function<void()>& waits) {
  std::vector<RunObserver> observers;
  for (const auto& directory : directories) observers.emplace_back(directory);
  for (auto& observer : observers) observer.update();
  const auto settled = [](const RunObserver& observer) { return observer.settled(); };
  if (waits && !std::ranges::all_of(observers, settled)) waits();
  while (!std::ranges::all_of(observers, settled)) {
    std::this_thread::sleep_for(LOOK_EVERY);
    for (auto& observer : observers)
      if (!observer.settled()) observer.update();
  }
  return observers;
}

std::vector<ListedRun> observe_all(const fs::path& root, const std::function<void()>& waits) {
  auto runs = newest_first(list_runs(root), waits);
  for (auto& run : runs) run.size_bytes = size_of_files(run.directory);
  return runs;
}

std::string where_of(const RunStatus& status) {
  if (status.elsewhere.empty()) return status.coordinator_here ? "here" : "peers here";
  std::string places;
  for (const auto& there : status.elsewhere) places += (places.empty() ? "" : ", ") + there.place;
  return places;
}

Result<fs::path> select_run(const fs::path& root, const std::string& name, const std::function<void()>& waits) {
  const auto candidates = name.empty() ? list_runs(root) : runs_called(root, name);
  if (candidates.size() == 1) return candidates.front();
  const auto called = name.empty() ? std::string{} : "`" + name + "`";
  if (candidates.empty()) return fail(unknown_run(root, name));
  const auto runs = newest_first(candidates, waits);
  std::vector<ListedRun> active;
  std::ranges::copy_if(runs, std::back_inserter(active), [](const ListedRun& run) { return !is_over(run.status.state); });
  if (active.size() == 1) return active.front().directory;
  const auto which = called.empty() ? std::string{} : called + ": ";
  if (active.empty()) return fail(ErrorName::RunUnknown, which + "none is active; those that have ended: " + names_of(runs));
  return fail(ErrorName::RunAmbiguous, which + names_of(active));
}

}  // namespace prime::telemetry
