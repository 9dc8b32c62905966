// Owns what the store's tests share: a directory that goes away, disks that are full, and children that are killed.
#pragma once

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "messages/result.hpp"

namespace prime::store {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "prime-store-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

inline void put(const std::filesystem::path& path, std::string_view content) { std::ofstream{path, std::ios::binary} << content; }

inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator{directory}) names.push_back(entry.path().filename().string());
  return names;
}

/// While it lives, no file of this process can grow beyond the limit: how a quota looks to a program.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    BOOST_REQUIRE_EQUAL(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

/// Runs `body` in a child process and returns its exit status; 128 + n when signal n ended it.
inline int run_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Mounts a disk of that size over `directory` in a mount namespace of this process alone; false where that is not permitted.
inline bool mount_small_disk(const std::filesystem::path& directory, const std::string& size) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", directory.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
}

/// Runs `body` in a child, which gets a function to call when it has come as far as the test wants; then it is killed.
inline void kill_once_reached(const std::function<void(const std::function<void()>& reached)>& body) {
  int ends[2];
  BOOST_REQUIRE_EQUAL(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    body([&] { [[maybe_unused]] const auto told = ::write(ends[1], "x", 1); });
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char byte = 0;
  const auto got = ::read(ends[0], &byte, 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  BOOST_REQUIRE_EQUAL(got, 1);
}

}  // namespace prime::store
