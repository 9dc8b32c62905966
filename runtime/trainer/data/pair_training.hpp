// Owns learning a byte-pair encoding: the most frequent pair becomes a token, again and again, as Hugging Face's trainer does it, down to
// how equal counts are decided.
#pragma once

#include <string>
#include <vector>

#include "runtime/trainer/data/compile.hpp"

namespace prime::data {

struct PairTraining {
  DataFormat format = DataFormat::Text;  ///< of nucleotides the first ids are METAGENE-1's; of text, bytes follow `<|endoftext|>`
  std::string field = "text";
  std::uint32_t vocab = 1024;
  OnProgress on_progress = {};
};

struct TrainedPairs {
  std::string json;  ///< as tokenizer.json
  std::uint32_t vocab = 0;
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;
};

/// Broken records end it with their place. DataTooSmall where nothing can be learned, or the vocabulary is smaller than its first symbols.
Result<TrainedPairs> train_pairs(const std::vector<std::string>& paths, const PairTraining& training);

/// The merges of words, each with how often it is there, in the order in which they are made: at most `most`, ids from `next` on.
struct Merge {
  Token left = 0, right = 0;
  friend bool operator==(const Merge&, const Merge&) = default;
};
Result<std::vector<Merge>> learn_merges(std::vector<std::vector<Token>> words, const std::vector<std::uint64_t>& counts, Token next,
                                        std::size_t most, const std::function<Result<void>()>& after_each = {});

}  // namespace prime::data
