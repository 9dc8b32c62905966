// Owns the property of reduces of device tensors: whoever has its tensors where, all get the bits that host tensors give.
#pragma once

#include <boost/test/unit_test.hpp>

#include "kernels/codec/codec.hpp"
#include "tests/runtime/lanes/cluster.hpp"
#include "tests/support/device_tensor.hpp"

namespace prime::lanes::test {

using Bytes = std::vector<std::byte>;
using DevicePtr = std::shared_ptr<kernels::DeviceMemory>;
using prime::test::DeviceTensor;

struct DeviceCase {
  DataType type = DataType::F32;
  ReduceOperator combine = ReduceOperator::Average;
  Codec codec = Codec::None;
  Schedule schedule = Schedule::Direct;
  bool stochastic = false;
  bool feedback = false;
  bool vote = true;
  std::size_t elements = 0;
  std::vector<std::uint64_t> weights;
  std::uint64_t seed = 1;
};

inline std::string describe(const DeviceCase& c) {
  std::string weights;
  for (const auto weight : c.weights) weights += " " + std::to_string(weight);
  return std::string(to_string(c.combine)) + " of " + std::to_string(c.elements) + " " + std::string(to_string(c.type)) + " codec " +
         std::string(to_string(c.codec)) + " schedule " + std::to_string(static_cast<int>(c.schedule)) + " weights" + weights +
         (c.feedback ? " feedback" : "") + (c.vote ? " vote" : "");
}

/// Finite in each type, and small enough to be multiplied.
inline Bytes values_of(const DeviceCase& c, std::size_t rank) {
  std::mt19937_64 random(c.seed * 100 + rank);
  if (c.type == DataType::F32) {
    const auto values = random_values(c.elements, c.seed * 100 + rank);
    const auto bytes = std::as_bytes(std::span{values});
    return {bytes.begin(), bytes.end()};
  }
  const std::size_t size = element_bytes(c.type);
  Bytes bytes(c.elements * size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  if (c.type == DataType::F64 || c.type == DataType::F16 || c.type == DataType::BF16)
    for (std::size_t last = size - 1; last < bytes.size(); last += size) bytes[last] &= std::byte{0xBF};
  return bytes;
}

struct DeviceReduced {
  std::map<std::size_t, ReduceOutcome> outcomes;
  std::vector<Bytes> outputs;
  std::vector<std::vector<float>> residuals;
  bool inputs_intact = true;
};

inline ReduceRequest device_request(const Cluster& cluster, OperationId op, std::size_t rank, const DeviceCase& c) {
  ReduceRequest request;
  request.op = op;
  request.view = cluster.view();
  request.self = cluster.id(rank);
  for (std::size_t r = 0; r < c.weights.size(); ++r) request.contributions.push_back({cluster.id(r), c.weights[r]});
  request.deadline = PATIENCE;
  request.type = c.type;
  request.combine = c.combine;
  request.codec = c.codec;
  request.schedule = c.schedule;
  request.stochastic = c.stochastic;
  request.seed = 7;
  request.vote = c.vote;
  return request;
}

/// One reduce of all ranks; null among the devices is a rank with host tensors.
inline DeviceReduced reduce(Cluster& cluster, std::uint64_t sequence, const DeviceCase& c, const std::vector<DevicePtr>& devices) {
  DeviceReduced reduced;
  std::vector<Bytes> inputs;
  std::vector<std::optional<DeviceTensor>> device_inputs(devices.size());
  std::vector<std::optional<DeviceTensor>> device_outputs(devices.size());
  std::vector<std::vector<float>> residuals;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    inputs.push_back(c.weights[r] == 0 ? Bytes{} : values_of(c, r));
    reduced.outputs.emplace_back(c.elements * element_bytes(c.type), std::byte{0x55});
    residuals.push_back(random_values(c.feedback ? c.elements : 0, c.seed * 1000 + r));
    reduced.residuals.emplace_back(residuals[r].size());
    if (!devices[r]) continue;
    device_inputs[r].emplace(devices[r], inputs[r]);
    device_outputs[r].emplace(devices[r], reduced.outputs[r]);
  }
  Outcomes outcomes;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    auto request = device_request(cluster, {Epoch{1}, Sequence{sequence}}, r, c);
    request.memory = devices[r];
    request.input = devices[r] ? device_inputs[r]->span() : std::span<const std::byte>{inputs[r]};
    request.output = devices[r] ? device_outputs[r]->span() : std::span{reduced.outputs[r]};
    request.residual = residuals[r];
    request.next_residual = reduced.residuals[r];
    cluster.engine(r).start(std::move(request), [outcomes, r](ReduceOutcome outcome) { outcomes.put(r, std::move(outcome)); });
  }
  BOOST_REQUIRE(outcomes.wait_for_all(devices.size()));
  reduced.outcomes = outcomes.all();
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!devices[r]) continue;
    reduced.outputs[r] = device_outputs[r]->get();
    if (device_inputs[r]->get() != inputs[r]) reduced.inputs_intact = false;
  }
  return reduced;
}

/// The same reduce with host tensors, then with device tensors at some ranks, then at all.
inline void same_bits_wherever_tensors_lie(Cluster& cluster, std::uint64_t& sequence, const DeviceCase& c, const DevicePtr& device,
                                           std::mt19937_64& random) {
  const auto host = reduce(cluster, ++sequence, c, std::vector<DevicePtr>(c.weights.size()));
  std::vector<DevicePtr> some(c.weights.size());
  for (auto& each : some)
    if (random() % 2 == 0) each = device;
  for (const auto& devices : {some, std::vector<DevicePtr>(c.weights.size(), device)}) {
    const auto reduced = reduce(cluster, ++sequence, c, devices);
    BOOST_TEST(reduced.inputs_intact, describe(c));
    for (std::size_t r = 0; r < devices.size(); ++r) {
      const auto& stats = reduced.outcomes.at(r).stats;
      BOOST_REQUIRE_MESSAGE(stats.has_value() && host.outcomes.at(r).stats.has_value(),
                            describe(c) << ": " << (stats ? "" : to_string(stats.error())));
      BOOST_TEST((stats->digest == host.outcomes.at(r).stats->digest), describe(c));
      BOOST_TEST((reduced.outputs[r] == host.outputs[r]), describe(c) << " rank " << r << (devices[r] ? " on the device" : ""));
      BOOST_TEST(same_bits(reduced.residuals[r], host.residuals[r]), describe(c));
    }
  }
}

inline std::vector<std::uint64_t> device_weights(std::size_t world, std::mt19937_64& random) {
  std::vector<std::uint64_t> weights(world);
  for (auto& weight : weights) weight = random() % 3 == 0 ? 0 : 1 + random() % 1000;
  weights[random() % world] = 77;  // somebody contributes
  return weights;
}

/// All schedules × codecs × sizes, and all types.
inline void every_reduce_has_the_bits_of_host_tensors(const DevicePtr& device, std::size_t chunk_elements) {
  std::mt19937_64 random(1);
  const std::size_t chunk = chunk_elements;
  for (std::size_t world = 1; world <= 4; ++world) {
    Cluster cluster(world, chunk_elements, world == 3 ? 3 : 1);
    std::uint64_t sequence = 0;
    const auto play = [&](DeviceCase c) {
      c.weights = device_weights(world, random);
      c.vote = random() % 2 == 0;
      c.stochastic = c.codec != Codec::None && random() % 2 == 0;
      c.feedback = c.codec != Codec::None && random() % 2 == 0;
      c.seed = random() % 1000;
      same_bits_wherever_tensors_lie(cluster, sequence, c, device, random);
    };
    for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, world, std::size_t{17}, chunk - 1, chunk * world + 1,
                                       chunk * 7 * world + 5, chunk * 20 * world + 3}) {
      for (const auto schedule : {Schedule::Direct, Schedule::Ring, Schedule::Automatic})
        play({.schedule = schedule, .elements = elements, .weights = {}});
      if (elements <= chunk) play({.schedule = Schedule::Whole, .elements = elements, .weights = {}});
      for (std::uint8_t codec = 1; codec < CODECS; ++codec) play({.codec = static_cast<Codec>(codec), .elements = elements, .weights = {}});
    }
    for (std::uint8_t type = 0; type < DATA_TYPES; ++type)
      for (std::uint8_t combine = 0; combine < REDUCE_OPERATORS; ++combine)
        play({.type = static_cast<DataType>(type), .combine = static_cast<ReduceOperator>(combine), .elements = 1013, .weights = {}});
  }
}

}  // namespace prime::lanes::test
