// Owns the tests of reduces of tensors on a CUDA device. Without one, the program says so and is skipped.
#include <boost/test/unit_test.hpp>
#include <iostream>

#include "prime/device_memory.hpp"
#include "tests/runtime/lanes/device_reduces.hpp"

using namespace prime;
using namespace prime::lanes::test;

namespace {

boost::test_tools::assertion_result with_device(boost::unit_test::test_unit_id) {
  static const bool present = cuda_memory().has_value();
  if (!present) std::cout << "no CUDA device on this machine\n";
  boost::test_tools::assertion_result result(present);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_reduce, *boost::unit_test::precondition(with_device))

BOOST_AUTO_TEST_CASE(what_is_put_on_the_device_comes_back) {
  const auto memory = cuda_memory().value();
  BOOST_TEST(memory->name() == "CUDA device 0");
  for (const std::size_t size : {1U, 4096U, 1'000'003U}) {
    const auto values = random_values(size, size);
    const auto bytes = std::as_bytes(std::span{values});
    BOOST_TEST(std::ranges::equal(DeviceTensor(memory, bytes).get(), bytes));
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_named) {
  const auto memory = cuda_memory(1000);
  BOOST_REQUIRE(!memory.has_value());
  BOOST_TEST((memory.error().name == ErrorName::DeviceUnusable));
}

BOOST_AUTO_TEST_CASE(who_hears_of_a_copy_may_be_the_last_that_has_the_memory) {
  auto memory = cuda_memory().value();
  std::byte* const device = memory->allocate(1 << 20);
  BOOST_REQUIRE(device != nullptr);
  std::vector<std::byte> host(1 << 20);
  std::promise<bool> ended;
  auto& borrowed = *memory;
  borrowed.store(host, device, [&ended, device, last = std::move(memory)](const std::optional<std::string>& fault) mutable {
    last->release(device);
    last.reset();
    ended.set_value(!fault);
  });
  BOOST_TEST(ended.get_future().get());
}

BOOST_AUTO_TEST_CASE(device_tensors_have_the_bits_of_host_tensors_for_every_schedule_codec_and_type) {
  every_reduce_has_the_bits_of_host_tensors(cuda_memory().value(), 512);
}

BOOST_AUTO_TEST_CASE(large_tensors_have_them_too) {
  std::mt19937_64 random(9);
  lanes::test::Cluster cluster(3);
  std::uint64_t sequence = 0;
  for (const auto codec : {Codec::None, Codec::Int8Block}) {
    DeviceCase c;
    c.codec = codec;
    c.elements = 16'000'001;
    c.weights = {1, 2, 3};
    same_bits_wherever_tensors_lie(cluster, sequence, c, cuda_memory().value(), random);
  }
}

BOOST_AUTO_TEST_SUITE_END()
