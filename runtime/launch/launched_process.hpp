// Owns one process that primectl starts: detached from the terminal from its first moment, its streams in a log, its readiness on a pipe.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/store/file_io.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime::launch {

/// The descriptor by which a started process says that it is ready.
inline constexpr int READY_DESCRIPTOR = 3;

struct ProcessPlan {
  std::vector<std::string> arguments;  ///< the program first; READY_DESCRIPTOR is told by the caller
  std::string input;                   ///< its stdin
  std::filesystem::path log;           ///< its stdout and stderr, appended
};

/// A child of this process. It outlives this object; whoever wants it gone says so (stop_processes.hpp).
class LaunchedProcess {
 public:
  static Result<LaunchedProcess> start(const ProcessPlan& plan);

  /// Blocks for the line on its pipe. When it closes the pipe without one: the last error that it printed, else ProcessFailed with the
  /// end of its log. DeadlineExceeded after `limit`, Interrupted when `interrupt` becomes readable (-1: never).
  Result<nlohmann::json> readiness(Duration limit, int interrupt);

  /// The last error that it printed into its log, such as the cause of its end.
  [[nodiscard]] std::optional<Error> last_error() const;

  /// The process goes on writing the same file under the new name. Best effort: a log is worth no failure.
  void move_log(const std::filesystem::path& path);

  [[nodiscard]] pid_t pid() const { return identity_.pid; }
  [[nodiscard]] const telemetry::ProcessIdentity& identity() const { return identity_; }
  /// Readable once it has ended.
  [[nodiscard]] int pid_descriptor() const { return pid_descriptor_.get(); }
  /// Its wait status, once it has ended.
  std::optional<int> reap();

 private:
  LaunchedProcess() = default;
  [[nodiscard]] std::string how_it_ended();
  telemetry::ProcessIdentity identity_;
  std::filesystem::path log_;
  std::uint64_t log_start_ = 0;  ///< where this process's part of the log begins
  store::Descriptor pid_descriptor_;
  store::Descriptor ready_;
  std::optional<int> status_;
};

/// "exit status 3", "killed by SIGKILL".
std::string describe_wait_status(int status);

}  // namespace prime::launch
