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

/// What became of the attempts to open one stream.
struct Dialed {
  PeerId peer;
  std::uint64_t bundle = 0;  ///< the same for all streams of one lane, and for no other
  std::uint32_t index = 0;
  Result<net::ChannelPtr> channel;
};

class Dialing {
 public:
  using Done = std::function<void(Dialed)>;

  /// `done` is called on the dialing thread: once for the first stream of a member, then for each further one that could be opened.
  Dialing(const EngineOptions& options, Done done);
  ~Dialing();
  Dialing(const Dialing&) = delete;
  Dialing& operator=(const Dialing&) = delete;

  void dial(Member member);

 private:
  struct Wanted {
    Member member;
    std::uint64_t bundle = 0;
    std::uint32_t index = 0;
  };

  void run(const std::stop_token& stop);
  Result<net::ChannelPtr> attempt(const Wanted& wanted, const std::stop_token& stop);

  const EngineOptions& options_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Wanted> queue_;  ///< at most the members of one view: the lane thread asks once for each
  std::jthread thread_;
};

}  // namespace prime::lanes
