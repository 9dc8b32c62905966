// Owns how a warp encodes a tile: quickly where all is there, aligned and ordinary, else step by step.
#pragma once

#include <type_traits>

#include "kernels/codec/codec_random.cuh"

namespace prime::kernels::cuda {

/// Integers in the order of the floats; -0 before 0.
__device__ inline std::int32_t ordered(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits ^ (bits >> 31 & 0x7FFFFFFF);
}
__device__ inline float from_ordered(std::int32_t key) { return std::bit_cast<float>(key ^ (key >> 31 & 0x7FFFFFFF)); }

template <unsigned COUNT>
__device__ std::uint32_t largest_of(const Four (&quads)[COUNT], unsigned first = 0, unsigned count = COUNT) {
  std::uint32_t largest = 0;
#pragma unroll
  for (unsigned quad = 0; quad < COUNT; ++quad)
    if (quad - first < count)
      for (const float value : quads[quad].at) largest = max(largest, magnitude_of(value));
  return largest;
}

/// Of the warp's values of the quads from `first` on.
template <unsigned COUNT>
__device__ BlockRange affine_range(const Four (&quads)[COUNT], unsigned first = 0, unsigned count = COUNT) {
  float minimum = quads[first].at[0], maximum = minimum;
#pragma unroll
  for (unsigned quad = 0; quad < COUNT; ++quad)
    if (quad - first < count)
      for (const float value : quads[quad].at) minimum = fminf(minimum, value), maximum = fmaxf(maximum, value);
  BlockRange range;
  range.minimum = from_ordered(__reduce_min_sync(ALL_LANES, ordered(minimum)));
  range.maximum = from_ordered(__reduce_max_sync(ALL_LANES, ordered(maximum)));
  range.magnitude = max(magnitude_of(range.minimum), magnitude_of(range.maximum));
  return range;
}

// --- where all is ordinary -------------------------------------------------------------------------------------------

/// Of eight values of each of eight lanes: the i-th lane gets the largest of all i-th ones.
__device__ inline std::uint32_t largest_of_lanes(std::uint32_t (&values)[QUADS], unsigned lane) {
#pragma unroll
  for (unsigned distance = QUADS / 2; distance > 0; distance /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (unsigned i = 0; i < distance; ++i) {
      const std::uint32_t low = values[i], high = values[i + distance];
      values[i] = max(upper ? high : low, __shfl_xor_sync(ALL_LANES, upper ? low : high, distance));
    }
  }
  return values[0];
}

/// Each lane has the range and the scale of one block of the tile, since dividing for all of them in every lane would take too long.
template <Codec CODEC>
struct Owned {
  using L = Layout<CODEC>;
  static constexpr bool SMALL = L::LANES_OF_BLOCK < LANES;
  /// The block of a lane, and the lane that has the block of a lane's quad.
  __device__ static unsigned block_of(unsigned lane) { return SMALL ? lane % QUADS * (LANES / QUADS) + lane / QUADS : lane % GROUPS; }
  __device__ static unsigned owner_of(unsigned lane, unsigned quad) {
    return SMALL ? lane / QUADS * QUADS + quad : quad / L::QUADS_OF_BLOCK;
  }

  __device__ static BlockRange range(const Four (&quads)[QUADS], unsigned lane) {
    BlockRange own{0, 0, 0};
    if constexpr (SMALL) {
      std::uint32_t largest[QUADS];
#pragma unroll
      for (unsigned quad = 0; quad < QUADS; ++quad) largest[quad] = largest_of(quads, quad, 1);
      own.magnitude = largest_of_lanes(largest, lane);
    } else {
#pragma unroll
      for (unsigned block = 0; block < GROUPS; ++block) {
        BlockRange range{0, 0, 0};
        if constexpr (is_affine(CODEC)) range = affine_range(quads, block * L::QUADS_OF_BLOCK, L::QUADS_OF_BLOCK);
        else range.magnitude = __reduce_max_sync(ALL_LANES, largest_of(quads, block * L::QUADS_OF_BLOCK, L::QUADS_OF_BLOCK));
        if (lane % GROUPS == block) own = range;
      }
    }
    return own;
  }
};

/// What a warp keeps for its tile in shared memory. Blocks that begin at any byte are put together there, and leave as words.
struct Nothing {};
template <Codec CODEC>
struct Bytes {
  std::uint32_t words[Layout<CODEC>::TILE_BYTES / 4];
};
template <Codec CODEC, Rounding ROUNDING>
struct Shared {
  std::conditional_t<ROUNDING == Rounding::Stochastic, TileWords, Nothing> random;
  std::conditional_t<Layout<CODEC>::IN_WORDS, Nothing, Bytes<CODEC>> bytes;
};

template <Codec CODEC>
__device__ void store_codes(std::byte* to, const Codes& codes) {
  using L = Layout<CODEC>;
  const auto& at = codes.at;
  const std::uint32_t low = at[0] | at[1] << L::BITS % 32, high = at[2] | at[3] << L::BITS % 32;
  if constexpr (!L::IN_WORDS)
    for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(at[i]);
  else if constexpr (L::BITS == 4) store_as(to, static_cast<std::uint16_t>(low | high << 8));
  else if constexpr (L::BITS == 8) store_as(to, low | high << 16);
  else if constexpr (L::BITS == 16) store_as(to, uint2{low, high});
  else store_as(to, uint4{at[0], at[1], at[2], at[3]});
}

/// A whole tile, whose arrays lie aligned and whose first value has an index that is a multiple of RANDOM_GROUP. False, and nothing is
/// encoded, where a value is refused or a block extreme.
template <Codec CODEC, Rounding ROUNDING>
__device__ bool encode_ordinary(const Encoding& encoding, const EncodeDevice& device, std::size_t tile, unsigned lane,
                                Shared<CODEC, ROUNDING>& shared) {
  using L = Layout<CODEC>;
  using O = Owned<CODEC>;
  const std::size_t begin = tile * TILE + 4 * lane;
  Four quads[QUADS];
#pragma unroll
  for (unsigned quad = 0; quad < QUADS; ++quad) quads[quad] = load_whole_four(device.values + begin + quad * STRIDE);
  if (device.residual != nullptr) {
#pragma unroll
    for (unsigned quad = 0; quad < QUADS; ++quad) {
      const Four residual = load_whole_four(device.residual + begin + quad * STRIDE);
      for (unsigned i = 0; i < 4; ++i) quads[quad].at[i] = quads[quad].at[i] + residual.at[i];
    }
  }
  if constexpr (ROUNDING == Rounding::Stochastic) draw(encoding, encoding.first_index + tile * TILE, lane, shared.random);

  BlockScale own;
  bool ordinary = largest_of(quads) < refused_bits(CODEC);
  if constexpr (L::HEAD > 0) {
    const BlockRange range = O::range(quads, lane);
    ordinary = ordinary && !is_extreme(range.magnitude);
    own = ordinary_scale(CODEC, ROUNDING, range);
  }
  if (!__all_sync(ALL_LANES, ordinary)) return false;

  std::byte* const out = L::IN_WORDS ? device.out + tile * L::TILE_BYTES : reinterpret_cast<std::byte*>(&shared.bytes);
  if (L::HEAD > 0 && (O::SMALL || lane < GROUPS))
    store_head(CODEC, own, static_cast<std::byte*>(__builtin_assume_aligned(out + O::block_of(lane) * L::BYTES, L::IN_WORDS ? 4 : 1)));
  const unsigned lane_in_block = lane % L::LANES_OF_BLOCK;
  std::byte* const codes_out = out + lane / L::LANES_OF_BLOCK * L::BYTES + L::HEAD + lane_in_block * L::BITS / 2;
#pragma unroll
  for (unsigned quad = 0; quad < QUADS; ++quad) {
    BlockScale scale;
    if constexpr (L::HEAD > 0) {
      const unsigned owner = O::owner_of(lane, quad);
      scale.inverse = __shfl_sync(ALL_LANES, own.inverse, owner);
      if constexpr (CODEC == Codec::Int8MinMax) scale.middle = __shfl_sync(ALL_LANES, own.middle, owner);
      if constexpr (CODEC == Codec::Int8ZeroPoint) scale.zero = __shfl_sync(ALL_LANES, own.zero, owner);
      if (device.next_residual != nullptr) scale.step = __shfl_sync(ALL_LANES, own.step, owner);
    }
    Random random{};
    if constexpr (ROUNDING == Rounding::Stochastic) random = random_of(shared.random, quad * STRIDE + 4 * lane);
    Codes codes;
    for (unsigned i = 0; i < 4; ++i) codes.at[i] = code_of(CODEC, ROUNDING, scale, quads[quad].at[i], random.at[i]);
    const unsigned block = quad / L::QUADS_OF_BLOCK * (LANES / L::LANES_OF_BLOCK);
    store_codes<CODEC>(codes_out + block * L::BYTES + quad % L::QUADS_OF_BLOCK * (STRIDE * L::BITS / 8), codes);
    if (device.next_residual == nullptr) continue;
    Four next;
    for (unsigned i = 0; i < 4; ++i) next.at[i] = quads[quad].at[i] - value_of(CODEC, scale, codes.at[i]);
    store_whole_four(device.next_residual + begin + quad * STRIDE, next);
  }
  if constexpr (!L::IN_WORDS) {
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < L::TILE_BYTES / 4; i += LANES)
      if (i + lane < L::TILE_BYTES / 4) store_as(device.out + tile * L::TILE_BYTES + 4 * (i + lane), shared.bytes.words[i + lane]);
    __syncwarp();
  }
  return true;
}

// --- where something is not ------------------------------------------------------------------------------------------

/// Out of line: what divides in f64, and draws for one value alone.
template <Codec CODEC>
__device__ __noinline__ BlockScale any_scale(Rounding rounding, BlockRange range) {
  return block_scale(CODEC, rounding, range);
}
template <Codec CODEC, Rounding ROUNDING>
__device__ __noinline__ std::uint32_t any_code(BlockScale scale, float value, std::uint64_t seed, std::uint64_t version,
                                               std::uint64_t index) {
  return code_of(CODEC, ROUNDING, scale, value, ROUNDING == Rounding::Stochastic ? random_bits(seed, version, index) : 0);
}

/// `position` is the first one's in its block, a multiple of four.
template <unsigned BITS>
__device__ void store_present(std::byte* codes, unsigned position, const Codes& code, unsigned present) {
  std::byte* const to = codes + position * BITS / 8;
  const auto& at = code.at;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    if (i >= present) continue;
    if constexpr (BITS == 4) {
      if (i % 2 == 0) to[i / 2] = static_cast<std::byte>(at[i] | (i + 1 < present ? at[i + 1] << 4 : 0));
    }
    if constexpr (BITS == 8) to[i] = static_cast<std::byte>(at[i]);
    if constexpr (BITS == 16) store_as(to + 2 * i, static_cast<std::uint16_t>(at[i]));
    if constexpr (BITS == 32) store_as(to + 4 * i, at[i]);
  }
}

/// Any tile, a quad of each thread after the other. Missing values are copies of the last one, which changes no range.
template <Codec CODEC, Rounding ROUNDING>
__device__ void encode_any(const Encoding& encoding, const EncodeDevice& device, std::size_t tile, unsigned lane) {
  using L = Layout<CODEC>;
  constexpr unsigned OF_BLOCK = L::QUADS_OF_BLOCK;
#pragma unroll 1
  for (unsigned first = 0; first < QUADS; first += OF_BLOCK) {
    const std::size_t index = tile * TILE + first * STRIDE + 4 * lane;
    Four quads[OF_BLOCK];
#pragma unroll
    for (unsigned quad = 0; quad < OF_BLOCK; ++quad) {
      quads[quad] = load_four(false, device.values, index + quad * STRIDE, device.count);
      if (device.residual == nullptr) continue;
      const Four residual = load_four(false, device.residual, index + quad * STRIDE, device.count);
      for (unsigned i = 0; i < 4; ++i) quads[quad].at[i] = quads[quad].at[i] + residual.at[i];
    }
    BlockScale scale;
    if constexpr (L::HEAD > 0) {
      BlockRange range{0, 0, largest_of(quads)};
      if constexpr (is_affine(CODEC)) range = affine_range(quads);
      else
        for (unsigned distance = L::LANES_OF_BLOCK / 2; distance > 0; distance /= 2)
          range.magnitude = max(range.magnitude, __shfl_xor_sync(ALL_LANES, range.magnitude, distance));
      scale = any_scale<CODEC>(ROUNDING, range);
    }
    std::byte* const block = device.out + index / L::VALUES * L::BYTES;
    if (lane % L::LANES_OF_BLOCK == 0 && index < device.count) store_head(CODEC, scale, block);
#pragma unroll
    for (unsigned quad = 0; quad < OF_BLOCK; ++quad) {
      const std::size_t at = index + quad * STRIDE;
      Codes codes;
      Four next;
      for (unsigned i = 0; i < 4; ++i) {
        const float value = quads[quad].at[i];
        if (magnitude_of(value) >= refused_bits(CODEC))
          atomicMin(device.first_refused, static_cast<unsigned long long>(min(at + i, device.count - 1)));
        codes.at[i] = any_code<CODEC, ROUNDING>(scale, value, encoding.seed, encoding.version, encoding.first_index + at + i);
        next.at[i] = value - value_of(CODEC, scale, codes.at[i]);
      }
      store_present<L::BITS>(block + L::HEAD, index % L::VALUES + quad * STRIDE, codes, present_of(at, device.count));
      if (device.next_residual != nullptr) store_four(false, device.next_residual, at, device.count, next);
    }
  }
}

}  // namespace prime::kernels::cuda
