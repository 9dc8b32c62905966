// Owns the tests of what the codecs lose: the bounds of their errors, that stochastic rounding is right in the mean, error feedback.
#include <boost/test/unit_test.hpp>
#include <rapidcheck.h>

#include "tests/kernels/codec_support.hpp"

BOOST_AUTO_TEST_SUITE(codec_error)

using namespace prime;
using namespace prime::kernels;
using namespace prime::kernels::test;

namespace {

constexpr std::array LINEAR{Codec::Int8MinMax, Codec::Int8ZeroPoint, Codec::Int8Block, Codec::Int4Block};

// In f64, so that the bound itself loses nothing.
double step_of(Codec codec, std::span<const float> block) {
  const double low = *std::ranges::min_element(block);
  const double high = *std::ranges::max_element(block);
  const double magnitude = std::max(std::abs(low), std::abs(high));
  if (codec == Codec::Int8MinMax) return (high - low) / 255;
  if (codec == Codec::Int8ZeroPoint) return (std::max(high, 0.0) - std::min(low, 0.0)) / 254;
  return magnitude / (codec == Codec::Int4Block ? 7 : 127);
}

// What f32 itself loses: its spacing at the largest value of the block, its smallest denormal, and, where a level of the block may lie
// beyond the largest f32, up to a whole step.
double slack_of(std::span<const float> block, double step) {
  double magnitude = 0;
  for (const float value : block) magnitude = std::max(magnitude, std::abs(static_cast<double>(value)));
  return 4e-7 * magnitude + 1e-4 * step + 3e-45 + (magnitude > 0x1p126 ? step : 0);
}

struct Worst {
  double nearest = 0;     // in steps
  double stochastic = 0;  // in steps
};

Worst worst_error(Codec codec, Kind kind, std::mt19937_64& random) {
  Worst worst;
  const auto values = values_of_kind(kind, codec, 5003, random);
  for (const auto rounding : ROUNDINGS) {
    const auto back = decoded(codec, encoded({codec, rounding, random(), 0, 0}, values), values.size());
    const std::size_t length = block_layout(codec).values;
    for (std::size_t begin = 0; begin < values.size(); begin += length) {
      const auto block = std::span{values}.subspan(begin, std::min(length, values.size() - begin));
      const double step = step_of(codec, block);
      for (std::size_t i = 0; i < block.size(); ++i) {
        const double error = std::abs(static_cast<double>(block[i]) - static_cast<double>(back[begin + i]));
        const double beyond = std::max(0.0, error - slack_of(block, step));
        auto& most = rounding == Rounding::Nearest ? worst.nearest : worst.stochastic;
        most = std::max(most, beyond == 0 ? 0 : beyond / step);
      }
    }
  }
  return worst;
}

// Mean of the decoded value of `value` over many random bits, beside `others` that set the block's scale; and its standard error.
struct Mean {
  double mean = 0;
  double standard_error = 0;
};
Mean mean_of(Codec codec, float value, std::vector<float> others, std::size_t draws) {
  const std::size_t length = block_layout(codec).values;
  std::vector<float> values(draws / length * length, value);
  for (std::size_t begin = 0; begin < values.size(); begin += length)
    std::ranges::copy(others, values.begin() + static_cast<std::ptrdiff_t>(begin));
  const auto back = decoded(codec, encoded({codec, Rounding::Stochastic, 11, 12, 0}, values), values.size());
  double sum = 0;
  double squares = 0;
  double count = 0;
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (i % length < others.size()) continue;
    sum += back[i];
    squares += static_cast<double>(back[i]) * back[i];
    ++count;
  }
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(0.0, squares / count - mean * mean) / count)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear_codes_err_by_half_a_step_to_the_nearest_and_by_less_than_one_at_random) {
  std::mt19937_64 random(1);
  for (const auto codec : LINEAR)
    for (const auto kind : KINDS) {
      const auto worst = worst_error(codec, kind, random);
      BOOST_TEST(worst.nearest <= 0.5, to_string(codec) << ", kind " << static_cast<int>(kind) << ": " << worst.nearest);
      BOOST_TEST(worst.stochastic < 1.0, to_string(codec) << ", kind " << static_cast<int>(kind) << ": " << worst.stochastic);
      if (kind == Kind::Gaussian) BOOST_TEST((worst.nearest > 0.4 && worst.stochastic > 0.8));  // the bound is near, so it can be broken
    }
}

BOOST_AUTO_TEST_CASE(any_block_keeps_its_bounds) {
  BOOST_TEST(rc::check([] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    const auto codec = *rc::gen::elementOf(LINEAR);
    const auto worst = worst_error(codec, *rc::gen::elementOf(KINDS), random);
    RC_ASSERT(worst.nearest <= 0.5);
    RC_ASSERT(worst.stochastic < 1.0);
  }));
}

BOOST_AUTO_TEST_CASE(e3m0_keeps_the_octave) {
  std::mt19937_64 random(2);
  for (const auto kind : {Kind::Gaussian, Kind::HeavyTailed, Kind::Negative, Kind::Constant, Kind::Huge, Kind::Sparse, Kind::Zero}) {
    const auto values = values_of_kind(kind, Codec::E3M0, 5003, random);
    const auto back = decoded(Codec::E3M0, encoded({Codec::E3M0}, values), values.size());
    const auto noisy = decoded(Codec::E3M0, encoded({Codec::E3M0, Rounding::Stochastic, 3, 4, 0}, values), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t begin = i / 256 * 256;
      double scale = 0;
      for (std::size_t k = begin; k < std::min(begin + 256, values.size()); ++k)
        scale = std::max(scale, std::abs(static_cast<double>(values[k])));
      const double value = std::abs(static_cast<double>(values[i]));
      const double got = std::abs(static_cast<double>(back[i]));
      if (value < scale * std::exp2(-6.5) * (1 - 1e-6)) BOOST_TEST(got == 0);
      else if (value > scale * std::exp2(-6.5) * (1 + 1e-6)) BOOST_TEST(std::abs(std::log2(got / value)) <= 0.5 + 1e-6);
      // At random: one of the two levels beside the value, zero being the lowest.
      const double other = std::abs(static_cast<double>(noisy[i]));
      const double below = value < scale / 64 ? 0 : scale * std::exp2(std::floor(std::log2(value / scale) * (1 - 1e-12)));
      const double above = value < scale / 64 ? scale / 64 : 2 * below;
      const auto is = [&](double level) { return std::abs(other - level) <= 1e-6 * scale; };
      BOOST_TEST((is(below) || is(above) || is(value)), value / scale << " became " << other / scale);
      BOOST_TEST((other == 0 || std::signbit(values[i]) == std::signbit(noisy[i])));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_codec_has_exactly_comes_back_exactly) {
  for (const auto rounding : ROUNDINGS) {
    for (const float constant : {0.0F, 0.1F, -7.25e-30F, 3e38F, -1e-42F, -3.3F})
      for (const auto codec : {Codec::Int8MinMax, Codec::E3M0}) {
        const std::vector<float> values(300, constant);
        BOOST_TEST(same_bits(decoded(codec, encoded({codec, rounding, 1, 2, 0}, values), 300), values), to_string(codec)
                                                                                                            << " of " << constant);
      }
    // Zero among values on one side of it: a zero point that is cut off would move it.
    for (const float sign : {1.0F, -1.0F}) {
      std::vector<float> values(256);
      for (std::size_t i = 0; i < 255; ++i) values[i] = sign * (5.0F + 0.1F * static_cast<float>(i));
      for (const auto codec : {Codec::Int8ZeroPoint, Codec::Int8Block, Codec::Int4Block, Codec::E3M0})
        BOOST_TEST(decoded(codec, encoded({codec, rounding, 1, 2, 0}, values), 256)[255] == 0.0F, to_string(codec));
    }
    std::vector<float> whole(255);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i) - 127.0F;
    BOOST_TEST(same_bits(decoded(Codec::Int8Block, encoded({Codec::Int8Block, rounding, 1, 2, 0}, whole), 255), whole));
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i) - 100.0F;  // 255 values span 254 steps
    BOOST_TEST(same_bits(decoded(Codec::Int8ZeroPoint, encoded({Codec::Int8ZeroPoint, rounding, 1, 2, 0}, whole), 255), whole));
  }
}

BOOST_AUTO_TEST_CASE(every_16_bit_float_survives_and_neighbours_round_as_ieee_says) {
  for (const auto codec : {Codec::F16, Codec::BF16})
    for (const auto rounding : ROUNDINGS) {
      std::vector<std::uint16_t> codes;
      std::vector<float> values;
      for (std::uint32_t code = 0; code < 65536; ++code) {
        const float value =
            codec == Codec::F16 ? f16_to_f32(static_cast<std::uint16_t>(code)) : bf16_to_f32(static_cast<std::uint16_t>(code));
        if (!std::isfinite(value)) continue;
        codes.push_back(static_cast<std::uint16_t>(code));
        values.push_back(value);
      }
      const auto bytes = encoded({codec, rounding, 5, 6, 0}, values);
      BOOST_TEST(std::memcmp(bytes.data(), codes.data(), bytes.size()) == 0);
      BOOST_TEST(same_bits(decoded(codec, bytes, values.size()), values));
    }
  // To the nearest multiple of the spacing, in f64.
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::ldexp(std::normal_distribution<float>(0, 1)(random), static_cast<int>(random() % 45) - 30);
    if (std::abs(value) >= 65520.0F) continue;
    const float rounded = f16_to_f32(f32_to_f16(value));
    const double spacing = std::max(std::exp2(-24.0), std::exp2(std::floor(std::log2(std::abs(static_cast<double>(value)))) - 10));
    const double expected = std::nearbyint(static_cast<double>(value) / spacing) * spacing;
    BOOST_REQUIRE(static_cast<double>(rounded) == expected);
  }
}

BOOST_AUTO_TEST_CASE(stochastic_rounding_is_right_in_the_mean) {
  constexpr std::size_t DRAWS = 200000;
  std::mt19937_64 random(8);
  for (int tries = 0; tries < 20; ++tries) {
    const float value = std::uniform_real_distribution<float>(-1, 1)(random);
    for (const auto codec :
         {Codec::Int8MinMax, Codec::Int8ZeroPoint, Codec::Int8Block, Codec::Int4Block, Codec::E3M0, Codec::F16, Codec::BF16}) {
      const auto [mean, error] = mean_of(codec, value, {1.0F, -1.0F}, DRAWS);
      BOOST_TEST(std::abs(mean - static_cast<double>(value)) <= 5 * error + 1e-7,
                 to_string(codec) << " of " << value << " has mean " << mean << " ± " << error);
    }
  }
  for (const float tiny : {0.004F, 0.0101F, -0.001F})  // below the lowest level of E3M0
    BOOST_TEST(std::abs(mean_of(Codec::E3M0, tiny, {1.0F}, DRAWS).mean - static_cast<double>(tiny)) < 2e-4);
  for (const float denormal : {3.3e-6F, -4.9e-8F}) {  // of f16
    const auto [mean, error] = mean_of(Codec::F16, denormal, {}, DRAWS);
    BOOST_TEST(std::abs(mean - static_cast<double>(denormal)) <= 5 * error);
  }
}

BOOST_AUTO_TEST_CASE(stochastic_errors_of_neighbours_and_versions_are_independent) {
  // One threshold for a whole call would correlate them fully.
  constexpr std::size_t COUNT = 256 * 400;
  std::vector<float> values(COUNT, 0.3F);
  for (std::size_t i = 0; i < COUNT; i += 32) values[i] = 1.0F;
  for (const auto codec : {Codec::Int8Block, Codec::Int4Block, Codec::E3M0, Codec::BF16}) {
    const auto errors = [&](std::uint64_t version) {
      auto back = decoded(codec, encoded({codec, Rounding::Stochastic, 1, version, 0}, values), COUNT);
      double mean = 0;
      for (std::size_t i = 0; i < COUNT; ++i) mean += i % 32 == 0 ? 0 : static_cast<double>(back[i]) / (COUNT / 32 * 31);
      for (auto& value : back) value -= static_cast<float>(mean);
      return back;
    };
    const auto correlation = [](const std::vector<float>& a, const std::vector<float>& b, std::size_t lag) {
      double ab = 0;
      double aa = 0;
      double bb = 0;
      for (std::size_t i = 0; i + lag < a.size(); ++i) {
        if (i % 32 == 0 || (i + lag) % 32 == 0) continue;  // the ones, which never err
        ab += static_cast<double>(a[i]) * static_cast<double>(b[i + lag]);
        aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
        bb += static_cast<double>(b[i + lag]) * static_cast<double>(b[i + lag]);
      }
      return std::abs(ab / std::sqrt(aa * bb));
    };
    const auto first = errors(1);
    const auto second = errors(2);
    BOOST_TEST(correlation(first, second, 0) < 0.02);
    for (const std::size_t lag : {1U, 2U, 8U, 16U, 64U, 128U, 256U})
      BOOST_TEST(correlation(first, first, lag) < 0.02, to_string(codec) << ", lag " << lag);
  }
}

BOOST_AUTO_TEST_CASE(feedback_keeps_what_was_lost_and_only_that) {
  std::mt19937_64 random(9);
  for (const auto codec : ALL_CODECS)
    for (const auto rounding : ROUNDINGS) {
      constexpr std::size_t COUNT = 1003;
      std::vector<float> residual(COUNT);
      std::vector<double> given(COUNT);
      std::vector<double> received(COUNT);
      double largest = 0;
      for (std::uint64_t version = 0; version < 30; ++version) {
        const auto values = values_of_kind(Kind::Gaussian, codec, COUNT, random);
        const auto before = residual;
        std::vector<std::byte> bytes(encoded_bytes(codec, COUNT));
        std::vector<float> next(COUNT);
        BOOST_REQUIRE(!encode_with_feedback({codec, rounding, 1, version, 0}, {values, residual, bytes, next}));
        BOOST_TEST(same_bits(before, residual));
        const auto back = decoded(codec, bytes, COUNT);
        for (std::size_t i = 0; i < COUNT; ++i) {
          const float sum = values[i] + before[i];
          BOOST_REQUIRE(next[i] == sum - back[i]);  // a = C(a) + e
          given[i] += values[i];
          received[i] += back[i];
          largest = std::max(largest, std::abs(static_cast<double>(next[i])));
        }
        residual = next;
      }
      // Nothing is lost for good: what was sent in all falls short of what was given by the residual of one step.
      for (std::size_t i = 0; i < COUNT; ++i) BOOST_REQUIRE(std::abs(given[i] - received[i] - static_cast<double>(residual[i])) < 1e-6);
      BOOST_TEST(largest < 0.1, to_string(codec) << ": a residual of " << largest);  // of values around 0.01
      if (codec == Codec::None) BOOST_TEST(largest == 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()
