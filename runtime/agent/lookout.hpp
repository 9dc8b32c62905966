// Owns Lookout: how the coordinator tells a peer whose process has died from one whose connection has broken.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/ports.hpp"
#include "runtime/net/credentials.hpp"
#include "runtime/net/stop_signal.hpp"

namespace prime {

/// A process that has died leaves a machine that refuses connections where it listened, or another process that proves to be somebody else.
/// Silence proves nothing, nor does the refusal of an address at which it never was: that may be another machine, or a router.
class Lookout final : public LookoutPort {
 public:
  /// `gone` hears of each peer whose process is gone, on any thread. To those that it looks at `credentials` are a peer's like any other.
  Lookout(net::Credentials credentials, std::function<void(PeerId, std::string)> gone);
  ~Lookout() override;
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  void look_for(PeerId peer, const Addresses& lanes) override;

 private:
  void work(const std::stop_token& ended);
  void look(PeerId peer, const Addresses& lanes);
  /// Where it proved to be, if it did.
  [[nodiscard]] std::optional<Endpoint> known_at(PeerId peer);

  const net::Credentials credentials_;
  const std::function<void(PeerId, std::string)> gone_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable_any wanted_;
  std::deque<std::pair<PeerId, Addresses>> orders_;
  std::set<PeerId> looked_for_;         ///< ordered or under way
  std::map<PeerId, Endpoint> reached_;  ///< numeric
  net::StopSignal ends_;                ///< the looks
  std::vector<std::jthread> threads_;   ///< last: they use what is above
};

}  // namespace prime
