#include "runtime/launch/foreground_program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/store/file_io.hpp"

namespace prime::launch {
namespace {

constexpr std::size_t LINE_BYTES_MAX = std::size_t{256} << 20;

int spawn(const std::vector<std::string>& arguments, int input, int output, pid_t& pid) {
  std::vector<char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));  // only read
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGPIPE);  // primectl ignores it
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int reason = ::posix_spawnp(&pid, pointers[0], &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return reason;
}

/// Lines of a descriptor, until its end (true) or until somebody has heard enough (false).
Result<bool> each_line(int descriptor, const std::function<bool(std::string_view)>& line) {
  std::string open;
  std::array<char, 65536> buffer{};
  for (;;) {
    const auto count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    std::string_view rest{buffer.data(), static_cast<std::size_t>(count)};
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      open.append(rest.substr(0, end));
      if (!line(open)) return false;
      open.clear();
      rest.remove_prefix(end + 1);
    }
    open.append(rest);
    if (open.size() > LINE_BYTES_MAX) return fail(ErrorName::ProcessFailed, "it wrote a line without an end");
  }
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& arguments, const std::string& input,
                        const std::function<bool(std::string_view)>& line) {
  const store::Descriptor job{::memfd_create("primectl-job", MFD_CLOEXEC)};
  if (!job.open()) return fail(store::storage_error("create", "a memory file", errno));
  PRIME_CHECK(store::write_all(job.get(), std::as_bytes(std::span{input}), "a memory file"));
  ::lseek(job.get(), 0, SEEK_SET);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail(ErrorName::ProcessFailed, std::strerror(errno));
  const store::Descriptor read_end{pipe[0]};
  pid_t pid = 0;
  {
    const store::Descriptor write_end{pipe[1]};
    if (const int reason = spawn(arguments, job.get(), write_end.get(), pid); reason != 0)
      return fail(ErrorName::ProcessFailed, arguments.front() + ": " + std::strerror(reason));
  }
  const auto heard = each_line(read_end.get(), line);
  if (!heard || !*heard) ::kill(pid, SIGTERM);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!heard) return fail(heard.error());
  return status;
}

}  // namespace prime::launch
