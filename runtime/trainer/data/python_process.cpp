// Owns starting, asking and ending it.
#include "runtime/trainer/data/python_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char** environ;

namespace prime::data {
namespace {

/// What takes longer than this to be unpacked or tokenized waits for a disk that does not answer, or stands still.
constexpr int PATIENCE_MS = 300'000;

// What the current folder holds is no module of ours.
constexpr const char* PRELUDE = R"(
import signal, sys
sys.path[:1] = []
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
def reason(error):
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
)";

std::string interpreter() {
  const char* named = std::getenv("PRIME_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

}  // namespace

PythonProcess::~PythonProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  reap();
}

Result<void> PythonProcess::start(const char* script, std::vector<std::string> arguments) {
  // A socket and no pipes: to write to a process that is gone is an error there, and no signal.
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(store::storage_error("reach a process for", work_.subject, errno));
  socket_ = store::Descriptor{ends[0]};
  const store::Descriptor theirs{ends[1]};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words{interpreter(), "-c", std::string{PRELUDE} + script};
  for (auto& argument : arguments) words.push_back(std::move(argument));
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // It ends with us: a caller that blocks signals must not make it deaf to a socket that nobody reads.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int reason = ::posix_spawnp(&pid_, pointers[0], &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (reason == 0) return {};
  pid_ = 0;
  return fail(lacks_library(std::string{"could not be started ("} + std::strerror(reason) + ")"));
}

Result<void> PythonProcess::wait_for(short event) {
  while (true) {
    pollfd watched{socket_.get(), event, 0};
    const int ready = ::poll(&watched, 1, PATIENCE_MS);
    if (ready > 0) return {};
    if (ready == 0) return fail(ErrorName::ProcessFailed, work_.subject + ": the process that " + work_.doing + " says nothing any more");
    if (errno != EINTR) return fail(ended_early());
  }
}

Result<void> PythonProcess::write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      PRIME_CHECK(wait_for(POLLOUT));
      continue;
    }
    if (sent < 0) return fail(ended_early());
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<void> PythonProcess::read(std::span<char> into) {
  while (!into.empty()) {
    PRIME_CHECK(wait_for(POLLIN));
    const auto got = ::recv(socket_.get(), into.data(), into.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(ended_early());
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Error PythonProcess::lacks_library(const std::string& why) const {
  return Error{ErrorName::ProcessFailed, work_.subject + ": " + work_.work + " by Python's " + work_.library + ", and `" + interpreter() +
                                             "` " + why + ": install it (`python3 -m pip install " + work_.library +
                                             "`), or let PRIME_PYTHON name an interpreter that has it"};
}

Error PythonProcess::ended_early() {
  if (pid_ > 0) {  // for who asks again there is none, and 0 would be our own process group
    ::kill(pid_, SIGKILL);
    status_ = reap();
  }
  const auto how =
      WIFEXITED(status_) ? "with exit code " + std::to_string(WEXITSTATUS(status_)) : "by signal " + std::to_string(WTERMSIG(status_));
  return Error{ErrorName::ProcessFailed, work_.subject + ": `" + interpreter() + "`, which " + work_.doing + ", ended in between, " + how};
}

int PythonProcess::reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

}  // namespace prime::data
