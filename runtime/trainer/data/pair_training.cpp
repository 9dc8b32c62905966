// Owns counting pairs.
#include "runtime/trainer/data/pair_training.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <unordered_set>

#include "runtime/trainer/data/byte_pairs.hpp"
#include "runtime/trainer/data/record_reader.hpp"
#include "runtime/trainer/data/tokenizer_file.hpp"

namespace prime::data {
namespace {

/// METAGENE-1's: its special tokens, and what else has an id of its own before the merges.
constexpr std::array<const char*, 6> METAGENE_SPECIALS{"[PAD]", "[UNK]", "[SEP]", "[BOS]", "[EOS]", "[MASK]"};
constexpr std::array<const char*, 6> METAGENE_SYMBOLS{"_", "A", "C", "G", "T", "N"};
constexpr const char* TEXT_END = "<|endoftext|>";
/// The words of text that are counted; more are no longer rare.
constexpr std::size_t MAX_WORDS = 20'000'000;

bool is_nucleotides(DataFormat format) { return format == DataFormat::Fasta || format == DataFormat::Fastq; }

std::uint64_t key_of(Token left, Token right) { return (std::uint64_t{left} << 32) | right; }

/// The pairs of all words, how often each is there, and in which words.
class Pairs {
 public:
  Pairs(std::vector<std::vector<Token>> words, const std::vector<std::uint64_t>& counts) : words_(std::move(words)), counts_(counts) {
    for (std::uint32_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].size(); ++i) add(words_[w][i], words_[w][i + 1], w, counts_[w]);
    for (const auto& [key, pair] : pairs_) queue_.push({pair.count, key});
  }

  /// The most frequent; of equal ones that of the lowest ids.
  std::optional<Merge> best() {
    while (!queue_.empty()) {
      const auto [count, key] = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(key);
      if (found == pairs_.end() || found->second.count == 0) continue;
      if (found->second.count != count) {
        queue_.push({found->second.count, key});
        continue;
      }
      return Merge{static_cast<Token>(key >> 32), static_cast<Token>(key)};
    }
    return std::nullopt;
  }

  void merge(const Merge& pair, Token into) {
    changed_.clear();
    const auto places = std::move(pairs_[key_of(pair.left, pair.right)].words);
    pairs_.erase(key_of(pair.left, pair.right));
    for (const auto w : places) merge_in(w, pair, into);
    for (const auto key : changed_)
      if (const auto found = pairs_.find(key); found != pairs_.end() && found->second.count > 0) queue_.push({found->second.count, key});
  }

 private:
  struct Pair {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> words = {};  ///< in rising order, some of which may have lost it
  };
  struct Candidate {
    std::uint64_t count, key;
    bool operator<(const Candidate& other) const { return count != other.count ? count < other.count : key > other.key; }
  };

  void add(Token left, Token right, std::uint32_t word, std::uint64_t count) {
    auto& pair = pairs_[key_of(left, right)];
    pair.count += count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  }
  void remove(Token left, Token right, std::uint64_t count) {
    if (const auto found = pairs_.find(key_of(left, right)); found != pairs_.end()) found->second.count -= count;
  }

  void merge_in(std::uint32_t w, const Merge& pair, Token into) {
    auto& word = words_[w];
    const auto count = counts_[w];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (i + 1 == word.size() || word[i] != pair.left || word[i + 1] != pair.right) {
        word[kept++] = word[i];
        continue;
      }
      if (kept > 0) {
        remove(word[kept - 1], pair.left, count);
        add(word[kept - 1], into, w, count);
        changed_.insert(key_of(word[kept - 1], into));
      }
      if (i + 2 < word.size()) {
        remove(pair.right, word[i + 2], count);
        add(into, word[i + 2], w, count);
        changed_.insert(key_of(into, word[i + 2]));
      }
      word[kept++] = into;
      ++i;
    }
    word.resize(kept);
  }

  std::vector<std::vector<Token>> words_;
  const std::vector<std::uint64_t>& counts_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> queue_;
  std::unordered_set<std::uint64_t> changed_;
};

/// A character for each byte, as ByteLevel writes it.
std::string visible(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += visible_byte(static_cast<unsigned char>(c));
  return text;
}

class Learning {
 public:
  explicit Learning(const PairTraining& training) : training_(training), nucleotides_(is_nucleotides(training.format)) {
    if (nucleotides_) {
      for (const char* text : METAGENE_SPECIALS) texts_.emplace_back(text);
      for (const char* text : METAGENE_SYMBOLS) texts_.emplace_back(text);
    } else {
      texts_.emplace_back(TEXT_END);
      for (int byte = 0; byte < 256; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
    }
    for (Token id = nucleotides_ ? Token{METAGENE_SPECIALS.size()} : 1; id < texts_.size(); ++id)
      symbol_of_[static_cast<unsigned char>(texts_[id].front())] = id;
  }

  Result<void> add(const std::string& path) {
    PRIME_TRY(const auto reader, open_records(path, {training_.format, training_.field, ~0ULL}));
    Record record;
    bool piece = false;
    while (true) {
      PRIME_TRY(const bool more, reader->next(record));
      if (!more) return {};
      if (!record.broken.empty()) return fail(broken_record(path, record, record.broken));
      if (const auto why = add(record.text); !why.empty()) return fail(broken_record(path, record, why));
      documents_ += piece ? 0 : 1;
      piece = record.more;
      bytes_ += record.text.size();
      if (training_.on_progress && (++heard_ & 0x3ffU) == 0) PRIME_CHECK(training_.on_progress({bytes_, 0}));
    }
  }

  Result<TrainedPairs> finish() {
    const auto symbols = static_cast<Token>(texts_.size());
    if (training_.vocab < symbols)
      return fail(ErrorName::Usage, "--vocab must be at least " + std::to_string(symbols) + ", one id for each symbol, found " +
                                        std::to_string(training_.vocab));
    if (words_.empty()) return fail(ErrorName::DataTooSmall, "the files hold nothing to learn from");
    std::vector<std::vector<Token>> words;
    std::vector<std::uint64_t> counts;
    for (auto& [word, count] : words_) {
      auto& symbols_of = words.emplace_back();
      for (const char c : word) symbols_of.push_back(symbol_of_[static_cast<unsigned char>(c)]);
      counts.push_back(count);
    }
    words_.clear();
    const auto after_each = [&] { return training_.on_progress ? training_.on_progress({bytes_, bytes_}) : Result<void>{}; };
    PRIME_TRY(const auto merges, learn_merges(std::move(words), counts, symbols, training_.vocab - symbols, after_each));
    for (const auto& merge : merges) texts_.push_back(texts_[merge.left] + texts_[merge.right]);
    return TrainedPairs{json_of(merges), static_cast<std::uint32_t>(texts_.size()), documents_, bytes_};
  }

 private:
  std::string add(std::string_view text) {
    if (nucleotides_) {
      ++words_[std::string{text}];
    } else {
      if (const auto valid = valid_utf8(text); valid < text.size()) return "byte " + std::to_string(valid) + " of it is no UTF-8";
      cut_.clear();
      if (!splitter_.split(text, cut_)) return "cannot be cut into words";
      for (const auto word : cut_) {
        const auto found = words_.find(word);
        if (found != words_.end()) ++found->second;
        else words_.emplace(word, 1);
      }
    }
    return words_.size() <= MAX_WORDS ? std::string{}
                                      : "more than " + std::to_string(MAX_WORDS) + " different words: learn from a part of the files";
  }

  [[nodiscard]] std::string shown(Token id) const { return nucleotides_ || id == 0 ? texts_[id] : visible(texts_[id]); }

  [[nodiscard]] std::string json_of(const std::vector<Merge>& merges) const {
    TokenizerFile file{.nucleotides = nucleotides_};
    const std::size_t specials = nucleotides_ ? METAGENE_SPECIALS.size() : 1;
    for (Token id = 0; id < specials; ++id) file.specials.push_back(id);
    for (Token id = 0; id < texts_.size(); ++id) file.vocab.push_back(shown(id));
    for (const auto& merge : merges) file.merges.emplace_back(shown(merge.left), shown(merge.right));
    return to_json(file);
  }

  const PairTraining& training_;
  bool nucleotides_;
  Splitter splitter_ = Splitter::gpt2();
  std::vector<std::string> texts_;  ///< by id
  std::array<Token, 256> symbol_of_{};
  TextMap<std::uint64_t> words_;
  std::vector<std::string_view> cut_;
  std::uint64_t documents_ = 0, bytes_ = 0, heard_ = 0;
};

}  // namespace

Result<std::vector<Merge>> learn_merges(std::vector<std::vector<Token>> words, const std::vector<std::uint64_t>& counts, Token next,
                                        std::size_t most, const std::function<Result<void>()>& after_each) {
  Pairs pairs(std::move(words), counts);
  std::vector<Merge> merges;
  while (merges.size() < most) {
    const auto best = pairs.best();
    if (!best) break;
    pairs.merge(*best, next++);
    merges.push_back(*best);
    if (after_each) PRIME_CHECK(after_each());
  }
  return merges;
}

Result<TrainedPairs> train_pairs(const std::vector<std::string>& paths, const PairTraining& training) {
  Learning learning(training);
  for (const auto& path : paths) PRIME_CHECK(learning.add(path));
  return learning.finish();
}

}  // namespace prime::data
