// Owns the training data of one peer: which documents there are, which are held out, and which tokens a sample is.
//
// Documents, not bytes, are held out: texts by the hash of their path, others by that of what they hold, so that every peer with the same
// data holds out the same ones and no training sample ever shares a document with the evaluation. Where that chooses none, or the greater
// part of the data (there is one file, or a few), the end of each document is held out instead. Only the index is in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/data_identity.hpp"
#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/data/compile.hpp"
#include "runtime/trainer/data/mix.hpp"
#include "runtime/trainer/data/token_index.hpp"

namespace prime::data {

/// What is known of a source once it is compiled.
struct CompiledSource {
  SourceFiles files;
  Counts counts;
  std::uint64_t tokens = 0;
  std::string first_skipped;
  std::vector<MixShare> shares = {};  ///< of the samples; empty without weights
};

struct SampleShape {
  std::uint32_t context = 128;
  std::uint32_t batch = 1;  ///< samples; less than one batch is too little
  std::uint32_t vocab = 256;
  std::uint64_t range = 1;  ///< samples that one peer trains on in an outer step; a source is drawn for all of them with `data.draw: range`
};

/// The sources that a manifest names, in its short form or as a list.
std::vector<Source> sources_of(const manifest::Data& data);
/// The run's, with `local.data_path` where that is set.
manifest::Data data_here(const manifest::Manifest& manifest);

class Corpus {
 public:
  /// Compiles what is not in the cache, and indexes it. DataUnreadable, DataTooSmall, ManifestValue where the model's vocabulary has no
  /// room for the tokens, StorageFailed for the cache.
  static Result<Corpus> open(const manifest::Data& data, const SampleShape& shape, const CompileOptions& options);
  /// The same as a peer with this manifest does it.
  static Result<Corpus> open(const manifest::Manifest& manifest, const OnProgress& on_progress = {});

  /// Tokens of one window: context + 1.
  [[nodiscard]] std::size_t window_tokens() const { return context_ + std::size_t{1}; }
  /// Training windows in one pass over the data.
  [[nodiscard]] std::uint64_t windows() const;
  [[nodiscard]] std::uint64_t held_out_windows() const { return held_out_.windows(); }
  /// How many of them so many bytes of text make; one at least, where any is held out.
  [[nodiscard]] std::uint64_t held_out_windows(std::uint64_t limit_bytes) const;
  /// Whether the end of each document is held out, and not whole ones.
  [[nodiscard]] bool holds_out_ends() const { return holds_out_ends_; }
  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const std::vector<CompiledSource>& sources() const { return sources_; }
  [[nodiscard]] const std::vector<TokenShard>& shards() const { return shards_; }
  /// Of the documents and of the names of their files, which is what the numbers of samples depend on (of a single file its name is not).
  /// In words: what was found, used and passed over, and what a run of `shared` makes of it.
  [[nodiscard]] DataIdentity identity(const manifest::Shared& shared) const;
  [[nodiscard]] Digest digest() const { return digest_; }

  /// Samples first, first + 1, … of the run's global order, one after the other, as many as fit `into` (a multiple of window_tokens()).
  /// The order repeats after every pass over the windows, each pass in its own permutation.
  Result<void> read(std::uint64_t first, std::span<Token> into) const;
  /// Held-out windows in the order of evaluation.
  Result<void> read_held_out(std::uint64_t first, std::span<Token> into) const;
  /// How a text begins that is held out (or, where none is, one that is trained on): a few words, which a model can be asked to go on
  /// with. Empty where the data cannot be read.
  [[nodiscard]] std::string beginning() const;

 private:
  struct Building;
  Corpus(Tokenizer tokenizer, std::uint32_t context, std::uint64_t seed)
      : tokenizer_(std::move(tokenizer)),
        context_(context),
        seed_(seed),
        held_out_(context, tokenizer_.end_of_document().has_value()),
        mix_(std::vector{manifest::SourceWeight{1}}, seed) {}
  Result<void> add_source(const Source& source, const manifest::Data& data, const CompileOptions& options, Building& building);
  [[nodiscard]] std::string held_out_text(bool wanted) const;

  Tokenizer tokenizer_;
  std::uint32_t context_;
  std::uint64_t seed_;
  bool holds_out_ends_ = false;
  std::vector<CompiledSource> sources_;
  std::vector<TokenShard> shards_;    ///< of all sources
  std::vector<TokenIndex> training_;  ///< of each source that has a weight of its own
  TokenIndex held_out_;
  Mix mix_;
  Digest digest_;
  std::string listing_;
  std::string found_;  ///< in words
};

}  // namespace prime::data
