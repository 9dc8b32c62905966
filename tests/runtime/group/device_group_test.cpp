// Owns the tests of prime::Group with tensors that lie on a device: in place and not, and how that ends when the device fails.
#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include "prime/device_memory.hpp"
#include "prime/group.hpp"
#include "runtime/bench/bare_sockets.hpp"
#include "tests/support/device_tensor.hpp"
#include "tests/support/fake_device.hpp"

using namespace prime;
using prime::test::DeviceTensor;
using prime::test::FakeDevice;
using Way = FakeDevice::Way;

namespace {

constexpr std::size_t COUNT = 300'001;

std::vector<float> filled(float value) { return std::vector<float>(COUNT, value); }

/// Two members in one process; the first has its tensors on a device, the second in the host's memory.
struct Pair {
  Pair() {
    GroupOptions options;
    options.key = "a secret of the tests";
    options.plain = true;
    options.memory = false;
    options.timeout = std::chrono::seconds(60);
    std::vector<int> held;
    for (int rank = 0; rank < 2; ++rank) options.members.push_back("127.0.0.1:" + std::to_string(bench::free_port(held)));
    for (const int fd : held) ::close(fd);
    for (options.rank = 0; options.rank < 2; ++options.rank) groups.push_back(Group::form(options).value());
  }
  DeviceTensor tensor(float value) const {
    const auto values = filled(value);
    return {device, std::as_bytes(std::span{values})};
  }
  Reduction on_device(const DeviceTensor& input, const DeviceTensor& output) {
    ReduceOptions options;
    options.memory = device;
    return groups[0].reduce_async(input.span(), output.span(), options);
  }
  Reduction on_host() {
    return groups[1].reduce_async(std::as_bytes(std::span{host_input}), std::as_writable_bytes(std::span{host_output}), {});
  }
  /// In place: both members have committed, and the device holds back the move of the result.
  Reduction committed_but_not_moved(const DeviceTensor& both) {
    device->hold(Way::Move);
    auto here = on_device(both, both);
    BOOST_REQUIRE(on_host().wait().has_value());
    BOOST_REQUIRE(device->wait([](const auto& counts) { return counts[static_cast<std::size_t>(Way::Move)].begun == 1; }));
    return here;
  }
  static bool holds(const DeviceTensor& tensor, float value) {
    const auto expected = filled(value);
    return std::ranges::equal(tensor.get(), std::as_bytes(std::span{expected}));
  }

  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  std::vector<float> host_input = filled(5.0F);
  std::vector<float> host_output = filled(0.0F);
  std::vector<Group> groups;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(device_group)

BOOST_FIXTURE_TEST_CASE(a_member_with_device_tensors_and_one_with_host_tensors_get_the_same_mean, Pair) {
  const auto input = tensor(1.0F);
  const auto output = tensor(0.0F);
  auto here = on_device(input, output);
  auto there = on_host();
  const auto info = here.wait();
  const auto other = there.wait();
  BOOST_REQUIRE_MESSAGE(info.has_value(), (info ? "" : to_string(info.error())));
  BOOST_REQUIRE(other.has_value());
  BOOST_TEST((info->digest == other->digest));
  BOOST_TEST(holds(output, 3.0F));
  BOOST_TEST((host_output == filled(3.0F)));
}

BOOST_FIXTURE_TEST_CASE(in_place_the_input_stays_until_the_commit, Pair) {
  const auto both = tensor(1.0F);
  auto here = committed_but_not_moved(both);
  BOOST_TEST(holds(both, 1.0F));
  BOOST_TEST(!here.wait_for(std::chrono::nanoseconds(0)).has_value());
  here.cancel();  // too late
  device->hold(Way::Move, false);
  const auto info = here.wait();
  BOOST_REQUIRE_MESSAGE(info.has_value(), (info ? "" : to_string(info.error())));
  BOOST_TEST(holds(both, 3.0F));
}

BOOST_FIXTURE_TEST_CASE(in_place_an_abort_leaves_the_input_as_it_was, Pair) {
  const auto both = tensor(1.0F);
  device->fail_after(Way::Store, 3);
  auto here = on_device(both, both);
  auto there = on_host();
  const auto info = here.wait();
  BOOST_REQUIRE(!info.has_value());
  BOOST_TEST((info.error().name == ErrorName::DeviceUnusable));
  BOOST_TEST(!there.wait().has_value());
  BOOST_TEST(holds(both, 1.0F));
  BOOST_TEST(device->count(Way::Move).begun == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_device_that_fails_just_after_the_commit_says_so, Pair) {
  const auto both = tensor(1.0F);
  device->fail_after(Way::Move, 0);
  auto here = on_device(both, both);
  auto there = on_host();
  BOOST_TEST(there.wait().has_value());
  const auto info = here.wait();
  BOOST_REQUIRE(!info.has_value());
  BOOST_TEST((info.error().name == ErrorName::DeviceUnusable));
  BOOST_TEST(to_string(info.error()).find("the other members have it") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_device_without_room_for_a_reduce_in_place_is_named, Pair) {
  const auto both = tensor(1.0F);
  device->fill();
  const auto info = on_device(both, both).wait();
  BOOST_REQUIRE(!info.has_value());
  BOOST_TEST((info.error().name == ErrorName::DeviceUnusable));
  BOOST_TEST(holds(both, 1.0F));
}

BOOST_FIXTURE_TEST_CASE(a_result_that_is_being_put_in_place_outlives_its_group, Pair) {
  const auto both = tensor(1.0F);
  {
    auto here = committed_but_not_moved(both);
    groups.clear();
    here.cancel();
    device->hold(Way::Move, false);
  }
  BOOST_TEST(holds(both, 3.0F));
}

BOOST_AUTO_TEST_CASE(where_there_is_no_cuda_the_factory_says_what_to_do) {
  const auto memory = cuda_memory();
  if (memory) return;
  BOOST_TEST((memory.error().name == ErrorName::DeviceUnusable));
  BOOST_TEST_MESSAGE(to_string(memory.error()));
  const auto text = to_string(memory.error());
  BOOST_TEST((text.find("no CUDA device on this machine") != std::string::npos || text.find("nvcc") != std::string::npos ||
              text.find("CUDA device 0: ") != std::string::npos));
}

BOOST_AUTO_TEST_SUITE_END()
