// Owns packets between an agent and its trainer: one message each over a Unix socket, descriptors beside it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "messages/result.hpp"
#include "runtime/session/shared_memory.hpp"

namespace prime {

/// The environment variables that tell a trainer where its agent listens, and what to say there.
inline constexpr const char* AGENT_SOCKET_VARIABLE = "PRIME_AGENT_SOCKET";
inline constexpr const char* AGENT_SECRET_VARIABLE = "PRIME_AGENT_SECRET";

inline constexpr std::size_t MAX_PACKET_BYTES = 128 * 1024;
inline constexpr std::size_t MAX_PACKET_DESCRIPTORS = 8;

struct Packet {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};

enum class SendOutcome { Sent, WouldBlock, Closed };
/// Malformed: too long, or too many descriptors. NoDescriptors: of what it brought, since this process can open none.
enum class ReceiveOutcome { Received, WouldBlock, Closed, Malformed, NoDescriptors };

/// One end; knows nothing of what packets mean. Sending and receiving may happen on two threads.
class PacketSocket {
 public:
  PacketSocket() = default;
  explicit PacketSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  static Result<std::pair<PacketSocket, PacketSocket>> pair();
  /// Takes over a descriptor number that another process handed down; refuses what is no such socket.
  static Result<PacketSocket> inherit(int number);
  /// Connects to who listens at `path`, and says the secret.
  static Result<PacketSocket> connect(const std::string& path, const std::string& secret);

  /// Never blocks and never raises SIGPIPE.
  [[nodiscard]] SendOutcome send(const std::string& bytes, std::span<const int> descriptors);
  /// Never blocks. An empty packet counts as Closed: this kind of socket cannot tell them apart.
  [[nodiscard]] ReceiveOutcome receive(Packet& packet);
  [[nodiscard]] int number() const { return descriptor_.number(); }
  void close() { descriptor_.close(); }

 private:
  Descriptor descriptor_;
};

/// Where an agent waits for its trainer, whatever stands between the two: a shell, `conda run`, `sudo`, a container that sees the path. Who
/// does not say the secret is not heard.
class PacketListener {
 public:
  /// In a new directory of `parent` that only this user may enter; in /tmp when that path is too long for a socket.
  static Result<PacketListener> open(const std::filesystem::path& parent);
  PacketListener(PacketListener&&) noexcept = default;
  PacketListener& operator=(PacketListener&&) = delete;
  /// Removes the directory.
  ~PacketListener();

  [[nodiscard]] std::string path() const { return directory_ / "agent"; }
  [[nodiscard]] const std::string& secret() const { return secret_; }
  /// Readable when somebody has connected or said something.
  [[nodiscard]] int number() const { return readiness_.number(); }
  /// Never blocks. The first who says the secret.
  [[nodiscard]] std::optional<PacketSocket> accept();

 private:
  PacketListener(std::filesystem::path directory, std::string secret, Descriptor socket, Descriptor readiness)
      : directory_(std::move(directory)), secret_(std::move(secret)), socket_(std::move(socket)), readiness_(std::move(readiness)) {}

  std::filesystem::path directory_;  ///< empty once moved from
  std::string secret_;
  Descriptor socket_;
  Descriptor spare_;                   ///< whose place the trainer's connection takes when there is no other
  Descriptor readiness_;               ///< epoll over the socket and the callers
  std::vector<PacketSocket> callers_;  ///< that have yet to say something; the oldest makes room
};

}  // namespace prime
