// Owns how the tokenizer `bytes` is written for others.
#include "runtime/trainer/data/byte_pairs.hpp"
#include "runtime/trainer/data/tokenizer_file.hpp"

namespace prime::data {

/// Ids are those of the bytes: of a byte-level encoding they are only the order in the vocabulary.
std::string bytes_tokenizer_json(bool with_end) {
  TokenizerFile file{.cuts_words = false};
  for (unsigned byte = 0; byte < BYTE_VALUES; ++byte) file.vocab.push_back(visible_byte(static_cast<unsigned char>(byte)));
  if (with_end) {
    file.specials.push_back(BYTE_VALUES);
    file.vocab.emplace_back(END_OF_BYTES);
  }
  return to_json(file);
}

}  // namespace prime::data
