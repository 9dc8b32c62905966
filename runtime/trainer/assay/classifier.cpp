// Owns the fit by Newton's method, and the scores.
#include "runtime/trainer/assay/classifier.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "runtime/trainer/assay/markov.hpp"

namespace prime::assay {
namespace {

constexpr std::array PENALTIES{1.0, 10.0, 100.0, 1000.0};
constexpr int NEWTON_STEPS = 12;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// x of A x = b; A: symmetric, positive definite, its lower half by rows. By Cholesky, in place.
std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j * n + j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

std::uint64_t code_of(std::string_view bases, bool& whole) {
  std::uint64_t code = 0;
  for (const char base : bases) {
    const unsigned one = base_code(base);
    whole = whole && one < 4;
    code = code << 2 | (one & 3);
  }
  return code;
}

std::uint64_t reversed(std::uint64_t code, unsigned k) {
  std::uint64_t other = 0;
  for (unsigned i = 0; i < k; ++i, code >>= 2) other = other << 2 | (3 - (code & 3));
  return other;
}

}  // namespace

std::vector<double> kmer_shares(std::string_view bases, unsigned k) {
  const std::size_t codes = std::size_t{1} << (2 * k);
  std::vector<double> counts(codes), shares;
  double all = 0;
  for (std::size_t i = 0; i + k <= bases.size(); ++i) {
    bool whole = true;
    const auto code = code_of(bases.substr(i, k), whole);
    if (!whole) continue;
    ++counts[std::min(code, reversed(code, k))];
    ++all;
  }
  for (std::uint64_t code = 0; code < codes; ++code)
    if (code <= reversed(code, k)) shares.push_back(all > 0 ? counts[code] / all : 0);
  return shares;
}

double Classifier::margin(const std::vector<double>& features) const {
  double sum = weights_.back();
  for (std::size_t i = 0; i < features.size(); ++i) sum += weights_[i] * (features[i] - means_[i]) * scales_[i];
  return sum;
}

Classifier Classifier::fit(const std::vector<Example>& examples, double penalty) {
  Classifier made;
  const std::size_t features = examples.front().features.size(), width = features + 1;
  const auto count = static_cast<double>(examples.size());
  made.means_.resize(features);
  made.scales_.resize(features);
  for (std::size_t i = 0; i < features; ++i) {
    double sum = 0, squares = 0;
    for (const auto& example : examples) sum += example.features[i];
    made.means_[i] = sum / count;
    for (const auto& example : examples) squares += std::pow(example.features[i] - made.means_[i], 2);
    made.scales_[i] = squares > 0 ? 1 / std::sqrt(squares / count) : 0;
  }
  std::vector<double> rows(examples.size() * width, 1.0);
  for (std::size_t n = 0; n < examples.size(); ++n)
    for (std::size_t i = 0; i < features; ++i) rows[n * width + i] = (examples[n].features[i] - made.means_[i]) * made.scales_[i];
  made.weights_.assign(width, 0);
  for (int step = 0; step < NEWTON_STEPS; ++step) {
    std::vector<double> slope(width), curvature(width * width);
    for (std::size_t i = 0; i < width; ++i) curvature[i * width + i] = i < features ? penalty : 1e-6;
    for (std::size_t i = 0; i < features; ++i) slope[i] = -penalty * made.weights_[i];
    for (std::size_t n = 0; n < examples.size(); ++n) {
      const double* row = &rows[n * width];
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) sum += made.weights_[i] * row[i];
      const double likely = sigmoid(sum), error = (examples[n].positive ? 1 : 0) - likely, weight = likely * (1 - likely);
      for (std::size_t i = 0; i < width; ++i) {
        slope[i] += error * row[i];
        const double weighted = weight * row[i];
        for (std::size_t j = 0; j <= i; ++j) curvature[i * width + j] += weighted * row[j];
      }
    }
    const auto move = solve(std::move(curvature), std::move(slope));
    double largest = 0;
    for (std::size_t i = 0; i < width; ++i) made.weights_[i] += move[i], largest = std::max(largest, std::abs(move[i]));
    if (largest < 1e-8) break;
  }
  return made;
}

Classifier Classifier::learn(const std::vector<Example>& examples) {
  std::vector<Example> most, fifth;
  for (std::size_t n = 0; n < examples.size(); ++n) (n % 5 == 4 ? fifth : most).push_back(examples[n]);
  double best = PENALTIES.front(), lowest = INFINITY;
  for (const double penalty : PENALTIES) {
    if (most.empty() || fifth.empty()) break;
    const auto tried = fit(most, penalty);
    double loss = 0;
    for (const auto& example : fifth) loss += std::log1p(std::exp((example.positive ? -1 : 1) * tried.margin(example.features)));
    if (loss < lowest) lowest = loss, best = penalty;
  }
  auto made = fit(examples, best);
  std::vector<Scored> scored;
  for (const auto& example : examples) scored.push_back({made.margin(example.features), example.positive});
  made.threshold_ = best_threshold(std::move(scored), &Confusion::matthews);
  return made;
}

void Confusion::add(bool positive, bool judged) {
  ++(positive ? (judged ? true_positives : false_negatives) : (judged ? false_positives : true_negatives));
}

double Confusion::matthews() const {
  const auto tp = static_cast<double>(true_positives), fp = static_cast<double>(false_positives), tn = static_cast<double>(true_negatives),
             fn = static_cast<double>(false_negatives);
  const double below = std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn));
  return below > 0 ? (tp * tn - fp * fn) / below : 0;
}

double Confusion::f1() const {
  const auto right = 2 * static_cast<double>(true_positives);
  const double all = right + static_cast<double>(false_positives + false_negatives);
  return all > 0 ? right / all : 0;
}

double best_threshold(std::vector<Scored> scored, double (Confusion::*measure)() const) {
  std::ranges::sort(scored, std::greater{}, &Scored::score);
  Confusion confusion;
  for (const auto& each : scored) confusion.add(each.positive, false);
  double highest = -1, threshold = 0;
  for (std::size_t n = 0; n < scored.size(); ++n) {
    // Now this one is judged positive, too.
    --(scored[n].positive ? confusion.false_negatives : confusion.true_negatives);
    ++(scored[n].positive ? confusion.true_positives : confusion.false_positives);
    const bool last = n + 1 == scored.size();
    if (!last && scored[n + 1].score == scored[n].score) continue;
    if (const double now = (confusion.*measure)(); now > highest) {
      highest = now;
      threshold = last ? scored[n].score - 1 : (scored[n].score + scored[n + 1].score) / 2;
    }
  }
  return threshold;
}

}  // namespace prime::assay
