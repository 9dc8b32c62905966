// Owns how the tokenizer `bytes` is written for others.
#include <nlohmann/json.hpp>

#include "runtime/trainer/data/byte_pairs.hpp"

namespace prime::data {

/// Ids are those of the bytes: of a byte-level encoding they are only the order in the vocabulary.
std::string bytes_tokenizer_json(bool with_end) {
  using Json = nlohmann::ordered_json;
  Json vocab = Json::object(), added = Json::array();
  for (unsigned byte = 0; byte < BYTE_VALUES; ++byte) vocab[visible_byte(static_cast<unsigned char>(byte))] = byte;
  if (with_end) {
    vocab[std::string{END_OF_BYTES}] = BYTE_VALUES;
    added.push_back({{"id", BYTE_VALUES},
                     {"content", END_OF_BYTES},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", added},
              {"normalizer", nullptr},
              {"pre_tokenizer", byte_level},
              {"post_processor", nullptr},
              {"decoder", byte_level},
              {"model",
               {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", false},
                {"vocab", vocab},
                {"merges", Json::array()}}}}
             .dump(1) +
         "\n";
}

}  // namespace prime::data
