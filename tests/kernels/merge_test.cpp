// Owns the tests of the radial-directional merge's arithmetic.
#include "kernels/merge/merge.hpp"

#include <boost/test/unit_test.hpp>
#include <numbers>

#include "tests/kernels/support.hpp"

BOOST_AUTO_TEST_SUITE(merge)

using namespace prime::kernels;
using namespace prime::kernels::test;

BOOST_AUTO_TEST_CASE(lengths_and_products_have_the_bits_of_the_reference_at_every_size_and_alignment) {
  std::mt19937_64 random(1);
  for (const auto size : SIZES) {
    for (int tries = 0; tries < 4; ++tries) {
      Shifted x(size, random() % 4, random);
      const double own = length(x.span());
      BOOST_TEST(own == length_reference(x.span()), "size " << size);
      long double sum = 0;
      for (const float value : x.span()) sum += static_cast<long double>(value) * value;
      BOOST_TEST(std::abs(own - static_cast<double>(std::sqrt(sum))) <= 1e-12 * own, "size " << size);
      Shifted expected = x;
      const double factor = std::normal_distribution<double>(0, 1)(random);
      scale_reference(expected.span(), factor);
      scale(x.span(), factor);
      BOOST_TEST(same_bits(expected.span(), x.span()), "size " << size);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_length_of_what_is_not_finite_is_not) {
  std::vector<float> values(100, 1.0F);
  values[37] = std::numeric_limits<float>::infinity();
  BOOST_TEST(std::isinf(length(values)));
  values[37] = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(std::isnan(length(values)));
  // The largest values that there are have a length.
  BOOST_TEST(std::isfinite(length(std::vector<float>(5000, std::numeric_limits<float>::max()))));
}

BOOST_AUTO_TEST_CASE(the_smallest_values_have_a_direction) {
  std::vector<float> values(4, std::numeric_limits<float>::denorm_min());
  scale(values, 1 / length(values));
  for (const float value : values) BOOST_TEST(value == 0.5F);
}

/// Each has weight 1.
std::vector<float> merged(std::vector<std::vector<float>> contributions) {
  const auto count = contributions.size();
  std::vector<float> mean(contributions.front().size());
  double radius = 0;
  for (auto& each : contributions) {
    const double own = length(each);
    radius += own / static_cast<double>(count);
    if (own > 0) scale(each, 1 / own);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += each[i] / static_cast<float>(count);
  }
  scale(mean, radial_factor(radius, length(mean), count));
  return mean;
}

// Identity (iii) of the paper's readers: the plain mean of two orthogonal ones of length 2 has the length 1.414.
BOOST_AUTO_TEST_CASE(orthogonal_ones_keep_their_length) {
  const auto both = merged({{2, 0}, {0, 2}});
  BOOST_TEST(std::abs(both[0] - std::numbers::sqrt2_v<float>) < 1e-6F);
  BOOST_TEST(std::abs(length(both) - 2) < 1e-6);
}

BOOST_AUTO_TEST_CASE(one_alone_is_itself_and_equal_ones_are_their_mean) {
  BOOST_TEST(merged({{3, -4}}) == (std::vector<float>{3, -4}), boost::test_tools::per_element());
  BOOST_TEST(merged({{3, -4}, {3, -4}}) == (std::vector<float>{3, -4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(who_has_nothing_shortens_the_length_and_turns_nothing) {
  // The mean length is 5, the mean of the directions half as long as one, and the limit √2.
  const auto one = merged({{6, 8}, {0, 0}});
  BOOST_TEST(std::abs(length(one) - 5 * 0.5 * std::numbers::sqrt2) < 1e-6);
  BOOST_TEST(std::abs(one[1] / one[0] - 8.0F / 6) < 1e-6F);
  BOOST_TEST(merged({{0, 0}, {0, 0}}) == (std::vector<float>{0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(those_that_nearly_cancel_are_not_blown_up) {
  // Of length 1, and the mean of the unit vectors about 1e-3 long: without a limit the result would have the length 1, in a direction of
  // chance.
  const auto sum = merged({{1, 1e-3F}, {-1, 1e-3F}});
  BOOST_TEST(length(sum) < 1.5e-3);
  BOOST_TEST(length(merged({{1, 0}, {-1, 0}})) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
