// Owns how a block of threads selects the largest of what it reads once: it keeps, in shared memory, those above a bound that rises
// whenever too many are kept, as the version of the CPU does.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cuda_bf16.h>

#include "kernels/commitment/commitment.hpp"

namespace prime::kernels::cuda {

using Key = unsigned long long;

// Larger is better: larger magnitudes, then lower indices. The sign rides along. An index is inverted, and lies against the magnitude, so
// that the first bits of a key tell it from others. No key is 0, since no index is as large as the number of values.
inline constexpr unsigned MAGNITUDE_SHIFT = 33;
inline constexpr unsigned KEY_BITS = 48;
__device__ inline unsigned magnitude_of(std::uint16_t bits) { return bits & 0x7FFFU; }
struct Keys {
  unsigned unused;  // upper bits of an index
  explicit Keys(std::size_t values) : unused(static_cast<unsigned>(std::countl_zero(static_cast<std::uint32_t>(values)))) {}
  __device__ Key of(unsigned index, std::uint16_t bits) const {
    const unsigned inverted = ~index << unused;
    return Key{magnitude_of(bits)} << MAGNITUDE_SHIFT | Key{inverted} << 1 | (bits >> 15);
  }
  __device__ TopValue value(Key key) const {
    const unsigned inverted = static_cast<unsigned>(key >> 1);
    return TopValue{~inverted >> unused, static_cast<std::uint16_t>((key >> MAGNITUDE_SHIFT) | (key & 1) << 15)};
  }
};

inline constexpr unsigned VECTORS = 4;    // loads of 16 bytes that a thread has under way: a tile
inline constexpr unsigned OF_VECTOR = 8;  // values

// A slice is what one load of each thread brings, a tile all its loads. Whoever keeps more than the limit selects; between two selections
// there is room for a slice.
template <unsigned THREADS>
inline constexpr unsigned SLICE = OF_VECTOR* THREADS;
__host__ __device__ inline unsigned limit_of(unsigned wanted) { return wanted + max(384U, wanted / 4); }
template <unsigned THREADS>
__host__ __device__ unsigned capacity_of(unsigned wanted) {
  return limit_of(wanted) + SLICE<THREADS>;
}

struct Kept {
  Key* keys;
  unsigned capacity;
  unsigned* count;  // of all that came, also where there was no room
  // Where so many have their place, from the first on.
  __device__ unsigned places(unsigned added) const { return atomicAdd(count, added); }
  __device__ void put(unsigned place, Key key) const {
    if (place < capacity) keys[place] = key;
  }
  __device__ void add(Key key) const { put(places(1), key); }
};

__device__ inline __nv_bfloat162 halves_of(unsigned word) { return reinterpret_cast<const __nv_bfloat162&>(word); }

// The values of a part of a segment, a tile at a time.
template <unsigned THREADS>
struct Values {
  static constexpr unsigned TILE = VECTORS * SLICE<THREADS>;
  const std::uint16_t* bits;  // of the segment
  std::size_t end;            // of the part
  Keys keys;
  unsigned* first_bad;
  const std::uint16_t* from = nullptr;  // of the tile
  unsigned index = 0;                   // of its first value
  unsigned left = 0;                    // how many it has
  unsigned words[VECTORS][4] = {};

  __device__ void load(std::size_t tile) {
    from = bits + tile;
    index = static_cast<unsigned>(tile);
    left = static_cast<unsigned>(min(end - tile, std::size_t{TILE}));
    if (left == TILE && reinterpret_cast<std::uintptr_t>(bits) % sizeof(uint4) == 0) {
#pragma unroll
      for (unsigned v = 0; v < VECTORS; ++v) {
        const uint4 four = *reinterpret_cast<const uint4*>(from + place_of(4 * v, 0));
        words[v][0] = four.x, words[v][1] = four.y, words[v][2] = four.z, words[v][3] = four.w;
      }
      return;
    }
#pragma unroll
    for (unsigned i = 0; i < 4 * VECTORS; ++i) words[i / 4][i % 4] = value_at(place_of(i, 0)) | value_at(place_of(i, 1)) << 16;
  }
  // In the tile, of a half of a word of this thread.
  __device__ static unsigned place_of(unsigned word, unsigned half) {
    return word / 4 * SLICE<THREADS> + OF_VECTOR * threadIdx.x + word % 4 * 2 + half;
  }
  // Values beyond the end are zeros.
  __device__ unsigned value_at(unsigned place) const { return place < left ? from[place] : 0U; }

  __device__ unsigned largest_magnitude(unsigned v) const {
    unsigned both = 0;
    for (const unsigned word : words[v]) both = __vmaxu2(both, word & 0x7FFF7FFFU);
    return max(both & 0xFFFFU, both >> 16);
  }

  // Those of so many vectors whose keys are above the bound. Of equal magnitudes the earlier index is better, so that none that comes later
  // than the bound's own value is. What lies beyond the end is added as no key.
  __device__ void add(unsigned first, unsigned count, Key bound, const Kept& kept) const {
    const unsigned floor = bound == 0 ? 0 : static_cast<unsigned>(bound >> MAGNITUDE_SHIFT) + 1;
    const auto least = halves_of(floor * 0x10001U);
    unsigned reached = 0;  // bit i: the lower value of the i-th word; bit 16 + i: the upper one
#pragma unroll
    for (unsigned v = 0; v < VECTORS; ++v)
      if (v - first < count)
        for (unsigned i = 0; i < 4; ++i)  // a NaN reaches everything, and is reached by everything
          reached |= __hgeu2_mask(halves_of(words[v][i] & 0x7FFF7FFFU), least) & 0x10001U << (4 * v + i);
    if (reached == 0) return;
    unsigned place = kept.places(__popc(reached));
    for (; reached != 0; reached &= reached - 1, ++place) {
      const unsigned bit = __ffs(static_cast<int>(reached)) - 1;
      const unsigned in_tile = place_of(bit % 16, bit / 16);
      const auto value = static_cast<std::uint16_t>(word(bit % 16) >> (bit / 16 * 16));
      if (magnitude_of(value) >= BF16_INFINITY) atomicMin(first_bad, index + in_tile);
      kept.put(place, in_tile < left ? keys.of(index + in_tile, value) : 0);
    }
  }
  // Chosen by halves, since registers have no index.
  __device__ unsigned word(unsigned number) const {
    unsigned left[2 * VECTORS];
#pragma unroll
    for (unsigned i = 0; i < 2 * VECTORS; ++i) left[i] = number % 2 == 0 ? words[i / 2][i % 2 * 2] : words[i / 2][i % 2 * 2 + 1];
#pragma unroll
    for (unsigned half = VECTORS, bit = 2; half > 0; half /= 2, bit *= 2)
#pragma unroll
      for (unsigned i = 0; i < half; ++i) left[i] = (number & bit) == 0 ? left[2 * i] : left[2 * i + 1];
    return left[0];
  }
};

// What the blocks that share a segment have found; a key of 0 is none.
template <unsigned THREADS>
struct Findings {
  static constexpr unsigned TILE = VECTORS * THREADS;
  const Key* keys;
  std::size_t end;
  Key own[VECTORS];

  __device__ void load(std::size_t tile) {
#pragma unroll
    for (unsigned v = 0; v < VECTORS; ++v) {
      const std::size_t at = tile + v * THREADS + threadIdx.x;
      own[v] = at < end ? keys[at] : 0;
    }
  }
  __device__ unsigned largest_magnitude(unsigned v) const { return static_cast<unsigned>(own[v] >> MAGNITUDE_SHIFT); }
  __device__ void add(unsigned first, unsigned count, Key bound, const Kept& kept) const {
#pragma unroll
    for (unsigned v = 0; v < VECTORS; ++v)
      if (v - first < count && own[v] > bound) kept.add(own[v]);
  }
};

inline constexpr unsigned DIGIT_BITS = 8;
inline constexpr unsigned DIGITS = 1U << DIGIT_BITS;

// How many keys have each digit, and what was found by that. While one is counted into, the other is cleared.
struct Counts {
  static constexpr unsigned OWN = DIGITS / 32;  // digits of a lane
  unsigned of[2][DIGITS];
  unsigned digit;
  unsigned above;  // keys with a larger one

  // A lane's digits follow each other; side by side they would lie in one bank.
  __device__ static unsigned place(unsigned digit) { return digit % OWN * 32 + digit / OWN; }

  // The digit of the rank-th largest, as one warp.
  __device__ void find(unsigned which, unsigned rank) {
    const unsigned top = DIGITS - 1 - OWN * threadIdx.x;
    unsigned all = 0;
#pragma unroll
    for (unsigned i = 0; i < OWN; ++i) all += of[which][place(top - i)];
    unsigned through = all;
#pragma unroll
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const unsigned before = __shfl_up_sync(~0U, through, distance);
      if (threadIdx.x >= distance) through += before;
    }
    unsigned larger = through - all;
    if (larger >= rank || through < rank) return;
    unsigned found = top;
    for (; larger + of[which][place(found)] < rank; --found) larger += of[which][place(found)];
    digit = found;
    above = larger;
  }
};

// A key that at least `wanted` keys of all threads reach, and at most `most` if they differ within `bits`: found digit by digit from above.
// `each` calls what it is given for each key of this thread.
template <unsigned THREADS, class Each>
__device__ Key reached_key(Counts& counts, unsigned wanted, unsigned most, unsigned bits, Each each) {
  Key least = 0;
  unsigned rank = wanted;  // among the keys that begin as `least` does
  unsigned now = 0;
  const auto clear = [&](unsigned which) {
    for (unsigned i = threadIdx.x; i < DIGITS; i += THREADS) counts.of[which][i] = 0;
  };
  clear(now);
  __syncthreads();
  for (unsigned shift = bits - DIGIT_BITS;; shift -= DIGIT_BITS) {
    each([&](Key key) {
      const Key digits = key >> shift;
      if (digits >> DIGIT_BITS == least >> shift >> DIGIT_BITS)
        atomicAdd(&counts.of[now][Counts::place(static_cast<unsigned>(digits % DIGITS))], 1U);
    });
    __syncthreads();
    if (threadIdx.x < 32) counts.find(now, rank);
    clear(now ^ 1);
    __syncthreads();
    least |= Key{counts.digit} << shift;
    rank -= counts.above;
    const unsigned equal = counts.of[now][Counts::place(counts.digit)];
    if (wanted - rank + equal <= most || shift == 0) return least;
    now ^= 1;
  }
}

template <unsigned THREADS>
struct Selection {
  unsigned wanted;
  Kept kept;
  Counts& counts;

  // A bound that at least `wanted` values exceed: as many vectors' maxima do. 0 is below all.
  template <class From>
  __device__ Key bound_of_maxima(const From& from) const {
    const Key reached = reached_key<THREADS>(counts, wanted, wanted, 2 * DIGIT_BITS, [&](auto count) {
#pragma unroll
      for (unsigned v = 0; v < VECTORS; ++v) count(from.largest_magnitude(v));
    });
    return reached == 0 ? 0 : (reached << MAGNITUDE_SHIFT) - 1;
  }

  // Keeps the `wanted` largest of so many keys, and others up to `most`, in the front. Returns a bound for what comes later.
  __device__ Key keep_best(unsigned total, unsigned most) const {
    const Key least = reached_key<THREADS>(counts, wanted, most, KEY_BITS, [&](auto count) {
      for (unsigned i = threadIdx.x; i < total; i += THREADS) count(kept.keys[i]);
    });
    if (threadIdx.x == 0) *kept.count = 0;
    for (unsigned begin = 0; begin < total; begin += THREADS) {
      const unsigned i = begin + threadIdx.x;
      const Key key = i < total ? kept.keys[i] : 0;
      __syncthreads();
      if (key != 0 && key >= least) kept.add(key);
    }
    __syncthreads();
    return least;
  }

  // Of what `from` has in [begin, end) the best are kept: their number, fewer than `wanted` where there are fewer. It ends early, with any,
  // where `is_over` says so.
  template <class From, class IsOver>
  __device__ unsigned select(From& from, std::size_t begin, IsOver is_over) const {
    Key bound = wanted == 0 ? (Key{BF16_INFINITY} << MAGNITUDE_SHIFT) - 1 : 0;  // who wants nothing still looks for what is not finite
    unsigned count = 0;
    for (std::size_t tile = begin; tile < from.end; tile += From::TILE) {
      from.load(tile);
      if (tile == begin && 0 < wanted && wanted <= VECTORS * THREADS) bound = bound_of_maxima(from);
      unsigned slices = VECTORS;  // at once
      for (unsigned v = 0; v < VECTORS;) {
        from.add(v, slices, bound, kept);
        __syncthreads();
        const unsigned now = *kept.count;
        const bool over = is_over();
        __syncthreads();
        if (over) return 0;
        if (now > kept.capacity) {  // so again, with time to select after each slice
          if (threadIdx.x == 0) *kept.count = count;
          __syncthreads();
          slices = 1;
          continue;
        }
        v += slices;
        count = now;
        if (count <= limit_of(wanted)) continue;
        bound = keep_best(count, (wanted + limit_of(wanted)) / 2);
        count = *kept.count;
        __syncthreads();
      }
    }
    if (count > wanted) static_cast<void>(keep_best(count, wanted));
    return min(*kept.count, wanted);
  }
};

}  // namespace prime::kernels::cuda
