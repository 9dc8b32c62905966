// Owns the tests of element types, operators and codecs through whole reduces: the bits of the reference kernels on every rank.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "kernels/codec/codec.hpp"
#include "kernels/reduce/typed_reduce.hpp"
#include "tests/runtime/lanes/cluster.hpp"

BOOST_AUTO_TEST_SUITE(lane_types)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

namespace {

using Bytes = std::vector<std::byte>;

struct Reduce {
  DataType type = DataType::F32;
  ReduceOperator combine = ReduceOperator::Average;
  Codec codec = Codec::None;
  Schedule schedule = Schedule::Direct;
  bool stochastic = false;
  std::optional<Codec> result_codec = {};
};

/// Runs it on all ranks; the outcomes, and the outputs by rank.
struct Run {
  std::map<std::size_t, ReduceOutcome> outcomes;
  std::vector<Bytes> outputs;
};

/// Error feedback: what ranks kept of earlier reduces, and keep of this one.
struct Residuals {
  std::vector<std::vector<float>> before;
  std::vector<std::vector<float>> after;
};

Run run(Cluster& cluster, std::uint64_t sequence, const Reduce& reduce, const std::vector<Bytes>& inputs,
        const std::vector<Contribution>& contributions, Residuals* residuals = nullptr) {
  Run result;
  Outcomes outcomes;
  for (const auto& input : inputs) result.outputs.emplace_back(input.size());
  for (std::size_t r = 0; r < cluster.world(); ++r) {
    ReduceRequest request;
    request.op = {Epoch{1}, Sequence{sequence}};
    request.view = cluster.view();
    request.self = cluster.id(r);
    request.contributions = contributions;
    request.input = inputs[r];
    request.output = result.outputs[r];
    request.deadline = PATIENCE;
    request.type = reduce.type;
    request.combine = reduce.combine;
    request.codec = reduce.codec;
    request.result_codec = reduce.result_codec;
    request.schedule = reduce.schedule;
    request.stochastic = reduce.stochastic;
    request.seed = 7;
    request.version = sequence;
    if (residuals != nullptr) {
      request.residual = residuals->before[r];
      request.next_residual = residuals->after[r];
    }
    request.vote = true;
    cluster.engine(r).start(std::move(request), [outcomes, r](ReduceOutcome outcome) { outcomes.put(r, std::move(outcome)); });
  }
  BOOST_REQUIRE(outcomes.wait_for_all(cluster.world()));
  result.outcomes = outcomes.all();
  return result;
}

std::vector<Contribution> weighing(const Cluster& cluster, const std::vector<std::uint64_t>& weights) {
  std::vector<Contribution> contributions;
  for (std::size_t r = 0; r < weights.size(); ++r) contributions.push_back({cluster.id(r), weights[r]});
  return contributions;
}

/// Small values that no operator of any type makes too large or too small.
Bytes values_of(DataType type, std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count * element_bytes(type));
  for (std::size_t i = 0; i < count; ++i) {
    const auto small = 1 + random() % 3;
    std::byte* const at = bytes.data() + i * element_bytes(type);
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (type) {
      case DataType::F32: put(static_cast<float>(small) + 0.5F); break;
      case DataType::F64: put(static_cast<double>(small) + 0.1); break;
      case DataType::F16: put(static_cast<std::uint16_t>(0x3C00 + (small << 8U))); break;
      case DataType::BF16: put(static_cast<std::uint16_t>(0x3F80 + (small << 5U))); break;
      case DataType::I8:
      case DataType::U8: put(static_cast<std::uint8_t>(small)); break;
      case DataType::I16:
      case DataType::U16: put(static_cast<std::uint16_t>(small * 100)); break;
      case DataType::I32:
      case DataType::U32: put(static_cast<std::uint32_t>(small * 70'000)); break;
      case DataType::I64:
      case DataType::U64: put(static_cast<std::uint64_t>(small << 40U)); break;
    }
  }
  return bytes;
}

std::vector<float> floats_of(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Bytes bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

/// By the reference kernels, chunk by chunk as the plan cuts it: the owner's own values unencoded, the result encoded once.
std::vector<float> expected_encoded(const Reduce& reduce, const std::vector<std::vector<float>>& inputs,
                                    const std::vector<Contribution>& contributions, std::uint64_t chunk_elements, std::uint64_t version) {
  const auto factors = mean_factors(contributions).value();
  const auto elements = inputs[0].size();
  std::vector<float> result(elements);
  ReduceShape shape{elements, 0, std::vector<bool>(inputs.size(), true), chunk_elements, Schedule::Direct, kernels::CODEC_ALIGNMENT};
  const auto plan = ReducePlan::make(shape).value();
  const auto through = [&](Codec codec, std::span<const float> values, std::uint64_t first) {
    if (codec == Codec::None) return std::vector<float>(values.begin(), values.end());
    Bytes wire(kernels::encoded_bytes(codec, values.size()));
    const kernels::Encoding encoding{codec, reduce.stochastic ? kernels::Rounding::Stochastic : kernels::Rounding::Nearest, 7, version,
                                     first};
    BOOST_REQUIRE(!kernels::encode_reference(encoding, values, wire));
    std::vector<float> decoded(values.size());
    kernels::decode_reference(codec, {wire, decoded});
    return decoded;
  };
  for (std::uint32_t owner = 0; owner < inputs.size(); ++owner)
    for (std::uint32_t chunk = 0; chunk < plan.chunk_count(owner); ++chunk) {
      const auto range = plan.chunk(owner, chunk);
      std::vector<float> sum(range.count);
      for (std::uint32_t rank = 0; rank < inputs.size(); ++rank) {
        const std::span values{inputs[rank].data() + range.begin, range.count};
        const auto sent = rank == owner ? std::vector<float>(values.begin(), values.end()) : through(reduce.codec, values, range.begin);
        for (std::size_t i = 0; i < range.count; ++i) {
          const float term = factors.relative[rank] * sent[i];
          sum[i] = rank == 0 ? term : sum[i] + term;
        }
      }
      for (float& value : sum) value *= factors.scale;
      const auto final_values = through(reduce.result_codec.value_or(reduce.codec), sum, range.begin);
      std::copy(final_values.begin(), final_values.end(), result.begin() + static_cast<std::ptrdiff_t>(range.begin));
    }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_type_and_operator_gives_the_bits_of_the_reference_on_every_rank) {
  std::mt19937_64 random(1);
  Cluster cluster(3, 64);
  std::uint64_t sequence = 0;
  for (std::uint8_t type = 0; type < DATA_TYPES; ++type)
    for (std::uint8_t combine = 0; combine < REDUCE_OPERATORS; ++combine)
      for (const auto schedule : {Schedule::Direct, Schedule::Automatic}) {
        const Reduce reduce{static_cast<DataType>(type), static_cast<ReduceOperator>(combine), Codec::None, schedule};
        const std::size_t count = schedule == Schedule::Automatic ? random() % 30 : random() % 1000;
        std::vector<Bytes> inputs;
        for (int r = 0; r < 3; ++r) inputs.push_back(values_of(reduce.type, count, random));
        const auto contributions = weighing(cluster, {1, 1, 1});
        const auto reduced = run(cluster, ++sequence, reduce, inputs, contributions);
        Bytes expected(inputs[0].size());
        std::vector<kernels::TypedInput> typed;
        for (const auto& input : inputs) typed.push_back({input.data(), 1.0F});
        const double scale = reduce.combine == ReduceOperator::Average ? mean_factors(contributions)->scale : 1;
        kernels::reduce_typed_reference({reduce.combine, reduce.type, scale}, typed, expected);
        for (std::size_t r = 0; r < 3; ++r) {
          BOOST_REQUIRE(reduced.outcomes.at(r).stats.has_value());
          BOOST_TEST((reduced.outputs[r] == expected), to_string(reduce.combine) << " of " << to_string(reduce.type) << ", rank " << r);
        }
      }
}

BOOST_AUTO_TEST_CASE(a_ring_of_integers_and_doubles_agrees_on_all_ranks) {
  std::mt19937_64 random(2);
  Cluster cluster(4, 64);
  std::uint64_t sequence = 0;
  for (const auto type : {DataType::F64, DataType::I32, DataType::U64, DataType::I8})
    for (const auto combine : {ReduceOperator::Sum, ReduceOperator::Minimum, ReduceOperator::Maximum}) {
      std::vector<Bytes> inputs;
      for (int r = 0; r < 4; ++r) inputs.push_back(values_of(type, 2000, random));
      const auto contributions = weighing(cluster, {1, 1, 1, 1});
      const auto ring = run(cluster, ++sequence, {type, combine, Codec::None, Schedule::Ring}, inputs, contributions);
      const auto direct = run(cluster, ++sequence, {type, combine, Codec::None, Schedule::Direct}, inputs, contributions);
      for (std::size_t r = 0; r < 4; ++r) {
        BOOST_TEST((ring.outputs[r] == ring.outputs[0]));
        // Sums of doubles depend on their order; all else does not.
        if (type != DataType::F64 || combine != ReduceOperator::Sum) BOOST_TEST((ring.outputs[r] == direct.outputs[r]));
      }
    }
}

BOOST_AUTO_TEST_CASE(every_codec_gives_the_bits_of_the_reference_on_every_rank) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::uint64_t sequence = 0;
  for (std::size_t world = 1; world <= 4; ++world) {
    Cluster cluster(world, 1024);
    for (std::uint8_t codec = 1; codec < CODECS; ++codec)
      for (const bool stochastic : {false, true})
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{700}, std::size_t{20'001}}) {
          const Reduce reduce{DataType::F32, ReduceOperator::Average, static_cast<Codec>(codec), Schedule::Automatic, stochastic};
          std::vector<std::vector<float>> inputs(world, std::vector<float>(count));
          std::vector<Bytes> raw;
          std::vector<std::uint64_t> weights;
          for (auto& input : inputs) {
            for (float& value : input) value = normal(random);
            raw.push_back(bytes_of(input));
            weights.push_back(1 + random() % 4);
          }
          const auto contributions = weighing(cluster, weights);
          const auto reduced = run(cluster, ++sequence, reduce, raw, contributions);
          const auto expected = expected_encoded(reduce, inputs, contributions, 1024, sequence);
          for (std::size_t r = 0; r < world; ++r) {
            BOOST_REQUIRE_MESSAGE(reduced.outcomes.at(r).stats.has_value(), to_string(reduce.codec));
            BOOST_TEST((reduced.outcomes.at(r).stats->digest == reduced.outcomes.at(0).stats->digest));
            BOOST_TEST(same_bits(floats_of(reduced.outputs[r]), expected), to_string(reduce.codec) << " among " << world << ", rank " << r);
          }
        }
  }
}

BOOST_AUTO_TEST_CASE(a_result_may_have_a_codec_of_its_own) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  constexpr std::size_t COUNT = 20'001;
  constexpr std::size_t WORLD = 3;
  Cluster cluster(WORLD, 1024);
  std::uint64_t sequence = 0;
  for (const auto of_result : {Codec::None, Codec::F16, Codec::Int8Block, Codec::Int4Block}) {
    const Reduce reduce{DataType::F32, ReduceOperator::Average, Codec::Int4Block, Schedule::Automatic, false, of_result};
    std::vector<std::vector<float>> inputs(WORLD, std::vector<float>(COUNT));
    std::vector<Bytes> raw;
    for (auto& input : inputs) {
      for (float& value : input) value = normal(random);
      raw.push_back(bytes_of(input));
    }
    const auto contributions = weighing(cluster, {1, 2, 3});
    const auto reduced = run(cluster, ++sequence, reduce, raw, contributions);
    const auto expected = expected_encoded(reduce, inputs, contributions, 1024, sequence);
    for (std::size_t r = 0; r < WORLD; ++r) {
      BOOST_REQUIRE(reduced.outcomes.at(r).stats.has_value());
      BOOST_TEST(same_bits(floats_of(reduced.outputs[r]), expected), "int4, the result " << to_string(of_result) << ", rank " << r);
    }
  }
  // A result alone is not encoded.
  const std::vector<Bytes> raw(WORLD, bytes_of(std::vector<float>(COUNT, 1.0F)));
  const Reduce alone{DataType::F32, ReduceOperator::Average, Codec::None, Schedule::Direct, false, Codec::F16};
  BOOST_TEST(
      (run(cluster, ++sequence, alone, raw, weighing(cluster, {1, 1, 1})).outcomes.at(0).stats.error().name == ErrorName::ReduceMismatch));
}

BOOST_AUTO_TEST_CASE(what_an_encoding_loses_is_sent_with_the_next_one) {
  constexpr std::uint32_t WORLD = 3;
  constexpr std::size_t COUNT = 20'000;
  constexpr std::size_t CHUNK = 4096;  // more than is decoded at once
  std::mt19937_64 random(4);
  std::normal_distribution<float> normal;
  std::uint64_t sequence = 0;
  Cluster cluster(WORLD, CHUNK);
  const ReduceShape shape{COUNT, 0, std::vector<bool>(WORLD, true), CHUNK, Schedule::Direct, kernels::CODEC_ALIGNMENT};
  const auto plan = ReducePlan::make(shape).value();
  for (const auto codec : {Codec::Int8Block, Codec::Int4Block, Codec::E3M0}) {
    const Reduce reduce{DataType::F32, ReduceOperator::Average, codec};
    const std::vector<std::vector<float>> zeros(WORLD, std::vector<float>(COUNT));
    Residuals residuals{zeros, std::vector<std::vector<float>>(WORLD, std::vector<float>(COUNT, -7.0F))};
    // Before a member came or went, segments had other owners: what a rank owns now it may have sent, with a loss.
    for (auto& of_rank : residuals.before)
      for (float& value : of_rank) value = normal(random) / 100;
    for (int round = 0; round < 3; ++round) {
      std::vector<Bytes> raw;
      std::vector<std::vector<float>> sums = residuals.before;  // what is meant to be sent
      std::vector<std::vector<float>> kept = zeros;
      for (std::uint32_t rank = 0; rank < WORLD; ++rank) {
        std::vector<float> input(COUNT);
        for (float& value : input) value = normal(random);
        raw.push_back(bytes_of(input));
        for (std::size_t i = 0; i < COUNT; ++i) sums[rank][i] = input[i] + residuals.before[rank][i];
        for (std::uint32_t owner = 0; owner < WORLD; ++owner)
          for (std::uint32_t chunk = 0; owner != rank && chunk < plan.chunk_count(owner); ++chunk) {
            const auto [begin, count] = plan.chunk(owner, chunk);
            Bytes wire(kernels::encoded_bytes(codec, count));
            BOOST_REQUIRE(!kernels::encode_with_feedback_reference(
                {codec}, {std::span{input}.subspan(begin, count), std::span{residuals.before[rank]}.subspan(begin, count), wire,
                          std::span{kept[rank]}.subspan(begin, count)}));
          }
      }
      const auto contributions = weighing(cluster, {1, 2, 3});
      const auto reduced = run(cluster, ++sequence, reduce, raw, contributions, &residuals);
      const auto expected = expected_encoded(reduce, sums, contributions, CHUNK, sequence);
      for (std::uint32_t rank = 0; rank < WORLD; ++rank) {
        BOOST_REQUIRE(reduced.outcomes.at(rank).stats.has_value());
        BOOST_TEST(same_bits(floats_of(reduced.outputs[rank]), expected));
        BOOST_TEST(same_bits(residuals.after[rank], kept[rank]));
      }
      std::swap(residuals.before, residuals.after);
    }
    // Who has a weight of 0 keeps what it had.
    const auto before = residuals.before;
    std::vector<Bytes> raw(WORLD, bytes_of(std::vector<float>(COUNT, 1.0F)));
    BOOST_REQUIRE(run(cluster, ++sequence, reduce, raw, weighing(cluster, {1, 0, 1}), &residuals).outcomes.at(1).stats.has_value());
    BOOST_TEST(same_bits(residuals.after[1], before[1]));
    BOOST_TEST(same_bits(residuals.before[0], before[0]));
  }
}

BOOST_AUTO_TEST_CASE(a_value_that_no_codec_carries_is_named_and_ends_it_for_all) {
  std::uint64_t sequence = 0;
  Cluster cluster(3, 1024);
  for (const float bad : {std::nanf(""), INFINITY})
    for (const auto codec : {Codec::Int8Block, Codec::F16}) {
      std::vector<std::vector<float>> inputs(3, std::vector<float>(9000, 1.0F));
      inputs[1][8500] = bad;  // in the segment of rank 2: rank 1 must encode it
      std::vector<Bytes> raw;
      for (const auto& input : inputs) raw.push_back(bytes_of(input));
      const auto kept = raw;
      const auto reduced =
          run(cluster, ++sequence, {DataType::F32, ReduceOperator::Average, codec, Schedule::Direct}, raw, weighing(cluster, {1, 1, 1}));
      for (const auto& [rank, outcome] : reduced.outcomes) BOOST_TEST(!outcome.stats.has_value());
      const auto& error = reduced.outcomes.at(1).stats.error();
      BOOST_TEST((error.name == ErrorName::NonFiniteValue));
      BOOST_TEST(error.detail.find("8500") != std::string::npos, error.detail);
      BOOST_TEST((raw == kept));
    }
}

BOOST_AUTO_TEST_CASE(combinations_that_do_not_exist_are_refused_by_name) {
  std::uint64_t sequence = 0;
  Cluster cluster(2, 1024);
  for (const Reduce& reduce :
       {Reduce{DataType::I32, ReduceOperator::Sum, Codec::Int8Block}, Reduce{DataType::F32, ReduceOperator::Maximum, Codec::F16},
        Reduce{DataType::F32, ReduceOperator::Sum, Codec::Int8Block, Schedule::Ring},
        Reduce{DataType::F16, ReduceOperator::Sum, Codec::None, Schedule::Ring}}) {
    const std::vector<Bytes> inputs(2, Bytes(400));
    const auto reduced = run(cluster, ++sequence, reduce, inputs, weighing(cluster, {1, 1}));
    for (const auto& [rank, outcome] : reduced.outcomes) BOOST_TEST((outcome.stats.error().name == ErrorName::ReduceMismatch));
  }
}

BOOST_AUTO_TEST_SUITE_END()
