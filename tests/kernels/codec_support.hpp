// Owns what the codec tests feed in, and the walk over every codec, rounding and instruction set of this machine.
#pragma once

#include <array>
#include <functional>
#include <hwy/targets.h>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/codec_scalar.hpp"
#include "tests/kernels/support.hpp"

namespace prime::kernels::test {

inline constexpr std::array ALL_CODECS{Codec::None,          Codec::F16,       Codec::BF16,      Codec::Int8MinMax,
                                       Codec::Int8ZeroPoint, Codec::Int8Block, Codec::Int4Block, Codec::E3M0};
inline constexpr std::array ROUNDINGS{Rounding::Nearest, Rounding::Stochastic};

/// Sizes around the blocks, with whole and broken ends.
inline const std::vector<std::size_t> CODEC_SIZES{0,   1,   2,   7,   31,  32,  33,  63,   127,  128, 129,
                                                  255, 256, 257, 287, 511, 512, 513, 1000, 4096, 5003};

/// Calls `body` once for each instruction set that both this machine and the codecs have.
inline void on_every_target(const std::function<void(std::string_view)>& body) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(codec_vectors());
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

enum class Kind { Gaussian, HeavyTailed, Constant, Negative, Positive, Zero, Sparse, Denormal, Huge, Narrow, Mixed, MixedBlocks };
inline constexpr std::array KINDS{Kind::Gaussian, Kind::HeavyTailed, Kind::Constant, Kind::Negative, Kind::Positive, Kind::Zero,
                                  Kind::Sparse,   Kind::Denormal,    Kind::Huge,     Kind::Narrow,   Kind::Mixed,    Kind::MixedBlocks};

inline float value_of_kind(Kind kind, std::mt19937_64& random) {
  const float normal = std::normal_distribution<float>(0, 1)(random);
  const float sign = random() % 2 == 0 ? 1.0F : -1.0F;
  switch (kind) {
    case Kind::Gaussian: return normal * 0.01F;
    case Kind::HeavyTailed: return std::clamp(std::cauchy_distribution<float>(0, 1)(random), -1e6F, 1e6F);
    case Kind::Constant: return -0.3F;
    case Kind::Negative: return -3.0F - std::abs(normal);
    case Kind::Positive: return 3.0F + std::abs(normal);
    case Kind::Zero: return sign * 0.0F;
    case Kind::Sparse: return random() % 300 == 0 ? normal : 0.0F;
    case Kind::Denormal: return std::bit_cast<float>(static_cast<std::uint32_t>(random() % 40)) * sign;
    case Kind::Huge: return sign * (std::numeric_limits<float>::max() * (1.0F - 0x1p-20F * static_cast<float>(random() % 1000)));
    case Kind::Narrow: return std::bit_cast<float>(0x447A0000U + static_cast<std::uint32_t>(random() % 5));  // a few ulps around 1000
    case Kind::Mixed: return any_float(random);
    case Kind::MixedBlocks: return normal;
  }
  return 0;
}

/// Values that `codec` accepts.
inline std::vector<float> values_of_kind(Kind kind, Codec codec, std::size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto of = kind;
    if (kind == Kind::MixedBlocks) of = KINDS[(i / 32 * 7) % (KINDS.size() - 1)];
    values[i] = value_of_kind(of, random);
    if (codec == Codec::F16) values[i] = std::clamp(values[i], -65519.0F, 65519.0F);
    if (codec == Codec::BF16) values[i] = std::clamp(values[i], -3.39e38F, 3.39e38F);
  }
  return values;
}

inline std::vector<std::byte> encoded(const Encoding& encoding, std::span<const float> values) {
  std::vector<std::byte> bytes(encoded_bytes(encoding.codec, values.size()), std::byte{0xA5});
  return encode(encoding, values, bytes) ? std::vector<std::byte>{} : bytes;
}

inline std::vector<float> decoded(Codec codec, std::span<const std::byte> bytes, std::size_t count) {
  std::vector<float> values(count);
  decode(codec, {bytes, values});
  return values;
}

}  // namespace prime::kernels::test
