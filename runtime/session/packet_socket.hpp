// Owns packets between an agent and its trainer: one message each over a Unix socket, descriptors beside it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "messages/result.hpp"
#include "runtime/session/shared_memory.hpp"

namespace prime {

inline constexpr std::size_t MAX_PACKET_BYTES = 128 * 1024;
inline constexpr std::size_t MAX_PACKET_DESCRIPTORS = 8;

struct Packet {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};

enum class SendOutcome { Sent, WouldBlock, Closed };
enum class ReceiveOutcome { Received, WouldBlock, Closed, Malformed };  ///< Malformed: too long, or too many descriptors

/// One end; knows nothing of what packets mean. Sending and receiving may happen on two threads.
class PacketSocket {
 public:
  PacketSocket() = default;
  explicit PacketSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  static Result<std::pair<PacketSocket, PacketSocket>> pair();
  /// Takes over a descriptor number that another process handed down; refuses what is no such socket.
  static Result<PacketSocket> inherit(int number);

  /// Never blocks and never raises SIGPIPE.
  [[nodiscard]] SendOutcome send(const std::string& bytes, std::span<const int> descriptors);
  /// Never blocks. An empty packet counts as Closed: this kind of socket cannot tell them apart.
  [[nodiscard]] ReceiveOutcome receive(Packet& packet);
  [[nodiscard]] int number() const { return descriptor_.number(); }
  void close() { descriptor_.close(); }

 private:
  Descriptor descriptor_;
};

}  // namespace prime
