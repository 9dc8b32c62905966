// Owns the wait for journals to grow: one descriptor that becomes readable when anything in a run's directory changes.
#pragma once

#include <filesystem>

#include "runtime/store/file_io.hpp"

namespace prime::telemetry {

class JournalWatch {
 public:
  /// Also watches what is not there yet, as soon as it is. On file systems that tell nothing, the descriptor stays silent:
  /// whoever waits uses a time limit too.
  explicit JournalWatch(std::filesystem::path run_directory);
  [[nodiscard]] int descriptor() const { return inotify_.get(); }
  /// Forgets the changes so far and looks for new directories. Call before reading the journals, so that nothing is missed.
  void rearm();

 private:
  void add(const std::filesystem::path& directory);
  std::filesystem::path directory_;
  store::Descriptor inotify_;
};

}  // namespace prime::telemetry
