// Owns TlsChannel: a Channel through TLS 1.3.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/net/channel.hpp"
#include "runtime/net/openssl_pointers.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// What a TLS session reads from and writes to. A record holds 16 KiB at most: a call for each would cost more than its encryption.
struct TlsWire {
  explicit TlsWire(SocketPtr to) : socket(std::move(to)), kernel(BIO_new_socket(socket->fd(), BIO_NOCLOSE)) {}

  SocketPtr socket;
  BioPtr kernel;                  ///< asks the kernel to encrypt what is sent (CONFIG_TLS, module tls), if it can
  unsigned char record_type = 0;  ///< of the next record that the session sends through the kernel, unless it is data
  bool gathers = false;           ///< what the session writes waits in `records` until `send_records`; otherwise it leaves at once
  std::vector<std::byte> records;
  std::size_t sent = 0;
  std::unique_ptr<std::byte[]> received;  ///< read from the socket, not yet asked for by the session; none while it is idle
  std::size_t received_begin = 0;
  std::size_t received_end = 0;
};
using TlsWirePtr = std::unique_ptr<TlsWire>;

/// A TLS session over the wire, which must outlive it. It never raises SIGPIPE: embedding programs need not ignore it.
SslPtr make_session(SSL_CTX* context, TlsWire& wire);

/// Takes over a session whose handshake is done. `read` and `write` may not be called from two threads at once.
class TlsChannel final : public Channel {
 public:
  TlsChannel(TlsWirePtr wire, SslPtr session, PeerId peer);
  ~TlsChannel() override;

  Io read(std::span<std::byte> into) override;
  Io write(std::span<const std::byte> from) override { return gather(from, {}); }
  Io gather(std::span<const std::byte> first, std::span<const std::byte> second) override;
  [[nodiscard]] std::size_t buffered() const override;
  [[nodiscard]] std::size_t unconfirmed() const override { return wire_->socket->unconfirmed(); }
  [[nodiscard]] int fd() const override { return wire_->socket->fd(); }
  [[nodiscard]] bool vouches() const override { return true; }
  [[nodiscard]] PeerId peer() const override { return peer_; }
  void shutdown() noexcept override { wire_->socket->shutdown(); }
  /// Then OpenSSL has no part in sending any more. It still decrypts: its 3.0 leaves that to no kernel under TLS 1.3.
  [[nodiscard]] bool kernel_encrypts() const { return kernel_encrypts_; }

 private:
  /// Encrypts the beginning of `from` as long as the records of one call have room; what the session says if it refuses.
  int encrypt(std::span<const std::byte> from);

  TlsWirePtr wire_;
  SslPtr session_;
  PeerId peer_;
  bool kernel_encrypts_;
  std::size_t encrypted_ = 0;  ///< bytes whose records have not left yet: their caller offers them again until they have
};

/// What an SSL call that did not succeed means for a channel. Leaves no error behind for the next session of this thread.
Channel::State state_after(SSL* session, int result);

}  // namespace prime::net
