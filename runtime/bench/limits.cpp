#include "runtime/bench/limits.hpp"

#include <algorithm>
#include <array>
#include <openssl/evp.h>
#include <utility>

#include "kernels/copy.hpp"

namespace prime::bench {
namespace {

constexpr std::size_t RECORD_BYTES = 16 * 1024;
constexpr std::size_t PIECE_BYTES = 128 * 1024;
constexpr std::size_t TAG_BYTES = 16;

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

}  // namespace

struct Limits::Cipher {
  ContextPtr sealing{EVP_CIPHER_CTX_new()};
  ContextPtr opening{EVP_CIPHER_CTX_new()};
  std::array<unsigned char, 32> key{1};
  std::array<unsigned char, 12> nonce{2};
  std::array<unsigned char, TAG_BYTES> tag{};
  std::array<unsigned char, RECORD_BYTES> plain{};
  std::array<unsigned char, RECORD_BYTES> sealed{};

  Cipher() {
    EVP_EncryptInit_ex(sealing.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data());
    EVP_DecryptInit_ex(opening.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data());
  }
  /// One record out and one in. The same nonce again: nothing here is secret.
  void record() {
    int size = 0;
    EVP_EncryptInit_ex(sealing.get(), nullptr, nullptr, nullptr, nonce.data());
    EVP_EncryptUpdate(sealing.get(), sealed.data(), &size, plain.data(), RECORD_BYTES);
    EVP_EncryptFinal_ex(sealing.get(), sealed.data() + size, &size);
    EVP_CIPHER_CTX_ctrl(sealing.get(), EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag.data());
    EVP_DecryptInit_ex(opening.get(), nullptr, nullptr, nullptr, nonce.data());
    EVP_DecryptUpdate(opening.get(), plain.data(), &size, sealed.data(), RECORD_BYTES);
    EVP_CIPHER_CTX_ctrl(opening.get(), EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag.data());
    EVP_DecryptFinal_ex(opening.get(), plain.data() + size, &size);
  }
};

Limits::Limits(std::uint32_t peers, BareSockets sockets)
    : peers_(peers), sockets_(std::move(sockets)), cipher_(std::make_unique<Cipher>()) {}
Limits::~Limits() = default;

void Limits::run(Lane lane, std::uint64_t bytes) {
  switch (lane) {
    case Lane::Tcp: return sockets_.exchange(bytes);
    case Lane::Tls: return encrypt_and_decrypt(2 * bytes * (peers_ - 1) / peers_);
    case Lane::Memory: return copy(2 * bytes * (peers_ - 1) / peers_);
  }
}

void Limits::encrypt_and_decrypt(std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes; done += RECORD_BYTES) cipher_->record();
}

void Limits::copy(std::uint64_t bytes) {
  std::array<std::byte, PIECE_BYTES> ring;
  from_.resize(std::max<std::uint64_t>(from_.size(), bytes));
  to_.resize(from_.size());
  for (std::uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
    const std::size_t count = std::min<std::uint64_t>(PIECE_BYTES, bytes - at);
    kernels::copy({from_.data() + at, count}, ring.data());
    kernels::copy({ring.data(), count}, to_.data() + at);
  }
}

}  // namespace prime::bench
