// Owns the dialing thread: connecting may block, and the lane thread must not.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "runtime/lanes/engine.hpp"

namespace prime::lanes {

class Dialing {
 public:
  using Done = std::function<void(PeerId, Result<net::ChannelPtr>)>;

  /// `done` is called on the dialing thread, once for each member.
  Dialing(const EngineOptions& options, Done done);
  ~Dialing();
  Dialing(const Dialing&) = delete;
  Dialing& operator=(const Dialing&) = delete;

  void dial(Member member);

 private:
  void run(const std::stop_token& stop);
  Result<net::ChannelPtr> attempt(const Member& member, const std::stop_token& stop);

  const EngineOptions& options_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Member> queue_;  ///< at most the members of one view: the lane thread asks once for each
  std::jthread thread_;
};

}  // namespace prime::lanes
