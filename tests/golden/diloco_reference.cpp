// Owns the reference's outer loop: arXiv:2311.08105, algorithm 1, in the order of its lines.
#include "diloco_reference.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/store/safetensors.hpp"
#include "runtime/trainer/learner.hpp"
#include "runtime/trainer/schedule.hpp"

namespace prime::golden {
namespace {

using Values = std::vector<float>;

Values gather(const trainer::Learner& learner) {
  Values values;
  for (const TensorView& view : learner.parameters()) values.insert(values.end(), view.data.floats().begin(), view.data.floats().end());
  return values;
}

void scatter(const Values& values, trainer::Learner& learner) {
  auto from = values.begin();
  for (const TensorView& view : learner.parameters()) {
    const auto count = static_cast<std::ptrdiff_t>(view.data.floats().size());
    std::copy_n(from, count, view.data.floats().begin());
    from += count;
  }
}

/// In fp32, as a peer does it: a rounding apart would grow with every inner step, and hide a real defect behind a wide tolerance.
Values mean_of(const std::vector<Values>& deltas) {
  Values sum(deltas.front().size(), 0.0F);
  for (const Values& delta : deltas)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += delta[i];
  for (float& value : sum) value *= 1.0F / static_cast<float>(deltas.size());
  return sum;
}

double length_of(const Values& values, std::size_t begin, std::size_t count) {
  double squares = 0;
  for (std::size_t i = begin; i < begin + count; ++i) squares += static_cast<double>(values[i]) * values[i];
  return std::sqrt(squares);
}

/// arXiv:2604.21428: of each tensor of a layer r u/‖u‖, r the mean of the lengths and u that of the directions; of others the mean.
Values radial_of(const std::vector<Values>& deltas, const trainer::Learner& learner) {
  std::vector<Values> units = deltas;
  std::vector<double> radii;
  const auto each_tensor = [&](auto&& visit) {
    std::size_t begin = 0;
    for (const TensorView& view : learner.parameters()) {
      const std::size_t count = view.data.floats().size();
      if (view.name.find(".layers.") != std::string::npos) visit(begin, count);
      begin += count;
    }
  };
  each_tensor([&](std::size_t begin, std::size_t count) {
    double lengths = 0;
    for (Values& unit : units) {
      const double length = length_of(unit, begin, count);
      for (std::size_t i = begin; i < begin + count; ++i) unit[i] = static_cast<float>(unit[i] / length);
      lengths += length;
    }
    radii.push_back(lengths / static_cast<double>(units.size()));
  });
  Values merged = mean_of(units);
  std::size_t tensor = 0;
  each_tensor([&](std::size_t begin, std::size_t count) {
    const double unit = length_of(merged, begin, count), radius = radii[tensor++];
    const double gain = std::min(1 / unit, std::sqrt(static_cast<double>(deltas.size())));
    for (std::size_t i = begin; i < begin + count; ++i) merged[i] = static_cast<float>(merged[i] * (radius * gain));
  });
  return merged;
}

/// The outer state that every peer of a real run must hold alike.
struct Outer {
  Values parameters;
  Values momentum;
};

void nesterov(const manifest::Nesterov& options, const Values& mean, Outer& outer) {
  const auto rate = static_cast<float>(options.learning_rate);
  const auto decay = static_cast<float>(options.momentum);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    outer.momentum[i] = decay * outer.momentum[i] + mean[i];
    outer.parameters[i] = outer.parameters[i] - rate * (mean[i] + decay * outer.momentum[i]);
  }
}

}  // namespace

Result<void> run_reference(const manifest::Shared& run, const data::Corpus& corpus, std::uint32_t peers, std::uint32_t steps,
                           const std::function<Result<void>(const ReferenceStep&)>& observe) {
  std::vector<trainer::Learner> replicas;
  for (std::uint32_t rank = 0; rank < peers; ++rank) replicas.emplace_back(run.model, run.train);
  Outer outer{gather(replicas[0]), {}};
  outer.momentum.assign(outer.parameters.size(), 0.0F);
  PRIME_CHECK(observe({0, 0.0, replicas[0].parameters()}));

  const std::uint64_t inner_steps = run.sync.inner_steps, batch = run.train.batch, total = run.train.outer_steps * inner_steps;
  std::vector<data::Token> windows(batch * corpus.window_tokens());
  for (std::uint32_t step = 1; step <= steps; ++step) {
    std::vector<Values> deltas;
    double loss = 0;
    for (std::uint32_t rank = 0; rank < peers; ++rank) {
      scatter(outer.parameters, replicas[rank]);
      const std::uint64_t first_sample = (std::uint64_t{step - 1} * peers + rank) * inner_steps * batch;
      for (std::uint64_t i = 0; i < inner_steps; ++i) {
        PRIME_CHECK(corpus.read(first_sample + i * batch, windows));
        const double rate = trainer::learning_rate(run.train, (step - 1) * inner_steps + i, total);
        loss += replicas[rank].train(windows, rate);
      }
      Values delta = gather(replicas[rank]);
      for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = outer.parameters[i] - delta[i];
      deltas.push_back(std::move(delta));
    }
    nesterov(run.sync.outer, run.sync.merge == Merge::Radial ? radial_of(deltas, replicas[0]) : mean_of(deltas), outer);
    scatter(outer.parameters, replicas[0]);
    PRIME_CHECK(observe({step, loss / static_cast<double>(peers * inner_steps), replicas[0].parameters()}));
  }
  return {};
}

Result<double> largest_difference(const std::string& left, const std::string& right) {
  PRIME_TRY(const auto a, store::SafetensorsReader::open(left));
  PRIME_TRY(const auto b, store::SafetensorsReader::open(right));
  if (a.tensors().size() != b.tensors().size()) return fail(ErrorName::CheckpointCorrupt, left + " and " + right + " hold other tensors");
  double largest = 0;
  for (const store::TensorEntry& tensor : a.tensors()) {
    const auto other = std::ranges::find(b.tensors(), tensor.name, &store::TensorEntry::name);
    if (other == b.tensors().end() || other->shape != tensor.shape) {
      return fail(ErrorName::CheckpointCorrupt, right + " lacks a tensor like " + tensor.name + " of " + left);
    }
    Values x(tensor.elements), y(tensor.elements);
    PRIME_CHECK(a.read(tensor, x));
    PRIME_CHECK(b.read(*other, y));
    // A NaN on one side only must not pass as equal.
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double difference = std::abs(static_cast<double>(x[i]) - y[i]);
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

}  // namespace prime::golden
