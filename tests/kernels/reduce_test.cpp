// Owns the tests of the weighted mean's arithmetic: the fast kernels have the bits of the obvious ones.
#include "kernels/reduce/reduce.hpp"

#include <boost/test/unit_test.hpp>
#include <rapidcheck.h>

#include "tests/kernels/support.hpp"

BOOST_AUTO_TEST_SUITE(reduce)

using namespace prime::kernels;
using namespace prime::kernels::test;

BOOST_AUTO_TEST_CASE(the_weighted_sum_has_the_bits_of_the_reference_at_every_size_and_alignment) {
  std::mt19937_64 random(1);
  for (const auto size : SIZES) {
    for (std::size_t ranks = 1; ranks <= 5; ++ranks) {
      std::vector<Shifted> values;
      std::vector<WeightedInput> inputs;
      for (std::size_t r = 0; r < ranks; ++r) {
        values.emplace_back(size, random() % 4, random);
        const float weight = random() % 4 == 0 ? 0.0F : std::uniform_real_distribution<float>(0.01F, 1)(random);
        inputs.push_back(WeightedInput{weight == 0 ? nullptr : values.back().span().data(), weight});
      }
      Shifted expected(size, 1);
      Shifted actual(size, random() % 4);
      weighted_sum_reference(inputs, 0.37F, expected.span());
      weighted_sum(inputs, 0.37F, actual.span());
      BOOST_TEST(same_bits(expected.span(), actual.span()), "size " << size << ", ranks " << ranks);
    }
  }
}

BOOST_AUTO_TEST_CASE(any_weights_and_values_give_the_bits_of_the_reference) {
  BOOST_TEST(rc::check([] {
    const auto ranks = *rc::gen::inRange<std::size_t>(1, 9);
    const auto size = *rc::gen::inRange<std::size_t>(0, 5000);
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    std::vector<std::vector<float>> values;
    std::vector<WeightedInput> inputs;
    for (std::size_t r = 0; r < ranks; ++r) {
      auto& own = values.emplace_back(size);
      for (auto& value : own) value = any_float(random);
      inputs.push_back(WeightedInput{own.data(), *rc::gen::element(0.0F, 1.0F, 0.5F, 1e-3F, 1e-20F)});
    }
    std::vector<float> expected(size);
    std::vector<float> actual(size);
    const float scale = std::uniform_real_distribution<float>(0, 1)(random);
    weighted_sum_reference(inputs, scale, expected);
    weighted_sum(inputs, scale, actual);
    RC_ASSERT(same_bits(expected, actual));
  }));
}

BOOST_AUTO_TEST_CASE(a_sum_of_nobody_is_zero) {
  std::vector<float> out(33, 7.0F);
  weighted_sum(std::vector<WeightedInput>{{nullptr, 0}, {nullptr, 0}}, 1, out);
  BOOST_TEST(same_bits(out, std::vector<float>(33)));
}

BOOST_AUTO_TEST_CASE(a_sole_contributor_of_weight_one_is_copied_exactly) {
  std::mt19937_64 random(2);
  Shifted input(5003, 1, random);
  std::vector<float> out(5003);
  weighted_sum(std::vector<WeightedInput>{{nullptr, 0}, {input.span().data(), 1}}, 1, out);
  BOOST_TEST(same_bits(out, input.span()));
}

BOOST_AUTO_TEST_CASE(sums_run_in_rank_order) {
  // (1e8 + 1) + -1e8 is 0 in f32, (1e8 + -1e8) + 1 is 1.
  const std::vector<float> values{1e8F, 1, -1e8F};
  const auto sum = [&](std::vector<std::size_t> order) {
    std::vector<WeightedInput> inputs;
    for (const auto index : order) inputs.push_back(WeightedInput{&values[index], 1});
    float out = 0;
    weighted_sum(inputs, 1, std::span{&out, 1});
    return out;
  };
  BOOST_TEST(sum({0, 1, 2}) == 0);
  BOOST_TEST(sum({0, 2, 1}) == 1);
}

BOOST_AUTO_TEST_CASE(the_pseudo_gradient_has_the_bits_of_the_reference) {
  std::mt19937_64 random(3);
  for (const auto size : SIZES) {
    Shifted base(size, random() % 4, random);
    Shifted local(size, random() % 4, random);
    Shifted expected(size, 0);
    Shifted actual(size, random() % 4);
    pseudo_gradient_reference(base.span(), local.span(), expected.span());
    pseudo_gradient(base.span(), local.span(), actual.span());
    BOOST_TEST(same_bits(expected.span(), actual.span()), "size " << size);
    pseudo_gradient(base.span(), local.span(), local.span());
    BOOST_TEST(same_bits(expected.span(), local.span()), "in place, size " << size);
    pseudo_gradient_bf16_reference(base.span(), actual.span(), expected.span());
    pseudo_gradient_bf16(base.span(), actual.span(), actual.span());
    BOOST_TEST(same_bits(expected.span(), actual.span()), "of bf16, size " << size);
  }
}

BOOST_AUTO_TEST_CASE(the_first_non_finite_value_is_found_wherever_it_stands) {
  std::mt19937_64 random(4);
  const std::vector<float> bad{std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::signaling_NaN()};
  for (const auto size : SIZES) {
    Shifted values(size, random() % 4, random);
    BOOST_TEST(first_non_finite(values.span()) == size);
    BOOST_TEST(first_non_finite_reference(values.span()) == size);
    for (std::size_t tries = 0; size > 0 && tries < 20; ++tries) {
      const auto first = random() % size;
      const auto second = first + random() % (size - first);
      Shifted damaged = values;
      damaged.span()[second] = bad[random() % bad.size()];
      damaged.span()[first] = bad[random() % bad.size()];
      BOOST_TEST(first_non_finite(damaged.span()) == first);
      BOOST_TEST(first_non_finite_reference(damaged.span()) == first);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_largest_finite_value_is_finite) {
  const std::vector<float> values(100, std::numeric_limits<float>::max());
  BOOST_TEST(first_non_finite(values) == values.size());
}

BOOST_AUTO_TEST_SUITE_END()
