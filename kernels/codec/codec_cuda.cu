// Owns the codecs' kernels: the bytes of codec.hpp, by the arithmetic of codec_scalar.hpp.
#include "kernels/codec/codec_cuda.hpp"
#include "kernels/codec/codec_decode.cuh"
#include "kernels/codec/codec_encode.cuh"
#include "kernels/launch.cuh"

namespace prime::kernels::cuda {
namespace {

// The threads of a warp stay together, also those beyond the end: they take part in finding the ranges.
template <Codec CODEC, Rounding ROUNDING>
__global__ void __launch_bounds__(WARPS* LANES) encode_kernel(Encoding encoding, EncodeDevice device, std::size_t tiles) {
  __shared__ Shared<CODEC, ROUNDING> of_warps[WARPS];
  const unsigned lane = threadIdx.x % LANES;
  auto& shared = of_warps[threadIdx.x / LANES];
  const bool aligned = are_aligned(device.values, device.residual, device.next_residual) && lie_aligned<CODEC>(device.out) &&
                       (ROUNDING == Rounding::Nearest || encoding.first_index % RANDOM_GROUP == 0);
  for (std::size_t tile = first_index() / LANES; tile < tiles; tile += stride() / LANES) {
    const bool whole = aligned && (tile + 1) * TILE <= device.count;
    if (!whole || !encode_ordinary(encoding, device, tile, lane, shared)) encode_any<CODEC, ROUNDING>(encoding, device, tile, lane);
  }
}

template <Codec CODEC>
__global__ void __launch_bounds__(WARPS* LANES) decode_kernel(DecodeDevice device, std::size_t tiles) {
  const bool aligned = are_aligned(device.out) && lie_aligned<CODEC>(device.bytes);
  for (std::size_t tile = first_index() / LANES; tile < tiles; tile += stride() / LANES) {
    const std::size_t begin = tile * TILE + 4 * (threadIdx.x % LANES);
    if (aligned && (tile + 1) * TILE <= device.count) decode_tile<CODEC, true>(device, begin);
    else decode_tile<CODEC, false>(device, begin);
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

std::size_t tiles_of(std::size_t count) { return (count + TILE - 1) / TILE; }
unsigned blocks_of(std::size_t tiles) { return blocks_for((tiles + WARPS - 1) / WARPS); }

struct LaunchEncode {
  const Encoding& encoding;
  const EncodeDevice& device;
  cudaStream_t stream;
  template <Codec CODEC>
  void operator()() const {
    const std::size_t tiles = tiles_of(device.count);
    if (encoding.rounding == Rounding::Stochastic)
      encode_kernel<CODEC, Rounding::Stochastic><<<blocks_of(tiles), WARPS * LANES, 0, stream>>>(encoding, device, tiles);
    else encode_kernel<CODEC, Rounding::Nearest><<<blocks_of(tiles), WARPS * LANES, 0, stream>>>(encoding, device, tiles);
  }
};

struct LaunchDecode {
  const DecodeDevice& device;
  cudaStream_t stream;
  template <Codec CODEC>
  void operator()() const {
    const std::size_t tiles = tiles_of(device.count);
    decode_kernel<CODEC><<<blocks_of(tiles), WARPS * LANES, 0, stream>>>(device, tiles);
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
