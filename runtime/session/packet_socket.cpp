#include "runtime/session/packet_socket.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>

#include "runtime/ancillary.hpp"

namespace prime {

Result<std::pair<PacketSocket, PacketSocket>> PacketSocket::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(ErrorName::ProcessFailed, system_error_text("no socket for the trainer"));
  }
  return std::pair(PacketSocket(Descriptor(ends[0])), PacketSocket(Descriptor(ends[1])));
}

Result<PacketSocket> PacketSocket::inherit(int number) {
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || ::getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      type != SOCK_SEQPACKET || domain != AF_UNIX) {
    return fail(ErrorName::AgentLost, "descriptor " + std::to_string(number) + " is not a trainer socket");
  }
  // What this process starts must not keep the socket open after it.
  if (::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return fail(ErrorName::AgentLost, system_error_text("the trainer socket cannot be used"));
  return PacketSocket(Descriptor(number));
}

SendOutcome PacketSocket::send(const std::string& bytes, std::span<const int> descriptors) {
  while (true) {
    if (send_descriptors(number(), std::as_bytes(std::span{bytes}), descriptors, MSG_DONTWAIT) >= 0) return SendOutcome::Sent;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == ENOBUFS ? SendOutcome::WouldBlock : SendOutcome::Closed;
  }
}

ReceiveOutcome PacketSocket::receive(Packet& packet) {
  packet.bytes.resize(MAX_PACKET_BYTES);
  packet.descriptors.clear();
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(MAX_PACKET_DESCRIPTORS * sizeof(int))> control{};
  msghdr message{};
  ssize_t count = 0;
  for (bool was_reset = false;;) {
    message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    count = ::recvmsg(number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count >= 0) break;
    if (errno == EINTR) continue;
    // The other end closed with our packets unread; its own last packets are still queued behind this one error.
    if (errno == ECONNRESET && !std::exchange(was_reset, true)) continue;
    return errno == EAGAIN ? ReceiveOutcome::WouldBlock : ReceiveOutcome::Closed;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t offset = 0; offset + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); offset += sizeof(int)) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header) + offset, sizeof received);
      packet.descriptors.emplace_back(received);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return ReceiveOutcome::Malformed;
  if (count == 0) return ReceiveOutcome::Closed;
  packet.bytes.resize(static_cast<std::size_t>(count));
  return ReceiveOutcome::Received;
}

}  // namespace prime
