// Owns the run's certificate authority: everybody with the run key derives the same one, so no file or server holds it.
#pragma once

#include <optional>
#include <string>

#include "runtime/net/openssl_pointers.hpp"
#include "runtime/net/protocol.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::net {

/// From when until when a certificate holds, as ASN.1 times.
struct Validity {
  // A skewed clock must not keep a peer out: what ends a certificate is the end of its run.
  std::string from = "20000101000000Z";
  std::string until = "99991231235959Z";
};

struct Certified {
  EvpKeyPtr key;
  CertificatePtr certificate;
};

class CertificateAuthority {
 public:
  /// The same bytes from the same key and run, on every machine.
  static Result<CertificateAuthority> derive(const RunKey& key, const std::string& run);
  [[nodiscard]] X509* certificate() const { return own_.certificate.get(); }
  /// A certificate for a new key pair; its subject says who holds it.
  [[nodiscard]] Result<Certified> issue(const Identity& who, const Validity& validity = {}) const;

 private:
  explicit CertificateAuthority(Certified own) : own_(std::move(own)) {}
  Certified own_;
};

/// Whom a certificate names; empty when its subject is not one that `issue` writes. Says nothing about its being genuine.
std::optional<Identity> identity_in(const X509* certificate);

}  // namespace prime::net
