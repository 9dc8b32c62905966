// Owns the test that a killed process's connections close before its memory is freed.
#include "runtime/agent/memory_keeper.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr std::size_t MEMORY = 32 << 20;
constexpr auto LIMIT = std::chrono::seconds{60};

bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + LIMIT;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

std::string file(pid_t pid, const std::string& name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + name);
  return {std::istreambuf_iterator<char>{in}, {}};
}

pid_t child_of(pid_t pid) {
  const auto children = file(pid, "task/" + std::to_string(pid) + "/children");
  return children.empty() ? 0 : std::stoi(children);
}

std::size_t resident_kib(pid_t pid) {
  const auto status = file(pid, "status");
  const auto at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::stoul(status.substr(at + 6));
}

bool has_ended(pid_t pid) {
  const auto status = file(pid, "status");
  return status.empty() || status.find("State:\tZ") != std::string::npos;
}

/// A process with memory, a connection and a keeper; says a byte when it has all of them.
pid_t start_owner(int connection) {
  const auto owner = ::fork();
  if (owner != 0) return owner;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that fails leaves nothing behind
  ::fcntl(connection, F_DUPFD, 100);   // below and above what the keeper needs itself
  prime::keep_memory_beyond_death();
  auto* const memory = static_cast<char*>(::mmap(nullptr, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (std::size_t i = 0; i < MEMORY; i += 4096) memory[i] = 1;
  if (::write(connection, "r", 1) != 1) ::_exit(1);
  for (;;) ::pause();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_killed_process_s_connections_close_while_its_memory_is_still_there) {
  std::array<int, 2> pair{};
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
  const auto owner = start_owner(pair[1]);
  ::close(pair[1]);
  char byte = 0;
  BOOST_REQUIRE(::read(pair[0], &byte, 1) == 1);
  const auto keeper = child_of(owner);
  BOOST_REQUIRE(keeper > 0);
  BOOST_REQUIRE(comes_true([&] { return file(keeper, "comm") == "prime-memory\n"; }));
  ::kill(keeper, SIGTERM);  // meant for the owner, as by a supervisor that tells the whole group
  ::kill(keeper, SIGSTOP);  // so that it cannot be gone by chance when that is looked at
  BOOST_REQUIRE(comes_true([&] { return file(keeper, "status").find("State:\tT") != std::string::npos; }));

  ::kill(owner, SIGKILL);
  pollfd closed{pair[0], POLLIN, 0};
  BOOST_REQUIRE(::poll(&closed, 1, static_cast<int>(std::chrono::milliseconds{LIMIT}.count())) == 1);
  BOOST_TEST(::read(pair[0], &byte, 1) == 0);
  BOOST_TEST(resident_kib(keeper) * 1024 >= MEMORY);
  ::kill(keeper, SIGCONT);
  BOOST_TEST(comes_true([&] { return has_ended(keeper); }));
  ::waitpid(owner, nullptr, 0);
  ::close(pair[0]);
}
