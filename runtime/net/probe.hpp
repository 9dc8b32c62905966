// Owns the probe of a way between two machines: what `primectl doctor` asks of a run's coordinator, and what that one does for it.
//
// Who proves the run key may ask: for the coordinator's clock, for its look at the addresses that the asker tells (it dials each and wants
// to hear the asker's nonce), and to move PROBE_BULK_BYTES each way, which needs packets of the full size.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/credentials.hpp"
#include "runtime/net/session_threads.hpp"
#include "runtime/net/socket.hpp"
#include "runtime/net/stop_signal.hpp"

namespace prime::net {

inline constexpr std::size_t PROBE_BULK_BYTES = 64 * 1024;
/// Of one step of a probe.
inline constexpr Duration PROBE_STEP_LIMIT = 2s;
/// That a coordinator serves at once, a thread each; more are turned away.
inline constexpr std::size_t MAX_PROBES = 4;

/// Serves those that were accepted for Protocol::Probe.
class ProbeServer {
 public:
  ProbeServer() = default;
  /// Ends all.
  ~ProbeServer() { ends_.stop(); }
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;
  /// Returns at once. `remote_host`: where the asker comes from, as it is seen here.
  void serve(ChannelPtr channel, std::string remote_host);

 private:
  StopSignal ends_;
  SessionThreads sessions_{MAX_PROBES};  ///< last: they look at what is above
};

/// Listens where a peer would, and says its nonce to whoever connects.
class ProbeListener {
 public:
  /// AddressTaken as the acceptor says it.
  static Result<std::unique_ptr<ProbeListener>> open(const Endpoint& listen);
  ~ProbeListener();
  ProbeListener(const ProbeListener&) = delete;
  ProbeListener& operator=(const ProbeListener&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] const std::string& nonce() const { return nonce_; }

 private:
  ProbeListener() = default;
  void run(const std::stop_token& stop);
  SocketPtr socket_;
  std::uint16_t port_ = 0;
  std::string nonce_;
  std::jthread thread_;
};

/// What one address of a run's coordinator is like from here. What was not come to is empty.
struct ProbeReport {
  std::optional<Error> unreached;       ///< no connection, or somebody else answers
  bool connected = false;               ///< TCP was
  std::string seen_as;                  ///< where this machine comes from, for the coordinator
  std::optional<Duration> clock_ahead;  ///< the coordinator's clock is so far ahead of this machine's; negative: behind
  std::optional<Error> upwards;         ///< bulk to the coordinator did not arrive
  std::optional<Error> downwards;
  struct Back {
    Endpoint address;
    std::string problem;  ///< empty: it was reached there
  };
  std::vector<Back> back;  ///< the coordinator's look at each address that was told to it
  [[nodiscard]] bool stalled() const { return connected && (unreached || upwards || downwards); }
};

/// `segment`: the largest TCP segment that either end may send; 0: what the devices say.
ProbeReport probe(const Endpoint& coordinator, const Credentials& credentials, const Addresses& told, const std::string& nonce,
                  int segment = 0);

}  // namespace prime::net
