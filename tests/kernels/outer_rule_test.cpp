// Owns the tests of the outer optimizer's arithmetic.
#include "kernels/outer_rule/outer_rule.hpp"

#include <boost/test/unit_test.hpp>
#include <rapidcheck.h>

#include "tests/kernels/support.hpp"

BOOST_AUTO_TEST_SUITE(outer_rule)

using namespace prime::kernels;
using namespace prime::kernels::test;

BOOST_AUTO_TEST_CASE(nesterov_has_the_bits_of_the_reference_at_every_size_and_alignment) {
  std::mt19937_64 random(1);
  for (const auto size : SIZES) {
    for (int tries = 0; tries < 4; ++tries) {
      Shifted parameters(size, random() % 4, random);
      Shifted momentum(size, random() % 4, random);
      Shifted mean(size, random() % 4, random);
      Shifted expected(size, 0);
      Shifted expected_momentum(size, 0);
      Shifted actual(size, random() % 4);
      Shifted actual_momentum(size, random() % 4);
      nesterov_reference({}, {parameters.span(), momentum.span(), mean.span(), expected.span(), expected_momentum.span()});
      nesterov({}, {parameters.span(), momentum.span(), mean.span(), actual.span(), actual_momentum.span()});
      BOOST_TEST(same_bits(expected.span(), actual.span()), "size " << size);
      BOOST_TEST(same_bits(expected_momentum.span(), actual_momentum.span()), "size " << size);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_next_momentum_may_overwrite_the_mean) {
  BOOST_TEST(rc::check([] {
    const auto size = *rc::gen::inRange<std::size_t>(0, 5000);
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    Shifted parameters(size, random() % 4, random);
    Shifted momentum(size, random() % 4, random);
    Shifted mean(size, random() % 4, random);
    std::vector<float> expected(size);
    std::vector<float> expected_momentum(size);
    std::vector<float> actual(size);
    const NesterovOptions options{*rc::gen::element(0.7F, 1.0F, 0.0F), *rc::gen::element(0.9F, 0.0F)};
    nesterov_reference(options, {parameters.span(), momentum.span(), mean.span(), expected, expected_momentum});
    nesterov(options, {parameters.span(), momentum.span(), mean.span(), actual, mean.span()});
    RC_ASSERT(same_bits(expected, actual));
    RC_ASSERT(same_bits(expected_momentum, mean.span()));
  }));
}

BOOST_AUTO_TEST_CASE(two_steps_follow_the_written_formula) {
  // By hand, exact in binary: rate 0.5, momentum 0.5, gradients 1 then 2, from parameter 4.
  const NesterovOptions options{0.5F, 0.5F};
  std::vector<float> parameters{4};
  std::vector<float> momentum{0};
  std::vector<float> next(1);
  std::vector<float> next_momentum(1);
  nesterov(options, {parameters, momentum, std::vector<float>{1}, next, next_momentum});
  BOOST_TEST(next_momentum[0] == 1.0F);
  BOOST_TEST(next[0] == 3.25F);
  std::vector<float> last(1);
  std::vector<float> last_momentum(1);
  nesterov(options, {next, next_momentum, std::vector<float>{2}, last, last_momentum});
  BOOST_TEST(last_momentum[0] == 2.5F);
  BOOST_TEST(last[0] == 1.625F);
}

BOOST_AUTO_TEST_SUITE_END()
