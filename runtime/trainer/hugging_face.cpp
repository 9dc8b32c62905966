// Owns the keys of those files. `dtype` is the name from version 5 on, the older one stands beside it.
#include "runtime/trainer/hugging_face.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/models/architecture.hpp"
#include "runtime/trainer/data/corpus.hpp"

namespace prime::trainer {
namespace {

using Json = nlohmann::ordered_json;

/// Hugging Face's name of a part that a token plays, and what the token is called.
struct SpecialRole {
  const char* name;
  std::array<const char*, 3> texts;
};
constexpr std::array<SpecialRole, 5> ROLES{{{"bos", {"[BOS]", "<|begin_of_text|>", "<s>"}},
                                            {"pad", {"[PAD]", "<pad>", "<|pad|>"}},
                                            {"unk", {"[UNK]", "<unk>", "<|unk|>"}},
                                            {"sep", {"[SEP]", "<sep>", "<|sep|>"}},
                                            {"mask", {"[MASK]", "<mask>", "<|mask|>"}}}};

/// The text of the token that plays it, if the tokenizer has one.
std::optional<std::string> text_of(const SpecialRole& role, const data::Tokenizer& tokenizer) {
  if (auto own = tokenizer.special(role.name)) return own;
  const auto found = std::ranges::find_if(role.texts, [&](const char* text) { return tokenizer.id_of(text).has_value(); });
  return found == role.texts.end() ? std::nullopt : std::optional<std::string>{*found};
}

Json id_of(const char* name, const data::Tokenizer& tokenizer) {
  const auto role = std::ranges::find(ROLES, std::string_view{name}, &SpecialRole::name);
  const auto text = text_of(*role, tokenizer);
  return text ? Json(*tokenizer.id_of(*text)) : Json(nullptr);
}

Json end_of(const data::Tokenizer& tokenizer) {
  const auto end = tokenizer.end_of_document();
  return end ? Json(*end) : Json(nullptr);
}

}  // namespace

std::string config_json(const manifest::Model& model, const data::Tokenizer& tokenizer) {
  const auto& architecture = models::architecture_of(model.arch);
  Json config{{"architectures", {architecture.class_name()}}, {"model_type", architecture.type()}};
  config.update(architecture.write_config(model));
  config.update({{"torch_dtype", "float32"},
                 {"dtype", "float32"},
                 {"use_cache", true},
                 {"bos_token_id", id_of("bos", tokenizer)},
                 {"eos_token_id", end_of(tokenizer)},
                 {"pad_token_id", id_of("pad", tokenizer)}});
  return config.dump(2) + "\n";
}

std::string generation_config_json(const data::Tokenizer& tokenizer) {
  const Json config = {{"do_sample", true},
                       {"temperature", 0.8},
                       {"bos_token_id", id_of("bos", tokenizer)},
                       {"eos_token_id", end_of(tokenizer)},
                       {"pad_token_id", id_of("pad", tokenizer)}};
  return config.dump(2) + "\n";
}

std::string tokenizer_config_json(const manifest::Model& model, const data::Tokenizer& tokenizer) {
  Json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"}, {"model_max_length", model.context}, {"clean_up_tokenization_spaces", false}};
  // Of a SentencePiece model it is not in the file whether texts begin with the token for that: ours do not.
  if (tokenizer.is_sentencepiece()) config.update({{"add_bos_token", false}, {"add_eos_token", false}});
  for (const SpecialRole& role : ROLES)
    if (const auto text = text_of(role, tokenizer)) config[std::string{role.name} + "_token"] = *text;
  if (const auto end = tokenizer.end_of_document())
    config["eos_token"] = tokenizer.is_bytes() ? std::string{data::END_OF_BYTES} : tokenizer.decode(std::array{*end});
  return config.dump(2) + "\n";
}

std::map<std::string, std::string> files_beside_weights(const manifest::Shared& run, const data::Tokenizer& tokenizer) {
  std::map<std::string, std::string> files{{"config.json", config_json(run.model, tokenizer)},
                                           {"generation_config.json", generation_config_json(tokenizer)}};
  const auto is_of_tokens = [](const data::Source& source) {
    return source.format == data::DataFormat::Tokens || source.format == data::DataFormat::Tokens32;
  };
  if (tokenizer.is_bytes() && std::ranges::all_of(data::sources_of(run.data), is_of_tokens)) return files;
  files.insert(tokenizer.file());
  files["tokenizer_config.json"] = tokenizer_config_json(run.model, tokenizer);
  return files;
}

}  // namespace prime::trainer
