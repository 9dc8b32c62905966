// Owns the checks of the sample order.
#include "runtime/trainer/permutation.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(permutation)

namespace {

using prime::trainer::Permutation;

BOOST_AUTO_TEST_CASE(every_position_appears_exactly_once_for_every_size) {
  for (const std::uint64_t size : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 255U, 1000U, 65537U}) {
    const Permutation order(size, 7, 0);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) {
      BOOST_REQUIRE_LT(order(i), size);
      seen.insert(order(i));
    }
    BOOST_TEST(seen.size() == size);
  }
}

BOOST_AUTO_TEST_CASE(passes_and_keys_have_orders_of_their_own) {
  const auto fixed_points = [](const Permutation& a, const Permutation& b) {
    int equal = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) equal += a(i) == b(i) ? 1 : 0;
    return equal;
  };
  BOOST_TEST(fixed_points(Permutation(1000, 1, 0), Permutation(1000, 1, 0)) == 1000);
  // Unrelated orders of 1000 agree in one place on average.
  BOOST_TEST(fixed_points(Permutation(1000, 1, 0), Permutation(1000, 1, 1)) < 20);
  BOOST_TEST(fixed_points(Permutation(1000, 1, 0), Permutation(1000, 2, 0)) < 20);
}

BOOST_AUTO_TEST_CASE(neighbours_are_taken_far_apart) {
  const Permutation order(100'000, 1, 0);
  int near = 0;
  for (std::uint64_t i = 0; i + 1 < 10'000; ++i) {
    const auto a = static_cast<std::int64_t>(order(i)), b = static_cast<std::int64_t>(order(i + 1));
    near += std::abs(a - b) < 1000 ? 1 : 0;
  }
  // Two per cent of random pairs lie that near.
  BOOST_TEST(near < 400);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
