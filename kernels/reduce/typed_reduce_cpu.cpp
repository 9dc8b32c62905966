// Owns the typed reduce in plain loops, compiled once for each instruction set (Highway chooses at run time) and vectorised there.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/typed_reduce_cpu.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
// The order matters: Highway's own header comes after the loop over targets.
#include <algorithm>
#include <array>
#include <cstring>
#include <hwy/highway.h>

#include "kernels/reduce/typed_reduce_scalar.hpp"

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {

// Small enough that the gathered values stay in the first-level cache while all ranks join.
constexpr std::size_t BLOCK = 1024;

struct Work {
  const TypedReduction& reduction;
  std::span<const TypedInput> inputs;
  std::span<std::byte> out;
};

// Where the processor converts f16 itself, a block of it is joined and finished as f32. The conversions are exact one way and round to
// the nearest even the other, as small_floats.hpp does.
constexpr bool CONVERTS_F16 = (HWY_TARGET & (HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL | HWY_NEON)) != 0;

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;
using HalfBits = hn::Rebind<std::uint16_t, Floats>;

HWY_NOINLINE void widen_block(const std::byte* values, std::size_t count, float* HWY_RESTRICT widened) {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(values);
  const std::size_t whole = count / hn::Lanes(Floats()) * hn::Lanes(Floats());
  for (std::size_t i = 0; i < whole; i += hn::Lanes(Floats()))
    hn::StoreU(hn::PromoteTo(Floats(), hn::BitCast(Halves(), hn::LoadU(HalfBits(), bits + i))), Floats(), widened + i);
  for (std::size_t i = whole; i < count; ++i) {
    std::uint16_t code;
    std::memcpy(&code, values + i * sizeof(code), sizeof(code));
    widened[i] = f16_to_f32(code);
  }
}

HWY_NOINLINE void narrow_block(const float* HWY_RESTRICT values, std::size_t count, std::byte* HWY_RESTRICT out) {
  const auto infinite = hn::Set(HalfBits(), 0x7C00U);
  const auto magnitudes = hn::Set(HalfBits(), 0x7FFFU);
  auto* bits = reinterpret_cast<std::uint16_t*>(out);
  const std::size_t whole = count / hn::Lanes(Floats()) * hn::Lanes(Floats());
  for (std::size_t i = 0; i < whole; i += hn::Lanes(Floats())) {
    const auto code = hn::BitCast(HalfBits(), hn::DemoteTo(Halves(), hn::LoadU(Floats(), values + i)));
    const auto is_nan = hn::Gt(hn::And(code, magnitudes), infinite);
    const auto only_nan = hn::Or(hn::AndNot(magnitudes, code), hn::Set(HalfBits(), 0x7E00U));
    hn::StoreU(hn::IfThenElse(is_nan, only_nan, code), HalfBits(), bits + i);
  }
  for (std::size_t i = whole; i < count; ++i) {
    const std::uint16_t code = f32_to_f16(values[i]);
    std::memcpy(out + i * sizeof(code), &code, sizeof(code));
  }
}

template <class Element, ReduceOperator OP, bool FIRST>
HWY_NOINLINE void join_block(const TypedInput& input, std::size_t offset, std::size_t count, Gathered<Element, OP>* HWY_RESTRICT gathered) {
  const std::byte* values = input.values + offset;
  const float weight = input.weight;
  if constexpr (CONVERTS_F16 && std::is_same_v<Element, Half>) {
    alignas(64) std::array<float, BLOCK> widened;
    widen_block(values, count, widened.data());
    return join_block<float, OP, FIRST>({reinterpret_cast<const std::byte*>(widened.data()), weight}, 0, count, gathered);
  }
  for (std::size_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, values + i * sizeof(Element), sizeof(Element));
    if constexpr (FIRST) gathered[i] = first_of<Element, OP>(element, weight);
    else gathered[i] = joined<Element, OP>(gathered[i], element, weight);
  }
}

// A quotient in f64 is cut to the right integer: the sum of 32-bit values is exact there, and a fraction lies at least 1/ranks below
// the next integer, far more than the rounding.
template <class Element, ReduceOperator OP>
HWY_INLINE Element finished_fast(Gathered<Element, OP> gathered, double scale, std::uint32_t ranks) {
  if constexpr (OP == ReduceOperator::Average && std::is_integral_v<Element> && sizeof(Element) <= 4)
    return static_cast<Element>(
        static_cast<Gathered<Element, OP>>(static_cast<double>(gathered) / static_cast<double>(std::max(ranks, 1U))));
  else return finished<Element, OP>(gathered, scale, ranks);
}

template <class Element, ReduceOperator OP>
HWY_NOINLINE void finish_block(const Gathered<Element, OP>* HWY_RESTRICT gathered, std::size_t count, double scale, std::uint32_t ranks,
                               std::byte* HWY_RESTRICT out) {
  if constexpr (CONVERTS_F16 && std::is_same_v<Element, Half>) {
    alignas(64) std::array<float, BLOCK> results;
    finish_block<float, OP>(gathered, count, scale, ranks, reinterpret_cast<std::byte*>(results.data()));
    return narrow_block(results.data(), count, out);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto result = finished_fast<Element, OP>(gathered[i], scale, ranks);
    std::memcpy(out + i * sizeof(Element), &result, sizeof(Element));
  }
}

template <class Element, ReduceOperator OP>
HWY_NOINLINE void reduce(const Work& work) {
  alignas(64) std::array<Gathered<Element, OP>, BLOCK> gathered;
  const std::size_t total = work.out.size() / sizeof(Element);
  for (std::size_t begin = 0; begin < total; begin += BLOCK) {
    const std::size_t count = std::min(BLOCK, total - begin);
    const std::size_t offset = begin * sizeof(Element);
    std::uint32_t ranks = 0;
    for (const auto& input : work.inputs) {
      if (input.weight == 0) continue;
      if (ranks == 0) join_block<Element, OP, true>(input, offset, count, gathered.data());
      else join_block<Element, OP, false>(input, offset, count, gathered.data());
      ++ranks;
    }
    if (ranks == 0) gathered.fill(neutral<Element, OP>());
    finish_block<Element, OP>(gathered.data(), count, work.reduction.scale, ranks, work.out.data() + offset);
  }
}

struct ByBlock {
  const Work& work;
  template <class Element, ReduceOperator OP>
  void operator()() const {
    reduce<Element, OP>(work);
  }
};

void reduce_here(const TypedReduction& reduction, std::span<const TypedInput> inputs, std::span<std::byte> out) {
  const Work work{reduction, inputs, out};
  with_type(reduction.type, reduction.op, ByBlock{work});
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prime::kernels {
HWY_EXPORT(reduce_here);

void reduce_typed(const TypedReduction& reduction, std::span<const TypedInput> inputs, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(reduce_here)(reduction, inputs, out);
}

void combine(const TypedReduction& reduction, std::span<std::byte> accumulator, std::span<const std::byte> operand) {
  const std::array<TypedInput, 2> both{TypedInput{accumulator.data()}, TypedInput{operand.data()}};
  reduce_typed(reduction, both, accumulator);
}
}  // namespace prime::kernels
#endif
