// Owns the tests of the typed reduce: all element types and operators have the bits of the reference, and the promised edges.
#include "kernels/reduce/typed_reduce.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <rapidcheck.h>

#include "kernels/small_floats.hpp"
#include "tests/kernels/codec_support.hpp"

BOOST_AUTO_TEST_SUITE(typed_reduce)

using namespace prime;
using namespace prime::kernels;
using namespace prime::kernels::test;

namespace {

DataType type_at(std::size_t index) { return static_cast<DataType>(index); }
ReduceOperator operator_at(std::size_t index) { return static_cast<ReduceOperator>(index); }

bool is_float(DataType type) { return type == DataType::F32 || type == DataType::F64 || type == DataType::F16 || type == DataType::BF16; }

// Bits of every kind; floats without NaN, whose payload the order of an addition's operands may change.
std::vector<std::byte> elements(DataType type, std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count * element_bytes(type));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random() >> (random() % 2 * 40);
    const float value = any_float(random);
    if (type == DataType::F32) bits = std::bit_cast<std::uint32_t>(value);
    if (type == DataType::F64) bits = std::bit_cast<std::uint64_t>(static_cast<double>(value) * 1.000000001);
    if (type == DataType::F16) bits = f32_to_f16(value);
    if (type == DataType::BF16) bits = f32_to_bf16(value);
    std::memcpy(bytes.data() + i * element_bytes(type), &bits, element_bytes(type));
  }
  return bytes;
}

double as_double(DataType type, std::span<const std::byte> bytes, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * element_bytes(type), element_bytes(type));
  if (type == DataType::F64) return std::bit_cast<double>(bits);
  if (type == DataType::F16) return static_cast<double>(f16_to_f32(static_cast<std::uint16_t>(bits)));
  if (type == DataType::BF16) return static_cast<double>(bf16_to_f32(static_cast<std::uint16_t>(bits)));
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

// Infinities of two signs can meet in a sum, so NaNs do arise: they must stand in the same places.
bool same(DataType type, std::span<const std::byte> a, std::span<const std::byte> b) {
  for (std::size_t i = 0; i < a.size(); i += element_bytes(type)) {
    const std::size_t index = i / element_bytes(type);
    if (is_float(type) && std::isnan(as_double(type, a, index)) && std::isnan(as_double(type, b, index))) continue;
    if (std::memcmp(a.data() + i, b.data() + i, element_bytes(type)) != 0) return false;
  }
  return true;
}

struct Ranks {
  std::vector<std::vector<std::byte>> values;
  std::vector<TypedInput> inputs;
};
Ranks random_ranks(DataType type, std::size_t ranks, std::size_t count, std::mt19937_64& random) {
  Ranks made;
  for (std::size_t r = 0; r < ranks; ++r) {
    made.values.push_back(elements(type, count, random));
    const float weight = random() % 5 == 0 ? 0.0F : std::uniform_real_distribution<float>(0.01F, 1)(random);
    made.inputs.push_back({weight == 0 ? nullptr : made.values.back().data(), weight});
  }
  return made;
}

template <class Element>
std::vector<Element> reduced(ReduceOperator op, DataType type, const std::vector<std::vector<Element>>& ranks, double scale = 1) {
  std::vector<TypedInput> inputs;
  for (const auto& rank : ranks) inputs.push_back({std::as_bytes(std::span{rank}).data(), 1});
  std::vector<Element> out(ranks.front().size());
  reduce_typed({op, type, scale}, inputs, std::as_writable_bytes(std::span{out}));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_60_combinations_have_the_bits_of_the_reference_on_every_instruction_set) {
  on_every_target([](std::string_view target) {
    std::mt19937_64 random(1);
    for (std::size_t t = 0; t < DATA_TYPES; ++t)
      for (std::size_t o = 0; o < REDUCE_OPERATORS; ++o)
        for (const auto size : SIZES)
          for (std::size_t ranks = 1; ranks <= 4; ++ranks) {
            const auto given = random_ranks(type_at(t), ranks, size, random);
            std::vector<std::byte> expected(size * element_bytes(type_at(t)));
            std::vector<std::byte> actual(expected.size());
            const TypedReduction reduction{operator_at(o), type_at(t), 0.37};
            reduce_typed_reference(reduction, given.inputs, expected);
            reduce_typed(reduction, given.inputs, actual);
            BOOST_TEST(same(type_at(t), expected, actual), to_string(operator_at(o)) << " of " << to_string(type_at(t)) << " on " << target
                                                                                     << ", size " << size << ", ranks " << ranks);
          }
  });
}

BOOST_AUTO_TEST_CASE(any_ranks_have_the_bits_of_the_reference_also_in_place) {
  BOOST_TEST(rc::check([] {
    const auto type = type_at(*rc::gen::inRange<std::size_t>(0, DATA_TYPES));
    const auto op = operator_at(*rc::gen::inRange<std::size_t>(0, REDUCE_OPERATORS));
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    auto given = random_ranks(type, *rc::gen::inRange<std::size_t>(1, 9), *rc::gen::inRange<std::size_t>(0, 3000), random);
    std::vector<std::byte> expected(given.values.front().size());
    const TypedReduction reduction{op, type, std::uniform_real_distribution<double>(0, 1)(random)};
    reduce_typed_reference(reduction, given.inputs, expected);
    const auto& last = given.values.back();
    const std::span<std::byte> in_place{const_cast<std::byte*>(last.data()), last.size()};
    reduce_typed(reduction, given.inputs, in_place);
    RC_ASSERT(same(type, expected, in_place));
  }));
}

BOOST_AUTO_TEST_CASE(integers_wrap_in_sums_and_products_and_not_in_averages) {
  using I8 = std::vector<std::int8_t>;
  BOOST_TEST((reduced<std::int8_t>(ReduceOperator::Sum, DataType::I8, {{127, -128}, {1, -1}}) == I8{-128, 127}));
  BOOST_TEST((reduced<std::int8_t>(ReduceOperator::Product, DataType::I8, {{100, -3}, {3, 50}}) == I8{44, 106}));
  BOOST_TEST((reduced<std::int8_t>(ReduceOperator::Average, DataType::I8, {{127, -128}, {127, -128}, {126, -127}}) == I8{126, -127}));
  constexpr auto MOST = std::numeric_limits<std::uint64_t>::max();
  constexpr auto LEAST = std::numeric_limits<std::int64_t>::min();
  BOOST_TEST((reduced<std::uint64_t>(ReduceOperator::Sum, DataType::U64, {{MOST}, {2}}) == std::vector<std::uint64_t>{1}));
  BOOST_TEST((reduced<std::uint64_t>(ReduceOperator::Average, DataType::U64, {{MOST}, {MOST - 1}, {MOST}}) ==
              std::vector<std::uint64_t>{MOST - 1}));
  BOOST_TEST(
      (reduced<std::int64_t>(ReduceOperator::Average, DataType::I64, {{LEAST}, {LEAST + 1}}) == std::vector<std::int64_t>{LEAST + 1}));
  BOOST_TEST((reduced<std::uint16_t>(ReduceOperator::Product, DataType::U16, {{65535}, {65535}}) == std::vector<std::uint16_t>{1}));
}

BOOST_AUTO_TEST_CASE(an_average_of_integers_is_cut_towards_zero) {
  BOOST_TEST(
      (reduced<std::int32_t>(ReduceOperator::Average, DataType::I32, {{-5, 5, 7}, {-2, 2, -7}}) == std::vector<std::int32_t>{-3, 3, 0}));
}

BOOST_AUTO_TEST_CASE(an_average_divides_by_those_who_contributed) {
  const std::vector<std::int16_t> a{10};
  const std::vector<std::int16_t> b{21};
  std::vector<std::int16_t> out(1);
  const std::vector<TypedInput> inputs{{std::as_bytes(std::span{a}).data(), 1}, {nullptr, 0}, {std::as_bytes(std::span{b}).data(), 1}};
  reduce_typed({ReduceOperator::Average, DataType::I16, 1}, inputs, std::as_writable_bytes(std::span{out}));
  BOOST_TEST(out[0] == 15);
}

BOOST_AUTO_TEST_CASE(half_floats_are_summed_in_f32_and_rounded_once) {
  // 2048 + 1 is 2048 in f16, four times over; in f32 it is 2052.
  const std::vector<std::vector<std::uint16_t>> halves{
      {f32_to_f16(2048)}, {f32_to_f16(1)}, {f32_to_f16(1)}, {f32_to_f16(1)}, {f32_to_f16(1)}};
  BOOST_TEST(f16_to_f32(reduced(ReduceOperator::Sum, DataType::F16, halves)[0]) == 2052.0F);
  // 60000 + 60000 − 60000 passes through infinity in f16.
  const std::vector<std::vector<std::uint16_t>> large{{f32_to_f16(60000)}, {f32_to_f16(60000)}, {f32_to_f16(-60000)}};
  BOOST_TEST(f16_to_f32(reduced(ReduceOperator::Sum, DataType::F16, large)[0]) == 60000.0F);
  const std::vector<std::vector<std::uint16_t>> brains{{f32_to_bf16(256)}, {f32_to_bf16(1)}, {f32_to_bf16(1)}};
  BOOST_TEST(bf16_to_f32(reduced(ReduceOperator::Sum, DataType::BF16, brains)[0]) == 258.0F);
}

BOOST_AUTO_TEST_CASE(every_half_float_is_read_and_rounded_as_the_reference_does_on_every_instruction_set) {
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  auto others = all;
  std::ranges::shuffle(others, std::mt19937_64(1));
  const auto bytes_of = [](auto& values) { return std::as_writable_bytes(std::span{values}); };
  on_every_target([&](std::string_view target) {
    for (const std::size_t ranks : {1U, 2U}) {
      const std::array both{TypedInput{bytes_of(all).data(), 1}, TypedInput{bytes_of(others).data(), 1}};
      std::vector<std::uint16_t> expected(all.size());
      std::vector<std::uint16_t> actual(all.size());
      reduce_typed_reference({ReduceOperator::Sum, DataType::F16, 1}, std::span{both}.first(ranks), bytes_of(expected));
      reduce_typed({ReduceOperator::Sum, DataType::F16, 1}, std::span{both}.first(ranks), bytes_of(actual));
      BOOST_TEST((ranks == 1 ? expected == actual : same(DataType::F16, bytes_of(expected), bytes_of(actual))), target);
    }
  });
}

BOOST_AUTO_TEST_CASE(an_average_of_f64_has_the_precision_of_f64) {
  const std::vector<std::vector<double>> ranks{{1.0}, {1.0 + 1e-12}, {1.0 + 2e-12}};
  BOOST_TEST(std::abs(reduced(ReduceOperator::Average, DataType::F64, ranks, 1.0 / 3)[0] - (1.0 + 1e-12)) < 1e-15);
}

BOOST_AUTO_TEST_CASE(a_nan_of_any_rank_stays_in_minimum_and_maximum) {
  constexpr float NOT = std::numeric_limits<float>::quiet_NaN();
  constexpr float INFINITE = std::numeric_limits<float>::infinity();
  for (const auto op : {ReduceOperator::Minimum, ReduceOperator::Maximum}) {
    const auto out = reduced<float>(op, DataType::F32, {{NOT, 1, 1, NOT}, {1, NOT, 1, INFINITE}, {1, 1, NOT, -INFINITE}});
    for (const float value : out) BOOST_TEST(std::isnan(value));
    const auto halves = reduced<std::uint16_t>(op, DataType::F16, {{f32_to_f16(NOT), 0}, {f32_to_f16(1), f32_to_f16(NOT)}});
    for (const auto value : halves) BOOST_TEST(std::isnan(f16_to_f32(value)));
  }
  const auto zeros = reduced<float>(ReduceOperator::Minimum, DataType::F32, {{0.0F, -0.0F}, {-0.0F, 0.0F}});
  BOOST_TEST((!std::signbit(zeros[0]) && std::signbit(zeros[1])));
}

BOOST_AUTO_TEST_CASE(a_reduce_of_nobody_is_neutral) {
  const std::vector<TypedInput> nobody{{nullptr, 0}};
  const auto value = [&](ReduceOperator op) {
    std::int16_t out = 77;
    reduce_typed({op, DataType::I16, 1}, nobody, std::as_writable_bytes(std::span{&out, 1}));
    return out;
  };
  BOOST_TEST(value(ReduceOperator::Sum) == 0);
  BOOST_TEST(value(ReduceOperator::Average) == 0);
  BOOST_TEST(value(ReduceOperator::Product) == 1);
  BOOST_TEST(value(ReduceOperator::Minimum) == 32767);
  BOOST_TEST(value(ReduceOperator::Maximum) == -32768);
}

BOOST_AUTO_TEST_CASE(one_hop_at_a_time_gives_the_sum_of_all) {
  std::vector<std::int32_t> accumulator{1, 2, 3};
  for (const std::vector<std::int32_t>& operand : {std::vector<std::int32_t>{10, 20, 30}, {100, 200, 300}})
    combine({ReduceOperator::Sum, DataType::I32, 1}, std::as_writable_bytes(std::span{accumulator}), std::as_bytes(std::span{operand}));
  BOOST_TEST((accumulator == std::vector<std::int32_t>{111, 222, 333}));
}

BOOST_AUTO_TEST_SUITE_END()
