// Owns the test that a tensor of more than 2 GiB is reduced. Takes 9 GiB of memory, and is run with those that take long.
#include <boost/test/unit_test.hpp>

#include "prime/group.hpp"
#include "tests/runtime/group/members.hpp"
#include "tests/support/memory_room.hpp"

using namespace prime;
using namespace prime::test;

BOOST_AUTO_TEST_CASE(a_tensor_of_more_than_two_gib_is_reduced) {
  if (lacks_memory(10 * GIB)) return;
  constexpr std::size_t ELEMENTS = 540'000'000;
  Members members(2);
  std::vector<std::vector<float>> inputs(2, std::vector<float>(ELEMENTS));
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (std::size_t i = 0; i < ELEMENTS; ++i) inputs[rank][i] = static_cast<float>(i % 8'388'593 + 2 * rank);
  std::vector<std::vector<float>> outputs(2, std::vector<float>(ELEMENTS));
  ReduceOptions options;
  options.timeout = std::chrono::minutes{10};
  const auto infos = members.all([&](std::uint32_t rank) { return members.groups[rank].reduce(inputs[rank], outputs[rank], options); });
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    BOOST_REQUIRE_MESSAGE(infos[rank].has_value(), (infos[rank] ? "" : to_string(infos[rank].error())));
    BOOST_TEST((infos[rank]->digest == infos[0]->digest));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < ELEMENTS; ++i) wrong += outputs[rank][i] != static_cast<float>(i % 8'388'593 + 1) ? 1U : 0U;
    BOOST_TEST(wrong == 0U);
  }
}
