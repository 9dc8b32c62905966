// Owns Members: all members of a group in one process, for its tests.
#pragma once

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <unistd.h>
#include <utility>
#include <vector>

#include "prime/group.hpp"
#include "runtime/bench/bare_sockets.hpp"

namespace prime::test {

/// How many chunks of which reduces have come, by rank.
class Progress {
 public:
  void note(std::uint32_t rank, std::uint64_t tag, std::uint64_t done) {
    const std::lock_guard lock(mutex_);
    done_[{rank, tag}] = done;
    changed_.notify_all();
  }
  void wait(std::uint32_t rank, std::uint64_t tag, std::uint64_t chunks = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_[{rank, tag}] >= chunks; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> done_;
};

/// All members in one process.
struct Members {
  explicit Members(std::uint32_t count, bool plain = true, bool memory = false, std::uint32_t streams = 1) {
    GroupOptions options;
    options.key = "a secret of the tests";
    options.plain = plain;
    options.memory = memory;
    options.streams = streams;
    options.timeout = std::chrono::seconds(60);
    std::vector<int> held;
    for (std::uint32_t rank = 0; rank < count; ++rank) options.members.push_back("127.0.0.1:" + std::to_string(bench::free_port(held)));
    for (const int fd : held) ::close(fd);
    for (options.rank = 0; options.rank < count; ++options.rank) {
      options.on_chunk = [this, rank = options.rank](std::uint64_t tag, std::uint64_t done, std::uint64_t) {
        progress.note(rank, tag, done);
      };
      auto group = Group::form(options);
      BOOST_REQUIRE_MESSAGE(group.has_value(), (group ? "" : to_string(group.error())));
      groups.push_back(std::move(*group));
    }
  }
  /// Runs `work` for all ranks at once.
  template <class Work>
  auto all(Work work) {
    std::vector<std::future<decltype(work(std::uint32_t{}))>> running;
    for (std::uint32_t rank = 0; rank < groups.size(); ++rank) running.push_back(std::async(std::launch::async, work, rank));
    std::vector<decltype(work(std::uint32_t{}))> results;
    results.reserve(running.size());
    for (auto& each : running) results.push_back(each.get());
    return results;
  }
  Progress progress;
  std::vector<Group> groups;
};

inline std::vector<float> values_of(std::uint32_t rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(rank + 1) + static_cast<float>(i % 100);
  return values;
}

}  // namespace prime::test
