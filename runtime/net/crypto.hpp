// Owns the few primitives that credentials and proofs are made of.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace prime::net {

using Bytes32 = std::array<std::uint8_t, 32>;

/// HKDF-SHA256 without salt; `purpose` keeps keys that derive from one secret apart.
Bytes32 derive_key(std::span<const std::uint8_t> secret, std::string_view purpose);
Bytes32 hmac_sha256(std::span<const std::uint8_t> key, std::span<const std::uint8_t> message);
Bytes32 sha256(std::string_view text);
/// In constant time, so that a guesser learns nothing from delays.
bool equal_secrets(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b);
void fill_random(std::span<std::uint8_t> bytes);

}  // namespace prime::net
