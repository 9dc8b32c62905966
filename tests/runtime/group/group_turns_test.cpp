// Owns the tests of reduces that share a tag, and of what a group refuses.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <sys/resource.h>
#include <thread>

#include "tests/runtime/group/members.hpp"

BOOST_AUTO_TEST_SUITE(group_turns)

using namespace prime;
using namespace prime::test;

namespace {

constexpr std::size_t ELEMENTS = 50'000;

struct Tensors {
  std::vector<float> input = std::vector<float>(ELEMENTS, 1.0F);
  std::vector<float> output = std::vector<float>(ELEMENTS);
};

Reduction begin(Group& group, Tensors& tensors, const ReduceOptions& options = {}) {
  return group.reduce_async(std::as_bytes(std::span{tensors.input}), std::as_writable_bytes(std::span{tensors.output}), options);
}

ReduceOptions summing() {
  ReduceOptions options;
  options.combine = ReduceOperator::Sum;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(reduces_of_one_tag_start_in_the_order_in_which_they_were_asked_for) {
  Members members(2);
  const auto good = members.all([&](std::uint32_t rank) {
    std::vector<float> tensor(ELEMENTS, 1.0F);
    std::vector<Reduction> running;
    running.reserve(8);
    for (int step = 0; step < 8; ++step)  // in place: each begins with what the one before has left
      running.push_back(
          members.groups[rank].reduce_async(std::as_bytes(std::span{tensor}), std::as_writable_bytes(std::span{tensor}), summing()));
    bool all = true;
    for (auto& each : running) all = each.wait().has_value() && all;
    return all && tensor == std::vector<float>(ELEMENTS, 256.0F);
  });
  BOOST_TEST((good == std::vector{true, true}));
}

BOOST_AUTO_TEST_CASE(threads_that_share_a_tag_take_turns) {
  Members members(2);
  const auto committed = members.all([&](std::uint32_t rank) {
    std::atomic<int> count = 0;
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int at = 0; at < 4; ++at)
      threads.emplace_back([&] {
        Tensors tensors;
        for (int round = 0; round < 25; ++round) count += members.groups[rank].reduce(tensors.input, tensors.output).has_value() ? 1 : 0;
      });
    threads.clear();
    return count.load();
  });
  BOOST_TEST((committed == std::vector{100, 100}));
}

BOOST_AUTO_TEST_CASE(one_that_is_cancelled_while_it_waits_for_its_turn_ends_for_all) {
  Members members(2);
  std::vector<Tensors> tensors(4);
  auto first = begin(members.groups[0], tensors[0]);
  auto second = begin(members.groups[0], tensors[1]);
  second.cancel();
  auto others_first = begin(members.groups[1], tensors[2]);
  auto others_second = begin(members.groups[1], tensors[3]);
  BOOST_TEST(first.wait().has_value());
  BOOST_TEST(others_first.wait().has_value());
  BOOST_TEST(!second.wait().has_value());
  BOOST_TEST(!others_second.wait().has_value());
  const auto next = members.all([&](std::uint32_t rank) { return begin(members.groups[rank], tensors[rank]).wait().has_value(); });
  BOOST_TEST((next == std::vector{true, true}));
}

BOOST_AUTO_TEST_CASE(those_that_wait_end_with_their_group) {
  Members members(2);
  std::vector<Tensors> tensors(3);
  std::vector<Reduction> running;  // the other member begins none
  running.reserve(tensors.size());
  for (auto& each : tensors) running.push_back(begin(members.groups[0], each));
  members.groups.erase(members.groups.begin());
  for (auto& each : running) BOOST_TEST((each.wait().error().name == ErrorName::LaneBroken));
}

/// It may come before the reduce has begun here, and is kept until then.
BOOST_AUTO_TEST_CASE(what_is_exchanged_whole_is_small_and_may_come_early) {
  Members members(2);
  auto options = summing();
  options.schedule = Schedule::Whole;
  Tensors large;
  BOOST_TEST((begin(members.groups[0], large, options).wait().error().name == ErrorName::ReduceMismatch));
  BOOST_TEST((begin(members.groups[1], large, options).wait().error().name == ErrorName::ReduceMismatch));
  std::vector<Tensors> small(2, Tensors{std::vector<float>(8192, 1.0F), std::vector<float>(8192)});
  auto early = begin(members.groups[0], small[0], options);
  BOOST_TEST(!early.wait_for(std::chrono::milliseconds(50)).has_value());
  BOOST_TEST(begin(members.groups[1], small[1], options).wait().has_value());
  BOOST_TEST(early.wait().has_value());
}

BOOST_AUTO_TEST_CASE(values_that_name_nothing_are_refused) {
  Members members(1);
  const auto refused = [&](auto change) {
    Tensors tensors;
    auto options = summing();
    change(options, tensors);
    const auto ended = begin(members.groups[0], tensors, options).wait();
    return !ended && ended.error().name == ErrorName::Usage;
  };
  BOOST_TEST(refused([](auto& options, auto&) { options.type = static_cast<DataType>(DATA_TYPES); }));
  BOOST_TEST(refused([](auto& options, auto&) { options.combine = static_cast<ReduceOperator>(REDUCE_OPERATORS); }));
  BOOST_TEST(refused([](auto& options, auto&) { options.codec = static_cast<Codec>(CODECS); }));
  BOOST_TEST(refused([](auto& options, auto&) { options.schedule = static_cast<Schedule>(SCHEDULES); }));
  BOOST_TEST(refused([](auto& options, auto& tensors) {
    options.codec = Codec::Int8Block;
    options.residual = tensors.input;
  }));
}

BOOST_AUTO_TEST_CASE(any_timeout_above_zero_is_one) {
  Members members(2);
  auto options = summing();
  options.timeout = std::chrono::milliseconds::max();
  std::vector<Tensors> tensors(2);
  const auto good = members.all([&](std::uint32_t rank) { return begin(members.groups[rank], tensors[rank], options).wait().has_value(); });
  BOOST_TEST((good == std::vector{true, true}));
  GroupOptions alone;
  alone.members = {"127.0.0.1:0"};
  alone.key = "a secret of the tests";
  for (const auto timeout : {std::chrono::milliseconds(0), std::chrono::milliseconds(-5)}) {
    alone.timeout = timeout;
    BOOST_TEST((Group::form(alone).error().name == ErrorName::Usage));
  }
  alone.timeout = std::chrono::milliseconds::max();
  BOOST_TEST(Group::form(alone).has_value());
}

BOOST_AUTO_TEST_CASE(a_group_that_cannot_be_formed_says_why) {
  GroupOptions options;
  options.members = {"127.0.0.1:7000", "127.0.0.1:7000"};
  options.key = "a secret of the tests";
  BOOST_TEST((Group::form(options).error().name == ErrorName::Usage));
  options.members = {"127.0.0.1:0"};
  rlimit limit{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{0, limit.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto formed = Group::form(options);
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  BOOST_REQUIRE(!formed.has_value());
  BOOST_TEST((formed.error().name == ErrorName::MemoryUnavailable));
}

BOOST_AUTO_TEST_SUITE_END()
