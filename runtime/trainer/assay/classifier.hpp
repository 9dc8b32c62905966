// Owns telling two kinds of reads apart: features, a logistic regression on them, and the scores of such judgements.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace prime::assay {

/// How often each k-mer or its reverse complement is in a sequence: 136 shares for k = 4.
std::vector<double> kmer_shares(std::string_view bases, unsigned k = 4);

struct Example {
  std::vector<double> features;
  bool positive = false;
};

/// Logistic regression with a square penalty, on features of mean 0 and deviation 1.
class Classifier {
 public:
  /// The penalty is that of a few which judges every fifth example best when it has learned from the others; then it learns from all. The
  /// threshold is where Matthews' coefficient of the examples themselves is highest.
  static Classifier learn(const std::vector<Example>& examples);
  [[nodiscard]] bool judges(const std::vector<double>& features) const { return margin(features) > threshold_; }

 private:
  static Classifier fit(const std::vector<Example>& examples, double penalty);
  [[nodiscard]] double margin(const std::vector<double>& features) const;

  std::vector<double> means_, scales_, weights_;  ///< the last weight is the constant's
  double threshold_ = 0;
};

struct Confusion {
  std::size_t true_positives = 0, false_positives = 0, true_negatives = 0, false_negatives = 0;
  void add(bool positive, bool judged);
  /// Matthews' correlation coefficient: 1 all right, 0 no better than chance. 0 where one kind is missing.
  [[nodiscard]] double matthews() const;
  [[nodiscard]] double f1() const;
};

struct Scored {
  double score = 0;
  bool positive = false;
};
/// Of thresholds on the score, above which is positive, the one where `measure` is highest.
double best_threshold(std::vector<Scored> scored, double (Confusion::*measure)() const);

}  // namespace prime::assay
