// Owns what each element type is summed in and how one value joins the others: the definition behind every typed reduce.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/reduce/typed_reduce.hpp"
#include "kernels/small_floats.hpp"

namespace prime::kernels {

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
__extension__ using Wide = __int128;  // no sum of ranks' 64-bit integers overflows it

template <class Element>
inline constexpr bool IS_FLOAT = std::is_floating_point_v<Element> || std::is_same_v<Element, Half> || std::is_same_v<Element, Brain>;

/// What an element becomes when it is read: the 16-bit floats f32, all others themselves.
template <class Element>
using Value = std::conditional_t<std::is_arithmetic_v<Element>, Element, float>;

/// What values are gathered in. Integers wrap in an unsigned type, averages are exact, comparisons need no more than the value has.
template <class Element, ReduceOperator OP>
struct Gather {
  static constexpr bool COMPARES = OP == ReduceOperator::Minimum || OP == ReduceOperator::Maximum;
  using Wrapping = std::conditional_t<sizeof(Element) == 8, std::uint64_t, std::uint32_t>;
  // Of at most 65535 ranks.
  using OfSmall = std::conditional_t<std::is_signed_v<Element>, std::int32_t, std::uint32_t>;
  using OfWord = std::conditional_t<std::is_signed_v<Element>, std::int64_t, std::uint64_t>;
  using Exact = std::conditional_t<sizeof(Element) == 8, Wide, std::conditional_t<sizeof(Element) == 4, OfWord, OfSmall>>;
  using OfInteger = std::conditional_t<OP == ReduceOperator::Average, Exact, Wrapping>;
  using Type = std::conditional_t<IS_FLOAT<Element> || COMPARES, Value<Element>, OfInteger>;
};
template <class Element, ReduceOperator OP>
using Gathered = typename Gather<Element, OP>::Type;

template <class Element>
Value<Element> value_from(Element element) {
  if constexpr (std::is_same_v<Element, Half>) return f16_to_f32(element.bits);
  else if constexpr (std::is_same_v<Element, Brain>) return bf16_to_f32(element.bits);
  else return element;
}

template <class Element, ReduceOperator OP>
Gathered<Element, OP> neutral() {
  using Type = Gathered<Element, OP>;
  using Limits = std::numeric_limits<Type>;
  constexpr bool FLOAT = std::is_floating_point_v<Type>;
  if constexpr (OP == ReduceOperator::Product) return Type{1};
  else if constexpr (OP == ReduceOperator::Minimum) return FLOAT ? Limits::infinity() : Limits::max();
  else if constexpr (OP == ReduceOperator::Maximum) return FLOAT ? -Limits::infinity() : Limits::lowest();
  else return Type{0};
}

/// The first rank's value, before any other joins it.
template <class Element, ReduceOperator OP>
Gathered<Element, OP> first_of(Element element, float weight) {
  using Type = Gathered<Element, OP>;
  if constexpr (IS_FLOAT<Element> && OP == ReduceOperator::Average) return static_cast<Type>(weight) * value_from(element);
  else return static_cast<Type>(value_from(element));
}

template <class Element, ReduceOperator OP>
Gathered<Element, OP> joined(Gathered<Element, OP> before, Element element, float weight) {
  const auto next = first_of<Element, OP>(element, weight);
  if constexpr (OP == ReduceOperator::Product) return before * next;
  else if constexpr (OP == ReduceOperator::Minimum) return (next < before) | (next != next) ? next : before;
  else if constexpr (OP == ReduceOperator::Maximum) return (next > before) | (next != next) ? next : before;
  else return before + next;
}

template <class Element, ReduceOperator OP>
Element finished(Gathered<Element, OP> gathered, double scale, std::uint32_t ranks) {
  using Type = Gathered<Element, OP>;
  if constexpr (OP == ReduceOperator::Average) {
    if constexpr (IS_FLOAT<Element>) gathered = gathered * static_cast<Type>(scale);
    else if (ranks > 0) gathered = gathered / static_cast<Type>(ranks);
  }
  if constexpr (std::is_same_v<Element, Half>) return {f32_to_f16(gathered)};
  else if constexpr (std::is_same_v<Element, Brain>) return {f32_to_bf16(gathered)};
  else return static_cast<Element>(gathered);
}

/// Calls visitor.template operator()<Element, OP>() with the type and the operator as constants.
template <class Element, class Visitor>
void with_operator(ReduceOperator op, Visitor visitor) {
  switch (op) {
    case ReduceOperator::Sum: return visitor.template operator()<Element, ReduceOperator::Sum>();
    case ReduceOperator::Average: return visitor.template operator()<Element, ReduceOperator::Average>();
    case ReduceOperator::Product: return visitor.template operator()<Element, ReduceOperator::Product>();
    case ReduceOperator::Minimum: return visitor.template operator()<Element, ReduceOperator::Minimum>();
    case ReduceOperator::Maximum: return visitor.template operator()<Element, ReduceOperator::Maximum>();
  }
}

template <class Visitor>
void with_type(DataType type, ReduceOperator op, Visitor visitor) {
  switch (type) {
    case DataType::F32: return with_operator<float>(op, visitor);
    case DataType::F64: return with_operator<double>(op, visitor);
    case DataType::F16: return with_operator<Half>(op, visitor);
    case DataType::BF16: return with_operator<Brain>(op, visitor);
    case DataType::I8: return with_operator<std::int8_t>(op, visitor);
    case DataType::I16: return with_operator<std::int16_t>(op, visitor);
    case DataType::I32: return with_operator<std::int32_t>(op, visitor);
    case DataType::I64: return with_operator<std::int64_t>(op, visitor);
    case DataType::U8: return with_operator<std::uint8_t>(op, visitor);
    case DataType::U16: return with_operator<std::uint16_t>(op, visitor);
    case DataType::U32: return with_operator<std::uint32_t>(op, visitor);
    case DataType::U64: return with_operator<std::uint64_t>(op, visitor);
  }
}

}  // namespace prime::kernels
