// Owns a real etcd of one test, on loopback with free ports and files of its own.
#pragma once

#include <arpa/inet.h>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "runtime/clock.hpp"
#include "runtime/etcd/client.hpp"

namespace prime::etcd::test {

/// Never an expectation of speed: a hang becomes a failure.
inline constexpr Duration LIMIT = 60s;

inline bool is_installed() { return ::access("/usr/bin/etcd", X_OK) == 0; }

/// Where etcd is not installed a test says so, and checks nothing. `./dev setup --test` installs it.
inline boost::test_tools::assertion_result installed(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result answer{is_installed()};
  answer.message() << "etcd is not installed: `./dev setup --test` installs it";
  return answer;
}

/// An address of loopback for the etcds of this process alone: a port that is free when it is chosen may be another one's by the time etcd
/// listens, and that one would answer in its place.
inline std::string own_host() {
  const auto pid = static_cast<unsigned>(::getpid());
  return "127." + std::to_string(128 + (pid >> 16U) % 64) + "." + std::to_string(pid >> 8U & 255U) + "." + std::to_string(pid & 255U);
}

/// A port there that is this process's while the socket is open.
struct BoundPort {
  int socket = -1;
  std::uint16_t number = 0;
};

inline BoundPort bound_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::inet_addr(own_host().c_str());
  socklen_t size = sizeof address;
  BOOST_REQUIRE(::bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0);
  BOOST_REQUIRE(::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return {probe, ntohs(address.sin_port)};
}

inline std::uint16_t free_port() {
  const auto port = bound_port();
  ::close(port.socket);
  return port.number;
}

template <class Condition>
void wait_until(const char* what, Condition condition) {
  for (const auto until = monotonic_now() + LIMIT; !condition(); std::this_thread::sleep_for(10ms))
    BOOST_REQUIRE_MESSAGE(monotonic_now() < until, "waited in vain for " << what);
}

class EtcdProcess {
 public:
  EtcdProcess() {
    std::string name = (std::filesystem::temp_directory_path() / "prime-etcd-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory_ = name;
    url_ = "http://" + own_host() + ":" + std::to_string(free_port());
    peer_url_ = "http://" + own_host() + ":" + std::to_string(free_port());
    start();
  }
  ~EtcdProcess() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }

  void start() {
    std::vector<std::string> words{"etcd",
                                   "--data-dir",
                                   directory_ / "data",
                                   "--listen-client-urls",
                                   url_,
                                   "--advertise-client-urls",
                                   url_,
                                   "--listen-peer-urls",
                                   peer_url_,
                                   "--initial-advertise-peer-urls",
                                   peer_url_,
                                   "--initial-cluster",
                                   "default=" + peer_url_};
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const auto log = directory_ / "etcd.log";
    pid_ = ::fork();
    if (pid_ == 0) {
      const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      ::execv("/usr/bin/etcd", arguments.data());
      ::_exit(127);
    }
    wait_until("etcd", [this] { return Client{{url_}}.read("/", 1s).has_value(); });
  }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// Returns when all its threads stand still.
  void freeze() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    BOOST_REQUIRE(::waitpid(pid_, &status, WUNTRACED) == pid_);
    BOOST_REQUIRE(WIFSTOPPED(status));
  }
  void thaw() const { ::kill(pid_, SIGCONT); }

 private:
  std::filesystem::path directory_;
  std::string url_;
  std::string peer_url_;
  pid_t pid_ = 0;
};

}  // namespace prime::etcd::test
