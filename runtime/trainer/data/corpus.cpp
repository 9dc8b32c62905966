// Owns the way from sources to samples.
#include "runtime/trainer/data/corpus.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <thread>

#include "kernels/digest/digest.hpp"
#include "messages/assert.hpp"
#include "messages/data_listing.hpp"
#include "runtime/trainer/data/corpus_words.hpp"
#include "runtime/trainer/data/holding_out.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::data {

std::vector<Source> sources_of(const manifest::Data& data) {
  if (!data.sources.empty()) return data.sources;
  Source only;
  only.paths = {data.path};
  only.format = data.source;
  return {only};
}

/// What the sources add up to while they are added.
struct Corpus::Building {
  std::string identity;  ///< what the digest is over
  std::vector<ListedFile> listed;
  std::uint64_t used_documents = 0;  ///< of a window at least, where each is cut by itself
};

namespace {

std::uint64_t sum_of_tokens(const std::vector<TokenShard>& shards, std::size_t from) {
  std::uint64_t sum = 0;
  for (std::size_t i = from; i < shards.size(); ++i) sum += shards[i].tokens();
  return sum;
}

/// With all its digits.
std::string exactly(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// Bytes as a manifest counts them, in tokens of this source.
std::uint64_t tokens_of(std::uint64_t bytes, const CompiledSource& source) {
  if (source.counts.bytes == 0 || source.counts.bytes == source.tokens) return bytes;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) *
                                    (static_cast<double>(source.tokens) / static_cast<double>(source.counts.bytes)));
}

/// By its file and document, since a shard is of many.
Error token_too_large(const TokenShard& shard, std::uint32_t vocab) {
  const auto why = [&](const std::string& place, Token token) {
    return Error{ErrorName::DataUnreadable,
                 place + ": holds the token " + std::to_string(token) + ", and `model.vocab` is " + std::to_string(vocab)};
  };
  const auto documents = shard.documents();
  if (!documents) return documents.error();
  constexpr std::uint64_t AT_ONCE = 64 * KIB;
  std::vector<Token> tokens;
  std::uint64_t at = 0, number = 0, before = 0;
  auto file = shard.content().files.begin();
  for (const auto& document : *documents) {
    for (++number; file != shard.content().files.end() && number > before + file->documents; ++file) before += file->documents;
    while (at < document.end) {
      tokens.resize(std::min(AT_ONCE, document.end - at));
      if (auto read = shard.read(at, tokens); !read) return read.error();
      at += tokens.size();
      const auto found = std::ranges::find_if(tokens, [&](Token token) { return token >= vocab; });
      if (found != tokens.end() && file != shard.content().files.end())
        return why(file->name + ": document " + std::to_string(number - before), *found);
    }
  }
  return why(shard.path().string(), shard.content().largest);
}

}  // namespace

Result<void> Corpus::add_source(const Source& source, const manifest::Data& data, const CompileOptions& options, Building& building) {
  CompiledSource compiled;
  PRIME_TRY(compiled.files, files_of(source, data.include));
  PRIME_TRY(auto made, compile(source, compiled.files, tokenizer_, options));
  const auto first = shards_.size();
  std::ranges::move(made, std::back_inserter(shards_));
  compiled.tokens = sum_of_tokens(shards_, first);
  const bool several = compiled.files.files.size() > 1;
  building.identity += '\1';
  for (std::size_t i = first; i < shards_.size(); ++i) {
    const auto& content = shards_[i].content();
    compiled.counts += content.counts;
    if (compiled.first_skipped.empty()) compiled.first_skipped = content.first_skipped;
    for (const auto& file : content.files) {
      // A single file is the same by whatever name.
      const auto holds = '\0' + std::to_string(file.bytes) + ' ' + std::to_string(file.documents) + ' ' + std::to_string(file.mark);
      building.identity += (several ? file.name : std::string{}) + holds;
      const auto whole = file.name + holds;
      building.listed.push_back({file.name, file.bytes, kernels::digest_bytes(std::as_bytes(std::span{whole})).low});
    }
  }
  const bool packed = held_out_.packed();
  const auto parts = std::max<std::size_t>(1, data.sources.size());
  const HoldingOut rules{data.held_out_percent,
                         source.format == DataFormat::Text ? tokens_of(data.held_out_per_file_bytes, compiled) : ~0ULL,
                         tokens_of(data.held_out_limit_bytes, compiled) / parts};
  if (training_.empty() || source.weight.given()) training_.emplace_back(context_, packed);
  PRIME_TRY(const bool ends, hold_out(shards_, first, source.format == DataFormat::Text, rules, training_.back(), held_out_));
  holds_out_ends_ |= ends;
  found_ += (found_.empty() ? "" : "; ") + found_in(source, compiled, data, shards_, first, held_out_);
  sources_.push_back(std::move(compiled));
  return {};
}

Result<Corpus> Corpus::open(const manifest::Data& data, const SampleShape& shape, const CompileOptions& options) {
  PRIME_TRY(auto tokenizer, Tokenizer::open(data.tokenizer, shape.vocab));
  if (tokenizer.size() > shape.vocab)
    return fail(ErrorName::ManifestValue, "`model.vocab` must be at least " + std::to_string(tokenizer.size()) + " for the tokenizer " +
                                              data.tokenizer.sentencepiece.value_or(data.tokenizer.file.value_or("`bytes`")) + ", found " +
                                              std::to_string(shape.vocab));
  Corpus corpus(std::move(tokenizer), shape.context, data.seed);
  Building building{to_string(corpus.tokenizer_.digest()), {}, 0};
  auto per_source = options;
  per_source.per_file_bytes = data.per_file_bytes;
  std::vector<manifest::SourceWeight> weights;
  for (const auto& source : sources_of(data)) {
    if (source.weight.given()) weights.push_back(source.weight);
    PRIME_CHECK(corpus.add_source(source, data, per_source, building));
  }
  auto shares = shares_of(sources_of(data));
  for (std::size_t i = 0; i < shares.size(); ++i) corpus.sources_[i].shares = std::move(shares[i]);
  for (const auto& shard : corpus.shards_)
    if (shard.tokens() > 0 && shard.content().largest >= shape.vocab) return fail(token_too_large(shard, shape.vocab));
  // What changes on the way belongs to what a sample's number means, as the documents do.
  if (std::ranges::any_of(weights, &manifest::SourceWeight::changes))
    for (const auto& weight : weights) {
      building.identity += '\2';
      for (const auto& [at, value] : weight.points) building.identity += std::to_string(at) + ' ' + exactly(value) + ' ';
    }
  const auto range = data.draw == manifest::Draw::Range ? shape.range : 1;
  if (range > 1) building.identity += "\2range " + std::to_string(range);
  if (!weights.empty()) corpus.mix_ = Mix(weights, data.seed, range);
  corpus.digest_ = kernels::digest_bytes(std::as_bytes(std::span{building.identity}));
  std::ranges::sort(building.listed, {}, &ListedFile::path);
  corpus.listing_ = listing_of(building.listed);
  const auto too_small = std::ranges::any_of(corpus.training_, [](const TokenIndex& index) { return index.windows() == 0; });
  if (corpus.windows() < shape.batch || too_small)
    return fail(ErrorName::DataTooSmall, corpus.found_ + ", " + std::to_string(corpus.windows()) + " samples of " +
                                             std::to_string(corpus.window_tokens()) +
                                             (corpus.tokenizer_.is_bytes() ? " bytes" : " tokens") + " (`model.context` and one)" +
                                             (too_small && corpus.training_.size() > 1 ? ", and none of one source" : "") +
                                             "; one batch needs " + std::to_string(shape.batch));
  return corpus;
}

manifest::Data data_here(const manifest::Manifest& manifest) {
  auto data = manifest.shared.data;
  if (const auto& here = manifest.local.data_path) {
    data.path = *here;
    if (!data.sources.empty()) data.sources.front().paths = {*here};
  }
  return data;
}

Result<Corpus> Corpus::open(const manifest::Manifest& manifest, const OnProgress& on_progress) {
  const auto data = data_here(manifest);
  PRIME_TRY(auto cache, cache_root(manifest.local.data_cache));
  const auto threads = std::max(1U, std::thread::hardware_concurrency());
  const auto& model = manifest.shared.model;
  const auto batch = manifest.shared.train.batch;
  return open(data, {model.context, batch, model.vocab, std::uint64_t{batch} * manifest.shared.sync.inner_steps},
              {std::move(cache), ~0ULL, threads, on_progress});
}

std::uint64_t Corpus::windows() const {
  std::uint64_t sum = 0;
  for (const auto& index : training_) sum += index.windows();
  return sum;
}

std::uint64_t Corpus::held_out_windows(std::uint64_t limit_bytes) const {
  CompiledSource all;
  for (const auto& source : sources_) all.counts += source.counts, all.tokens += source.tokens;
  return std::min(std::max<std::uint64_t>(1, tokens_of(limit_bytes, all) / context_), held_out_windows());
}

Result<void> Corpus::read(std::uint64_t first, std::span<Token> into) const {
  PRIME_ASSERT(into.size() % window_tokens() == 0, "whole windows are read");
  struct Order {
    std::uint64_t pass;
    trainer::Permutation permutation;
  };
  std::vector<std::optional<Order>> orders(training_.size());
  auto block = mix_.block_of(first);
  for (std::uint64_t i = 0; i < into.size() / window_tokens(); ++i) {
    if (!mix_.is_in(block, first + i)) block = mix_.block_of(first + i);
    const auto [source, index] = mix_.draw(block, first + i);
    const auto windows = training_[source].windows();
    const auto pass = index / windows;
    if (!orders[source] || orders[source]->pass != pass)
      orders[source].emplace(Order{pass, trainer::Permutation(windows, seed_ + source, pass)});
    PRIME_CHECK(
        training_[source].read(shards_, orders[source]->permutation(index % windows), into.subspan(i * window_tokens(), window_tokens())));
  }
  return {};
}

Result<void> Corpus::read_held_out(std::uint64_t first, std::span<Token> into) const {
  PRIME_ASSERT(into.size() % window_tokens() == 0 && first + into.size() / window_tokens() <= held_out_windows(), "held-out windows exist");
  for (std::uint64_t i = 0; i < into.size() / window_tokens(); ++i)
    PRIME_CHECK(held_out_.read(shards_, first + i, into.subspan(i * window_tokens(), window_tokens())));
  return {};
}

std::string Corpus::beginning() const {
  std::vector<Token> window(window_tokens());
  if (const auto done = held_out_windows() > 0 ? read_held_out(0, window) : read(0, window); !done) return {};
  return beginning_of(tokenizer_.decode(window));
}

DataIdentity Corpus::identity(const manifest::Shared& shared) const {
  auto text = found_ + "; " + passes_in(windows(), window_tokens(), tokenizer_.is_bytes()) +
              held_out_text(shared.data.held_out_percent > 0) + reads_each(shared, windows());
  return {digest_, std::move(text), listing_};
}

std::string Corpus::held_out_text(bool wanted) const {
  if (held_out_windows() == 0) return wanted ? "too few to hold any out" : "none held out (`data.held_out`)";
  const auto texts =
      std::ranges::all_of(sources_, [](const CompiledSource& source) { return source.counts.documents <= source.files.files.size(); });
  const std::string what = texts ? "file" : "document";
  return std::to_string(held_out_windows()) +
         (holds_out_ends_ ? " more held out, the end of each " + what : " more held out, in " + what + "s of their own");
}

}  // namespace prime::data
