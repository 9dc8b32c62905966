// Owns the test that a tensor of more than 2 GiB comes from a donor whole. Takes 8 GiB of memory, and is run with those that take long.
#include <array>
#include <boost/test/unit_test.hpp>
#include <string>
#include <sys/socket.h>

#include "kernels/digest/digest.hpp"
#include "runtime/agent/state_transfer.hpp"
#include "runtime/net/plain_channel.hpp"
#include "tests/support/memory_room.hpp"

BOOST_AUTO_TEST_SUITE(huge_fetch)

using namespace prime;

namespace {

/// 2.01 GiB: neither its bytes nor an offset in them fit into 31 bits, and those of parameters and momentum not into 32.
constexpr std::uint64_t ELEMENTS = 540'000'000;
float value_at(std::uint64_t index) { return static_cast<float>(index % 16'777'213); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_tensor_of_more_than_two_gib_is_fetched_whole) {
  if (test::lacks_memory(9 * test::GIB)) return;
  std::vector<float> given(2 * ELEMENTS);
  for (std::uint64_t i = 0; i < given.size(); ++i) given[i] = value_at(i);
  const auto snapshot = std::make_shared<Snapshot>();
  const std::span<const float> values{given};
  snapshot->fragments.push_back({OuterStep{3}, {}, values.first(ELEMENTS), values.subspan(ELEMENTS)});
  snapshot->counters.revision = Revision{3};
  StateServer server{[&] { return snapshot; }};

  std::vector<float> taken(2 * ELEMENTS);
  const std::span<float> room{taken};
  std::vector<OuterState::Incoming> incoming{{0, {}, room.first(ELEMENTS), room.subspan(ELEMENTS)}};
  std::atomic<std::uint64_t> moved{0};
  const auto dial = [&]() -> Result<net::ChannelPtr> {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return fail(ErrorName::LaneBroken, "socketpair");
    server.serve(std::make_unique<net::PlainChannel>(std::make_shared<net::Socket>(ends[0]), PeerId{2}));
    return std::make_unique<net::PlainChannel>(std::make_shared<net::Socket>(ends[1]), PeerId{1});
  };
  const auto fetched = fetch_state(
      Revision{3}, incoming, {}, dial, [](net::Channel*) {}, moved);
  BOOST_REQUIRE_MESSAGE(fetched.has_value(), (fetched ? std::string{} : to_string(fetched.error())));
  BOOST_TEST(moved.load() == 2 * ELEMENTS * sizeof(float));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < taken.size(); ++i) wrong += taken[i] != value_at(i) ? 1U : 0U;
  BOOST_TEST(wrong == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
