// Owns the tests of the GPU's kernels against the CPU's: the same bits. Without a device, the program says so and is skipped.
#include <boost/test/unit_test.hpp>
#include <cuda_runtime_api.h>
#include <iostream>
#include <string>
#include <utility>

#include "kernels/codec/codec_cuda.hpp"
#include "kernels/commitment/commitment_cuda.hpp"
#include "kernels/digest/digest.hpp"
#include "kernels/digest/digest_cuda.hpp"
#include "kernels/outer_rule/outer_rule_cuda.hpp"
#include "kernels/reduce/reduce_cuda.hpp"
#include "tests/kernels/codec_support.hpp"

using namespace prime;
using namespace prime::kernels;
using namespace prime::kernels::test;

namespace {

boost::test_tools::assertion_result with_device(boost::unit_test::test_unit_id) {
  static const bool present = cuda::device_present();
  if (!present) std::cout << "no CUDA device on this machine\n";
  boost::test_tools::assertion_result result(present);
  return result;
}

// A copy on the device of what the host gives, brought back on demand. It begins `shift` elements behind an aligned address, and what is
// around it must stay as it is.
template <class Element>
class OnDevice {
 public:
  explicit OnDevice(std::span<const Element> host, std::size_t shift = 0)
      : count_(host.size()), begin_(shift * sizeof(Element)), all_(begin_ + host.size_bytes() + AROUND, AROUND_IS) {
    std::ranges::copy(std::as_bytes(host), all_.begin() + static_cast<std::ptrdiff_t>(begin_));
    BOOST_REQUIRE_EQUAL(cudaMalloc(&data_, all_.size()), cudaSuccess);
    BOOST_REQUIRE_EQUAL(cudaMemcpy(data_, all_.data(), all_.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  explicit OnDevice(std::size_t count, std::size_t shift = 0) : OnDevice(std::span<const Element>{std::vector<Element>(count)}, shift) {}
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  Element* data() const { return reinterpret_cast<Element*>(static_cast<std::byte*>(data_) + begin_); }
  std::span<Element> span() const { return {data(), count_}; }
  std::vector<Element> back() const {
    std::vector<std::byte> all(all_.size());
    BOOST_REQUIRE_EQUAL(cudaMemcpy(all.data(), data_, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto end = begin + static_cast<std::ptrdiff_t>(count_ * sizeof(Element));
    const auto untouched = [](std::byte byte) { return byte == AROUND_IS; };
    BOOST_TEST((std::all_of(all.begin(), begin, untouched) && std::all_of(end, all.end(), untouched)), "something was written around it");
    std::vector<Element> host(count_);
    if (count_ > 0) std::memcpy(host.data(), &*begin, count_ * sizeof(Element));
    return host;
  }

 private:
  static constexpr std::size_t AROUND = 32;
  static constexpr std::byte AROUND_IS{0xA5};
  void* data_ = nullptr;
  std::size_t count_;
  std::size_t begin_;
  std::vector<std::byte> all_;
};

std::vector<float> any_floats(std::size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (auto& value : values) value = any_float(random);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_kernels, *boost::unit_test::precondition(with_device))

// How many floats, or words of bytes, an array begins behind an aligned address.
struct Shifts {
  std::size_t floats = 0;
  std::size_t words = 0;
};

void check_codec(const Encoding& encoding, Kind kind, std::size_t size, const Shifts& shifts, std::mt19937_64& random) {
  const auto codec = encoding.codec;
  const auto what = [&] {
    return std::string(to_string(codec)) + ", rounding " + std::to_string(static_cast<int>(encoding.rounding)) + ", size " +
           std::to_string(size) + ", kind " + std::to_string(static_cast<int>(kind)) + ", shifts " + std::to_string(shifts.floats) +
           " and " + std::to_string(shifts.words);
  };
  const auto values = values_of_kind(kind, codec, size, random);
  const auto expected = encoded(encoding, values);
  const OnDevice<float> from{std::span<const float>{values}, shifts.floats};
  const OnDevice<std::byte> bytes(expected.size(), 4 * shifts.words);
  const OnDevice<unsigned long long> refused(1);
  BOOST_REQUIRE(!cuda::encode(encoding, {from.data(), nullptr, bytes.data(), nullptr, size, refused.data()}, nullptr));
  BOOST_TEST((bytes.back() == expected), what());
  BOOST_TEST(refused.back()[0] == size);
  std::vector<float> slow(size);
  decode_reference(codec, {expected, slow});
  const OnDevice<float> fast(size, shifts.floats);
  BOOST_REQUIRE(!cuda::decode(codec, {bytes.data(), fast.data(), size}, nullptr));
  BOOST_TEST(same_bits(fast.back(), slow), what());
}

BOOST_AUTO_TEST_CASE(every_codec_has_the_bytes_of_the_cpu) {
  std::mt19937_64 random(1);
  for (const auto codec : ALL_CODECS)
    for (const auto rounding : ROUNDINGS)
      for (const auto size : CODEC_SIZES)
        for (const auto kind : KINDS) check_codec({codec, rounding, random(), random(), 256 * (random() >> 10)}, kind, size, {}, random);
}

BOOST_AUTO_TEST_CASE(codecs_work_wherever_arrays_and_tensors_begin) {
  std::mt19937_64 random(7);
  for (const auto codec : ALL_CODECS)
    for (const auto rounding : ROUNDINGS)
      for (const std::size_t size : {1023U, 1024U, 1025U, 2047U, 3 * 1024U + 259U, 70'001U})
        for (const auto& shifts : {Shifts{0, 0}, Shifts{0, 1}, Shifts{0, 2}, Shifts{1, 0}, Shifts{2, 2}}) {
          check_codec({codec, rounding, random(), random(), 256 * (random() >> 10)}, Kind::MixedBlocks, size, shifts, random);
          check_codec({codec, rounding, random(), random(), random() >> 2}, Kind::Gaussian, size, shifts, random);
        }
}

BOOST_AUTO_TEST_CASE(feedback_has_the_residual_of_the_cpu) {
  std::mt19937_64 random(2);
  for (const auto codec : ALL_CODECS)
    for (const auto rounding : ROUNDINGS)
      for (const auto kind : {Kind::Gaussian, Kind::Huge, Kind::Denormal})
        for (const std::size_t shift : {0U, 1U}) {
          const std::size_t size = 5003;
          const Encoding encoding{codec, rounding, 3, 4, 512};
          auto values = values_of_kind(kind, codec, size, random);
          for (auto& value : values) value *= 0.5F;  // so that sums can be encoded
          const auto residual = values;
          std::vector<std::byte> expected(encoded_bytes(codec, size));
          std::vector<float> next(size);
          BOOST_REQUIRE(!encode_with_feedback(encoding, {values, residual, expected, next}));
          const OnDevice<float> from{std::span<const float>{values}};
          const OnDevice<float> error{std::span<const float>{residual}, shift};
          const OnDevice<float> next_error(size, shift);
          const OnDevice<std::byte> bytes(expected.size());
          const OnDevice<unsigned long long> refused(1);
          BOOST_REQUIRE(
              !cuda::encode(encoding, {from.data(), error.data(), bytes.data(), next_error.data(), size, refused.data()}, nullptr));
          BOOST_TEST((bytes.back() == expected), to_string(codec));
          BOOST_TEST(same_bits(next_error.back(), next), to_string(codec));
          BOOST_TEST(same_bits(error.back(), residual));
        }
}

BOOST_AUTO_TEST_CASE(the_first_refused_value_is_named) {
  std::mt19937_64 random(3);
  constexpr std::size_t SIZE = 5003;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  for (const auto codec : ALL_CODECS)
    for (const std::size_t first : {0U, 700U, 701U, 1023U, 4096U, 5002U})
      for (const float value : {nan, -nan, infinite, -infinite})
        for (const std::size_t shift : {0U, 1U}) {
          auto values = values_of_kind(Kind::Gaussian, codec, SIZE, random);
          for (std::size_t i = first; i < SIZE; i += 1000) values[i] = i == first ? value : infinite;
          const OnDevice<float> from{std::span<const float>{values}, shift};
          const OnDevice<std::byte> bytes(encoded_bytes(codec, SIZE));
          const OnDevice<unsigned long long> refused(1);
          BOOST_REQUIRE(!cuda::encode({codec}, {from.data(), nullptr, bytes.data(), nullptr, SIZE, refused.data()}, nullptr));
          BOOST_TEST(refused.back()[0] == first);
          static_cast<void>(bytes.back());
        }
}

void check_sums(std::size_t size, std::array<std::size_t, 3> shifts, std::size_t shift_of_result, std::mt19937_64& random) {
  const auto a = any_floats(size, random);
  const auto b = any_floats(size, random);
  const auto c = any_floats(size, random);
  std::vector<float> expected(size);
  std::vector<float> other(size);
  const OnDevice<float> device_a{std::span<const float>{a}, shifts[0]};
  const OnDevice<float> device_b{std::span<const float>{b}, shifts[1]};
  const OnDevice<float> device_c{std::span<const float>{c}, shifts[2]};
  const OnDevice<float> out(size, shift_of_result);
  const OnDevice<float> out_2(size, shift_of_result);
  kernels::weighted_sum(std::vector<WeightedInput>{{a.data(), 0.7F}, {nullptr, 0}, {b.data(), 1}, {c.data(), 0.1F}}, 0.37F, expected);
  const std::vector<WeightedInput> inputs{{device_a.data(), 0.7F}, {nullptr, 0}, {device_b.data(), 1}, {device_c.data(), 0.1F}};
  BOOST_REQUIRE(!cuda::weighted_sum(inputs, 0.37F, out.data(), size, nullptr));
  BOOST_TEST(same_bits(out.back(), expected), "weighted sum of " << size);
  kernels::pseudo_gradient(a, b, expected);
  BOOST_REQUIRE(!cuda::pseudo_gradient(device_a.data(), device_b.data(), out.data(), size, nullptr));
  BOOST_TEST(same_bits(out.back(), expected), "pseudo-gradient of " << size);
  kernels::nesterov({}, {a, b, c, expected, other});
  BOOST_REQUIRE(!cuda::nesterov({}, {device_a.span(), device_b.span(), device_c.span(), out.span(), out_2.span()}, nullptr));
  BOOST_TEST((same_bits(out.back(), expected) && same_bits(out_2.back(), other)), "outer step of " << size);
  BOOST_REQUIRE(!cuda::nesterov({}, {device_a.span(), device_b.span(), device_c.span(), out.span(), device_c.span()}, nullptr));
  BOOST_TEST((same_bits(out.back(), expected) && same_bits(device_c.back(), other)), "outer step of " << size << " in the mean's place");
}

BOOST_AUTO_TEST_CASE(sums_differences_and_outer_steps_have_the_bits_of_the_cpu) {
  std::mt19937_64 random(4);
  for (const auto size : SIZES) {
    check_sums(size, {0, 0, 0}, 0, random);
    check_sums(size, {0, 1, 0}, 0, random);
    check_sums(size, {1, 2, 3}, 0, random);
    check_sums(size, {0, 0, 0}, 3, random);
  }
}

BOOST_AUTO_TEST_CASE(a_sum_of_as_many_ranks_as_a_launch_takes_has_the_bits_of_the_cpu) {
  std::mt19937_64 random(8);
  constexpr std::size_t SIZE = 1003;
  const auto values = any_floats(SIZE, random);
  const OnDevice<float> device{std::span<const float>{values}};
  const OnDevice<float> out(SIZE);
  std::vector<float> expected(SIZE);
  for (const std::size_t ranks : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{5}, cuda::INPUTS_MAXIMUM}) {
    std::vector<WeightedInput> inputs, on_device;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto weight = static_cast<float>(rank + 1);
      inputs.push_back({values.data(), weight});
      on_device.push_back({device.data(), weight});
    }
    kernels::weighted_sum(inputs, 0.37F, expected);
    BOOST_REQUIRE(!cuda::weighted_sum(on_device, 0.37F, out.data(), SIZE, nullptr));
    BOOST_TEST(same_bits(out.back(), expected), "weighted sum of " << ranks << " ranks");
  }
}

BOOST_AUTO_TEST_CASE(more_ranks_than_a_launch_takes_are_a_named_fault) {
  const std::vector<WeightedInput> inputs(cuda::INPUTS_MAXIMUM + 1, WeightedInput{nullptr, 1});
  BOOST_TEST(cuda::weighted_sum(inputs, 1, nullptr, 0, nullptr).has_value());
}

BOOST_AUTO_TEST_CASE(the_digest_of_a_tensor_is_that_of_the_cpu) {
  std::mt19937_64 random(5);
  constexpr std::size_t ROUND = 64 << 10;  // bytes that a kernel sums at once
  std::vector<std::byte> all((5U << 20) + 12345);
  for (auto& byte : all) byte = static_cast<std::byte>(random());
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{240}, std::size_t{241}, std::size_t{1024}, std::size_t{1025}, std::size_t{4096}, ROUND,
        ROUND + 1, ROUND + 1024, ROUND + 1025, 2 * ROUND, 2 * ROUND + 1, 3 * ROUND + 5000, (std::size_t{1} << 20) - 1, std::size_t{1} << 20,
        (std::size_t{1} << 20) + 1, (std::size_t{1} << 20) + 241, all.size()})
    for (const std::size_t shift : {0U, 8U}) {
      const auto bytes = std::span<const std::byte>{all}.first(size);
      const OnDevice<std::byte> device{bytes, shift};
      Digest digest;
      BOOST_REQUIRE(!cuda::digest_tensor(device.data(), size, digest, nullptr));
      BOOST_TEST((digest == digest_tensor_reference(bytes)), "size " << size << ", shift " << shift);
    }
}

BOOST_AUTO_TEST_CASE(the_digest_of_more_chunks_than_a_device_holds_at_once_is_that_of_the_cpu) {
  std::vector<std::uint64_t> words((300U << 20) / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * 0x9E3779B97F4A7C15U;
  const auto bytes = std::as_bytes(std::span{words});
  const OnDevice<std::byte> device{bytes};
  Digest digest;
  BOOST_REQUIRE(!cuda::digest_tensor(device.data(), bytes.size(), digest, nullptr));
  BOOST_TEST((digest == digest_tensor(bytes, 4)));
}

// Segments in which a value differs from others in the way that counts: how they are spread, and where what is not finite lies.
std::vector<std::uint16_t> activations(std::size_t count, unsigned exponents, std::mt19937_64& random) {
  std::vector<std::uint16_t> bits(count);
  for (auto& value : bits)
    value = static_cast<std::uint16_t>((random() % 2) << 15 | (118 + random() % exponents) << 7 | random() % (exponents == 1 ? 2 : 128));
  return bits;
}

void check_top(const std::vector<std::uint16_t>& bits, std::size_t segments, std::size_t wanted, std::size_t shift,
               const std::string& what) {
  const std::size_t values = bits.size() / segments;
  const OnDevice<std::uint16_t> from{std::span<const std::uint16_t>{bits}, shift};
  const OnDevice<TopValue> out(segments * wanted);
  const OnDevice<unsigned long long> bad(segments);
  BOOST_REQUIRE(!cuda::top_values({from.data(), segments, values}, wanted, out.data(), bad.data(), nullptr));
  auto found = out.back();
  const auto first_bad = bad.back();
  const auto is_right = [&](std::size_t segment) {
    std::vector<TopValue> expected(wanted);
    const auto refused = top_values(std::span{bits}.subspan(segment * values, values), expected);
    if (first_bad[segment] != refused.value_or(values)) return false;
    const auto mine = std::span{found}.subspan(segment * wanted, wanted);
    const auto by_index = [](const TopValue& a, const TopValue& b) { return a.index < b.index; };
    std::sort(mine.begin(), mine.end(), by_index);
    std::sort(expected.begin(), expected.end(), by_index);
    return refused || std::equal(mine.begin(), mine.end(), expected.begin());
  };
  std::size_t right = 0;
  while (right < segments && is_right(right)) ++right;
  BOOST_TEST(right == segments,
             what << ", shift " << shift << ": segment " << right << " of " << segments << ", " << wanted << " of " << values);
}

BOOST_AUTO_TEST_CASE(the_largest_activations_are_those_of_the_cpu) {
  std::mt19937_64 random(6);
  // Few exponents make so many equal values that a bound lets too many through.
  for (const unsigned exponents : {1U, 12U})
    for (const std::size_t values : {1U, 7U, 128U, 1000U, 2048U, 8192U, 8193U, 16'384U, 70'001U, 131'072U, 200'000U})
      for (const std::size_t wanted : {0U, 1U, 2U, 127U, 128U, 129U, 512U, 513U, 1000U, 4096U, 4097U, 8192U}) {
        if (wanted > values) continue;
        constexpr std::size_t SEGMENTS = 5;
        auto bits = activations(SEGMENTS * values, exponents, random);
        bits[3 * values + values / 2] = 0x7F80;
        check_top(bits, SEGMENTS, wanted, 0, std::to_string(exponents) + " exponents");
      }
}

BOOST_AUTO_TEST_CASE(all_of_a_segment_may_be_wanted) {
  std::mt19937_64 random(9);
  for (const std::size_t values : {1U, 5U, 128U, 129U, 512U, 4095U, 4096U, 5000U, 8192U})
    check_top(activations(3 * values, 12, random), 3, values, 0, "all");
}

BOOST_AUTO_TEST_CASE(segments_of_nothing_are_finite) {
  const OnDevice<unsigned long long> bad{std::span<const unsigned long long>{std::vector<unsigned long long>{7, 7, 7}}};
  BOOST_REQUIRE(!cuda::top_values({nullptr, 3, 0}, 0, nullptr, bad.data(), nullptr));
  BOOST_TEST(bad.back() == std::vector<unsigned long long>(3));
}

BOOST_AUTO_TEST_CASE(the_largest_are_found_in_every_order) {
  for (const std::size_t values : {5U, 3000U, 32'640U, 131'072U, 1U << 20})
    for (const std::size_t wanted : {1U, 3U, 128U, 700U, 2000U}) {
      if (wanted > values) continue;
      std::vector<std::uint16_t> bits(values);
      const auto fill = [&](auto magnitude) {
        for (std::size_t i = 0; i < values; ++i) bits[i] = static_cast<std::uint16_t>(magnitude(i) | (i % 3 == 0 ? 0x8000U : 0U));
      };
      fill([](std::size_t) { return 0U; });
      check_top(bits, 1, wanted, 0, "zeros");
      fill([](std::size_t) { return 0x3F80U; });
      check_top(bits, 1, wanted, 0, "ones");
      fill([&](std::size_t i) { return i * 0x7F7FU / values; });
      check_top(bits, 1, wanted, 0, "ascending");
      fill([&](std::size_t i) { return (values - i) * 0x7F7FU / values; });
      check_top(bits, 1, wanted, 0, "descending");
      fill([&](std::size_t i) { return i + 100 < values ? 0U : 0x7F7FU; });
      check_top(bits, 1, wanted, 0, "a hundred at the end");
      fill([&](std::size_t i) { return i % 16'384 < 4096 ? 0x100U + i / 16'384 : 1U; });
      check_top(bits, 1, wanted, 0, "more from tile to tile");
    }
}

BOOST_AUTO_TEST_CASE(segments_may_begin_anywhere_and_be_few_or_many) {
  std::mt19937_64 random(10);
  struct Shape {
    std::size_t segments, values, wanted;
  };
  for (const auto& [segments, values, wanted] : std::initializer_list<Shape>{
           {1, 3'000'000, 128}, {1, 131'073, 128}, {2, 999'999, 128}, {7, 262'144, 128}, {300, 200, 128}, {100, 9000, 128}, {70'000, 9, 4}})
    for (const std::size_t shift : {0U, 1U, 4U}) check_top(activations(segments * values, 30, random), segments, wanted, shift, "spread");
}

BOOST_AUTO_TEST_CASE(the_first_activation_that_is_not_finite_is_named_wherever_it_lies) {
  std::mt19937_64 random(11);
  for (const std::size_t values : {1000U, 70'001U, 1'000'000U})
    for (const std::size_t wanted : {0U, 1U, 128U, 900U})
      for (const std::size_t first : {std::size_t{0}, std::size_t{999}, values / 2, values - 1}) {
        // Behind the first, an infinity, as many NaNs as would make a bound that it does not reach.
        auto bits = activations(2 * values, 12, random);
        for (std::size_t i = first; i < values; ++i) bits[i] = i == first ? 0xFF80 : static_cast<std::uint16_t>(0x7FFF - i % 64);
        check_top(bits, 2, wanted, 0, "not finite from " + std::to_string(first));
      }
}

BOOST_AUTO_TEST_CASE(a_search_for_more_values_than_there_are_is_a_named_fault) {
  BOOST_TEST(cuda::top_values({nullptr, 1, 100}, 101, nullptr, nullptr, nullptr).has_value());
  BOOST_TEST(cuda::top_values({nullptr, 1, 100'000}, COMMITTED_MAXIMUM + 1, nullptr, nullptr, nullptr).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
