// Owns reading Hugging Face's tokenizer.json. Of each part there are many kinds: those that byte-pair encodings of text and of nucleotides
// use are done here, and any other is refused by its name, since ids that are nearly right would be worse than none.
#include "runtime/trainer/data/byte_pairs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

namespace prime::data {
namespace {

using nlohmann::json;

constexpr std::size_t DENSE_VOCAB = 2048;
constexpr std::size_t MAX_VOCAB = std::size_t{1} << 24;

std::string text_at(const json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : std::string{};
}
bool flag_at(const json& map, const char* key, bool otherwise = false) {
  const auto found = map.find(key);
  return found != map.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}
bool is_set(const json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && !found->is_null() && *found != json("") && *found != json(false) && *found != json(0.0);
}

/// GPT-2 writes each byte as a character that can be seen: those that are seen as themselves, the others from U+0100 on.
std::array<std::uint16_t, 256> visible_of_bytes() {
  std::array<std::uint16_t, 256> table{};
  std::uint16_t next = 256;
  for (std::uint16_t byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    table[byte] = seen ? byte : next++;
  }
  return table;
}

/// The bytes that such characters stand for; nothing where another character is among them.
std::optional<std::string> bytes_of_visible(std::string_view text) {
  static const auto table = [] {
    std::array<int, 512> bytes{};
    bytes.fill(-1);
    const auto visible = visible_of_bytes();
    for (int byte = 0; byte < 256; ++byte) bytes[visible[static_cast<std::size_t>(byte)]] = byte;
    return bytes;
  }();
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned character = static_cast<unsigned char>(text[i]);
    if (character >= 0x80) {
      if (character < 0xc2 || character > 0xc7 || i + 1 == text.size()) return std::nullopt;
      character = ((character & 0x1fU) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3fU);
    }
    if (table[character] < 0) return std::nullopt;
    bytes += static_cast<char>(table[character]);
  }
  return bytes;
}

class Reading {
 public:
  Result<std::shared_ptr<const BytePairs>> run(const json& root) {
    if (!root.is_object() || !root.contains("model")) return refuse("it is no tokenizer.json: it has no `model`");
    const auto& model = root["model"];
    PRIME_CHECK(check_kinds(root, model));
    if (root.contains("pre_tokenizer") && !root["pre_tokenizer"].is_null()) PRIME_CHECK(read_splitting(root["pre_tokenizer"]));
    PRIME_CHECK(read_added(root));
    PRIME_CHECK(read_vocab(model));
    PRIME_CHECK(read_merges(model));
    return std::make_shared<const BytePairs>(std::move(pairs_));
  }

 private:
  static tl::unexpected<Error> refuse(std::string why) { return fail(ErrorName::DataUnreadable, std::move(why)); }
  static tl::unexpected<Error> not_done(const std::string& what) {
    return refuse("its " + what + " is not done here: convert the data to token shards with its own library (`format: tokens`)");
  }

  static Result<void> check_kinds(const json& root, const json& model) {
    const auto kind = text_at(model, "type");
    // Old files name no type; one with merges is a byte-pair encoding.
    if (kind != "BPE" && !(kind.empty() && model.contains("merges")))
      return not_done("model `" + (kind.empty() ? "without a type" : kind) + "`");
    if (root.contains("normalizer") && !root["normalizer"].is_null())
      return not_done("normalizer `" + text_at(root["normalizer"], "type") + "`");
    for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
      if (is_set(model, option)) return not_done("option `" + std::string{option} + "` of the model");
    return {};
  }

  Result<void> read_splitting(const json& step) {
    const auto kind = text_at(step, "type");
    if (kind == "Sequence") {
      if (!step.contains("pretokenizers")) return refuse("its pre-tokenizer `Sequence` has no steps");
      for (const auto& inner : step["pretokenizers"]) PRIME_CHECK(read_splitting(inner));
      return {};
    }
    if (pairs_.of_bytes) return not_done("pre-tokenizer `" + kind + "` behind `ByteLevel`");
    if (kind == "Whitespace") return pairs_.splitters.push_back(Splitter::whitespace()), Result<void>{};
    if (kind == "WhitespaceSplit") return pairs_.splitters.push_back(Splitter::whitespace_split()), Result<void>{};
    if (kind == "Split") return read_split(step);
    if (kind != "ByteLevel") return not_done("pre-tokenizer `" + kind + "`");
    if (flag_at(step, "add_prefix_space", true)) return not_done("option `add_prefix_space` of the pre-tokenizer `ByteLevel`");
    if (flag_at(step, "use_regex", true)) pairs_.splitters.push_back(Splitter::gpt2());
    pairs_.of_bytes = true;
    return {};
  }

  Result<void> read_split(const json& step) {
    const auto behavior = text_at(step, "behavior");
    if (behavior != "Isolated" && behavior != "Removed") return not_done("pre-tokenizer `Split` with the behavior `" + behavior + "`");
    const auto pattern = step.find("pattern");
    if (pattern == step.end() || text_at(*pattern, "Regex").empty()) return not_done("pre-tokenizer `Split` without a regular expression");
    const bool removed = behavior == "Removed", inverted = flag_at(step, "invert");
    PRIME_TRY(auto splitter, Splitter::of(text_at(*pattern, "Regex"), {.matches = !removed || inverted, .gaps = !removed || !inverted}));
    pairs_.splitters.push_back(std::move(splitter));
    return {};
  }

  static std::string two_ids(const std::string& text, Token one, Token other) {
    return "its token `" + text + "` has two ids, " + std::to_string(one) + " and " + std::to_string(other);
  }

  /// The id of a token that the file writes so, and no other token's.
  Result<Token> claim(const json& id, const std::string& shown) {
    if (!id.is_number()) return refuse("its token `" + shown + "` has no id");
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= MAX_VOCAB)
      return refuse("its token `" + shown + "` has the id " + id.dump() + ", and ids are whole numbers below " + std::to_string(MAX_VOCAB));
    const auto token = id.get<Token>();
    if (pairs_.texts.size() <= token) {
      pairs_.texts.resize(token + std::size_t{1});
      shown_.resize(token + std::size_t{1});
    }
    if (shown_[token].value_or(shown) != shown)
      return refuse("its tokens `" + *shown_[token] + "` and `" + shown + "` have the same id, " + id.dump());
    shown_[token] = shown;
    return token;
  }

  Result<void> read_added(const json& root) {
    const auto list = root.find("added_tokens");
    if (list == root.end() || list->is_null()) return {};
    for (const auto& token : *list) {
      if (!token.is_object() || !token.contains("id") || text_at(token, "content").empty())
        return refuse("one of its `added_tokens` has no id or no content");
      AddedToken added{text_at(token, "content"), 0, flag_at(token, "special")};
      PRIME_TRY(added.id, claim(token["id"], added.text));
      const auto before = std::ranges::find(pairs_.added, added.text, &AddedToken::text);
      if (before != pairs_.added.end() && before->id != added.id) return refuse(two_ids(added.text, before->id, added.id));
      pairs_.texts[added.id] = added.text;
      for (const char* option : {"lstrip", "rstrip", "single_word"})
        if (flag_at(token, option)) return not_done("option `" + std::string{option} + "` of the added token `" + added.text + "`");
      pairs_.added_begin[static_cast<unsigned char>(added.text.front())] = true;
      pairs_.added.push_back(std::move(added));
    }
    std::ranges::stable_sort(pairs_.added, std::greater{}, [](const AddedToken& token) { return token.text.size(); });
    return {};
  }

  Result<void> read_vocab(const json& model) {
    const auto vocab = model.find("vocab");
    if (vocab == model.end() || !vocab->is_object()) return refuse("its model has no `vocab`");
    for (const auto& [text, id] : vocab->items()) {
      PRIME_TRY(const auto token, claim(id, text));
      const auto added = std::ranges::find(pairs_.added, text, &AddedToken::text);
      if (added != pairs_.added.end() && added->id != token) return refuse(two_ids(text, added->id, token));
      const auto bytes = pairs_.of_bytes ? bytes_of_visible(text) : std::optional{text};
      if (!bytes && added == pairs_.added.end()) return refuse("its token `" + text + "` holds what stands for no byte");
      if (added == pairs_.added.end()) pairs_.texts[token] = *bytes;
      if (bytes) pairs_.ids.emplace(*bytes, token);
    }
    pairs_.whole_first = flag_at(model, "ignore_merges");
    pairs_.fuse_unknown = flag_at(model, "fuse_unk");
    if (const auto unknown = text_at(model, "unk_token"); !unknown.empty()) {
      const auto found = vocab->find(unknown);
      if (found == vocab->end()) return refuse("its unknown token `" + unknown + "` has no id");
      pairs_.unknown = found->get<Token>();
    }
    return {};
  }

  /// "a b", or ["a", "b"] where tokens may hold spaces.
  static std::optional<std::pair<std::string, std::string>> pair_of(const json& merge) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return std::pair{merge[0].get<std::string>(), merge[1].get<std::string>()};
    if (!merge.is_string()) return std::nullopt;
    const auto text = merge.get<std::string>();
    const auto space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return std::nullopt;
    return std::pair{text.substr(0, space), text.substr(space + 1)};
  }

  Result<void> read_merges(const json& model) {
    const auto merges = model.find("merges");
    if (merges == model.end() || !merges->is_array()) return refuse("its model has no `merges`");
    pairs_.ranks = PairRanks(merges->size(), static_cast<std::uint32_t>(pairs_.texts.size()));
    for (const auto& merge : *merges) {
      const auto number = std::to_string(pairs_.merged.size() + 1);
      const auto pair = pair_of(merge);
      if (!pair) return refuse("its merge " + number + " is no pair");
      const auto id_of = [&](const std::string& text) -> std::optional<Token> {
        const auto bytes = pairs_.of_bytes ? bytes_of_visible(text) : std::optional{text};
        const auto found = bytes ? pairs_.ids.find(*bytes) : pairs_.ids.end();
        return found == pairs_.ids.end() ? std::nullopt : std::optional{found->second};
      };
      const auto left = id_of(pair->first), right = id_of(pair->second), both = id_of(pair->first + pair->second);
      if (!left || !right || !both) return refuse("its merge " + number + " names a token that its `vocab` has not");
      pairs_.ranks.add(*left, *right, static_cast<std::uint32_t>(pairs_.merged.size()));
      pairs_.merged.push_back(*both);
    }
    return {};
  }

  BytePairs pairs_;
  std::vector<std::optional<std::string>> shown_;  ///< by id: the token as the file writes it
};

}  // namespace

std::string visible_byte(unsigned char byte) {
  static const auto table = visible_of_bytes();
  const auto character = table[byte];
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xc0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3f))};
}

PairRanks::PairRanks(std::size_t merges, std::uint32_t vocab) : vocab_(vocab) {
  if (vocab <= DENSE_VOCAB) {
    dense_.assign(std::size_t{vocab} * vocab, NO_RANK);
    return;
  }
  const auto places = std::bit_ceil(2 * merges + 2);
  keys_.assign(places, NOTHING);
  ranks_.assign(places, NO_RANK);
  mask_ = places - 1;
}

void PairRanks::add(Token left, Token right, std::uint32_t rank) {
  if (!dense_.empty()) {
    dense_[std::size_t{left} * vocab_ + right] = rank;
    return;
  }
  const auto key = key_of(left, right);
  std::size_t at = place_of(key);
  while (keys_[at] != NOTHING && keys_[at] != key) at = (at + 1) & mask_;
  keys_[at] = key;
  ranks_[at] = rank;
}

Result<std::shared_ptr<const BytePairs>> parse_byte_pairs(std::string_view text, const std::string& name) {
  const auto root = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return fail(ErrorName::DataUnreadable, name + ": is no JSON");
  auto pairs = Reading{}.run(root);
  if (!pairs) return fail(ErrorName::DataUnreadable, name + ": " + pairs.error().detail);
  return pairs;
}

}  // namespace prime::data
