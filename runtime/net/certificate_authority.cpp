// Owns the making and reading of certificates.
#include "runtime/net/certificate_authority.hpp"

#include <array>
#include <cstring>
#include <openssl/err.h>

#include "runtime/net/crypto.hpp"

namespace prime::net {

namespace {

struct Subject {
  std::string unit;
  std::string common_name;
};

bool add_text(X509_NAME* into, int kind, const std::string& text) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  return X509_NAME_add_entry_by_NID(into, kind, MBSTRING_ASC, bytes, static_cast<int>(text.size()), -1, 0) == 1;
}

bool add_subject(X509* certificate, const Subject& subject) {
  X509_NAME* const into = X509_get_subject_name(certificate);
  return add_text(into, NID_organizationName, "prime") && add_text(into, NID_organizationalUnitName, subject.unit) &&
         add_text(into, NID_commonName, subject.common_name);
}

bool add_extension(X509* certificate, int kind, const char* value) {
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_validity(X509* certificate, const Validity& validity) {
  return ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), validity.from.c_str()) == 1 &&
         ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), validity.until.c_str()) == 1;
}

/// An unsigned certificate of version 3.
CertificatePtr draft(EVP_PKEY* key, std::uint64_t serial, const Subject& subject, const Validity& validity) {
  CertificatePtr certificate(X509_new());
  const bool done = certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                    ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial) == 1 &&
                    set_validity(certificate.get(), validity) && add_subject(certificate.get(), subject) &&
                    X509_set_pubkey(certificate.get(), key) == 1;
  return done ? std::move(certificate) : nullptr;
}

/// Ed25519 signs without randomness, which makes the authority's certificate the same everywhere.
bool sign(X509* certificate, const X509* issuer, EVP_PKEY* issuer_key) {
  return X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 && X509_sign(certificate, issuer_key, nullptr) > 0;
}

EvpKeyPtr key_from_seed(const Bytes32& seed) {
  return EvpKeyPtr(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
}

std::string text_in(const X509_NAME* subject, int kind) {
  std::array<char, 128> text{};
  const int size = X509_NAME_get_text_by_NID(subject, kind, text.data(), static_cast<int>(text.size()));
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string();
}

tl::unexpected<Error> broken(const std::string& what) {
  ERR_clear_error();
  return fail(ErrorName::InternalError, "OpenSSL cannot make " + what);
}

}  // namespace

Result<CertificateAuthority> CertificateAuthority::derive(const RunKey& key, const std::string& run) {
  // The run id goes into the key as well, so that a certificate of another run is refused by its signature alone.
  Bytes32 seed = derive_key(key.secret(), "prime certificate authority 1 " + run);
  Certified own{key_from_seed(seed), nullptr};
  OPENSSL_cleanse(seed.data(), seed.size());
  if (own.key) own.certificate = draft(own.key.get(), 1, {"run", run}, {});
  X509* const certificate = own.certificate.get();
  if (certificate == nullptr || !add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(certificate, NID_key_usage, "critical,keyCertSign") || !sign(certificate, certificate, own.key.get()))
    return broken("the run's certificate authority");
  return CertificateAuthority(std::move(own));
}

Result<Certified> CertificateAuthority::issue(const Identity& who, const Validity& validity) const {
  Bytes32 seed{};
  fill_random(seed);
  Certified leaf{key_from_seed(seed), nullptr};
  std::uint64_t serial = 0;
  std::memcpy(&serial, derive_key(seed, "serial").data(), sizeof serial);
  OPENSSL_cleanse(seed.data(), seed.size());
  const Subject subject{std::string(name(who.role)), to_string(who.id)};
  if (leaf.key) leaf.certificate = draft(leaf.key.get(), serial, subject, validity);
  X509* const certificate = leaf.certificate.get();
  if (certificate == nullptr || !add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(certificate, NID_key_usage, "critical,digitalSignature") || !sign(certificate, own_.certificate.get(), own_.key.get()))
    return broken("this process's certificate");
  return leaf;
}

std::optional<Identity> identity_in(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const auto role = parse_role(text_in(subject, NID_organizationalUnitName));
  const auto id = parse_peer_id(text_in(subject, NID_commonName));
  if (!role || !id) return std::nullopt;
  return Identity{*role, *id};
}

}  // namespace prime::net
