#include "runtime/trainer/data/tokenizer_file.hpp"

#include <nlohmann/json.hpp>

namespace prime::data {

std::string to_json(const TokenizerFile& file) {
  using Json = nlohmann::ordered_json;
  Json added = Json::array(), vocab = Json::object(), pairs = Json::array();
  for (const auto id : file.specials)
    added.push_back({{"id", id},
                     {"content", file.vocab[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  for (std::size_t id = 0; id < file.vocab.size(); ++id) vocab[file.vocab[id]] = id;
  for (const auto& [left, right] : file.merges) pairs.push_back({left, right});
  const Json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", file.cuts_words}};
  const Json model{{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", file.nucleotides ? Json("[UNK]") : Json(nullptr)},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false},
                   {"vocab", vocab},
                   {"merges", pairs}};
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", added},
              {"normalizer", nullptr},
              {"pre_tokenizer", file.nucleotides ? Json{{"type", "Whitespace"}} : byte_level},
              {"post_processor", nullptr},
              {"decoder", file.nucleotides ? Json{{"type", "Fuse"}} : byte_level},
              {"model", model}}
             .dump(1) +
         "\n";
}

}  // namespace prime::data
