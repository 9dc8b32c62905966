// Owns Relay: the passing on of bytes to a member, by a third one that reaches it, from one who does not: another member, or a joiner that
// fetches the state.
//
// The asker proves the run key (plain_handshake.cpp) and names, in what it proves, the peer that it wants. The answer is one byte. From
// then on both sockets are one: the handshake of the lane runs from end to end, so what is passed on can be neither read nor forged here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "messages/membership.hpp"
#include "messages/units.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/send_cap.hpp"
#include "runtime/net/session_threads.hpp"
#include "runtime/net/stop_signal.hpp"

namespace prime::net {

/// Lanes that one peer passes on at once; each has a thread and two buffers.
inline constexpr std::size_t MAX_RELAYED = 32;
/// One way. More waits with its sender.
inline constexpr std::size_t RELAY_BUFFER_BYTES = 128 * 1024;
/// To reach the peer that is asked for. Short, because the asker may have others to ask.
inline constexpr Duration RELAY_CONNECT_LIMIT = 1s;
/// So long after one of both has stopped being a member its lane ends, at most.
inline constexpr Duration RELAY_LOOKS_UP = 1s;

enum class RelayAnswer : std::uint8_t { Connected = 'K', NoMember = 'M', Busy = 'B', Unreachable = 'U' };

/// A thread for each lane: it may block where the lane thread of this process must not, and costs nothing while the lane is idle.
class Relay {
 public:
  /// Where a member accepts lanes; nothing for everybody else. Called from any thread.
  using Find = std::function<std::optional<Addresses>(PeerId)>;
  /// Who has been a member and is none any more: nothing is passed on for it. Called from any thread.
  using IsGone = std::function<bool(PeerId)>;
  /// Sets the options of a lane's socket.
  using Prepare = std::function<void(int fd)>;

  /// Both ways of what is passed on are under `cap`, where there is one.
  Relay(Find find, IsGone is_gone, Prepare prepare, std::shared_ptr<SendCap> cap = nullptr)
      : find_(std::move(find)), is_gone_(std::move(is_gone)), prepare_(std::move(prepare)), cap_(std::move(cap)) {}
  /// Ends all.
  ~Relay() { ends_.stop(); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Takes who was accepted for Protocol::Relay; returns at once.
  void serve(ChannelPtr asker, PeerId target);
  [[nodiscard]] std::size_t lanes() { return sessions_.running(); }

 private:
  void connect_and_pass_on(Channel& asker, PeerId target) const;
  void pass_on(Channel& asker, Channel& target) const;

  Find find_;
  IsGone is_gone_;
  Prepare prepare_;
  std::shared_ptr<SendCap> cap_;
  StopSignal ends_;
  SessionThreads sessions_{MAX_RELAYED};  ///< last: they look at what is above
};

}  // namespace prime::net
