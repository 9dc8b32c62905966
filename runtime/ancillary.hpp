// Owns sending bytes over a socket with something beside them: descriptors, or the type of a TLS record.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>

#include "messages/assert.hpp"

namespace prime {

struct Ancillary {
  int level;
  int type;
  std::span<const std::byte> bytes;
};

/// As sendmsg does; it never raises SIGPIPE. Without `beside.bytes` nothing goes beside.
inline ssize_t send_with(int socket, std::span<const std::byte> bytes, const Ancillary& beside, int flags = 0) {
  alignas(cmsghdr) std::array<std::byte, 256> space{};
  PRIME_ASSERT(CMSG_SPACE(beside.bytes.size()) <= space.size(), "what goes beside is a few descriptors");
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg only reads it
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!beside.bytes.empty()) {
    message.msg_control = space.data();
    message.msg_controllen = CMSG_SPACE(beside.bytes.size());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = beside.level;
    header->cmsg_type = beside.type;
    header->cmsg_len = CMSG_LEN(beside.bytes.size());
    std::memcpy(CMSG_DATA(header), beside.bytes.data(), beside.bytes.size());
  }
  return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

inline ssize_t send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, int flags = 0) {
  return send_with(socket, bytes, {SOL_SOCKET, SCM_RIGHTS, std::as_bytes(descriptors)}, flags);
}

}  // namespace prime
