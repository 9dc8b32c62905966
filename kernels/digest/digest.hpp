// Owns the digest of a tensor: XXH3-128 over fixed chunks, then over the chunk digests, so that chunks can be digested in
// parallel, verified one by one while a state is fetched, and computed alike on every machine (bytes are little-endian).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "messages/ids.hpp"

namespace prime::kernels {

/// The unit of state transfer and of digests.
inline constexpr std::size_t DIGEST_CHUNK_BYTES = std::size_t{1} << 20;

Digest digest_bytes(std::span<const std::byte> bytes);
/// One digest for each chunk of DIGEST_CHUNK_BYTES; the last chunk may be shorter; none for no bytes.
std::vector<Digest> chunk_digests(std::span<const std::byte> bytes);
/// The digest of a whole tensor from its chunks' digests and its length.
Digest combine_digests(std::span<const Digest> chunks, std::size_t total_bytes);

/// Of a state from the digests of its parts; of one part its own.
Digest digest_of_parts(std::span<const Digest> parts);

Digest digest_tensor_reference(std::span<const std::byte> bytes);
/// Equal to the reference; uses up to `threads` threads.
Digest digest_tensor(std::span<const std::byte> bytes, unsigned threads = 1);

}  // namespace prime::kernels
