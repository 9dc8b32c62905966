// Owns the codecs' kernels: a block of threads takes 256 values and calls the arithmetic of codec_scalar.hpp for each.
#include "kernels/codec/codec_cuda.hpp"
#include "kernels/codec/codec_scalar.hpp"
#include "kernels/launch.cuh"

namespace prime::kernels::cuda {
namespace {

constexpr unsigned LANES = 32;
constexpr unsigned WARPS = THREADS / LANES;
constexpr unsigned ALL_LANES = ~0U;
static_assert(THREADS == CODEC_ALIGNMENT);

__device__ BlockRange wider(const BlockRange& a, const BlockRange& b) {
  return {a.minimum < b.minimum ? a.minimum : b.minimum, a.maximum > b.maximum ? a.maximum : b.maximum,
          a.magnitude > b.magnitude ? a.magnitude : b.magnitude};
}

__device__ BlockRange range_of_warp(BlockRange range) {
  for (unsigned distance = LANES / 2; distance > 0; distance /= 2)
    range = wider(range, {__shfl_xor_sync(ALL_LANES, range.minimum, distance), __shfl_xor_sync(ALL_LANES, range.maximum, distance),
                          __shfl_xor_sync(ALL_LANES, range.magnitude, distance)});
  return range;
}

__device__ BlockRange range_of_block(BlockRange range) {
  __shared__ BlockRange of_warps[WARPS];
  range = range_of_warp(range);
  __syncthreads();  // the last group's ranges have been read
  if (threadIdx.x % LANES == 0) of_warps[threadIdx.x / LANES] = range;
  __syncthreads();
  for (const auto& other : of_warps) range = wider(range, other);
  return range;
}

template <Codec CODEC>
__device__ void store_code(std::byte* codes, std::size_t position, std::uint32_t code, bool present) {
  constexpr auto BITS = block_layout(CODEC).bits;
  if constexpr (BITS == 4) {
    const std::uint32_t next = __shfl_down_sync(ALL_LANES, present ? code : 0U, 1);
    if (present && position % 2 == 0) codes[position / 2] = static_cast<std::byte>(code | next << 4);
  } else if (present) {
    if constexpr (BITS == 8) codes[position] = static_cast<std::byte>(code);
    if constexpr (BITS == 16) reinterpret_cast<std::uint16_t*>(codes)[position] = static_cast<std::uint16_t>(code);
    if constexpr (BITS == 32) reinterpret_cast<std::uint32_t*>(codes)[position] = code;
  }
}

// All threads of the block stay together, also those beyond the end: they take part in the shuffles.
template <Codec CODEC>
__global__ void encode_kernel(Encoding encoding, EncodeDevice device, std::size_t groups) {
  constexpr auto LAYOUT = block_layout(CODEC);
  constexpr std::size_t BLOCK_BYTES = block_bytes(LAYOUT, LAYOUT.values);
  for (std::size_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const std::size_t index = group * THREADS + threadIdx.x;
    const bool present = index < device.count;
    float value = present ? device.values[index] : 0.0F;
    if (present && device.residual != nullptr) value = value + device.residual[index];
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & ~SIGN_BIT;
    const bool refused = magnitude >= refused_bits(CODEC);
    if (refused) atomicMin(device.first_refused, static_cast<unsigned long long>(index));
    const float infinite = std::bit_cast<float>(INFINITY_BITS);
    BlockRange range{present ? value : infinite, present ? value : -infinite, magnitude};
    if constexpr (LAYOUT.values == LANES) range = range_of_warp(range);
    else range = range_of_block(range);
    const bool whole = range.magnitude < refused_bits(CODEC);
    const auto scale = whole ? block_scale(CODEC, encoding.rounding, range) : BlockScale{};
    const std::uint32_t random =
        encoding.rounding == Rounding::Stochastic ? random_bits(encoding.seed, encoding.version, encoding.first_index + index) : 0;
    const std::uint32_t code = whole ? code_of(CODEC, encoding.rounding, scale, value, random) : 0;
    std::byte* block = device.out + index / LAYOUT.values * BLOCK_BYTES;
    if (present && index % LAYOUT.values == 0) store_head(CODEC, scale, block);
    store_code<CODEC>(block + LAYOUT.head_bytes, index % LAYOUT.values, code, present);
    if (present && device.next_residual != nullptr) device.next_residual[index] = value - value_of(CODEC, scale, code);
  }
}

template <Codec CODEC>
__global__ void decode_kernel(DecodeDevice device) {
  constexpr auto LAYOUT = block_layout(CODEC);
  constexpr std::size_t BLOCK_BYTES = block_bytes(LAYOUT, LAYOUT.values);
  for (std::size_t index = first_index(); index < device.count; index += stride()) {
    const std::byte* block = device.bytes + index / LAYOUT.values * BLOCK_BYTES;
    const std::byte* codes = block + LAYOUT.head_bytes;
    const std::size_t position = index % LAYOUT.values;
    std::uint32_t code = 0;
    if constexpr (LAYOUT.bits == 4) code = std::to_integer<std::uint32_t>(codes[position / 2]) >> (position % 2 * 4) & 0xFU;
    if constexpr (LAYOUT.bits == 8) code = std::to_integer<std::uint32_t>(codes[position]);
    if constexpr (LAYOUT.bits == 16) code = reinterpret_cast<const std::uint16_t*>(codes)[position];
    if constexpr (LAYOUT.bits == 32) code = reinterpret_cast<const std::uint32_t*>(codes)[position];
    device.out[index] = value_of(CODEC, load_head(CODEC, block), code);
  }
}

__global__ void set_word(unsigned long long* word, unsigned long long value) { *word = value; }

// Calls visitor.template operator()<CODEC>().
template <class Visitor>
void with_codec(Codec codec, Visitor visitor) {
  switch (codec) {
    case Codec::None: return visitor.template operator()<Codec::None>();
    case Codec::F16: return visitor.template operator()<Codec::F16>();
    case Codec::BF16: return visitor.template operator()<Codec::BF16>();
    case Codec::Int8MinMax: return visitor.template operator()<Codec::Int8MinMax>();
    case Codec::Int8ZeroPoint: return visitor.template operator()<Codec::Int8ZeroPoint>();
    case Codec::Int8Block: return visitor.template operator()<Codec::Int8Block>();
    case Codec::Int4Block: return visitor.template operator()<Codec::Int4Block>();
    case Codec::E3M0: return visitor.template operator()<Codec::E3M0>();
  }
}

struct LaunchEncode {
  const Encoding& encoding;
  const EncodeDevice& device;
  cudaStream_t stream;
  template <Codec CODEC>
  void operator()() const {
    const std::size_t groups = groups_of(device.count);
    encode_kernel<CODEC><<<blocks_for(groups), THREADS, 0, stream>>>(encoding, device, groups);
  }
};

struct LaunchDecode {
  const DecodeDevice& device;
  cudaStream_t stream;
  template <Codec CODEC>
  void operator()() const {
    decode_kernel<CODEC><<<blocks_for(groups_of(device.count)), THREADS, 0, stream>>>(device);
  }
};

}  // namespace

Fault encode(const Encoding& encoding, const EncodeDevice& device, void* stream) {
  set_word<<<1, 1, 0, stream_of(stream)>>>(device.first_refused, device.count);
  if (device.count > 0) with_codec(encoding.codec, LaunchEncode{encoding, device, stream_of(stream)});
  return fault_of_launch();
}

Fault decode(Codec codec, const DecodeDevice& device, void* stream) {
  if (device.count == 0) return std::nullopt;
  with_codec(codec, LaunchDecode{device, stream_of(stream)});
  return fault_of_launch();
}

}  // namespace prime::kernels::cuda
