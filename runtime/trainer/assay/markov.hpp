// Owns what a genome language model must beat: a table of what follows each k-mer, on both strands, every order mixed with the lower ones.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace prime::assay {

/// 0 … 3 of A, C, G and T; 4 of anything else.
unsigned base_code(char base);

class Markov {
 public:
  /// Twelve takes 360 MB.
  static constexpr unsigned HIGHEST_ORDER = 12;

  explicit Markov(unsigned highest_order = HIGHEST_ORDER);
  /// Counts a sequence and its reverse complement. What is no base is a gap: nothing is told across it.
  void learn(std::string_view bases);
  /// Adds to each order's sum the bits of this sequence. `weight` is what the lower orders weigh, in counts:
  /// p_k(b) = (n(b) + weight · p_{k-1}(b)) / (n + weight).
  void add_bits(std::string_view bases, double weight, std::vector<double>& bits) const;
  [[nodiscard]] unsigned highest_order() const { return static_cast<unsigned>(counts_.size()) - 1; }

 private:
  void learn_strand(std::string_view bases, bool reverse);
  std::vector<std::vector<std::uint32_t>> counts_;  ///< by order: of each k-mer and the base behind it
};

struct OrderBits {
  unsigned order = 0;
  double bits_per_base = 0;
  double weight = 0;  ///< the one of those tried that suits this order best on the very reads: in the table's favour
};
/// Of all orders, over all reads.
std::vector<OrderBits> measure(const Markov& markov, const std::vector<std::string_view>& reads);

}  // namespace prime::assay
