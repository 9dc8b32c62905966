// Owns the two TLS contexts of a process and what they demand of the other end.
#include "runtime/net/credentials.hpp"

#include <openssl/err.h>
#include <string>

#include "runtime/net/certificate_authority.hpp"
#include "runtime/net/crypto.hpp"
#include "runtime/net/openssl_pointers.hpp"

namespace prime::net {

struct Credentials::Secrets {
  std::string run;
  Identity self;
  ContextPtr accepting;
  ContextPtr dialing;
  Bytes32 proof_key{};

  Secrets() = default;
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;
  ~Secrets() { OPENSSL_cleanse(proof_key.data(), proof_key.size()); }
};

namespace {

/// A dialer names the run it wants. Refusing another one here, before any certificate is seen, lets it tell its user the right cause.
int refuse_other_runs(SSL* ssl, int* alert, void* run) {
  const char* const wanted = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (wanted != nullptr && *static_cast<const std::string*>(run) == wanted) return SSL_TLSEXT_ERR_OK;
  *alert = SSL_AD_UNRECOGNIZED_NAME;
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/// Takes the first offered protocol that is one of ours. `offered` is a list of strings, each behind its length.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered, unsigned int offered_size,
                    void*) {
  for (unsigned int at = 0; at < offered_size; at += 1U + offered[at]) {
    const unsigned char size = offered[at];
    if (at + 1U + size > offered_size) break;
    if (!parse_protocol({reinterpret_cast<const char*>(offered + at + 1), size})) continue;
    *chosen = offered + at + 1;
    *chosen_size = size;
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

ContextPtr make_context(const CertificateAuthority& authority, const Certified& leaf) {
  ContextPtr context(SSL_CTX_new(TLS_method()));
  if (!context) return nullptr;
  SSL_CTX* const raw = context.get();
  const bool done = SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) == 1 && SSL_CTX_set_num_tickets(raw, 0) == 1 &&
                    SSL_CTX_use_certificate(raw, leaf.certificate.get()) == 1 && SSL_CTX_use_PrivateKey(raw, leaf.key.get()) == 1 &&
                    X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), authority.certificate()) == 1;
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // What rides a channel knows its own length, so an end of stream without a farewell is told as an end and nothing worse.
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_ENABLE_KTLS);
  // Callers retry a write from where their data lies then; idle connections keep no buffers.
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  return done ? std::move(context) : nullptr;
}

}  // namespace

Result<Credentials> Credentials::make(const RunKey& key, const std::string& run, Identity self) {
  if (!is_run_id(run)) return fail(ErrorName::Usage, "the run is not " + std::string{RUN_ID_RULE});
  PRIME_TRY(const auto authority, CertificateAuthority::derive(key, run));
  PRIME_TRY(const auto leaf, authority.issue(self));
  auto secrets = std::make_shared<Secrets>();
  secrets->run = run;
  secrets->self = self;
  secrets->proof_key = derive_key(key.secret(), "prime plain proof 1 " + run);
  secrets->accepting = make_context(authority, leaf);
  secrets->dialing = make_context(authority, leaf);
  if (!secrets->accepting || !secrets->dialing) {
    ERR_clear_error();
    return fail(ErrorName::InternalError, "OpenSSL cannot make a TLS context");
  }
  SSL_CTX_set_tlsext_servername_callback(secrets->accepting.get(), refuse_other_runs);
  SSL_CTX_set_tlsext_servername_arg(secrets->accepting.get(), &secrets->run);
  SSL_CTX_set_alpn_select_cb(secrets->accepting.get(), choose_protocol, nullptr);
  return Credentials(std::move(secrets));
}

const std::string& Credentials::run() const { return secrets_->run; }
Identity Credentials::self() const { return secrets_->self; }
SSL_CTX* Credentials::accepting() const { return secrets_->accepting.get(); }
SSL_CTX* Credentials::dialing() const { return secrets_->dialing.get(); }
std::span<const std::uint8_t, 32> Credentials::proof_key() const { return secrets_->proof_key; }

}  // namespace prime::net
