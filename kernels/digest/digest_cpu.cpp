#include <algorithm>
#include <thread>

#include "kernels/digest/digest.hpp"

namespace prime::kernels {

Digest digest_tensor(std::span<const std::byte> bytes, unsigned threads) {
  const std::size_t count = (bytes.size() + DIGEST_CHUNK_BYTES - 1) / DIGEST_CHUNK_BYTES;
  std::vector<Digest> digests(count);
  const auto work = [&](std::size_t first, std::size_t stride) {
    for (std::size_t i = first; i < count; i += stride) {
      const std::size_t begin = i * DIGEST_CHUNK_BYTES;
      digests[i] = digest_bytes(bytes.subspan(begin, std::min(DIGEST_CHUNK_BYTES, bytes.size() - begin)));
    }
  };
  const std::size_t workers = std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(count, 1));
  std::vector<std::jthread> pool;
  for (std::size_t w = 1; w < workers; ++w) pool.emplace_back(work, w, workers);
  work(0, workers);
  pool.clear();  // joins
  return combine_digests(digests, bytes.size());
}

Digest digest_of_parts(std::span<const Digest> parts) { return parts.size() == 1 ? parts.front() : combine_digests(parts, parts.size()); }

}  // namespace prime::kernels
