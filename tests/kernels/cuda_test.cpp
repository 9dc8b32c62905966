// Owns the tests of the GPU's kernels against the CPU's: the same bits. Without a device, the program says so and is skipped.
#include <boost/test/unit_test.hpp>
#include <cuda_runtime_api.h>
#include <iostream>

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

// A copy on the device of what the host gives, brought back on demand.
template <class Element>
class OnDevice {
 public:
  explicit OnDevice(std::span<const Element> host) : count_(host.size()) {
    BOOST_REQUIRE_EQUAL(cudaMalloc(&data_, std::max<std::size_t>(host.size_bytes(), 1)), cudaSuccess);
    BOOST_REQUIRE_EQUAL(cudaMemcpy(data_, host.data(), host.size_bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  Element* data() const { return static_cast<Element*>(data_); }
  std::span<Element> span() const { return {data(), count_}; }
  std::vector<Element> back() const {
    std::vector<Element> host(count_);
    BOOST_REQUIRE_EQUAL(cudaMemcpy(host.data(), data_, count_ * sizeof(Element), cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_;
};

std::vector<float> any_floats(std::size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (auto& value : values) value = any_float(random);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_kernels, *boost::unit_test::precondition(with_device))

BOOST_AUTO_TEST_CASE(every_codec_has_the_bytes_of_the_cpu) {
  std::mt19937_64 random(1);
  for (const auto codec : ALL_CODECS)
    for (const auto rounding : ROUNDINGS)
      for (const auto size : CODEC_SIZES)
        for (const auto kind : KINDS) {
          const Encoding encoding{codec, rounding, random(), random(), 256 * (random() >> 10)};
          const auto values = values_of_kind(kind, codec, size, random);
          const auto expected = encoded(encoding, values);
          const OnDevice<float> from{std::span<const float>{values}};
          const OnDevice<std::byte> bytes{std::span<const std::byte>{std::vector<std::byte>(expected.size())}};
          const OnDevice<unsigned long long> refused{std::span<const unsigned long long>{std::vector<unsigned long long>(1)}};
          BOOST_REQUIRE(!cuda::encode(encoding, {from.data(), nullptr, bytes.data(), nullptr, size, refused.data()}, nullptr));
          BOOST_TEST((bytes.back() == expected), to_string(codec) << ", size " << size << ", kind " << static_cast<int>(kind));
          BOOST_TEST(refused.back()[0] == size);
          auto slow = any_floats(size, random);
          const OnDevice<float> fast{std::span<const float>{slow}};
          decode_reference(codec, {expected, slow});
          BOOST_REQUIRE(!cuda::decode(codec, {bytes.data(), fast.data(), size}, nullptr));
          BOOST_TEST(same_bits(fast.back(), slow), to_string(codec) << ", size " << size);
        }
}

BOOST_AUTO_TEST_CASE(feedback_has_the_residual_of_the_cpu) {
  std::mt19937_64 random(2);
  for (const auto codec : ALL_CODECS)
    for (const auto rounding : ROUNDINGS) {
      const std::size_t size = 5003;
      const Encoding encoding{codec, rounding, 3, 4, 512};
      const auto values = values_of_kind(Kind::Gaussian, codec, size, random);
      const auto residual = values_of_kind(Kind::Gaussian, codec, size, random);
      std::vector<std::byte> expected(encoded_bytes(codec, size));
      std::vector<float> next(size);
      BOOST_REQUIRE(!encode_with_feedback(encoding, {values, residual, expected, next}));
      const OnDevice<float> from{std::span<const float>{values}};
      const OnDevice<float> error{std::span<const float>{residual}};
      const OnDevice<float> next_error{std::span<const float>{residual}};
      const OnDevice<std::byte> bytes{std::span<const std::byte>{expected}};
      const OnDevice<unsigned long long> refused{std::span<const unsigned long long>{std::vector<unsigned long long>(1)}};
      BOOST_REQUIRE(!cuda::encode(encoding, {from.data(), error.data(), bytes.data(), next_error.data(), size, refused.data()}, nullptr));
      BOOST_TEST((bytes.back() == expected), to_string(codec));
      BOOST_TEST(same_bits(next_error.back(), next), to_string(codec));
      BOOST_TEST(same_bits(error.back(), residual));
    }
}

BOOST_AUTO_TEST_CASE(the_first_refused_value_is_named) {
  std::mt19937_64 random(3);
  for (const auto codec : ALL_CODECS) {
    auto values = values_of_kind(Kind::Gaussian, codec, 5003, random);
    values[700] = std::numeric_limits<float>::quiet_NaN();
    values[3000] = std::numeric_limits<float>::infinity();
    const OnDevice<float> from{std::span<const float>{values}};
    const OnDevice<std::byte> bytes{std::span<const std::byte>{std::vector<std::byte>(encoded_bytes(codec, values.size()))}};
    const OnDevice<unsigned long long> refused{std::span<const unsigned long long>{std::vector<unsigned long long>(1)}};
    BOOST_REQUIRE(!cuda::encode({codec}, {from.data(), nullptr, bytes.data(), nullptr, values.size(), refused.data()}, nullptr));
    BOOST_TEST(refused.back()[0] == 700U);
  }
}

BOOST_AUTO_TEST_CASE(sums_differences_and_outer_steps_have_the_bits_of_the_cpu) {
  std::mt19937_64 random(4);
  for (const auto size : SIZES) {
    const auto a = any_floats(size, random);
    const auto b = any_floats(size, random);
    const auto c = any_floats(size, random);
    std::vector<float> expected(size);
    std::vector<float> other(size);
    const OnDevice<float> device_a{std::span<const float>{a}};
    const OnDevice<float> device_b{std::span<const float>{b}};
    const OnDevice<float> device_c{std::span<const float>{c}};
    const OnDevice<float> out{std::span<const float>{a}};
    const OnDevice<float> out_2{std::span<const float>{a}};
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
  }
}

BOOST_AUTO_TEST_CASE(more_ranks_than_a_launch_takes_are_a_named_fault) {
  const std::vector<WeightedInput> inputs(cuda::INPUTS_MAXIMUM + 1, WeightedInput{nullptr, 1});
  BOOST_TEST(cuda::weighted_sum(inputs, 1, nullptr, 0, nullptr).has_value());
}

BOOST_AUTO_TEST_CASE(the_digest_of_a_tensor_is_that_of_the_cpu) {
  std::mt19937_64 random(5);
  for (const std::size_t size :
       {0U, 1U, 240U, 241U, 1024U, 1025U, 4096U, (1U << 20) - 1, 1U << 20, (1U << 20) + 1, (1U << 20) + 241, (5U << 20) + 12345}) {
    std::vector<std::byte> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    const OnDevice<std::byte> device{std::span<const std::byte>{bytes}};
    Digest digest;
    BOOST_REQUIRE(!cuda::digest_tensor(device.data(), size, digest, nullptr));
    BOOST_TEST((digest == digest_tensor_reference(bytes)), "size " << size);
  }
}

BOOST_AUTO_TEST_CASE(the_largest_activations_are_those_of_the_cpu) {
  std::mt19937_64 random(6);
  // Few exponents make so many equal values that a bound lets too many through.
  for (const unsigned exponents : {1U, 12U})
    for (const std::size_t values : {128U, 1000U, 2048U, 16'384U, 70'001U})
      for (const std::size_t wanted : {1U, 128U, 1000U, 5000U}) {
        if (wanted > values) continue;
        constexpr std::size_t SEGMENTS = 5;
        std::vector<std::uint16_t> bits(SEGMENTS * values);
        for (auto& value : bits)
          value =
              static_cast<std::uint16_t>((random() % 2) << 15 | (118 + random() % exponents) << 7 | random() % (exponents == 1 ? 2 : 128));
        bits[3 * values + 77] = 0x7F80;
        const OnDevice<std::uint16_t> from{std::span<const std::uint16_t>{bits}};
        const OnDevice<TopValue> out{std::span<const TopValue>{std::vector<TopValue>(SEGMENTS * wanted)}};
        const OnDevice<unsigned long long> bad{std::span<const unsigned long long>{std::vector<unsigned long long>(SEGMENTS)}};
        BOOST_REQUIRE(!cuda::top_values({from.data(), SEGMENTS, values}, wanted, out.data(), bad.data(), nullptr));
        auto found = out.back();
        for (std::size_t i = 0; i < SEGMENTS; ++i) {
          BOOST_TEST(bad.back()[i] == (i == 3 ? 77 : values));
          if (i == 3) continue;
          std::vector<TopValue> expected(wanted);
          BOOST_REQUIRE(!top_values(std::span{bits}.subspan(i * values, values), expected));
          auto mine = std::span{found}.subspan(i * wanted, wanted);
          const auto by_index = [](const TopValue& a, const TopValue& b) { return a.index < b.index; };
          std::sort(mine.begin(), mine.end(), by_index);
          std::sort(expected.begin(), expected.end(), by_index);
          BOOST_TEST(std::equal(mine.begin(), mine.end(), expected.begin()),
                     wanted << " of " << values << ", " << exponents << " exponents");
        }
      }
}

BOOST_AUTO_TEST_CASE(a_search_for_more_values_than_there_are_is_a_named_fault) {
  BOOST_TEST(cuda::top_values({nullptr, 1, 100}, 101, nullptr, nullptr, nullptr).has_value());
  BOOST_TEST(cuda::top_values({nullptr, 1, 100'000}, COMMITTED_MAXIMUM + 1, nullptr, nullptr, nullptr).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
