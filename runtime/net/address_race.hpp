// Owns the race of somebody's addresses: all are tried, one after the other has had a moment, and the first that proves itself wins.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// The next address is tried so long after the one before it, or as soon as that one has failed (RFC 8305).
inline constexpr Duration NEXT_ADDRESS_AFTER = 250ms;

/// Of those that are connected one proves itself at a time, for so long at least: who would hear of two, from one who needs one, might take
/// the second for a new beginning.
inline constexpr Duration NEXT_HANDSHAKE_AFTER = 1s;

/// Remembers which addresses led there, so that they are tried first. Any thread.
class AddressMemory {
 public:
  /// The same addresses in the order in which to try them.
  [[nodiscard]] Addresses order(Addresses addresses) const;
  /// `won` did, and of `addresses` no other one is tried before it.
  void note(const Addresses& addresses, const Endpoint& won);

 private:
  /// More than a run has; what is forgotten costs a moment.
  static constexpr std::size_t REMEMBERED_MAX = 4096;
  mutable std::mutex mutex_;  ///< guards won_
  std::set<std::string> won_;
};

/// What won: `handshake` is done, and null where none was asked for.
struct RaceWinner {
  SocketPtr socket;
  std::unique_ptr<Handshake> handshake;
  Endpoint address;
};
/// Begins what a connected socket has to go through to count; null: being connected is enough.
using BeginHandshake = std::function<std::unique_ptr<Handshake>(const SocketPtr&)>;

/// An address that swallows everything, or where somebody else answers, costs the others nothing. The error names each address with what
/// became of it, and has the name of the first that somebody answered with; RunUnreachable when nobody did, Interrupted when `stop` ended
/// it.
Result<RaceWinner> race(const Addresses& addresses, const BeginHandshake& begin, Instant until, const StopSignal* stop = nullptr);

/// Connects one socket. RunUnreachable has the cause alone.
Result<SocketPtr> begin_connect(const sockaddr* address, socklen_t size);
/// After begin_connect, when it can be written: whether it is connected.
Result<void> end_connect(const SocketPtr& socket);

}  // namespace prime::net
