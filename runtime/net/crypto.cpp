// Owns the calls into OpenSSL's primitives. They fail only when memory or the library itself is broken, which nobody can react to.
#include "runtime/net/crypto.hpp"

#include <cerrno>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <string>
#include <sys/random.h>

#include "messages/assert.hpp"
#include "runtime/net/openssl_pointers.hpp"

namespace prime::net {

Bytes32 derive_key(std::span<const std::uint8_t> secret, std::string_view purpose) {
  Bytes32 key{};
  std::size_t size = key.size();
  const KeyContextPtr context(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr));
  const auto* const info = reinterpret_cast<const unsigned char*>(purpose.data());
  const bool done = context && EVP_PKEY_derive_init(context.get()) == 1 && EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
                    EVP_PKEY_CTX_set1_hkdf_key(context.get(), secret.data(), static_cast<int>(secret.size())) == 1 &&
                    EVP_PKEY_CTX_add1_hkdf_info(context.get(), info, static_cast<int>(purpose.size())) == 1 &&
                    EVP_PKEY_derive(context.get(), key.data(), &size) == 1;
  PRIME_ASSERT(done && size == key.size(), "law 11");
  return key;
}

Bytes32 hmac_sha256(std::span<const std::uint8_t> key, std::span<const std::uint8_t> message) {
  Bytes32 code{};
  const auto* const done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), message.data(), message.size(), code.data(), nullptr);
  PRIME_ASSERT(done != nullptr, "law 11");
  return code;
}

Bytes32 sha256(std::string_view text) {
  Bytes32 digest{};
  PRIME_ASSERT(EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1, "law 11");
  return digest;
}

bool equal_secrets(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const auto count = ::getrandom(bytes.data(), bytes.size(), 0);
    PRIME_ASSERT(count > 0 || errno == EINTR, "law 11");
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace prime::net
