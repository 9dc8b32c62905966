// Owns the tests of tensors that a group allocates, and that others read where they lie.
#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "tests/runtime/group/members.hpp"

using namespace prime;
using namespace prime::test;

namespace {

/// A tensor in memory that a group has allocated.
struct Allocated {
  Allocated(Group& group, std::size_t count) : memory(group.allocate(count * sizeof(float)).value()), count(count) {}
  [[nodiscard]] std::span<float> values() const { return {reinterpret_cast<float*>(memory.get()), count}; }
  void fill(std::span<const float> from) const { std::ranges::copy(from, values().begin()); }
  [[nodiscard]] bool equals(std::span<const float> other) const { return std::ranges::equal(values(), other); }
  std::shared_ptr<std::byte[]> memory;
  std::size_t count;
};

/// Counts that give chunks of all kinds: whole, a part of one, more than a window.
constexpr std::array<std::size_t, 3> COUNTS{300'000, 1'000'003, 6'500'000};

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_that_groups_have_allocated_are_read_where_they_lie) {
  Members members(3, true, true);
  for (const std::size_t count : COUNTS)
    for (const auto schedule : {Schedule::Direct, Schedule::Ring}) {
      std::vector<Allocated> inputs;
      std::vector<Allocated> outputs;
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        inputs.emplace_back(members.groups[rank], count).fill(values_of(rank, count));
        outputs.emplace_back(members.groups[rank], count);
      }
      ReduceOptions options;
      options.schedule = schedule;
      // Small ends of segments are moved, and by a ring the sums that are under way, which lie nowhere else.
      const std::size_t moved = (schedule == Schedule::Direct ? 0 : count * sizeof(float) / 2) + 128 * 1024;
      std::size_t most_sent = SIZE_MAX;
      for (int round = 0; round < 100 && most_sent >= moved; ++round) {  // at first the others have not said that they can read there
        const auto infos = members.all([&](std::uint32_t rank) {
          return members.groups[rank].reduce(std::as_bytes(inputs[rank].values()), std::as_writable_bytes(outputs[rank].values()), options);
        });
        most_sent = 0;
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
          BOOST_REQUIRE_MESSAGE(infos[rank].has_value(), (infos[rank] ? "" : to_string(infos[rank].error())));
          BOOST_TEST((infos[rank]->digest == infos[0]->digest));
          BOOST_TEST(outputs[rank].equals(values_of(1, count)));
          BOOST_TEST(inputs[rank].equals(values_of(rank, count)));
          most_sent = std::max<std::size_t>(most_sent, infos[rank]->wire_bytes_sent);
        }
      }
      BOOST_TEST(most_sent < moved);
    }
}

/// Their memory is a member's own affair, and so is what becomes of it afterwards.
BOOST_AUTO_TEST_CASE(allocated_tensors_go_with_others_with_every_option_and_without_their_group) {
  constexpr std::size_t COUNT = 700'000;
  Members members(3, true, true);
  std::optional<Allocated> input(std::in_place, members.groups[0], COUNT);
  input->fill(values_of(0, COUNT));
  std::vector<std::vector<float>> outputs(3, std::vector<float>(COUNT));
  const auto reduce = [&](const ReduceOptions& options) {
    return members.all([&](std::uint32_t rank) {
      const auto own = values_of(rank, COUNT);
      const std::span<const float> from = rank == 0 ? std::span<const float>(input->values()) : own;
      return members.groups[rank].reduce(from, outputs[rank], options).has_value();
    });
  };
  ReduceOptions coded;
  coded.codec = Codec::Int8ZeroPoint;
  for (const auto& options : {ReduceOptions{}, coded}) {
    for (const bool good : reduce(options)) BOOST_TEST(good);
    for (const auto& output : outputs)
      BOOST_TEST((output == outputs[0]));  // only now: a member that has returned says nothing of the others' memory
  }
  const auto in_place = members.all([&](std::uint32_t rank) {
    const Allocated tensor(members.groups[rank], COUNT);
    tensor.fill(values_of(rank, COUNT));
    return members.groups[rank].reduce(tensor.values(), tensor.values()).has_value() && tensor.equals(values_of(1, COUNT));
  });
  for (const bool good : in_place) BOOST_TEST(good);
  members.groups.clear();
  BOOST_TEST(input->equals(values_of(0, COUNT)));
  BOOST_TEST((Members(1).groups[0].allocate(0).value() == nullptr));
}

/// Others may be reading there: they must not take for a result what is written next.
BOOST_AUTO_TEST_CASE(whoever_gives_up_may_write_to_its_tensors_at_once) {
  constexpr std::size_t COUNT = 3'000'000;
#if defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t ROUNDS = 10;
#else
  constexpr std::uint64_t ROUNDS = 40;
#endif
  Members members(3, true, true);
  std::vector<Allocated> inputs;
  std::vector<Allocated> outputs;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    inputs.emplace_back(members.groups[rank], COUNT);
    outputs.emplace_back(members.groups[rank], COUNT);
  }
  const auto wanted = values_of(1, COUNT);
  std::size_t committed = 0;
  for (std::uint64_t round = 0; round < ROUNDS; ++round) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) inputs[rank].fill(values_of(rank, COUNT));
    ReduceOptions options;
    options.tag = round;
    const auto right = members.all([&](std::uint32_t rank) {
      auto running =
          members.groups[rank].reduce_async(std::as_bytes(inputs[rank].values()), std::as_writable_bytes(outputs[rank].values()), options);
      if (rank == 0) {
        members.progress.wait(0, round, 1 + 80 * round / ROUNDS);  // of 84 that it counts
        running.cancel();
      }
      const bool good = running.wait().has_value();
      const bool right = !good || outputs[rank].equals(wanted);
      if (!good || rank == 0) {
        std::ranges::fill(outputs[rank].values(), -1.0F);
        std::ranges::fill(inputs[rank].values(), -1.0F);
      }
      return std::pair{good, right};
    });
    for (const auto& [good, equal] : right) {
      BOOST_TEST(equal);
      BOOST_TEST(good == right[0].first);  // all or nothing
    }
    committed += right[0].first ? 1 : 0;
  }
  BOOST_TEST_MESSAGE(committed << " of " << ROUNDS << " were committed before they were cancelled");
  const auto after = members.all([&](std::uint32_t rank) {
    inputs[rank].fill(values_of(rank, COUNT));
    return members.groups[rank].reduce(inputs[rank].values(), outputs[rank].values()).has_value() && outputs[rank].equals(wanted);
  });
  for (const bool good : after) BOOST_TEST(good);
}
