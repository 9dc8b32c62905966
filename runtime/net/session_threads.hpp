// Owns SessionThreads: those who serve one channel each, for as long as it lasts.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/net/channel.hpp"

namespace prime::net {

/// A session may block, on its channel or with a limit of its own; it ends soon after its channel was shut down.
class SessionThreads {
 public:
  using Session = std::function<void(Channel&)>;

  explicit SessionThreads(std::size_t most) : most_(most) {}
  /// Shuts all channels down and waits for their sessions.
  ~SessionThreads();
  SessionThreads(const SessionThreads&) = delete;
  SessionThreads& operator=(const SessionThreads&) = delete;

  /// Runs `session` on a thread of its own and shuts the channel down after it; returns at once. False, and the channel stays with the
  /// caller, when as many run as may. Any thread.
  bool serve(ChannelPtr& channel, Session session);
  [[nodiscard]] std::size_t running();

 private:
  struct Running {
    std::shared_ptr<Channel> channel;
    std::shared_ptr<std::atomic<bool>> done;
    std::jthread thread;
  };
  void let_go_of_done();  ///< of those that have ended; under the lock

  const std::size_t most_;
  std::mutex mutex_;  ///< guards running_
  std::vector<Running> running_;
};

}  // namespace prime::net
