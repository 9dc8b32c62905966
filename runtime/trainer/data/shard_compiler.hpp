// Owns turning some files of a source into one shard: records, cleaned where they are reads, become tokens with the end of each document
// behind it.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <xxhash.h>

#include "runtime/trainer/data/compile.hpp"
#include "runtime/trainer/data/read_cleaning.hpp"
#include "runtime/trainer/data/record_reader.hpp"

namespace prime::data {

/// What every shard of a source is made with.
struct ShardPlan {
  const Source& source;
  const Tokenizer& tokenizer;
  std::uint64_t per_file_bytes;
  const std::atomic<bool>& stop;  ///< nobody wants it any more
};

/// Fails with the file and the record that is broken, unless the source skips those.
class ShardCompiler {
 public:
  ShardCompiler(const ShardPlan& plan, ShardWriter& writer)
      : plan_(plan), writer_(writer), encoder_(plan.tokenizer), cleaner_(plan.source, content_.counts) {}

  Result<void> add(const SourceFile& file);
  [[nodiscard]] const ShardContent& content() const { return content_; }

 private:
  Result<void> add_tokens(const SourceFile& file);
  Result<void> add_records(const SourceFile& file);
  Result<void> add_record(const std::string& path, Record& record);
  Result<void> add_piece(const Record& record);
  Result<void> end_pieces();
  Result<void> add_pairs(const SourceFile& file);
  Result<void> add_pair(const SourceFile& file, const Record& first, const Record& second);
  Result<void> add_read(const std::string& path, const Record& record, Read& read);
  Result<void> add_document(const std::string& path, const Record& record, std::string_view text);
  Result<void> end_document(std::uint64_t bytes);
  Result<void> skip(const std::string& path, const Record& record, const std::string& why);
  Result<void> skip_unread(const std::string& path, const Record& record, Error why);
  [[nodiscard]] Result<void> unless_stopped() const;

  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  const ShardPlan& plan_;
  ShardWriter& writer_;
  Encoder encoder_;
  ShardContent content_;
  ReadCleaner cleaner_;
  std::vector<Token> tokens_;
  // Of the document in progress.
  std::uint64_t bytes_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t unknown_ = 0;  ///< N, of a sequence in pieces
  std::unique_ptr<XXH3_state_t, FreeState> sequence_;
  bool broken_ = false;
  ShardFile now_;
};

}  // namespace prime::data
