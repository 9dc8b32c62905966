#include "runtime/telemetry/journal_watch.hpp"

#include <array>
#include <sys/inotify.h>
#include <unistd.h>

namespace prime::telemetry {
namespace fs = std::filesystem;

JournalWatch::JournalWatch(fs::path run_directory)
    : directory_(std::move(run_directory)), inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  rearm();
}

void JournalWatch::add(const fs::path& directory) {
  ::inotify_add_watch(inotify_.get(), directory.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);  // repeated: no change
}

void JournalWatch::rearm() {
  std::array<char, 16 * 1024> events{};
  while (::read(inotify_.get(), events.data(), events.size()) > 0) {
  }
  add(directory_);
  add(directory_ / "coordinator");
  add(directory_ / "peers");
  std::error_code ignored;
  for (fs::directory_iterator entry{directory_ / "peers", ignored}, end; entry != end; entry.increment(ignored)) add(entry->path());
}

}  // namespace prime::telemetry
