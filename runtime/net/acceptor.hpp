// Owns Acceptor: the one port of a process. It lets in who proves the run key and hands over finished channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/credentials.hpp"
#include "runtime/net/protocol.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// Binds and listens. AddressTaken names the address when it is in use or not ours.
Result<SocketPtr> listen_at(const Endpoint& where);

struct AcceptorOptions {
  Endpoint listen = {};      ///< port 0: any free one; an empty host: all addresses
  bool allow_plain = false;  ///< lanes and states may come in the clear (`trust.transport: plain`); control never
  bool memory = false;       ///< peers of this machine may open lanes through shared memory
  /// Takes a peer that wants to be passed on to another one; called as the handler is. Empty: that is refused.
  std::function<void(ChannelPtr asker, PeerId target)> relay = {};
  Duration handshake_deadline = 2s;    ///< of one connection, from its arrival to the go-ahead
  std::size_t max_half_open = 64;      ///< and no quarter of the open files allowed: beyond it the oldest unfinished one is dropped
  Duration descriptor_backoff = 50ms;  ///< pause of accepting, and of nothing else, when descriptors run out
};

/// One thread polls all unfinished handshakes. Only peers may connect: nobody is called by a coordinator.
class Acceptor {
 public:
  /// Called on the acceptor's thread after the go-ahead was sent; must be quick and must not call `stop`.
  /// A channel that it does not keep is closed.
  using Handler = std::function<void(Protocol, ChannelPtr, std::string remote_host)>;
  struct Counters {
    std::uint64_t accepted = 0;   ///< handed to the handler
    std::uint64_t refused = 0;    ///< failed the handshake, or went away in it
    std::uint64_t timed_out = 0;  ///< not done by the deadline
    std::uint64_t evicted = 0;    ///< dropped for newer ones
  };

  /// Binds and starts. AddressTaken names the address when it is in use or not ours.
  static Result<std::unique_ptr<Acceptor>> open(AcceptorOptions options, Credentials credentials, Handler handler);
  /// Stops. Channels that were handed over live on.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Where it listens, with the port that was really bound.
  [[nodiscard]] const Endpoint& address() const;
  [[nodiscard]] Counters counters() const;
  /// Cuts all live connections that were accepted from `peer`; both ends see it at once. Returns how many. Any thread.
  std::size_t fence(PeerId peer);
  /// As `AcceptorOptions::allow_plain`, from now on. Any thread.
  void allow_plain();
  /// Refuses what is unfinished, closes the port and joins the thread. May be called again.
  void stop();

 private:
  class Loop;
  explicit Acceptor(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace prime::net
