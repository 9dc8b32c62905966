// Owns the tests of the commitment's arithmetic: every vector width against the slow reference, and the reference against its definition.
#include "kernels/commitment/commitment.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <rapidcheck.h>
#include <set>

#include "tests/kernels/codec_support.hpp"

using namespace prime::kernels;
using prime::kernels::test::on_every_target;

namespace {

using Bits = std::vector<std::uint16_t>;
using Points = std::vector<TopValue>;

/// Finite values of `levels` exponents: few of them make many ties.
Bits drawn(std::size_t count, unsigned levels, std::mt19937_64& random) {
  Bits bits(count);
  for (auto& value : bits) {
    const auto mantissa = levels <= 2 ? random() % levels : random() % 128;
    value = static_cast<std::uint16_t>((random() % 2) << 15 | (118 + random() % levels) << 7 | mantissa);
  }
  return bits;
}

Points top(const Bits& bits, std::size_t wanted) {
  Points points(wanted);
  BOOST_REQUIRE(!top_values(bits, points));
  return points;
}

Bits coefficients_of(const Points& points, std::uint32_t modulus, std::size_t terms) {
  Bits coefficients(terms);
  interpolate(points, modulus, coefficients);
  return coefficients;
}

Bits values_at(const Bits& coefficients, std::uint32_t modulus, const Points& own) {
  Bits values(own.size());
  evaluate(coefficients, modulus, own, values);
  return values;
}

Bits bits_of(const Points& points) {
  Bits bits;
  for (const auto& point : points) bits.push_back(point.bits);
  return bits;
}

constexpr std::array SEGMENT_SIZES{1U, 2U, 7U, 16U, 63U, 64U, 65U, 128U, 129U, 500U, 2048U, 5003U, 16384U, 70001U};

}  // namespace

BOOST_AUTO_TEST_SUITE(commitment)

BOOST_AUTO_TEST_CASE(every_vector_width_finds_the_values_of_the_reference) {
  on_every_target([](std::string_view) {
    std::mt19937_64 random(1);
    for (const auto size : SEGMENT_SIZES)
      for (const std::size_t wanted : {0U, 1U, 2U, 31U, 128U, 129U, 1000U})
        for (const unsigned levels : {1U, 2U, 12U}) {
          if (wanted > size) continue;
          const auto bits = drawn(size, levels, random);
          Points slow(wanted);
          BOOST_REQUIRE(!top_values_reference(bits, slow));
          BOOST_TEST((top(bits, wanted) == slow), size << " values, " << wanted << " wanted, " << levels << " exponents");
        }
  });
}

BOOST_AUTO_TEST_CASE(values_in_the_worst_order_are_found_too) {
  Bits rising(0x7F80);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<std::uint16_t>(i);
  for (const std::size_t wanted : {1U, 128U, 8192U}) {
    Points slow(wanted);
    BOOST_REQUIRE(!top_values_reference(rising, slow));
    BOOST_TEST((top(rising, wanted) == slow));
    BOOST_TEST(slow.front().index == 0x7F7FU);
  }
}

BOOST_AUTO_TEST_CASE(of_equal_values_the_lower_index_comes_first) {
  const Bits bits{16256, 16384, 49152, 16384, 16128, 49152};
  BOOST_TEST((top(bits, 3) == Points{{1, 16384}, {2, 49152}, {3, 16384}}));
  BOOST_TEST((top(Bits(1000, 0), 4) == Points{{0, 0}, {1, 0}, {2, 0}, {3, 0}}));
}

BOOST_AUTO_TEST_CASE(the_first_value_that_is_not_finite_is_named) {
  on_every_target([](std::string_view) {
    std::mt19937_64 random(2);
    for (const std::uint16_t bad : Bits{0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81})
      for (const std::size_t at : {0U, 1U, 63U, 300U, 4000U, 4999U})
        for (const std::size_t wanted : {0U, 1U, 128U}) {
          auto bits = drawn(5000, 12, random);
          bits[at] = bad;
          bits[4999] = bad;
          Points points(wanted);
          BOOST_TEST((top_values(bits, points) == std::optional<std::size_t>(at)), bad << " at " << at << ", " << wanted << " wanted");
          BOOST_TEST((top_values_reference(bits, points) == std::optional<std::size_t>(at)));
        }
  });
}

BOOST_AUTO_TEST_CASE(the_modulus_is_the_largest_that_keeps_indices_apart) {
  BOOST_TEST(injective_modulus(Points{}) == COMMITMENT_PRIME);
  BOOST_TEST(injective_modulus(Points{{65496, 1}, {0, 1}}) == COMMITMENT_PRIME);
  BOOST_TEST(injective_modulus(Points{{5, 1}, {65502, 1}}) == 65496U);
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::set<std::uint32_t> indices;
    while (indices.size() < 40) indices.insert(static_cast<std::uint32_t>(random() % (round % 2 == 0 ? 200'000 : 1ULL << 32)));
    Points points;
    for (const auto index : indices) points.push_back({index, 0});
    BOOST_TEST(injective_modulus(points) == injective_modulus_reference(points));
  }
}

BOOST_AUTO_TEST_CASE(indices_that_no_modulus_keeps_apart_have_none) {
  // Every number up to the prime is a difference of two of them.
  Points points;
  for (std::uint32_t i = 0; i < 260; ++i) points.push_back({i, 0});
  for (std::uint32_t i = 1; i <= 260; ++i) points.push_back({260 * i, 0});
  BOOST_TEST(injective_modulus(points) == 0U);
}

BOOST_AUTO_TEST_CASE(every_vector_width_interpolates_and_evaluates_as_the_reference) {
  on_every_target([](std::string_view) {
    std::mt19937_64 random(4);
    for (const std::size_t count : {0U, 1U, 2U, 3U, 15U, 16U, 17U, 63U, 64U, 65U, 128U, 200U}) {
      const auto bits = drawn(70'000, 12, random);
      const auto points = top(bits, count);
      const auto modulus = injective_modulus(points);
      const std::size_t terms = count + (count % 2 == 0 ? 0 : 5);
      Bits slow(terms, 7);
      interpolate_reference(points, modulus, slow);
      const auto fast = coefficients_of(points, modulus, terms);
      BOOST_TEST((fast == slow), count << " points");
      BOOST_TEST((values_at(fast, modulus, points) == bits_of(points)), "the polynomial does not go through its " << count << " points");
      Points others;
      for (std::size_t i = 0; i < count + 3; ++i) others.push_back({static_cast<std::uint32_t>(random()), 0});
      Bits expected(others.size());
      for (const std::uint32_t divisor : {modulus, 1U, 2U, 65496U}) {
        evaluate_reference(fast, divisor, others, expected);
        BOOST_TEST((values_at(fast, divisor, others) == expected), count << " points, modulus " << divisor);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_largest_numbers_of_the_field_do_not_overflow) {
  on_every_target([](std::string_view) {
    for (const std::size_t terms : {1U, 128U, 8192U}) {
      const Bits coefficients(terms, COMMITMENT_PRIME - 1);
      const Points own{{COMMITMENT_PRIME - 1, 0}, {COMMITMENT_PRIME - 2, 0}, {1, 0}, {0, 0}};
      Bits expected(own.size());
      evaluate_reference(coefficients, COMMITMENT_PRIME, own, expected);
      BOOST_TEST((values_at(coefficients, COMMITMENT_PRIME, own) == expected));
    }
    Points points;
    for (std::uint32_t i = 0; i < COMMITTED_MAXIMUM; ++i) points.push_back({COMMITMENT_PRIME - 1 - i, 0xFF7F});
    const auto coefficients = coefficients_of(points, COMMITMENT_PRIME, COMMITTED_MAXIMUM);
    Bits constant(COMMITTED_MAXIMUM, 0);
    constant[0] = 0xFF7F;
    BOOST_TEST((coefficients == constant));
  });
}

BOOST_AUTO_TEST_CASE(the_order_of_points_does_not_matter) {
  BOOST_TEST(rc::check([] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    const auto count = *rc::gen::inRange<std::size_t>(1, 90);
    auto points = top(drawn(200'000, 12, random), count);
    const auto modulus = injective_modulus(points);
    const auto sorted = coefficients_of(points, modulus, count);
    std::shuffle(points.begin(), points.end(), random);
    RC_ASSERT(injective_modulus(points) == modulus);
    RC_ASSERT(coefficients_of(points, modulus, count) == sorted);
  }));
}

BOOST_AUTO_TEST_CASE(comparisons_count_exponents_signs_and_mantissas) {
  const Points own{{0, 0x4040}, {1, 0x4040}, {2, 0xC040}, {3, 0x4050}, {4, 0x4040}};
  const Bits committed{0x4040, 0x40C0, 0x4041, 0x4040, 0x4043};
  const auto result = compare(committed, own);
  BOOST_TEST(result.values == 5U);
  BOOST_TEST(result.exponent_mismatches == 1U);
  BOOST_TEST(result.exponent_intersections() == 4U);
  BOOST_TEST(result.sign_mismatches == 1U);
  BOOST_TEST(result.mantissa_mean == 5.0);
  BOOST_TEST(result.mantissa_median == 2.0);
}

BOOST_AUTO_TEST_CASE(the_median_of_an_even_count_is_the_mean_of_the_two_in_the_middle) {
  const Points own{{0, 0x4000}, {1, 0x4000}, {2, 0x4000}, {3, 0x4000}};
  BOOST_TEST(compare(Bits{0x4001, 0x4002, 0x4005, 0x4009}, own).mantissa_median == 3.5);
}

BOOST_AUTO_TEST_CASE(without_an_equal_exponent_the_errors_are_beyond_every_threshold) {
  const auto result = compare(Bits{0x4140}, Points{{0, 0x4040}});
  BOOST_TEST(result.mantissa_mean == 0x1p64);
  BOOST_TEST(result.mantissa_median == 0x1p64);
  BOOST_TEST((compare(Bits{}, Points{}) == compare_reference(Bits{}, Points{})));
}

BOOST_AUTO_TEST_CASE(comparisons_are_those_of_the_reference) {
  BOOST_TEST(rc::check([] {
    const auto committed = *rc::gen::container<Bits>(rc::gen::arbitrary<std::uint16_t>());
    const bool near = *rc::gen::arbitrary<bool>();
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    Points own;
    for (const auto bits : committed)
      own.push_back({0, static_cast<std::uint16_t>(near ? bits ^ (random() % 16 == 0 ? 0x8000U : random() % 128) : random())});
    RC_ASSERT(compare(committed, own) == compare_reference(committed, own));
  }));
}

BOOST_AUTO_TEST_SUITE_END()
