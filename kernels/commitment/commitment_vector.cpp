// Owns the search for large values and the arithmetic of the field, so many lanes at a time, for each instruction set (Highway).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/commitment/commitment_vector.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
// The order matters: Highway's own header comes after the loop over targets.
#include <hwy/highway.h>
#include <vector>

#include "kernels/commitment/commitment.hpp"
#include "kernels/commitment/commitment_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Field = hn::ScalableTag<std::uint32_t>;
using Elements = hn::Vec<Field>;

/// 65497 = 2^16 − 39, so the high half counts 39 times. Twice: below 67095.
HWY_INLINE Elements folded(Elements v) {
  const Field d;
  const auto low = hn::Set(d, 0xFFFFU);
  const auto factor = hn::Set(d, 65536U - COMMITMENT_PRIME);
  v = hn::Add(hn::Mul(hn::ShiftRight<16>(v), factor), hn::And(v, low));
  return hn::Add(hn::Mul(hn::ShiftRight<16>(v), factor), hn::And(v, low));
}
/// Below the prime: what is above becomes small by the subtraction, what is not becomes huge.
HWY_INLINE Elements reduced(Elements v) {
  const auto twice = folded(v);
  return hn::Min(twice, hn::Sub(twice, hn::Set(Field(), COMMITMENT_PRIME)));
}

std::size_t next_above(const std::uint16_t* HWY_RESTRICT bits, std::size_t from, std::size_t count, std::uint16_t threshold) {
  const hn::ScalableTag<std::int16_t> d;
  const hn::RebindToUnsigned<decltype(d)> raw;
  const std::size_t width = hn::Lanes(d);
  const auto limit = hn::Set(d, static_cast<std::int16_t>(threshold));
  const auto magnitudes = hn::Set(raw, 0x7FFFU);
  const auto load = [&](std::size_t i) HWY_ATTR { return hn::BitCast(d, hn::And(hn::LoadU(raw, bits + i), magnitudes)); };
  std::size_t i = from;
  for (; i + 4 * width <= count; i += 4 * width) {
    const auto highest = hn::Max(hn::Max(load(i), load(i + width)), hn::Max(load(i + 2 * width), load(i + 3 * width)));
    if (!hn::AllFalse(d, hn::Gt(highest, limit))) break;
  }
  for (; i + width <= count; i += width) {
    const auto first = hn::FindFirstTrue(d, hn::Gt(load(i), limit));
    if (first >= 0) return i + static_cast<std::size_t>(first);
  }
  while (i < count && (bits[i] & 0x7FFF) <= threshold) ++i;
  return i;
}

/// Four vectors at a time hide the latency of the multiplications.
void evaluate_many(const std::uint32_t* HWY_RESTRICT coefficients, std::size_t terms, const std::uint32_t* HWY_RESTRICT points,
                   std::uint32_t* HWY_RESTRICT out, std::size_t count) {
  const Field d;
  const std::size_t width = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 4 * width <= count; i += 4 * width) {
    const auto x0 = hn::LoadU(d, points + i), x1 = hn::LoadU(d, points + i + width);
    const auto x2 = hn::LoadU(d, points + i + 2 * width), x3 = hn::LoadU(d, points + i + 3 * width);
    auto v0 = hn::Zero(d), v1 = v0, v2 = v0, v3 = v0;
    for (std::size_t j = terms; j-- > 0;) {
      const auto c = hn::Set(d, coefficients[j]);
      v0 = reduced(hn::Add(hn::Mul(v0, x0), c));
      v1 = reduced(hn::Add(hn::Mul(v1, x1), c));
      v2 = reduced(hn::Add(hn::Mul(v2, x2), c));
      v3 = reduced(hn::Add(hn::Mul(v3, x3), c));
    }
    hn::StoreU(v0, d, out + i);
    hn::StoreU(v1, d, out + i + width);
    hn::StoreU(v2, d, out + i + 2 * width);
    hn::StoreU(v3, d, out + i + 3 * width);
  }
  for (; i < count; i += width) {
    const auto x = hn::LoadU(d, points + i);
    auto v = hn::Zero(d);
    for (std::size_t j = terms; j-- > 0;) v = reduced(hn::Add(hn::Mul(v, x), hn::Set(d, coefficients[j])));
    hn::StoreU(v, d, out + i);
  }
}

/// From above, so that what is read below has not been written yet.
void multiply_by_root(std::uint32_t* polynomial, std::size_t degree, std::uint32_t root) {
  const Field d;
  const std::size_t width = hn::Lanes(d);
  const auto factor = hn::Set(d, COMMITMENT_PRIME - root);
  for (std::size_t i = (degree + width) / width * width; i > 0; i -= width) {
    // polynomial[i − width + 1 … i] = polynomial[i − width … i − 1] − root · polynomial[i − width + 1 … i]
    const auto below = hn::LoadU(d, polynomial + i - width);
    const auto here = hn::LoadU(d, polynomial + i - width + 1);
    hn::StoreU(reduced(hn::Add(hn::Mul(here, factor), below)), d, polynomial + i - width + 1);
  }
  polynomial[0] = static_cast<std::uint32_t>(std::uint64_t{polynomial[0]} * (COMMITMENT_PRIME - root) % COMMITMENT_PRIME);
}

/// Division by (x − point) from the highest coefficient down is Horner's rule: each step's value is a coefficient of the quotient.
void sum_of_quotients(const std::uint32_t* HWY_RESTRICT master, const std::uint32_t* HWY_RESTRICT points,
                      const std::uint32_t* HWY_RESTRICT weights, std::uint32_t* HWY_RESTRICT quotients, std::size_t count,
                      std::uint16_t* HWY_RESTRICT coefficients, std::size_t terms) {
  const Field d;
  const std::size_t width = hn::Lanes(d);
  for (std::size_t j = terms; j-- > 0;) {
    const auto next = hn::Set(d, master[j + 1]);
    auto sum = hn::Zero(d);  // at most 8192 terms below 67095: no overflow
    for (std::size_t i = 0; i < count; i += width) {
      const auto quotient = reduced(hn::Add(hn::Mul(hn::LoadU(d, quotients + i), hn::LoadU(d, points + i)), next));
      hn::StoreU(quotient, d, quotients + i);
      sum = hn::Add(sum, folded(hn::Mul(quotient, hn::LoadU(d, weights + i))));
    }
    coefficients[j] = static_cast<std::uint16_t>(hn::GetLane(hn::SumOfLanes(d, sum)) % COMMITMENT_PRIME);
  }
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prime::kernels {
namespace {
HWY_EXPORT(next_above);
HWY_EXPORT(evaluate_many);
HWY_EXPORT(multiply_by_root);
HWY_EXPORT(sum_of_quotients);
}  // namespace

std::size_t next_above(std::span<const std::uint16_t> bits, std::size_t from, std::uint16_t threshold) {
  return HWY_DYNAMIC_DISPATCH(next_above)(bits.data(), from, bits.size(), threshold);
}

void evaluate_many(std::span<const std::uint32_t> coefficients, std::span<const std::uint32_t> points, std::span<std::uint32_t> out) {
  HWY_DYNAMIC_DISPATCH(evaluate_many)(coefficients.data(), coefficients.size(), points.data(), out.data(), out.size());
}

void multiply_by_root(std::span<std::uint32_t> polynomial, std::size_t degree, std::uint32_t root) {
  HWY_DYNAMIC_DISPATCH(multiply_by_root)(polynomial.data(), degree, root);
}

void sum_of_quotients(std::span<const std::uint32_t> master, std::span<const std::uint32_t> points, std::span<const std::uint32_t> weights,
                      std::span<std::uint16_t> coefficients) {
  std::vector<std::uint32_t> quotients(points.size(), 0);
  HWY_DYNAMIC_DISPATCH(sum_of_quotients)
  (master.data(), points.data(), weights.data(), quotients.data(), points.size(), coefficients.data(), coefficients.size());
}

}  // namespace prime::kernels
#endif
