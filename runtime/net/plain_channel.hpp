// Owns PlainChannel: a Channel in the clear, after both ends proved the run key. For links that are private already.
#pragma once

#include "runtime/net/channel.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

class PlainChannel final : public Channel {
 public:
  PlainChannel(SocketPtr socket, PeerId peer) : socket_(std::move(socket)), peer_(peer) {}
  ~PlainChannel() override;

  Io read(std::span<std::byte> into) override;
  Io write(std::span<const std::byte> from) override;
  Io scatter(std::span<std::byte> first, std::span<std::byte> second) override;
  Io gather(std::span<const std::byte> first, std::span<const std::byte> second) override;
  [[nodiscard]] std::size_t buffered() const override { return 0; }
  [[nodiscard]] std::size_t unconfirmed() const override { return socket_->unconfirmed(); }
  [[nodiscard]] int fd() const override { return socket_->fd(); }
  [[nodiscard]] PeerId peer() const override { return peer_; }
  void shutdown() noexcept override { socket_->shutdown(); }

 private:
  SocketPtr socket_;
  PeerId peer_;
};

/// The bare calls, for the handshake that precedes a channel, and where the kernel encrypts.
Channel::Io receive_some(int fd, std::span<std::byte> into);
Channel::Io send_some(int fd, std::span<const std::byte> from);
Channel::Io send_some(int fd, std::span<const std::byte> first, std::span<const std::byte> second);

}  // namespace prime::net
