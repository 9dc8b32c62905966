#include "runtime/launch/launched_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgets to say that these are C functions
}
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/launch/readiness.hpp"
#include "runtime/shortage.hpp"
#include "runtime/telemetry/error_text.hpp"

namespace prime::launch {
namespace {

constexpr std::size_t READINESS_BYTES_MAX = 64 * KIB;
constexpr off_t RESERVED_LOG_BYTES = 4 * static_cast<off_t>(KIB);
constexpr std::streamoff SHOWN_LOG_BYTES = 2 * static_cast<std::streamoff>(KIB);

Result<store::Descriptor> memory_file(const std::string& content) {
  store::Descriptor file{::memfd_create("primectl-plan", MFD_CLOEXEC)};
  if (!file.open()) return fail(store::storage_error("create", "a memory file", errno));
  PRIME_CHECK(store::write_all(file.get(), std::as_bytes(std::span{content}), "a memory file"));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

/// posix_spawn with the four descriptors in place, in a session of its own, with default signals.
int spawn(const std::vector<std::string>& arguments, int input, int log, int ready, pid_t& pid) {
  std::vector<char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));  // only read
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ready, READY_DESCRIPTOR);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  ::sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&signals, number);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  const int reason = ::posix_spawnp(&pid, pointers[0], &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return reason;
}

/// A copy above the descriptors that the child is given, so that putting those in place never closes it.
store::Descriptor lifted(const store::Descriptor& descriptor) {
  return store::Descriptor{::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, READY_DESCRIPTOR + 1)};
}

std::string log_tail(const std::filesystem::path& path, std::uint64_t start) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto end = static_cast<std::streamoff>(file.tellg());
  const auto begin = std::max(static_cast<std::streamoff>(start), end - SHOWN_LOG_BYTES);
  if (!file || end <= begin) return {};
  std::string text(static_cast<std::size_t>(end - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

Result<LaunchedProcess> LaunchedProcess::start(const ProcessPlan& plan) {
  LaunchedProcess process;
  process.log_ = plan.log;
  const store::Descriptor log{::open(plan.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (!log.open()) return fail(store::storage_error("open", plan.log, errno));
  struct stat before {};
  ::fstat(log.get(), &before);
  process.log_start_ = static_cast<std::uint64_t>(before.st_size);
  // Room for its last words, so that a process that dies of a full disk can say so. File systems that cannot reserve are none the worse.
  if (::fallocate(log.get(), FALLOC_FL_KEEP_SIZE, before.st_size, RESERVED_LOG_BYTES) != 0 && (errno == ENOSPC || errno == EDQUOT))
    return fail(store::storage_error("reserve room for", plan.log, errno));
  PRIME_TRY(const auto input, memory_file(plan.input));
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail(refused(ErrorName::ProcessFailed, "a pipe", errno));
  process.ready_ = store::Descriptor{pipe[0]};
  const store::Descriptor write_end{pipe[1]};
  const auto high_input = lifted(input);
  const auto high_log = lifted(log);
  const auto high_ready = lifted(write_end);
  if (!high_input.open() || !high_log.open() || !high_ready.open()) return fail(refused(ErrorName::ProcessFailed, "a pipe", errno));
  pid_t pid = 0;
  if (const int reason = spawn(plan.arguments, high_input.get(), high_log.get(), high_ready.get(), pid); reason != 0)
    return fail(refused(ErrorName::ProcessFailed, plan.arguments.front(), reason));
  process.identity_ = telemetry::identify(pid);
  process.pid_descriptor_ = store::Descriptor{::pidfd_open(pid, 0)};
  if (!process.pid_descriptor_.open()) {
    const auto error = refused(ErrorName::ProcessFailed, "pidfd_open", errno);
    ::kill(pid, SIGKILL);  // nobody would watch it
    ::waitpid(pid, nullptr, 0);
    return fail(error);
  }
  return process;
}

Result<nlohmann::json> LaunchedProcess::readiness(Duration limit, int interrupt) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string line;
  while (line.find('\n') == std::string::npos && line.size() < READINESS_BYTES_MAX) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return fail(ErrorName::DeadlineExceeded, "process " + std::to_string(pid()) + " is not ready after " + format_duration(limit));
    std::array<pollfd, 2> watched{pollfd{ready_.get(), POLLIN, 0}, pollfd{interrupt, POLLIN, 0}};
    if (::poll(watched.data(), watched.size(), static_cast<int>(left.count())) <= 0) continue;
    if (watched[1].revents != 0) return fail(ErrorName::Interrupted);
    std::array<char, 4096> buffer{};
    const auto count = ::read(ready_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    line.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (auto said = parse_readiness(line)) return std::move(*said);
  if (auto error = last_error()) return fail(std::move(*error));
  const auto tail = log_tail(log_, log_start_);
  return fail(ErrorName::ProcessFailed, how_it_ended() + log_.string() + (tail.empty() ? " is empty" : " ends with:\n" + tail));
}

/// Its pipe is closed, and so it ends in a moment, unless it has closed that by itself.
std::string LaunchedProcess::how_it_ended() {
  pollfd ended{pid_descriptor(), POLLIN, 0};
  ::poll(&ended, 1, 1000);
  const auto status = reap();
  return status ? "it ended (" + describe_wait_status(*status) + "); " : "it closed its pipe without a word; ";
}

std::optional<Error> LaunchedProcess::last_error() const { return telemetry::last_error_in(log_tail(log_, log_start_)); }

void LaunchedProcess::move_log(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::rename(log_, path, error);
  if (!error) log_ = path;
}

std::optional<int> LaunchedProcess::reap() {
  int status = 0;
  if (!status_ && ::waitpid(pid(), &status, WNOHANG) == pid()) status_ = status;
  return status_;
}

std::string describe_wait_status(int status) {
  if (!WIFSIGNALED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  const char* const abbreviation = ::sigabbrev_np(number);
  return abbreviation != nullptr ? "killed by SIG" + std::string(abbreviation) : "killed by signal " + std::to_string(number);
}

}  // namespace prime::launch
