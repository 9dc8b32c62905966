// Owns what an assay finds: of reads and what a model made of them, the figures that are reported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/trainer/assay/markov.hpp"
#include "runtime/trainer/assay/reads.hpp"

namespace prime::assay {

/// What a model made of one read.
struct Reading {
  double nats = 0;                 ///< of all its tokens, the first one's among them
  std::uint64_t tokens = 0;        ///< as many as the model's context holds
  std::uint64_t bases = 0;         ///< of those tokens
  std::vector<double> state = {};  ///< the mean of the last hidden states
};

struct ReadSet {
  std::vector<NamedRead> reads;
  std::vector<Reading> readings;  ///< one of each
};

/// Reads are counted by their bits per base in steps of so much, from 0 on.
inline constexpr double HISTOGRAM_STEP = 0.05;
/// The last one has all that are above.
inline constexpr std::size_t HISTOGRAM_STEPS = 80;

struct Density {
  double bits_per_base = 0;
  double nats_per_token = 0;
  double nats_deviation = 0;  ///< of the reads' means
  std::uint64_t reads = 0, bases = 0, tokens = 0;
  std::vector<std::uint64_t> histogram = std::vector<std::uint64_t>(HISTOGRAM_STEPS);
};

/// Which of two sets a read is of, by how well the model foretells it: the threshold is that of every other read, the score that of the
/// rest.
struct Foreign {
  double threshold = 0;  ///< bits per base; more is foreign
  double f1 = 0;
};

struct Classes {
  std::uint64_t learned = 0, judged = 0;
  double positive_share = 0;              ///< of those judged
  double model = 0, kmers = 0, both = 0;  ///< Matthews' coefficients
};

struct Report {
  Density held_out, trained, random;
  std::vector<OrderBits> markov;  ///< on the held-out reads
  Foreign held_out_against_random, trained_against_random;
  std::optional<Classes> classes;  ///< absent: the reads have not both kinds
};

struct ReadSets {
  ReadSet trained, held_out, random;
};

/// `markov` has learned from what the model was trained on. `positive`: sources whose reads are the one kind, all others are the other.
Report make_report(const ReadSets& sets, const Markov& markov, const std::vector<std::string>& positive);

}  // namespace prime::assay
