#include "runtime/session/agent_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace prime {

namespace {

constexpr int AGENT_SOCKET = 3;
/// The room for complaints is fixed: writes beyond it fail in the agent, which never looks at them.
constexpr std::uint64_t COMPLAINT_BYTES = 16 * KIB;
constexpr std::size_t SHOWN_COMPLAINT_BYTES = 2 * KIB;
constexpr Duration FAREWELL{2s};

constexpr const char* PRIMECTL = "primectl";

std::string program_of(const JoinOptions& options) {
  if (!options.primectl.empty()) return options.primectl;
  const char* const named = std::getenv("PRIME_PRIMECTL");
  if (named != nullptr && *named != '\0') return named;
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / PRIMECTL;
  return !error && ::access(beside.c_str(), X_OK) == 0 ? beside.string() : PRIMECTL;
}

/// What to do is told here: nothing was started, so there is no log to see.
Error not_started(const std::string& program, int reason) {
  errno = reason;
  auto detail = system_error_text(program);
  if (reason == ENOENT) detail += "; the agent is looked for in JoinOptions::primectl, $PRIME_PRIMECTL, beside this program and in PATH";
  return Error{ErrorName::ProcessFailed, std::move(detail)};
}

std::vector<std::string> arguments_of(const JoinOptions& options) {
  std::vector<std::string> arguments{program_of(options), "join", options.invite, "--trainer-fd", std::to_string(AGENT_SOCKET)};
  if (!options.name.empty()) arguments.insert(arguments.end(), {"--name", options.name});
  if (!options.replica.empty() || options.shard > 0)
    arguments.insert(arguments.end(), {"--replica", options.replica, "--shard", std::to_string(options.shard)});
  if (!options.state_dir.empty()) arguments.insert(arguments.end(), {"--state-dir", options.state_dir});
  return arguments;
}

}  // namespace

Result<AgentProcess> AgentProcess::start(const JoinOptions& options, int socket) {
  PRIME_TRY(auto complaints, create_memory_file("prime-agent-stderr", COMPLAINT_BYTES));
  const auto arguments = arguments_of(options);
  std::vector<char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));  // only read
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, complaints.number(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, AGENT_SOCKET);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int reason = posix_spawnp(&pid, pointers[0], &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (reason != 0) return fail(not_started(arguments.front(), reason));
  return AgentProcess(pid, std::move(complaints));
}

void AgentProcess::swap(AgentProcess& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  std::swap(complaints_, other.complaints_);
}

AgentProcess::AgentProcess(AgentProcess&& other) noexcept { swap(other); }

AgentProcess& AgentProcess::operator=(AgentProcess&& other) noexcept {
  swap(other);
  return *this;
}

AgentProcess::~AgentProcess() { wait(FAREWELL); }

bool AgentProcess::wait(Duration limit) {
  if (pid_ == 0) return true;
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd watched{ended.number(), POLLIN, 0};
  if (ended) ::poll(&watched, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limit).count()));
  if (::waitpid(pid_, &status_, WNOHANG) == 0) return false;
  pid_ = 0;
  return true;
}

std::string AgentProcess::end_and_explain() {
  bool ended_by_itself = wait(FAREWELL);
  if (!ended_by_itself) {
    ::kill(pid_, SIGTERM);
    if (!wait(FAREWELL)) {
      ::kill(pid_, SIGKILL);
      wait(FAREWELL);
    }
  }
  std::string text = "the agent was still running";
  if (ended_by_itself) {
    text = WIFSIGNALED(status_) ? "the agent was killed by signal " + std::to_string(WTERMSIG(status_))
                                : "the agent ended with exit status " + std::to_string(WEXITSTATUS(status_));
  }
  auto complaint = read_memory_file(complaints_, COMPLAINT_BYTES).value_or(std::string{});
  complaint.resize(::strnlen(complaint.data(), complaint.size()));
  while (!complaint.empty() && complaint.back() == '\n') complaint.pop_back();
  if (complaint.size() > SHOWN_COMPLAINT_BYTES) complaint.erase(0, complaint.size() - SHOWN_COMPLAINT_BYTES);
  if (!complaint.empty()) text += ": " + complaint;
  return text;
}

}  // namespace prime
