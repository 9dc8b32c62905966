// Owns the one table of what a model may be: bind, the trainer's socket, the state fetch, the checkpoint's writer and its reader use these.
// What passes here at bind can be trained, fetched, saved and found again; no other file has a limit of its own for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "messages/units.hpp"

namespace prime {

struct ModelLimits {
  std::size_t tensors = 100'000;
  std::size_t name_bytes = 256;
  std::size_t dimensions = 16;
  /// 4 TiB of f32 in all; far above what one host holds, far below where byte counts overflow.
  std::uint64_t elements = std::uint64_t{1} << 40;
  /// Of a safetensors file. Hugging Face's reader takes no more: https://github.com/huggingface/safetensors (MAX_HEADER_SIZE).
  std::uint64_t header_bytes = 100'000'000;
};
inline constexpr ModelLimits MODEL_LIMITS;

/// The small files that a trainer puts into each checkpoint.
inline constexpr std::size_t EXPORT_FILES_MAX = 64;
inline constexpr std::size_t EXPORT_NAME_BYTES_MAX = 100;
inline constexpr std::uint64_t EXPORT_BYTES_MAX = 16 * MIB;

}  // namespace prime
