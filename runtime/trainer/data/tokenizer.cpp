// Owns the merging of pairs, and which ids a tokenizer has.
#include "runtime/trainer/data/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <queue>

#include "kernels/digest/digest.hpp"
#include "runtime/store/file_io.hpp"
#include "runtime/trainer/data/byte_pairs.hpp"
#include "runtime/trainer/data/sentence_encoder.hpp"

namespace prime::data {
namespace {

constexpr std::size_t MAX_TOKENIZER_BYTES = 256 * MIB;
/// Longer words are seldom seen twice.
constexpr std::size_t REMEMBERED_BYTES = 64;
constexpr std::size_t REMEMBERED_WORDS = 1 << 16;
/// Up to so many symbols the lowest rank is found by looking at all of them, which is one pass over a cache line or a few.
constexpr std::size_t LOOKED_THROUGH = 512;

constexpr std::array ENDS{"[EOS]", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

std::size_t size_of_character(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

}  // namespace

Result<Tokenizer> Tokenizer::open(const manifest::TokenizerChoice& choice, std::uint32_t vocab) {
  if (choice.is_bytes()) return bytes(vocab > BYTE_VALUES);
  const auto& path = choice.sentencepiece ? *choice.sentencepiece : *choice.file;
  auto content = store::read_file(path, MAX_TOKENIZER_BYTES);
  if (!content) return fail(ErrorName::DataUnreadable, "`data.tokenizer`: " + content.error().detail);
  const auto end = choice.end_of_document.value_or("");
  return choice.sentencepiece ? parse_sentencepiece(*std::move(content), path, end) : parse(*content, path, end);
}

/// `wanted`, or the first known one.
Result<void> Tokenizer::choose_end(const std::string& wanted) {
  if (!wanted.empty()) {
    end_ = id_of(wanted);
    if (!end_) return fail(ErrorName::DataUnreadable, "has no token `" + wanted + "` (`data.tokenizer.end_of_document`)");
  }
  if (const auto own = special("eos"); own && !end_) end_ = id_of(*own);
  for (const char* known : ENDS)
    if (!end_) end_ = id_of(known);
  return {};
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name, const std::string& end_of_document) {
  Tokenizer tokenizer;
  PRIME_TRY(tokenizer.pairs_, parse_byte_pairs(json, name));
  tokenizer.json_ = std::make_shared<const std::string>(json);
  tokenizer.size_ = static_cast<std::uint32_t>(tokenizer.pairs_->texts.size());
  if (auto chosen = tokenizer.choose_end(end_of_document); !chosen) return fail(chosen.error().name, name + ": " + chosen.error().detail);
  std::string all{json};
  all += tokenizer.end_ ? std::to_string(*tokenizer.end_) : "-";
  tokenizer.digest_ = kernels::digest_bytes(std::as_bytes(std::span{all}));
  return tokenizer;
}

Result<Tokenizer> Tokenizer::parse_sentencepiece(std::string model, const std::string& name, const std::string& end_of_document) {
  Tokenizer tokenizer;
  PRIME_TRY(tokenizer.sentence_, SentencePieces::parse(std::move(model), name));
  tokenizer.name_ = name;
  tokenizer.size_ = tokenizer.sentence_->size();
  if (auto chosen = tokenizer.choose_end(end_of_document); !chosen) return fail(chosen.error().name, name + ": " + chosen.error().detail);
  const auto all = tokenizer.sentence_->model() + (tokenizer.end_ ? std::to_string(*tokenizer.end_) : "-");
  tokenizer.digest_ = kernels::digest_bytes(std::as_bytes(std::span{all}));
  return tokenizer;
}

Tokenizer Tokenizer::bytes(bool with_end) {
  Tokenizer tokenizer;
  tokenizer.size_ = BYTE_VALUES + (with_end ? 1 : 0);
  if (with_end) tokenizer.end_ = BYTE_VALUES;
  tokenizer.digest_ = {0, tokenizer.size_};
  return tokenizer;
}

std::optional<Token> Tokenizer::id_of(std::string_view text) const {
  if (sentence_) return sentence_->id_of(text);
  if (!pairs_) return text == END_OF_BYTES ? end_ : std::nullopt;
  for (const auto& added : pairs_->added)
    if (added.text == text) return added.id;
  const auto found = pairs_->ids.find(text);
  return found == pairs_->ids.end() ? std::nullopt : std::optional{found->second};
}

std::optional<std::string> Tokenizer::special(std::string_view role) const { return sentence_ ? sentence_->special(role) : std::nullopt; }

std::pair<std::string, std::string> Tokenizer::file() const {
  if (sentence_) return {"tokenizer.model", sentence_->model()};
  return {"tokenizer.json", json_ ? *json_ : bytes_tokenizer_json(end_.has_value())};
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  if (sentence_) return sentence_->decode(tokens);
  std::string text;
  for (const Token token : tokens) {
    if (pairs_) text += token < pairs_->texts.size() ? pairs_->texts[token] : std::string{};
    else if (token < BYTE_VALUES) text += static_cast<char>(token);
  }
  return text;
}

struct Encoder::Impl {
  explicit Impl(const Tokenizer& tokenizer) : pairs(tokenizer.pairs_) {
    if (tokenizer.sentence_) sentence.emplace(tokenizer.sentence_, tokenizer.name_);
  }

  /// The first symbols of a word: bytes or characters.
  void begin(std::string_view word) {
    symbols.clear();
    bool unknown_before = false;
    for (std::size_t i = 0, size = 1; i < word.size(); i += size) {
      size = pairs->of_bytes ? 1 : std::min(size_of_character(word[i]), word.size() - i);
      const auto found = pairs->ids.find(word.substr(i, size));
      const bool known = found != pairs->ids.end();
      if (known) symbols.push_back(found->second);
      else if (pairs->unknown && !(unknown_before && pairs->fuse_unknown)) symbols.push_back(*pairs->unknown);
      unknown_before = !known;
    }
  }

  void merge_looking() {
    auto& ids = symbols;
    ranks.assign(ids.size(), NO_RANK);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) ranks[i] = pairs->ranks(ids[i], ids[i + 1]);
    while (ids.size() > 1) {
      std::uint32_t lowest = NO_RANK;
      for (const auto rank : ranks) lowest = std::min(lowest, rank);
      if (lowest == NO_RANK) return;
      const auto at = static_cast<std::size_t>(std::ranges::find(ranks, lowest) - ranks.begin());
      ids[at] = pairs->merged[lowest];
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      ranks[at] = at + 1 < ids.size() ? pairs->ranks(ids[at], ids[at + 1]) : NO_RANK;
      if (at > 0) ranks[at - 1] = pairs->ranks(ids[at - 1], ids[at]);
    }
  }

  /// The same for long words: candidates wait in order of rank and place, and those that a merge has overtaken are passed over.
  void merge_queued() {
    auto& ids = symbols;
    constexpr std::uint32_t NONE = NO_RANK;
    const auto count = static_cast<std::uint32_t>(ids.size());
    std::vector<std::uint32_t> next(count), before(count);
    std::vector<bool> gone(count);
    using Candidate = std::pair<std::uint32_t, std::uint32_t>;  // rank, place
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    const auto consider = [&](std::uint32_t at) {
      if (next[at] == NONE) return;
      if (const auto rank = pairs->ranks(ids[at], ids[next[at]]); rank != NO_RANK) queue.emplace(rank, at);
    };
    for (std::uint32_t i = 0; i < count; ++i) next[i] = i + 1 < count ? i + 1 : NONE, before[i] = i == 0 ? NONE : i - 1;
    for (std::uint32_t i = 0; i < count; ++i) consider(i);
    while (!queue.empty()) {
      const auto [rank, at] = queue.top();
      queue.pop();
      if (gone[at] || next[at] == NONE || pairs->ranks(ids[at], ids[next[at]]) != rank) continue;
      const auto right = next[at];
      ids[at] = pairs->merged[rank];
      gone[right] = true;
      next[at] = next[right];
      if (next[at] != NONE) before[next[at]] = at;
      consider(at);
      if (before[at] != NONE) consider(before[at]);
    }
    std::size_t kept = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      if (!gone[i]) ids[kept++] = ids[i];
    ids.resize(kept);
  }

  void encode_word(std::string_view word, std::vector<Token>& tokens) {
    const bool remembered = word.size() <= REMEMBERED_BYTES;
    if (remembered)
      if (const auto found = words.find(word); found != words.end()) {
        tokens.insert(tokens.end(), found->second.begin(), found->second.end());
        return;
      }
    const auto whole = pairs->whole_first ? pairs->ids.find(word) : pairs->ids.end();
    if (whole != pairs->ids.end()) symbols.assign(1, whole->second);
    else {
      begin(word);
      if (symbols.size() <= LOOKED_THROUGH) merge_looking();
      else merge_queued();
    }
    if (remembered) {
      if (words.size() == REMEMBERED_WORDS) words.clear();
      words.emplace(word, symbols);
    }
    tokens.insert(tokens.end(), symbols.begin(), symbols.end());
  }

  /// A stretch without added tokens.
  [[nodiscard]] bool encode_stretch(std::string_view text, std::vector<Token>& tokens) {
    if (text.empty()) return true;
    stretch.assign(1, text);
    for (const auto& splitter : pairs->splitters) {
      cut.clear();
      for (const auto part : stretch)
        if (!splitter.split(part, cut)) return false;
      stretch.swap(cut);
    }
    for (const auto word : stretch) encode_word(word, tokens);
    return true;
  }

  const AddedToken* added_at(std::string_view text) const {
    for (const auto& added : pairs->added)
      if (text.starts_with(added.text)) return &added;
    return nullptr;
  }

  std::shared_ptr<const BytePairs> pairs;
  std::optional<SentenceEncoder> sentence;
  std::vector<Token> symbols;
  std::vector<std::uint32_t> ranks;
  std::vector<std::string_view> stretch, cut;
  TextMap<std::vector<Token>> words;
};

Encoder::Encoder(const Tokenizer& tokenizer) : impl_(std::make_unique<Impl>(tokenizer)) {}
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;
Encoder::~Encoder() = default;

Result<void> Encoder::encode(std::string_view text, std::vector<Token>& tokens, bool goes_on) {
  if (!impl_->pairs && !impl_->sentence) {
    const auto before = tokens.size();
    tokens.resize(before + text.size());
    std::ranges::transform(text, tokens.begin() + static_cast<std::ptrdiff_t>(before),
                           [](char c) { return static_cast<unsigned char>(c); });
    return {};
  }
  if (const auto valid = valid_utf8(text); valid < text.size())
    return fail(ErrorName::DataUnreadable, "byte " + std::to_string(valid) + " of it is no UTF-8");
  if (impl_->sentence) return impl_->sentence->encode(text, goes_on, tokens);
  const auto too_hard = [] {
    return fail(ErrorName::DataUnreadable, "cannot be cut by the tokenizer's regular expression: it takes too many steps");
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size() && !impl_->pairs->added.empty(); ++at) {
    if (!impl_->pairs->added_begin[static_cast<unsigned char>(text[at])]) continue;
    const auto* added = impl_->added_at(text.substr(at));
    if (added == nullptr) continue;
    if (!impl_->encode_stretch(text.substr(begin, at - begin), tokens)) return too_hard();
    tokens.push_back(added->id);
    begin = at + added->text.size();
    at = begin - 1;
  }
  if (!impl_->encode_stretch(text.substr(begin), tokens)) return too_hard();
  return {};
}

}  // namespace prime::data
