// Owns Credentials: what a process proves itself with in one run. All of it lives in memory and derives from the run key.
#pragma once

#include <cstdint>
#include <memory>
#include <openssl/types.h>
#include <span>
#include <string>

#include "messages/result.hpp"
#include "runtime/net/protocol.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::net {

/// Immutable and cheap to copy; may be used from any thread. Holds one TLS context for each direction, a fresh certificate for this
/// process, and the key of the plain transport's proof.
class Credentials {
 public:
  /// Fails only when OpenSSL does (InternalError), or when `run` is no run id (Usage).
  static Result<Credentials> make(const RunKey& key, const std::string& run, Identity self);

  [[nodiscard]] const std::string& run() const;
  [[nodiscard]] Identity self() const;
  /// Context of connections that others open to us, or that we open to them.
  [[nodiscard]] SSL_CTX* accepting() const;
  [[nodiscard]] SSL_CTX* dialing() const;
  /// Key of the plain transport's challenge and response.
  [[nodiscard]] std::span<const std::uint8_t, 32> proof_key() const;

 private:
  struct Secrets;
  explicit Credentials(std::shared_ptr<const Secrets> secrets) : secrets_(std::move(secrets)) {}
  std::shared_ptr<const Secrets> secrets_;
};

}  // namespace prime::net
