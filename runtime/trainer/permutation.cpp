// Owns the arithmetic of the keyed bijection.
#include "runtime/trainer/permutation.hpp"

#include <algorithm>
#include <bit>

namespace prime::trainer {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

Permutation::Permutation(std::uint64_t size, std::uint64_t key, std::uint64_t pass) : size_(size) {
  const auto bits = static_cast<unsigned>(std::bit_width(size - 1));
  half_bits_ = std::max(1U, (bits + 1) / 2);
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t chain = mix(mix(key + 1) ^ (pass + 0x9e3779b97f4a7c15ULL));
  for (auto& round_key : keys_) round_key = chain = mix(chain + 0x9e3779b97f4a7c15ULL);
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  do {
    std::uint64_t left = position >> half_bits_;
    std::uint64_t right = position & half_mask_;
    for (const auto key : keys_) {
      const std::uint64_t next = left ^ (mix(right ^ key) & half_mask_);
      left = right;
      right = next;
    }
    position = (left << half_bits_) | right;
  } while (position >= size_);
  return position;
}

}  // namespace prime::trainer
