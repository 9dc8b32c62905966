// Owns counting and mixing.
#include "runtime/trainer/assay/markov.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace prime::assay {
namespace {

constexpr unsigned NONE = 4;
constexpr std::array WEIGHTS{0.5, 2.0, 8.0, 32.0, 128.0};

}  // namespace

unsigned base_code(char base) {
  switch (base) {
    case 'A': return 0;
    case 'C': return 1;
    case 'G': return 2;
    case 'T': return 3;
    default: return NONE;
  }
}

Markov::Markov(unsigned highest_order) : counts_(std::min(highest_order, HIGHEST_ORDER) + 1) {
  for (std::size_t order = 0; order < counts_.size(); ++order) counts_[order].resize(std::size_t{4} << (2 * order));
}

void Markov::learn(std::string_view bases) {
  learn_strand(bases, false);
  learn_strand(bases, true);
}

void Markov::learn_strand(std::string_view bases, bool reverse) {
  std::uint64_t before = 0;  // two bits of each base, the last one lowest
  std::size_t known = 0;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    unsigned code = base_code(reverse ? bases[bases.size() - 1 - i] : bases[i]);
    if (code == NONE) {
      known = 0;
      continue;
    }
    if (reverse) code = 3 - code;
    for (std::size_t order = 0; order < counts_.size() && order <= known; ++order) {
      const std::uint64_t context = before & ((std::uint64_t{1} << (2 * order)) - 1);
      ++counts_[order][context * 4 + code];
    }
    before = before << 2 | code;
    ++known;
  }
}

void Markov::add_bits(std::string_view bases, double weight, std::vector<double>& bits) const {
  bits.resize(counts_.size());
  std::uint64_t before = 0;
  std::size_t known = 0;
  for (const char base : bases) {
    const unsigned code = base_code(base);
    if (code == NONE) {
      known = 0;
      continue;
    }
    double likely = 0.25;
    for (std::size_t order = 0; order < counts_.size(); ++order) {
      if (order <= known) {
        const std::uint32_t* of = &counts_[order][(before & ((std::uint64_t{1} << (2 * order)) - 1)) * 4];
        const double all = double{1} * of[0] + of[1] + of[2] + of[3];
        likely = (of[code] + weight * likely) / (all + weight);
      }
      bits[order] -= std::log2(likely);
    }
    before = before << 2 | code;
    ++known;
  }
}

std::vector<OrderBits> measure(const Markov& markov, const std::vector<std::string_view>& reads) {
  std::vector<OrderBits> best(markov.highest_order() + 1);
  double bases = 0;
  for (const auto read : reads)
    bases += static_cast<double>(std::ranges::count_if(read, [](char base) { return base_code(base) != NONE; }));
  for (const double weight : WEIGHTS) {
    std::vector<double> bits;
    for (const auto read : reads) markov.add_bits(read, weight, bits);
    for (unsigned order = 0; order < best.size() && !bits.empty(); ++order)
      if (const double each = bits[order] / bases; best[order].weight == 0 || each < best[order].bits_per_base)
        best[order] = {order, each, weight};
  }
  return best;
}

}  // namespace prime::assay
