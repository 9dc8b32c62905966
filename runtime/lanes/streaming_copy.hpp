// Owns the copy of what nobody reads again soon: it goes around the caches, which hold what is under way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace prime::lanes {

/// Results of tensors so large are written this way: such a tensor does not stay in a core's caches anyway, and a line that is only
/// written need not be read first.
inline constexpr std::size_t STREAMING_BYTES = std::size_t{8} << 20;

/// `to` and `from` are equally long and do not overlap.
inline void streaming_copy(std::span<std::byte> to, std::span<const std::byte> from) {
#if defined(__SSE2__)
  constexpr std::size_t LINE = 64;
  const auto misaligned = reinterpret_cast<std::uintptr_t>(to.data()) % LINE;
  std::size_t at = misaligned == 0 ? 0 : std::min(LINE - misaligned, to.size());
  std::memcpy(to.data(), from.data(), at);
  for (; at + LINE <= to.size(); at += LINE)
    for (std::size_t part = 0; part < LINE; part += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to.data() + at + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + at + part)));
  _mm_sfence();  // before another thread is told
  std::memcpy(to.data() + at, from.data() + at, to.size() - at);
#else
  std::memcpy(to.data(), from.data(), to.size());
#endif
}

}  // namespace prime::lanes
