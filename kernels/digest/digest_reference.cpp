#include <algorithm>
#include <array>
#include <xxhash.h>

#include "kernels/digest/digest.hpp"

namespace prime::kernels {

Digest digest_bytes(std::span<const std::byte> bytes) {
  const auto hash = XXH3_128bits(bytes.data(), bytes.size());
  return Digest{hash.high64, hash.low64};
}

std::vector<Digest> chunk_digests(std::span<const std::byte> bytes) {
  std::vector<Digest> digests;
  for (std::size_t begin = 0; begin < bytes.size(); begin += DIGEST_CHUNK_BYTES)
    digests.push_back(digest_bytes(bytes.subspan(begin, std::min(DIGEST_CHUNK_BYTES, bytes.size() - begin))));
  return digests;
}

Digest combine_digests(std::span<const Digest> chunks, std::size_t total_bytes) {
  std::vector<std::uint64_t> words;
  words.reserve(2 * chunks.size() + 1);
  for (const auto& chunk : chunks) words.insert(words.end(), {chunk.high, chunk.low});
  words.push_back(total_bytes);
  return digest_bytes(std::as_bytes(std::span{words}));
}

Digest digest_tensor_reference(std::span<const std::byte> bytes) { return combine_digests(chunk_digests(bytes), bytes.size()); }

}  // namespace prime::kernels
