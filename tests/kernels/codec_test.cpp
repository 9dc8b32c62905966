// Owns the tests of the codecs' bits: every instruction set makes those of the reference, whole or in chunks, and refuses alike.
#include <boost/test/unit_test.hpp>
#include <rapidcheck.h>

#include "kernels/codec/philox.hpp"
#include "tests/kernels/codec_support.hpp"

BOOST_AUTO_TEST_SUITE(codec)

using namespace prime;
using namespace prime::kernels;
using namespace prime::kernels::test;

namespace {

std::string name_of(const Encoding& encoding, std::string_view target, std::size_t size) {
  return std::string(to_string(encoding.codec)) + (encoding.rounding == Rounding::Stochastic ? " stochastic on " : " nearest on ") +
         std::string(target) + ", size " + std::to_string(size);
}

// Encodes and decodes by the vectors and by the reference; true where all bits agree.
bool same_as_reference(const Encoding& encoding, std::span<const float> values, std::mt19937_64& random) {
  const std::size_t bytes = encoded_bytes(encoding.codec, values.size());
  std::vector<std::byte> expected(bytes + 1, std::byte{0x5A});
  std::vector<std::byte> actual(bytes + 1, std::byte{0x5A});
  if (encode_reference(encoding, values, {expected.data(), bytes}) || encode(encoding, values, {actual.data(), bytes})) return false;
  if (expected != actual) return false;  // nor is a byte written behind the end
  Shifted slow(values.size(), random() % 4, random);
  Shifted fast = slow;
  decode_reference(encoding.codec, {{expected.data(), bytes}, slow.span()});
  decode(encoding.codec, {{expected.data(), bytes}, fast.span()});
  return same_bits(slow.storage, fast.storage);
}

bool same_feedback_as_reference(const Encoding& encoding, std::span<const float> values, std::mt19937_64& random) {
  std::vector<float> residual(values.size());
  for (auto& value : residual) value = std::normal_distribution<float>(0, 1e-3F)(random);
  std::vector<std::byte> expected(encoded_bytes(encoding.codec, values.size()));
  std::vector<std::byte> actual(expected.size());
  std::vector<float> slow(values.size());
  std::vector<float> fast(values.size());
  if (encode_with_feedback_reference(encoding, {values, residual, expected, slow})) return false;
  if (encode_with_feedback(encoding, {values, residual, actual, fast})) return false;
  return expected == actual && same_bits(slow, fast);
}

/// A block between -`greatest` and `greatest` whose other values are the last before or the first after a change of their code.
std::vector<float> at_the_ends_of_codes(const Encoding& encoding, float greatest, std::mt19937_64& random) {
  const auto greatest_bits = std::bit_cast<std::uint32_t>(greatest);
  const auto scale = block_scale(encoding.codec, encoding.rounding, {-greatest, greatest, greatest_bits});
  std::vector<float> values(256, greatest);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const std::uint32_t sign = i % 2 == 0 ? 0 : SIGN_BIT;
    const auto noise = random_bits(encoding.seed, encoding.version, encoding.first_index + i);
    const auto code = [&](std::uint32_t bits) {
      return code_of(encoding.codec, encoding.rounding, scale, std::bit_cast<float>(sign | bits), noise);
    };
    const float share = (1.0F + static_cast<float>(random() % 1000) / 1000) / 2;
    auto low = std::bit_cast<std::uint32_t>(std::ldexp(greatest * share, -static_cast<int>(random() % 10)));
    auto high = greatest_bits;
    for (const auto first = code(low); high - low > 1;) {
      const auto middle = low + (high - low) / 2;
      (code(middle) == first ? low : high) = middle;
    }
    if (i % 32 > 0) values[i] = std::bit_cast<float>(sign | (random() % 2 == 0 ? low : high));  // blocks of four bits have 32 values
  }
  values[1] = -greatest;
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_generator_gives_the_published_answers) {
  const auto zero = philox({{0, 0, 0, 0}}, 0, 0);
  const std::vector<std::uint32_t> of_zero{0x5f6fb709U, 0x0d893f64U, 0x4f121f81U, 0x4f730a48U};
  BOOST_TEST(std::vector<std::uint32_t>(zero.word, zero.word + 4) == of_zero, boost::test_tools::per_element());
  const auto ones = philox({{~0U, ~0U, ~0U, ~0U}}, ~0U, ~0U);
  const std::vector<std::uint32_t> of_ones{0x5207ddc2U, 0x45165e59U, 0x4d8ee751U, 0x8c52f662U};
  BOOST_TEST(std::vector<std::uint32_t>(ones.word, ones.word + 4) == of_ones, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_value_of_a_tensor_has_random_bits_of_its_own) {
  // Each byte of a word is the high one of one value: 256 indexes, 16 counters, no window (counter, word, byte) twice.
  std::vector<std::uint32_t> bits;
  for (std::uint64_t i = 0; i < RANDOM_GROUP; ++i) bits.push_back(random_bits(1, 2, i));
  std::vector<std::uint32_t> words;
  for (std::uint32_t counter = 0; counter < RANDOM_LANES; ++counter)
    for (const auto word : philox({{counter, 0, 2, 0}}, 1, 0).word)
      for (int shift = 0; shift < 32; shift += 8) words.push_back(std::rotr(word, shift) & 0xFFFFU);
  std::ranges::sort(bits);
  std::ranges::sort(words);
  BOOST_TEST((bits == words));
}

BOOST_AUTO_TEST_CASE(every_instruction_set_has_the_bits_of_the_reference_at_every_size_and_alignment) {
  std::size_t targets = 0;
  on_every_target([&](std::string_view target) {
    BOOST_TEST_MESSAGE("vectors: " << target);
    ++targets;
    std::mt19937_64 random(1);
    for (const auto codec : ALL_CODECS)
      for (const auto rounding : ROUNDINGS)
        for (const auto size : CODEC_SIZES)
          for (const auto kind : KINDS) {
            const Encoding encoding{codec, rounding, random(), random(), 256 * (random() >> 10)};
            const std::size_t shift = random() % 4;
            const auto values = values_of_kind(kind, codec, size + shift, random);
            BOOST_TEST(same_as_reference(encoding, std::span{values}.subspan(shift), random), name_of(encoding, target, size)
                                                                                                  << ", kind " << static_cast<int>(kind));
          }
  });
  BOOST_TEST(targets > 0);
}

BOOST_AUTO_TEST_CASE(every_instruction_set_has_the_bits_of_the_reference_where_one_code_ends_and_the_next_begins) {
  on_every_target([&](std::string_view target) {
    std::mt19937_64 random(5);
    for (const auto codec : ALL_CODECS)
      for (const auto rounding : ROUNDINGS)
        for (const int exponent : {-126, -66, -65, -64, -63, -20, 0, 14, 62, 123, 124, 125, 126, 127})
          for (int block = 0; block < 8; ++block) {
            if (codec == Codec::F16 && exponent > 14) continue;
            const Encoding encoding{codec, rounding, random(), random(), 256 * (random() >> 10)};
            const auto greatest = std::ldexp(1.0F + static_cast<float>(random() % 8'000'000) * 0x1p-23F, exponent);
            const auto values = at_the_ends_of_codes(encoding, greatest, random);
            BOOST_TEST(same_as_reference(encoding, values, random), name_of(encoding, target, values.size()) << ", up to " << greatest);
          }
  });
}

BOOST_AUTO_TEST_CASE(every_instruction_set_feeds_the_same_error_back) {
  on_every_target([&](std::string_view target) {
    std::mt19937_64 random(2);
    for (const auto codec : ALL_CODECS)
      for (const auto rounding : ROUNDINGS)
        for (const auto size : CODEC_SIZES) {
          const Encoding encoding{codec, rounding, random(), random(), 256 * (random() % 1000)};
          const auto values = values_of_kind(Kind::HeavyTailed, codec, size, random);
          const auto within = codec == Codec::F16 ? std::vector<float>(size, 2.5F) : values;
          BOOST_TEST(same_feedback_as_reference(encoding, within, random), name_of(encoding, target, size));
        }
  });
}

BOOST_AUTO_TEST_CASE(any_values_and_keys_give_the_bits_of_the_reference) {
  BOOST_TEST(rc::check([] {
    const Encoding encoding{*rc::gen::elementOf(ALL_CODECS), *rc::gen::elementOf(ROUNDINGS), *rc::gen::arbitrary<std::uint64_t>(),
                            *rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::uint64_t>(0, 5000)};  // also where no group begins
    const auto size = *rc::gen::inRange<std::size_t>(0, 1500);
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    const auto values = values_of_kind(*rc::gen::elementOf(KINDS), encoding.codec, size, random);
    RC_ASSERT(same_as_reference(encoding, values, random));
  }));
}

BOOST_AUTO_TEST_CASE(a_large_output_is_streamed_to_the_same_bits) {
  std::mt19937_64 random(3);
  const std::size_t size = (std::size_t{17} << 20) / sizeof(float) + 77;
  const auto values = values_of_kind(Kind::Gaussian, Codec::Int8Block, size, random);
  const auto bytes = encoded({Codec::Int8Block}, values);
  for (std::size_t shift = 0; shift < 2; ++shift) {
    std::vector<float> storage(size + 32);
    const auto aligned = (64 - std::bit_cast<std::uintptr_t>(storage.data()) % 64) % 64 / sizeof(float);
    const auto out = std::span{storage}.subspan(aligned + shift, size);
    std::vector<float> expected(size);
    decode_reference(Codec::Int8Block, {bytes, expected});
    decode(Codec::Int8Block, {bytes, out});
    BOOST_TEST(same_bits(expected, out));
  }
}

BOOST_AUTO_TEST_CASE(chunks_encode_as_the_whole_does) {
  std::mt19937_64 random(4);
  const std::size_t size = 5003;
  for (const auto codec : ALL_CODECS)
    for (const auto rounding : ROUNDINGS) {
      const auto values = values_of_kind(Kind::MixedBlocks, codec, size, random);
      Encoding encoding{codec, rounding, 7, 8, 512};
      const auto whole = encoded(encoding, values);
      BOOST_TEST(!whole.empty());
      std::vector<std::byte> parts;
      for (std::size_t begin = 0; begin < size;) {
        const std::size_t count = std::min(size - begin, CODEC_ALIGNMENT * (1 + random() % 4));
        encoding.first_index = 512 + begin;
        const auto part = encoded(encoding, std::span{values}.subspan(begin, count));
        parts.insert(parts.end(), part.begin(), part.end());
        begin += count;
      }
      BOOST_TEST((whole == parts), to_string(codec));
    }
}

BOOST_AUTO_TEST_CASE(a_retry_repeats_its_bytes_and_a_new_version_seed_or_place_does_not) {
  std::mt19937_64 random(5);
  const auto values = values_of_kind(Kind::Gaussian, Codec::Int8Block, 1024, random);
  for (const auto codec : ALL_CODECS) {
    if (codec == Codec::None) continue;
    const Encoding encoding{codec, Rounding::Stochastic, 7, 8, 512};
    const auto bytes = encoded(encoding, values);
    BOOST_TEST((encoded(encoding, values) == bytes));
    BOOST_TEST((encoded({codec, Rounding::Stochastic, 9, 8, 512}, values) != bytes));
    BOOST_TEST((encoded({codec, Rounding::Stochastic, 7, 9, 512}, values) != bytes));
    BOOST_TEST((encoded({codec, Rounding::Stochastic, 7, 8, 768}, values) != bytes));
  }
}

BOOST_AUTO_TEST_CASE(the_first_value_that_cannot_travel_is_named) {
  constexpr float INFINITE = std::numeric_limits<float>::infinity();
  on_every_target([&](std::string_view target) {
    std::mt19937_64 random(6);
    for (const auto codec : ALL_CODECS)
      for (const auto size : CODEC_SIZES) {
        auto values = values_of_kind(Kind::Gaussian, codec, size, random);
        if (size == 0) continue;
        std::vector<float> bad{INFINITE, -INFINITE, std::numeric_limits<float>::quiet_NaN()};
        if (codec == Codec::F16) bad.insert(bad.end(), {65520.0F, -1e30F});
        if (codec == Codec::BF16) bad.push_back(std::numeric_limits<float>::max());
        const std::size_t first = random() % size;
        values[first + random() % (size - first)] = bad[random() % bad.size()];
        values[first] = bad[random() % bad.size()];
        std::vector<std::byte> bytes(encoded_bytes(codec, size));
        std::vector<float> residual(size);
        std::vector<float> next(size);
        const Encoding encoding{codec, ROUNDINGS[random() % 2]};
        const auto refused = encode(encoding, values, bytes);
        const auto by_reference = encode_reference(encoding, values, bytes);
        const auto fed_back = encode_with_feedback(encoding, {values, residual, bytes, next});
        BOOST_REQUIRE((refused && by_reference && fed_back));
        BOOST_TEST((refused->index == first && by_reference->index == first && fed_back->index == first), name_of(encoding, target, size));
        BOOST_TEST(same_bits({&refused->value, 1}, {&values[first], 1}));
      }
  });
}

BOOST_AUTO_TEST_CASE(the_largest_values_that_fit_do_travel) {
  for (const auto rounding : ROUNDINGS) {
    const std::vector<float> below{65519.0F, -65519.0F};
    BOOST_TEST(decoded(Codec::F16, encoded({Codec::F16, rounding}, below), 2)[0] == 65504.0F);
    const std::vector<float> large(1000, -std::numeric_limits<float>::max());
    for (const auto codec : {Codec::Int8MinMax, Codec::Int8ZeroPoint, Codec::Int8Block, Codec::Int4Block, Codec::E3M0})
      for (const auto value : decoded(codec, encoded({codec, rounding}, large), large.size()))
        BOOST_TEST(std::abs(value / large[0] - 1) < 0.01F, to_string(codec) << " gives " << value);
  }
}

BOOST_AUTO_TEST_CASE(the_bytes_are_those_of_the_layout) {
  for (const std::size_t size : {0U, 1U, 31U, 32U, 33U, 256U, 257U}) {
    const std::size_t blocks = (size + 255) / 256;
    BOOST_TEST(encoded_bytes(Codec::None, size) == 4 * size);
    BOOST_TEST(encoded_bytes(Codec::F16, size) == 2 * size);
    BOOST_TEST(encoded_bytes(Codec::BF16, size) == 2 * size);
    BOOST_TEST(encoded_bytes(Codec::Int8MinMax, size) == 8 * blocks + size);
    BOOST_TEST(encoded_bytes(Codec::Int8ZeroPoint, size) == 5 * blocks + size);
    BOOST_TEST(encoded_bytes(Codec::Int8Block, size) == 4 * blocks + size);
    BOOST_TEST(encoded_bytes(Codec::Int4Block, size) == 4 * ((size + 31) / 32) + (size + 1) / 2);
    BOOST_TEST(encoded_bytes(Codec::E3M0, size) == 4 * blocks + (size + 1) / 2);
  }
  const std::vector<float> values{127.0F, -127.0F, 1.0F};
  const auto bytes = encoded({Codec::Int8Block}, values);
  const std::vector<std::byte> expected{std::byte{0},   std::byte{0},    std::byte{0x80}, std::byte{0x3F},
                                        std::byte{127}, std::byte{0x81}, std::byte{1}};
  BOOST_TEST((bytes == expected));
  const std::vector<float> powers{8.0F, -4.0F, 0.0F};
  const auto nibbles = encoded({Codec::E3M0}, powers);
  BOOST_TEST((nibbles[4] == std::byte{0xE7} && nibbles[5] == std::byte{0x00}));
}

BOOST_AUTO_TEST_SUITE_END()
