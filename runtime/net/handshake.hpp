// Owns Handshake: how a connected socket becomes an authenticated channel, without blocking, at either end.
#pragma once

#include <memory>

#include "messages/errors.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/credentials.hpp"
#include "runtime/net/protocol.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// Ends with the go-ahead: one byte by which the acceptor says that it accepted the dialer too. Without it a TLS 1.3 dialer would take
/// a connection for good before its own certificate is looked at.
class Handshake {
 public:
  enum class Step { WantRead, WantWrite, Done, Failed };

  virtual ~Handshake() = default;
  Handshake() = default;
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  /// Goes as far as it can. WantRead/WantWrite: call again when the socket is ready for that. Not to be called after Done or Failed.
  virtual Step advance() = 0;
  /// After Done: what the dialer asked for, and the channel, once.
  [[nodiscard]] virtual Protocol protocol() const = 0;
  [[nodiscard]] virtual ChannelPtr take_channel() = 0;
  /// To whom a dialer of Protocol::Relay wants to be passed on.
  [[nodiscard]] virtual PeerId target() const { return {}; }
  /// After Failed: why, from this end's view; without the place, which the caller knows.
  [[nodiscard]] const Error& error() const { return error_; }

 protected:
  Step failed(ErrorName name, std::string detail) {
    error_ = Error(name, std::move(detail));
    return Step::Failed;
  }

 private:
  Error error_;
};

inline constexpr std::byte GO_AHEAD{'K'};
/// The first byte of every TLS handshake; what begins otherwise is a plain hello or nothing of ours.
inline constexpr std::byte TLS_RECORD{0x16};

std::unique_ptr<Handshake> accept_tls(SocketPtr socket, const Credentials& credentials);
std::unique_ptr<Handshake> dial_tls(SocketPtr socket, const Credentials& credentials, Protocol protocol, const Expectation& who);
/// What an acceptor takes in the clear. Control is never among it: its messages decide.
struct PlainTerms {
  bool data = true;  ///< lanes and states
  bool relays = false;
};
std::unique_ptr<Handshake> accept_plain(SocketPtr socket, const Credentials& credentials, PlainTerms terms = {});
/// `target`: of Protocol::Relay only.
std::unique_ptr<Handshake> dial_plain(SocketPtr socket, const Credentials& credentials, Protocol protocol, const Expectation& who,
                                      PeerId target = {});

}  // namespace prime::net
