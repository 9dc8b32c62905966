// Owns the tests of counted bytes: against a walk over the plans of all ranks, chunk by chunk. Real runs are tests/golden/plan_test.py.
#include "runtime/planning/wire_bytes.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "actors/reduce_worker/schedule.hpp"
#include "kernels/codec/codec.hpp"
#include "messages/membership.hpp"

namespace prime::planning {
namespace {

constexpr std::uint64_t HEADER = 64;
constexpr std::uint64_t CHUNK = 65536;  // values

/// What each rank sends of each chunk, added up, and one frame by which each greets each that it needs a lane to.
std::uint64_t walked(const ReduceSize& size, Schedule schedule) {
  std::uint64_t bytes = 0;
  for (std::uint32_t rank = 0; rank < size.members; ++rank) {
    const auto plan = ReducePlan::make({size.elements, rank, std::vector<bool>(size.members, true), CHUNK, schedule,
                                        size.codec == Codec::None ? SEGMENT_ALIGNMENT : kernels::CODEC_ALIGNMENT});
    BOOST_REQUIRE(plan.has_value());
    for (std::uint32_t segment = 0; segment < plan->segments(); ++segment) {
      const auto& route = plan->route(segment);
      for (std::uint32_t chunk = 0; chunk < plan->chunk_count(segment); ++chunk) {
        const auto frame = [&](Codec codec) { return HEADER + kernels::encoded_bytes(codec, plan->chunk(segment, chunk).count); };
        bytes += frame(size.codec) * (route.give.size() + (route.pass ? 1 : 0)) + frame(size.result_codec) * route.result_to.size();
      }
    }
    for (std::uint32_t other = 0; other < size.members; ++other) {
      const auto distance = (other + size.members - rank) % size.members;
      const bool beside = distance == 1 || distance + 1 == size.members;
      if (other != rank && schedule != Schedule::Whole && (schedule != Schedule::Ring || beside)) bytes += HEADER;
    }
  }
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(wire)

BOOST_AUTO_TEST_CASE(all_ranks_send_what_one_rank_s_plan_tells) {
  for (const std::uint32_t members : {1U, 2U, 3U, 5U, 8U, 17U}) {
    for (const std::uint64_t elements : {1ULL, 15ULL, 270816ULL, 1000003ULL, 5000000ULL}) {
      for (const auto codec : {Codec::None, Codec::Int8Block, Codec::Int4Block, Codec::E3M0}) {
        for (const auto schedule : {Schedule::Direct, Schedule::Ring}) {
          if (codec != Codec::None && schedule == Schedule::Ring) continue;
          const auto of_result = codec == Codec::Int4Block ? Codec::Int8Block : codec;
          const ReduceSize size{elements, members, codec, of_result, schedule};
          const auto told = wire_bytes(size);
          BOOST_REQUIRE(told.has_value());
          BOOST_TEST(*told == walked(size, schedule),
                     members << " members, " << elements << " values, " << to_string(codec) << ", " << to_string(schedule));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_small_goes_whole_and_what_is_large_to_its_owner) {
  for (const std::uint32_t members : {2U, 3U, 8U}) {
    const auto small = ReduceSize{8192, members, Codec::None, Codec::None, Schedule::Automatic};
    BOOST_TEST(wire_bytes(small).value() == walked(small, Schedule::Whole));
    const auto larger = ReduceSize{8193, members, Codec::None, Codec::None, Schedule::Automatic};
    BOOST_TEST(wire_bytes(larger).value() == walked(larger, Schedule::Direct));
    const auto encoded = ReduceSize{8192, members, Codec::Int8Block, Codec::Int8Block, Schedule::Automatic};
    BOOST_TEST(wire_bytes(encoded).value() == walked(encoded, Schedule::Direct));
  }
}

BOOST_AUTO_TEST_CASE(a_large_reduce_is_the_traffic_table_and_its_headers) {
  constexpr std::uint64_t ELEMENTS = 10'000'000'000;
  for (const std::uint32_t members : {2U, 8U, 1024U}) {
    for (const auto& [codec, bits] :
         {std::pair{Codec::None, 32.0}, {Codec::BF16, 16.0}, {Codec::Int8Block, 8.125}, {Codec::Int4Block, 5.0}}) {
      const auto bytes = static_cast<double>(wire_bytes({ELEMENTS, members, codec, codec, Schedule::Automatic}).value());
      BOOST_TEST(bytes == 2.0 * (members - 1) * ELEMENTS * bits / 8, boost::test_tools::tolerance(0.002));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_no_reduce_can_be_is_refused) {
  BOOST_TEST((wire_bytes({1, 0}).error().name == ErrorName::ReduceMismatch));
  BOOST_TEST((wire_bytes({1, MAX_PEERS + 1}).error().name == ErrorName::ReduceMismatch));
  BOOST_TEST((wire_bytes({std::uint64_t{1} << 50, 2}).error().name == ErrorName::ReduceMismatch));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::planning
