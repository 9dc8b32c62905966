// Owns the dialing thread: connecting may block, and the lane thread must not.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "runtime/lanes/engine.hpp"
#include "runtime/lanes/known_members.hpp"

namespace prime::lanes {

/// What became of the attempts to open one stream.
struct Dialed {
  PeerId peer;
  std::uint64_t bundle = 0;  ///< the same for all streams of one lane, and for no other
  std::uint32_t index = 0;
  Result<net::ChannelPtr> channel;
  PeerId through;  ///< who passes it on; 0: nobody
};

/// Of an attempt to reach somebody directly, when others may reach it.
inline constexpr Duration DIRECT_LIMIT = 2s;
/// That are asked to pass a lane on in one attempt; the next one goes on with others.
inline constexpr std::size_t RELAYS_PER_ATTEMPT = 4;

class Dialing {
 public:
  using Done = std::function<void(Dialed)>;

  /// `done` is called on the dialing thread: once for the first stream of a member, then for each further one that could be opened.
  Dialing(const EngineOptions& options, const KnownMembers& known, Done done);
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
  Dialed attempt(const Wanted& wanted, const std::stop_token& stop);
  /// Directly or, the first stream of a lane, through another member.
  Dialed reach(const Wanted& wanted, std::uint32_t tries, const std::stop_token& stop);

  const EngineOptions& options_;
  const KnownMembers& known_;
  Done done_;
  net::StopSignal ends_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Wanted> queue_;  ///< at most the members of one view: the lane thread asks once for each
  std::jthread thread_;
};

}  // namespace prime::lanes
