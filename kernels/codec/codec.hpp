// Owns how f32 values are made small for the wire and large again. Every version (reference, each vector width, CUDA) makes the
// same bits, so that peers with different machines stay equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "messages/data_types.hpp"

namespace prime::kernels {

enum class Rounding : std::uint8_t {
  Nearest = 0,
  Stochastic = 1,  ///< up with the probability of the fraction: right in the mean; never moves a value that the codec has exactly
};

/// Spans that begin at a multiple of this many values encode alone as they do inside a longer span: a multiple of every block.
inline constexpr std::size_t CODEC_ALIGNMENT = 256;

/// What the bytes depend on besides the values. The random bits of value i are those of (seed, version, first_index + i) and of
/// nothing else, so a retry repeats them and a new version does not.
struct Encoding {
  Codec codec = Codec::None;
  Rounding rounding = Rounding::Nearest;
  std::uint64_t seed = 0;
  std::uint64_t version = 0;
  std::uint64_t first_index = 0;  ///< of values[0] in its tensor; the vectors are used where it is a multiple of CODEC_ALIGNMENT
};

/// The first value that a codec cannot carry: NaN, infinite, or so large that f16 or bf16 would make it infinite (65520 and more for
/// f16). Refused rather than clamped, since a clamped update would be a wrong mean that nobody was told of.
struct Unencodable {
  std::size_t index = 0;
  float value = 0;
};

/// Blocks follow each other from the start of the span, little-endian, each a head and its codes; the last block may be shorter.
///   F16, BF16                no head; 2 bytes a value
///   Int8MinMax     256       f32 middle, f32 step; u8 codes:   middle + (code − 127.5)·step,  step = (max − min)/255
///   Int8ZeroPoint  256       f32 step, u8 zero; u8 codes:      (code − zero)·step,            step = (max(max,0) − min(min,0))/254
///   Int8Block      256       f32 step; i8 codes −127…127:      code·step,                     step = max|x|/127
///   Int4Block       32       f32 step; i4 codes −7…7:          code·step,                     step = max|x|/7
///   E3M0           256       f32 scale; sign and 3 bits k:     ±2^(k−7)·scale, 0 for k = 0,   scale = max|x|
/// Codes of 4 bits: the even value in the low half of a byte. The 255th step of ZeroPoint is given away so that the rounding of the
/// zero never cuts off an end of the range. Int8 and Int4 nearest: |error| ≤ step/2; E3M0: at most √2, zero below 2^-6.5·scale.
std::size_t encoded_bytes(Codec codec, std::size_t elements);

/// Shapes: out holds encoded_bytes(codec, values.size()). Where a value is refused, out holds nothing of use.
[[nodiscard]] std::optional<Unencodable> encode(const Encoding& encoding, std::span<const float> values, std::span<std::byte> out);
[[nodiscard]] std::optional<Unencodable> encode_reference(const Encoding& encoding, std::span<const float> values,
                                                          std::span<std::byte> out);

/// Error feedback: a = values + residual is encoded, and next_residual = a − decoded(a), each rounded to f32. The residual itself stays
/// as it was: to commit, the caller swaps the two; to abort, it does not. An Unencodable speaks of a.
struct FeedbackBuffers {
  std::span<const float> values;
  std::span<const float> residual;
  std::span<std::byte> out;
  std::span<float> next_residual;
};
[[nodiscard]] std::optional<Unencodable> encode_with_feedback(const Encoding& encoding, const FeedbackBuffers& buffers);
[[nodiscard]] std::optional<Unencodable> encode_with_feedback_reference(const Encoding& encoding, const FeedbackBuffers& buffers);

/// Shapes: bytes holds encoded_bytes(codec, out.size()). Any bytes decode to something: a scale of NaN gives NaN.
struct DecodeBuffers {
  std::span<const std::byte> bytes;
  std::span<float> out;
};
void decode(Codec codec, const DecodeBuffers& buffers);
void decode_reference(Codec codec, const DecodeBuffers& buffers);

/// The vector instructions in use on this machine, by name.
std::string_view codec_vectors();

}  // namespace prime::kernels
