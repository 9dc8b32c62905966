#include "runtime/session/packet_socket.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/ancillary.hpp"
#include "runtime/shortage.hpp"

namespace prime {
namespace {

/// A trainer connects once; others are none.
constexpr std::size_t MAX_CALLERS = 8;
constexpr std::size_t SECRET_BYTES = 16;

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// In a time that does not tell how much of it is right.
bool same(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

Result<std::string> new_secret() {
  std::array<unsigned char, SECRET_BYTES> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail(ErrorName::ProcessFailed, system_error_text("no secret for the trainer"));
  constexpr std::string_view DIGITS = "0123456789abcdef";
  std::string text;
  for (const auto byte : bytes) text += {DIGITS[byte >> 4U], DIGITS[byte & 15U]};
  return text;
}

bool no_descriptors() {
  const Descriptor one{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  return !one && (errno == EMFILE || errno == ENFILE);
}

bool watch(const Descriptor& readiness, int number) {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(readiness.number(), EPOLL_CTL_ADD, number, &event) == 0;
}

}  // namespace

Result<std::pair<PacketSocket, PacketSocket>> PacketSocket::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(refused(ErrorName::ProcessFailed, "no socket for the trainer", errno));
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

Result<PacketSocket> PacketSocket::connect(const std::string& path, const std::string& secret) {
  const auto address = address_of(path);
  if (!address) return fail(ErrorName::AgentLost, path + " is too long for a socket");
  PacketSocket socket{Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0))};
  if (socket.number() < 0 || ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return fail(ErrorName::AgentLost, system_error_text("the agent's socket " + path) +
                                          "; is this process in a container that does not see it, or is its agent gone?");
  if (socket.send(secret, {}) != SendOutcome::Sent) return fail(ErrorName::AgentLost, "the agent at " + path + " does not listen");
  return socket;
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
  // The kernel drops the descriptors that this process has no number for, and says the same of too many.
  const bool dropped = (message.msg_flags & MSG_CTRUNC) != 0 && packet.descriptors.size() < MAX_PACKET_DESCRIPTORS && no_descriptors();
  if (dropped) return ReceiveOutcome::NoDescriptors;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return ReceiveOutcome::Malformed;
  if (count == 0) return ReceiveOutcome::Closed;
  packet.bytes.resize(static_cast<std::size_t>(count));
  return ReceiveOutcome::Received;
}

Result<PacketListener> PacketListener::open(const std::filesystem::path& parent) {
  const auto in = [](const std::filesystem::path& where) { return (where / "prime-XXXXXX").string(); };
  auto directory = in(parent);
  if (!address_of(directory + "/agent")) directory = in("/tmp");
  if (::mkdtemp(directory.data()) == nullptr) return fail(ErrorName::StorageFailed, system_error_text(directory));
  PRIME_TRY(auto secret, new_secret());
  PacketListener listener(directory, std::move(secret), Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
                          Descriptor(::epoll_create1(EPOLL_CLOEXEC)));
  const auto path = listener.path();
  const auto address = *address_of(path);
  const bool listens = listener.socket_.number() >= 0 &&
                       ::bind(listener.socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                       ::listen(listener.socket_.number(), MAX_CALLERS) == 0 && watch(listener.readiness_, listener.socket_.number());
  if (listens) listener.spare_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!listener.spare_) return fail(refused(ErrorName::ProcessFailed, "no socket for the trainer at " + path, errno));
  return listener;
}

PacketListener::~PacketListener() {
  if (directory_.empty()) return;
  ::unlink(path().c_str());
  ::rmdir(directory_.c_str());
}

std::optional<PacketSocket> PacketListener::accept() {
  for (;;) {
    PacketSocket caller{Descriptor(::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK))};
    if (caller.number() < 0 && (errno == EMFILE || errno == ENFILE) && spare_) {
      spare_.close();
      continue;
    }
    if (caller.number() < 0) break;
    if (callers_.size() == MAX_CALLERS) callers_.erase(callers_.begin());
    if (watch(readiness_, caller.number())) callers_.push_back(std::move(caller));
  }
  for (auto at = callers_.begin(); at != callers_.end();) {
    Packet said;
    const auto outcome = at->receive(said);
    if (outcome == ReceiveOutcome::WouldBlock) {
      ++at;
    } else if (outcome == ReceiveOutcome::Received && said.descriptors.empty() && same(said.bytes, secret_)) {
      return std::move(*at);
    } else {
      at = callers_.erase(at);
    }
  }
  return std::nullopt;
}

}  // namespace prime
