// Checks the reduce within one thread: the bits of the reference, and the same ones in whatever order the frames arrive.
#include "runtime/replay/loopback_reduce.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/runtime/lanes/cluster.hpp"

BOOST_AUTO_TEST_SUITE(loopback_reduce)

using namespace prime;
using namespace prime::replay;
using prime::lanes::test::expected_mean;
using prime::lanes::test::random_values;
using prime::lanes::test::same_bits;

namespace {

/// Members of these weights; who weighs nothing brings nothing.
struct Round {
  ReduceRequest terms;
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> residuals;
  std::vector<Brought> brought;

  Round(const std::vector<std::uint64_t>& weights, std::size_t elements, bool feedback = false) {
    terms.op = {Epoch{1}, Sequence{7}};
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      terms.contributions.push_back({PeerId{(rank * 7 + 3) % 11 + 1}, weights[rank]});
      inputs.push_back(random_values(elements, rank + 1));
      residuals.push_back(random_values(feedback ? elements : 0, rank + 100));
    }
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      if (weights[rank] == 0) brought.emplace_back();
      else brought.push_back({inputs[rank], residuals[rank]});
    }
  }
};

constexpr std::size_t SEVERAL_CHUNKS = 300'001;

}  // namespace

BOOST_AUTO_TEST_CASE(it_gives_the_bits_of_the_reference_in_each_schedule) {
  for (const auto schedule : {Schedule::Direct, Schedule::Ring}) {
    for (const auto& weights : std::vector<std::vector<std::uint64_t>>{{1}, {3, 4}, {5, 0, 7}, {1, 2, 3, 4, 5}}) {
      for (const std::size_t elements : {std::size_t{1}, std::size_t{17}, SEVERAL_CHUNKS}) {
        Round round{weights, elements};
        round.terms.schedule = schedule;
        const auto expected = expected_mean(round.inputs, round.terms.contributions, elements, schedule);
        BOOST_TEST(same_bits(reduce(round.terms, round.brought).value(), expected), weights.size() << " members, " << elements);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_order_in_which_frames_arrive_changes_no_bit) {
  for (const auto codec : {Codec::None, Codec::BF16, Codec::Int8Block, Codec::Int4Block, Codec::E3M0}) {
    for (const bool feedback : {false, true}) {
      if (feedback && codec == Codec::None) continue;
      Round round{{5, 0, 7, 11}, SEVERAL_CHUNKS, feedback};
      round.terms.codec = codec;
      round.terms.stochastic = codec == Codec::Int8Block;
      round.terms.seed = 3;
      const auto first = reduce(round.terms, round.brought).value();
      for (const std::uint64_t turns : {1U, 2U, 3U}) BOOST_TEST(same_bits(reduce(round.terms, round.brought, turns).value(), first));
      // It can tell bits apart: another input, weight or residual is another result.
      round.inputs[2][SEVERAL_CHUNKS - 1] += 4e3F;
      BOOST_TEST(!same_bits(reduce(round.terms, round.brought).value(), first));
    }
  }
}

BOOST_AUTO_TEST_CASE(it_fails_as_the_members_would) {
  Round round{{1, 1}, 10};
  round.inputs[1][3] = std::numeric_limits<float>::quiet_NaN();
  round.terms.codec = Codec::Int8Block;
  const auto refused = reduce(round.terms, round.brought);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().name == ErrorName::NonFiniteValue), to_string(refused.error()));
  Round nobody{{0, 0}, 10};
  BOOST_TEST((reduce(nobody.terms, nobody.brought).error().name == ErrorName::ReduceMismatch));
  nobody.brought.pop_back();
  BOOST_TEST((reduce(nobody.terms, nobody.brought).error().name == ErrorName::ReduceMismatch));
}

BOOST_AUTO_TEST_SUITE_END()
