// Owns reading and writing without TLS.
#include "runtime/net/plain_channel.hpp"

#include <cerrno>
#include <sys/socket.h>

namespace prime::net {

namespace {

Channel::State state_of(int error_number, Channel::State blocked) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR) return blocked;
  return Channel::State::Failed;
}

}  // namespace

Channel::Io receive_some(int fd, std::span<std::byte> into) {
  const ssize_t count = ::recv(fd, into.data(), into.size(), 0);
  if (count > 0) return {Channel::State::Ok, static_cast<std::size_t>(count)};
  return {count == 0 ? Channel::State::Closed : state_of(errno, Channel::State::WantRead), 0};
}

Channel::Io send_some(int fd, std::span<const std::byte> from) {
  const ssize_t count = ::send(fd, from.data(), from.size(), MSG_NOSIGNAL);
  if (count > 0) return {Channel::State::Ok, static_cast<std::size_t>(count)};
  return {state_of(errno, Channel::State::WantWrite), 0};
}

PlainChannel::~PlainChannel() { socket_->shutdown(); }

Channel::Io PlainChannel::read(std::span<std::byte> into) { return receive_some(socket_->fd(), into); }
Channel::Io PlainChannel::write(std::span<const std::byte> from) { return send_some(socket_->fd(), from); }

}  // namespace prime::net
