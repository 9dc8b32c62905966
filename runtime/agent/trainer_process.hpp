// Owns one child process of the agent: its start, its end, and the words for how it ended.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "messages/result.hpp"
#include "runtime/session/shared_memory.hpp"

namespace prime {

struct ProcessCommand {
  std::vector<std::string> arguments;    ///< the program first; looked up in PATH
  std::vector<std::string> environment;  ///< "NAME=value", added to our own
  std::string log_path;                  ///< stdout and stderr are appended here
};

struct ProcessEnd {
  int status = 0;  ///< as waitpid tells it
  [[nodiscard]] bool succeeded() const { return status == 0; }
  /// By itself, or as a shell tells it of what it started.
  [[nodiscard]] bool killed_by(int signal) const;
};
/// "exit status 3", "killed by SIGKILL (Killed)".
std::string to_string(const ProcessEnd& end);

class ChildProcess {
 public:
  /// The child leads a process group, and is killed when the calling thread ends: call from a thread that outlives it.
  static Result<ChildProcess> start(const ProcessCommand& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills and reaps.
  ~ChildProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Readable once the process has ended.
  [[nodiscard]] int pid_descriptor() const { return pid_descriptor_.number(); }
  /// To the whole group.
  void signal(int number) const;
  /// The end, if it has come; what it left running in its group is killed.
  std::optional<ProcessEnd> reap();

 private:
  ChildProcess(pid_t pid, Descriptor pid_descriptor) : pid_(pid), pid_descriptor_(std::move(pid_descriptor)) {}
  pid_t pid_ = 0;  ///< 0 once reaped
  Descriptor pid_descriptor_;
};

}  // namespace prime
