// Owns reading and writing without TLS.
#include "runtime/net/plain_channel.hpp"

#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <sys/uio.h>

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

namespace {

msghdr message(std::array<iovec, 2>& parts, const void* first, std::size_t first_size, const void* second, std::size_t second_size) {
  parts = {iovec{const_cast<void*>(first), first_size}, iovec{const_cast<void*>(second), second_size}};
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  return header;
}

}  // namespace

Channel::Io send_some(int fd, std::span<const std::byte> first, std::span<const std::byte> second) {
  std::array<iovec, 2> parts;
  const msghdr header = message(parts, first.data(), first.size(), second.data(), second.size());
  const ssize_t count = ::sendmsg(fd, &header, MSG_NOSIGNAL);
  if (count > 0) return {Channel::State::Ok, static_cast<std::size_t>(count)};
  return {state_of(errno, Channel::State::WantWrite), 0};
}

PlainChannel::~PlainChannel() { socket_->shutdown(); }

Channel::Io PlainChannel::read(std::span<std::byte> into) { return receive_some(socket_->fd(), into); }
Channel::Io PlainChannel::write(std::span<const std::byte> from) { return send_some(socket_->fd(), from); }

Channel::Io PlainChannel::scatter(std::span<std::byte> first, std::span<std::byte> second) {
  std::array<iovec, 2> parts;
  msghdr header = message(parts, first.data(), first.size(), second.data(), second.size());
  const ssize_t count = ::recvmsg(socket_->fd(), &header, 0);
  if (count > 0) return {State::Ok, static_cast<std::size_t>(count)};
  return {count == 0 ? State::Closed : state_of(errno, State::WantRead), 0};
}

Channel::Io PlainChannel::gather(std::span<const std::byte> first, std::span<const std::byte> second) {
  return send_some(socket_->fd(), first, second);
}

}  // namespace prime::net
