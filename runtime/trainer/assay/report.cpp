// Owns the figures.
#include "runtime/trainer/assay/report.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/trainer/assay/classifier.hpp"

namespace prime::assay {
namespace {

double bits_of(const Reading& reading) {
  return reading.bases == 0 ? 0 : reading.nats / std::numbers::ln2 / static_cast<double>(reading.bases);
}

Density density_of(const ReadSet& set) {
  Density all;
  double nats = 0, sum = 0, squares = 0;
  for (const auto& reading : set.readings) {
    if (reading.tokens == 0) continue;
    ++all.reads;
    ++all.histogram[static_cast<std::size_t>(std::min(bits_of(reading) / HISTOGRAM_STEP, HISTOGRAM_STEPS - 1.0))];
    all.bases += reading.bases;
    all.tokens += reading.tokens;
    nats += reading.nats;
    const double mean = reading.nats / static_cast<double>(reading.tokens);
    sum += mean;
    squares += mean * mean;
  }
  if (all.reads == 0) return all;
  const auto count = static_cast<double>(all.reads);
  all.bits_per_base = nats / std::numbers::ln2 / static_cast<double>(all.bases);
  all.nats_per_token = nats / static_cast<double>(all.tokens);
  all.nats_deviation = std::sqrt(std::max(0.0, squares / count - sum / count * sum / count));
  return all;
}

Foreign foreign_of(const ReadSet& known, const ReadSet& foreign) {
  std::vector<Scored> chosen_by, judged;
  for (const auto* set : {&known, &foreign})
    for (std::size_t i = 0; i < set->readings.size(); ++i)
      (i % 2 == 0 ? chosen_by : judged).push_back({bits_of(set->readings[i]), set == &foreign});
  const double threshold = best_threshold(chosen_by, &Confusion::f1);
  Confusion confusion;
  for (const auto& each : judged) confusion.add(each.positive, each.score > threshold);
  return {threshold, confusion.f1()};
}

enum class Features : std::uint8_t { Model, Kmers, Both };

std::vector<Example> examples_of(const ReadSet& set, Features features, const std::vector<std::string>& positive) {
  std::vector<Example> examples;
  for (std::size_t i = 0; i < set.reads.size(); ++i) {
    Example example{{}, std::ranges::find(positive, set.reads[i].source) != positive.end()};
    if (features != Features::Kmers) example.features = set.readings[i].state;
    if (features != Features::Model) {
      const auto shares = kmer_shares(set.reads[i].bases);
      example.features.insert(example.features.end(), shares.begin(), shares.end());
    }
    examples.push_back(std::move(example));
  }
  return examples;
}

double coefficient(const ReadSets& sets, Features features, const std::vector<std::string>& positive) {
  const auto classifier = Classifier::learn(examples_of(sets.trained, features, positive));
  Confusion confusion;
  for (const auto& example : examples_of(sets.held_out, features, positive))
    confusion.add(example.positive, classifier.judges(example.features));
  return confusion.matthews();
}

std::optional<Classes> classes_of(const ReadSets& sets, const std::vector<std::string>& positive) {
  const auto positives = [&](const ReadSet& set) {
    return static_cast<std::size_t>(std::ranges::count_if(
        set.reads, [&](const NamedRead& read) { return std::ranges::find(positive, read.source) != positive.end(); }));
  };
  for (const auto* set : {&sets.trained, &sets.held_out})
    if (positives(*set) == 0 || positives(*set) == set->reads.size()) return std::nullopt;
  return Classes{sets.trained.reads.size(),
                 sets.held_out.reads.size(),
                 static_cast<double>(positives(sets.held_out)) / static_cast<double>(sets.held_out.reads.size()),
                 coefficient(sets, Features::Model, positive),
                 coefficient(sets, Features::Kmers, positive),
                 coefficient(sets, Features::Both, positive)};
}

}  // namespace

Report make_report(const ReadSets& sets, const Markov& markov, const std::vector<std::string>& positive) {
  std::vector<std::string_view> held_out;
  for (std::size_t i = 0; i < sets.held_out.reads.size(); ++i)
    held_out.push_back(std::string_view{sets.held_out.reads[i].bases}.substr(0, sets.held_out.readings[i].bases));
  return {density_of(sets.held_out),
          density_of(sets.trained),
          density_of(sets.random),
          measure(markov, held_out),
          foreign_of(sets.held_out, sets.random),
          foreign_of(sets.trained, sets.random),
          classes_of(sets, positive)};
}

}  // namespace prime::assay
