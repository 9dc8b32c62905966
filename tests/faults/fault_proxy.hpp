// Owns FaultProxy: forwards TCP connections to a target, and slows, delays, silences or cuts them on command. Nothing in it is random.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/socket.hpp"
#include "tests/faults/shaped_pipe.hpp"

namespace prime::faults {

/// Up is from who dialed to the target.
enum class Direction : std::uint8_t { Up, Down };

struct FaultProxyOptions {
  Endpoint listen;
  Endpoint target;
  Shape up = {};  ///< of each connection alone
  Shape down = {};
  std::function<Instant()> now = monotonic_now;
  std::function<void(const std::string&)> report = {};  ///< what went wrong with one connection; may be empty
};

/// `step` belongs to one thread; the commands may come from any. When a command has returned, no byte passes that it forbids.
class FaultProxy {
 public:
  struct Counts {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;
    std::uint64_t open = 0;
    std::array<std::uint64_t, 2> taken{};      ///< bytes, by direction
    std::array<std::uint64_t, 2> forwarded{};  ///< bytes, by direction
  };

  static Result<std::unique_ptr<FaultProxy>> open(FaultProxyOptions options);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  /// Where it listens; the port is the real one.
  [[nodiscard]] const Endpoint& address() const { return address_; }

  /// Waits for at most `limit` for something to do, and does it. True when `also_fd` has something to read.
  bool step(Duration limit, int also_fd = -1);
  /// Steps until it is asked to stop.
  void run(const std::stop_token& stop);

  void cut();  ///< resets all connections
  void hold(Direction direction);
  void release();  ///< ends both holds
  void forget();   ///< connections that are open carry nothing more, and nobody hears of it, as when a router has lost its table
  void refuse();   ///< resets new connections
  void accept();   ///< ends `refuse`
  /// Resets each connection when so many more bytes have passed, both directions together; empty: none.
  void drop_after(std::optional<std::uint64_t> bytes);
  [[nodiscard]] Counts counts() const;

 private:
  struct Half;
  struct Connection;

  FaultProxy(FaultProxyOptions options, net::SocketAddress target, net::SocketPtr listener, Endpoint address, net::SocketPtr wake);
  template <class Change>
  void command(Change change);
  [[nodiscard]] std::vector<pollfd> wanted(int also_fd) const;
  [[nodiscard]] Duration time_left(Duration limit) const;
  [[nodiscard]] bool may_forward(const Connection& connection, const Half& half) const;
  [[nodiscard]] bool is_held(const Half& half) const;
  void welcome(Instant now);
  void admit(int fd, Instant now);
  void unreachable(Connection& connection, int error_number);
  void serve(Connection& connection, short client_events, short target_events, Instant now);
  void fill(Connection& connection, Half& half, Instant now);
  void forward(Connection& connection, Half& half, Instant now);
  void sent(Connection& connection, Half& half, std::size_t count, Instant now);
  static bool bury(Connection& connection);
  void report(const std::string& what) const;

  const FaultProxyOptions options_;
  const net::SocketAddress target_;
  const net::SocketPtr listener_;
  const Endpoint address_;
  const net::SocketPtr wake_;
  mutable std::mutex mutex_;  ///< guards all below; not held while waiting
  std::vector<std::unique_ptr<Connection>> connections_;
  std::array<bool, 2> held_{};
  bool refusing_ = false;
  std::optional<std::uint64_t> drop_after_;
  Counts counts_;
};

}  // namespace prime::faults
