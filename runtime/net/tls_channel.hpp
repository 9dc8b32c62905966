// Owns TlsChannel: a Channel through TLS 1.3.
#pragma once

#include "runtime/net/channel.hpp"
#include "runtime/net/openssl_pointers.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// A TLS session over the socket, which must outlive it. It never raises SIGPIPE: embedding programs need not ignore it.
SslPtr make_session(SSL_CTX* context, const Socket& socket);

/// Takes over a session whose handshake is done. `read` and `write` may not be called from two threads at once.
class TlsChannel final : public Channel {
 public:
  TlsChannel(SocketPtr socket, SslPtr session, PeerId peer) : socket_(std::move(socket)), session_(std::move(session)), peer_(peer) {}
  ~TlsChannel() override;

  Io read(std::span<std::byte> into) override;
  Io write(std::span<const std::byte> from) override;
  [[nodiscard]] std::size_t buffered() const override;
  [[nodiscard]] int fd() const override { return socket_->fd(); }
  [[nodiscard]] PeerId peer() const override { return peer_; }
  void shutdown() noexcept override { socket_->shutdown(); }

 private:
  SocketPtr socket_;
  SslPtr session_;
  PeerId peer_;
};

/// What an SSL call that did not succeed means for a channel. Leaves no error behind for the next session of this thread.
Channel::State state_after(SSL* session, int result);

}  // namespace prime::net
