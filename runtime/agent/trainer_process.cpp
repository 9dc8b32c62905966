#include "runtime/agent/trainer_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/shortage.hpp"

namespace prime {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));  // exec only reads them
  result.push_back(nullptr);
  return result;
}

/// Ours, with `added` in the place of equal names.
std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  const auto replaced = [&](std::string_view entry) {
    for (const auto& own : added) {
      if (entry.substr(0, entry.find('=') + 1) == own.substr(0, own.find('=') + 1)) return true;
    }
    return false;
  };
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!replaced(*entry)) result.emplace_back(*entry);
  }
  result.insert(result.end(), added.begin(), added.end());
  return result;
}

struct ChildPlan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int log;
  int complaint;  ///< a pipe that closes on exec and otherwise carries errno
  pid_t parent;
};

/// Runs in the child between fork and exec, where only async-signal-safe calls are allowed.
[[noreturn]] void become(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // the agent died before it could be watched
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  // dup2 clears close-on-exec only where the numbers differ; all of ours lie above the targets.
  if (null >= 0 && ::dup2(null, 0) == 0 && ::dup2(plan.log, 1) == 1 && ::dup2(plan.log, 2) == 2) {
    ::execvpe(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  }
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(plan.complaint, &reason, sizeof reason);
  ::_exit(127);
}

/// A copy above the descriptors that the child gives away.
Descriptor lifted(int descriptor) { return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)); }

}  // namespace

bool ProcessEnd::killed_by(int signal) const {
  return WIFSIGNALED(status) ? WTERMSIG(status) == signal : WEXITSTATUS(status) == 128 + signal;
}

std::string to_string(const ProcessEnd& end) {
  if (WIFSIGNALED(end.status)) {
    const int number = WTERMSIG(end.status);
    const char* const abbreviation = ::sigabbrev_np(number);
    return "killed by " + (abbreviation != nullptr ? "SIG" + std::string(abbreviation) : "signal " + std::to_string(number));
  }
  return "exit status " + std::to_string(WEXITSTATUS(end.status));
}

Result<ChildProcess> ChildProcess::start(const ProcessCommand& command) {
  if (command.arguments.empty()) return fail(ErrorName::ProcessFailed, "no program is named");
  const auto& program = command.arguments.front();
  Descriptor log(::open(command.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) return fail(refused(ErrorName::StorageFailed, command.log_path, errno));
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail(refused(ErrorName::ProcessFailed, program, errno));
  const Descriptor complaint_reader(pipe[0]);
  Descriptor complaint_writer(pipe[1]);
  const Descriptor high_log = lifted(log.number());
  Descriptor high_complaint = lifted(complaint_writer.number());
  complaint_writer.close();
  if (!high_log || !high_complaint) return fail(refused(ErrorName::ProcessFailed, program, errno));
  const auto environment = merged_environment(command.environment);
  const ChildPlan plan{pointers(command.arguments), pointers(environment), high_log.number(), high_complaint.number(), ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) return fail(refused(ErrorName::ProcessFailed, program, errno));
  if (pid == 0) become(plan);
  ::setpgid(pid, pid);  // also here: whoever comes first, a signal to the group then reaches it
  ChildProcess child(pid, Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
  if (child.pid_descriptor() < 0) return fail(refused(ErrorName::ProcessFailed, program, errno));
  high_complaint.close();
  int reason = 0;
  ssize_t count = 0;
  while ((count = ::read(complaint_reader.number(), &reason, sizeof reason)) < 0 && errno == EINTR) {
  }
  if (count == static_cast<ssize_t>(sizeof reason)) return fail(refused(ErrorName::ProcessFailed, program, reason));
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), pid_descriptor_(std::move(other.pid_descriptor_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ == 0) return;
  signal(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::signal(int number) const {
  if (pid_ == 0) return;
  ::kill(-pid_, number);
  ::kill(pid_, number);  // should it have left its group
}

std::optional<ProcessEnd> ChildProcess::reap() {
  if (pid_ == 0) return std::nullopt;
  siginfo_t info{};
  // Looked at first: while it is not reaped its number, and so its group's, cannot belong to somebody else.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return std::nullopt;
  ::kill(-pid_, SIGKILL);
  ProcessEnd end;
  while (::waitpid(pid_, &end.status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return end;
}

}  // namespace prime
