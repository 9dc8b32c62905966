#include "runtime/telemetry/run_files.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sys/statvfs.h>

#include "runtime/store/file_io.hpp"

namespace prime::telemetry {
namespace fs = std::filesystem;
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<fs::path> directories_of(const fs::path& parent) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator entry{parent, ignored}, end; entry != end; entry.increment(ignored))
    if (entry->is_directory(ignored)) found.push_back(entry->path());
  std::sort(found.begin(), found.end());
  return found;
}

/// Without a slash at its end, so that it has a last part.
fs::path absolute(std::string_view name) {
  std::error_code ignored;
  auto path = fs::absolute(name, ignored).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// As start_run draws them: a name and six letters or digits.
bool is_named_as_runs_are(std::string_view name) {
  constexpr std::size_t DRAWN = 6;
  const auto dash = name.rfind('-');
  return dash != std::string_view::npos && name.size() - dash - 1 == DRAWN;
}

bool may_not_be_read(const fs::path& directory) {
  std::error_code error;
  const fs::directory_iterator entries{directory, error};
  return error == std::errc::permission_denied;
}

}  // namespace

Result<fs::path> state_root(const std::string& chosen) {
  std::error_code ignored;
  // Absolute, because the processes of a run keep it while they work elsewhere.
  if (const auto root = absolute(chosen); !chosen.empty()) {
    if (!is_run(root)) return root;
    return fail(ErrorName::Usage, "`--state-dir " + chosen + "` is the directory of one run: leave off its last part, `--state-dir " +
                                      root.parent_path().string() + "`");
  }
  if (const auto xdg = from_environment("XDG_STATE_HOME"); !xdg.empty()) return fs::absolute(fs::path{xdg} / "primectl", ignored);
  if (const auto home = from_environment("HOME"); !home.empty()) return fs::path{home} / ".local" / "state" / "primectl";
  return fail(ErrorName::Usage, "neither --state-dir nor XDG_STATE_HOME nor HOME is set");
}

bool is_gone(const fs::path& directory) {
  std::error_code ignored;
  return fs::status(directory, ignored).type() == fs::file_type::not_found;
}

Error state_gone(const fs::path& directory) {
  return Error{ErrorName::StorageFailed, "the state directory is gone: " + directory.string()};
}

Result<fs::path> existing_state_root(const std::string& chosen) {
  PRIME_TRY(auto root, state_root(chosen));
  std::error_code error;
  const fs::directory_iterator entries{root, error};
  const bool absent = error == std::errc::no_such_file_or_directory;
  if (absent && !chosen.empty())
    return fail(ErrorName::StorageFailed, "the state directory is gone, or no run was ever started with it: " + root.string());
  if (error && !absent) return fail(store::storage_error("read", root, error.value()));  // where nothing ever ran there are no runs
  if (!chosen.empty() && list_runs(root).empty() && !list_runs(root / "primectl").empty())
    return fail(ErrorName::Usage, "no run has its files in " + root.string() +
                                      " itself; those in its folder `primectl` are meant by `--state-dir " + (root / "primectl").string() +
                                      "`");
  return root;
}

bool has_no_room(const fs::path& directory) {
  constexpr std::uint64_t LINE_BYTES = 4096;
  struct statvfs there {};
  if (::statvfs(directory.c_str(), &there) != 0 || there.f_blocks == 0) return false;  // what has no blocks counts none
  return std::uint64_t{there.f_bavail} * there.f_frsize < LINE_BYTES;
}

fs::path coordinator_journal(const fs::path& run_directory) { return run_directory / "coordinator" / "journal.jsonl"; }

std::vector<fs::path> peer_journals(const fs::path& run_directory) {
  std::vector<fs::path> journals;
  std::error_code ignored;
  for (const auto& directory : directories_of(run_directory / "peers"))
    if (auto journal = directory / "journal.jsonl"; fs::exists(journal, ignored)) journals.push_back(std::move(journal));
  return journals;
}

bool is_run(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(coordinator_journal(directory), ignored) || !peer_journals(directory).empty();
}

std::string unreadable_runs(const fs::path& root, std::string_view name) {
  std::string names;
  std::size_t count = 0;
  for (const auto& directory : directories_of(root)) {
    const auto run = directory.filename().string();
    if (!run.starts_with(name) || !is_named_as_runs_are(run) || !may_not_be_read(directory)) continue;
    names += (count++ == 0 ? "" : ", ") + run;
  }
  return count == 0 ? "" : std::to_string(count) + (count == 1 ? " run" : " runs") + " that you may not read: " + names + "; try sudo";
}

std::vector<fs::path> list_runs(const fs::path& root) {
  auto runs = directories_of(root);
  std::erase_if(runs, [](const fs::path& directory) { return !is_run(directory); });
  return runs;
}

std::vector<fs::path> runs_called(const fs::path& root, std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    const auto path = absolute(name);
    return is_run(path) ? std::vector{path} : std::vector<fs::path>{};
  }
  auto runs = list_runs(root);
  if (const auto exact = std::ranges::find(runs, name, &fs::path::filename); exact != runs.end()) return {*exact};
  std::erase_if(runs, [&](const fs::path& run) { return !run.filename().string().starts_with(name); });
  return runs;
}

Error unknown_run(const fs::path& root, std::string_view name) {
  if (name.find('/') != std::string_view::npos)
    return Error{ErrorName::RunUnknown, "`" + std::string{name} + "` is a path, and no run has its files there"};
  const auto closed = unreadable_runs(root, name);
  return Error{ErrorName::RunUnknown, (name.empty() ? std::string{"none"} : "`" + std::string{name} + "`") + " in " + root.string() +
                                          (closed.empty() ? "" : "; there is " + closed)};
}

Result<fs::path> find_run(const fs::path& root, std::string_view name) {
  const auto matches = runs_called(root, name);
  if (matches.size() == 1) return matches.front();
  if (matches.empty()) return fail(unknown_run(root, name));
  std::string ids;
  for (const auto& match : matches) ids += (ids.empty() ? "" : ", ") + match.filename().string();
  return fail(ErrorName::RunAmbiguous, "`" + std::string{name} + "`: " + ids);
}

std::uint64_t size_of_files(const fs::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry{directory, ignored}, end; entry != end; entry.increment(ignored)) {
    std::error_code error;
    if (!entry->is_regular_file(error) || entry->is_symlink(error)) continue;
    if (const auto size = entry->file_size(error); !error) bytes += size;
  }
  return bytes;
}

std::optional<fs::file_time_type> last_written(const fs::path& run_directory) {
  auto journals = peer_journals(run_directory);
  journals.push_back(coordinator_journal(run_directory));
  std::optional<fs::file_time_type> last;
  for (const auto& journal : journals) {
    std::error_code error;
    const auto written = fs::last_write_time(journal, error);
    if (!error && (!last || written > *last)) last = written;
  }
  return last;
}

}  // namespace prime::telemetry
