// Owns the way of a record into a shard.
#include "runtime/trainer/data/shard_compiler.hpp"

#include <algorithm>

#include "runtime/trainer/data/file_walk.hpp"
#include "runtime/trainer/data/token_file.hpp"

namespace prime::data {
namespace {

/// Of a document whose pieces come one after the other.
std::uint64_t hash_on(std::uint64_t before, std::string_view text) { return XXH3_64bits_withSeed(text.data(), text.size(), before); }

/// Without what tells the two apart: "r7/1 length=90" is of the pair "r7".
std::string name_of_pair(std::string_view name) {
  name = name.substr(0, name.find_first_of(" \t"));
  const bool marked = name.size() > 2 && (name.ends_with('1') || name.ends_with('2')) &&
                      std::string_view{"/._"}.find(name[name.size() - 2]) != std::string_view::npos;
  return std::string{marked ? name.substr(0, name.size() - 2) : name};
}

bool cleans(const Source& source) { return source.format == DataFormat::Fasta || source.format == DataFormat::Fastq; }

}  // namespace

Result<void> ShardCompiler::unless_stopped() const {
  if (!plan_.stop.load(std::memory_order_relaxed)) return {};
  return fail(ErrorName::Interrupted, "the data is not compiled to its end");
}

Result<void> ShardCompiler::add(const SourceFile& file) {
  now_ = {file.name, 0, 0, 0};
  broken_ = false;
  hash_ = bytes_ = unknown_ = 0;  // of a file that broke off
  const auto format = plan_.source.format;
  const bool tokens = format == DataFormat::Tokens || format == DataFormat::Tokens32;
  auto outcome = tokens ? add_tokens(file) : plan_.source.collapse == Collapse::Off ? add_records(file) : add_pairs(file);
  if (!outcome && outcome.error().name == ErrorName::DataUnreadable && plan_.source.on_error == OnError::Skip) {
    // What cannot be read behind is lost with the record in progress; what was read before stays. That weighs more than any record, and is
    // why records before it may be broken.
    PRIME_CHECK(writer_.drop_document());
    ++content_.counts.skipped;
    content_.first_skipped = outcome.error().detail + "; nothing behind that is used";
    outcome = Result<void>{};
  }
  PRIME_CHECK(outcome);
  // A text is its file: its number is that of its document.
  if (format == DataFormat::Text && now_.documents == 0) {
    PRIME_CHECK(writer_.end_document(0));
    now_.documents = 1;
  }
  content_.files.push_back(now_);
  return {};
}

Result<void> ShardCompiler::skip(const std::string& path, const Record& record, const std::string& why) {
  if (plan_.source.on_error == OnError::Stop) {
    auto error = broken_record(path, record, why, &plan_.stop);
    error.detail += " (`on_error: skip` passes over and counts such records)";
    return fail(std::move(error));
  }
  ++content_.counts.skipped;
  if (content_.first_skipped.empty()) content_.first_skipped = place_of(path, record) + ": " + why;
  return {};
}

/// What no record is to blame for ends the work.
Result<void> ShardCompiler::skip_unread(const std::string& path, const Record& record, Error why) {
  if (why.name != ErrorName::DataUnreadable) return fail(std::move(why));
  return skip(path, record, why.detail);
}

Result<void> ShardCompiler::end_document(std::uint64_t bytes) {
  if (const auto end = plan_.tokenizer.end_of_document()) PRIME_CHECK(writer_.add(std::span{&*end, 1}));
  PRIME_CHECK(writer_.end_document(hash_));
  now_.bytes += bytes;
  ++now_.documents;
  now_.mark = hash_on(now_.mark, {reinterpret_cast<const char*>(&hash_), sizeof hash_});
  content_.counts.bytes += bytes;
  ++content_.counts.documents;
  hash_ = bytes_ = 0;
  return {};
}

Result<void> ShardCompiler::add_document(const std::string& path, const Record& record, std::string_view text) {
  tokens_.clear();
  if (auto encoded = encoder_.encode(text, tokens_); !encoded) return skip_unread(path, record, std::move(encoded).error());
  PRIME_CHECK(writer_.add(tokens_));
  hash_ = hash_on(0, text);
  return end_document(text.size());
}

Result<void> ShardCompiler::add_record(const std::string& path, Record& record) {
  const bool reads = cleans(plan_.source);
  if (!record.broken.empty()) {
    broken_ = false;
    hash_ = bytes_ = unknown_ = 0;
    PRIME_CHECK(writer_.drop_document());
    return skip(path, record, record.broken);
  }
  if (!record.piece && !reads) return record.text.empty() ? Result<void>{} : add_document(path, record, record.text);
  if (!record.piece) {
    Read read{std::string{record.text}, std::string{record.quality}};
    cleaner_.trim(read);
    return add_read(path, record, read);
  }
  if (auto added = broken_ ? Result<void>{} : add_piece(record); !added) {
    broken_ = true;
    PRIME_CHECK(writer_.drop_document());
    PRIME_CHECK(skip_unread(path, record, std::move(added).error()));
  }
  return record.more ? Result<void>{} : end_pieces();
}

Result<void> ShardCompiler::add_piece(const Record& record) {
  if (cleans(plan_.source) && !plan_.source.adapter.empty())
    return fail(ErrorName::DataUnreadable, "is longer than " + std::to_string(PIECE_BYTES / MIB) + " MiB, and `adapter` is for reads");
  tokens_.clear();
  PRIME_CHECK(encoder_.encode(record.text, tokens_, bytes_ > 0));
  PRIME_CHECK(writer_.add(tokens_));
  hash_ = hash_on(hash_, record.text);
  bytes_ += record.text.size();
  if (!cleans(plan_.source)) return {};
  unknown_ += static_cast<std::uint64_t>(std::ranges::count(record.text, 'N'));
  // Where a sequence is cut depends on the lengths of its lines, and which sequences are equal does not.
  if (!sequence_) sequence_.reset(XXH3_createState());
  if (bytes_ == record.text.size()) XXH3_128bits_reset(sequence_.get());
  XXH3_128bits_update(sequence_.get(), record.text.data(), record.text.size());
  return {};
}

/// Of a document that came in pieces.
Result<void> ShardCompiler::end_pieces() {
  bool keeps = !std::exchange(broken_, false);
  if (keeps && cleans(plan_.source)) {
    const auto hash = XXH3_128bits_digest(sequence_.get());
    PRIME_TRY(keeps, cleaner_.keeps(bytes_, unknown_, Digest{.high = hash.high64, .low = hash.low64}));
  }
  unknown_ = 0;
  if (keeps) return end_document(bytes_);
  hash_ = bytes_ = 0;
  return writer_.drop_document();
}

Result<void> ShardCompiler::add_records(const SourceFile& file) {
  PRIME_TRY(const auto reader, open_records(file.path, {plan_.source.format, plan_.source.field, plan_.per_file_bytes}));
  Record record;
  for (bool first = true;; first = false) {
    PRIME_CHECK(unless_stopped());
    PRIME_TRY(const bool more, reader->next(record));
    if (!more) return {};
    // What no walk could see, since it was packed.
    if (first && plan_.source.format == DataFormat::Text) {
      const auto kind = binary_kind(record.text.substr(0, HEAD_BYTES));
      if (!kind.empty()) return skip(file.path, record, "is " + kind + ", and no text");
    }
    PRIME_CHECK(add_record(file.path, record));
  }
}

Result<void> ShardCompiler::add_read(const std::string& path, const Record& record, Read& read) {
  PRIME_TRY(const bool keeps, cleaner_.keeps(read.bases));
  return keeps ? add_document(path, record, read.bases) : Result<void>{};
}

Result<void> ShardCompiler::add_pair(const SourceFile& file, const Record& first, const Record& second) {
  Read forward{std::string{first.text}, std::string{first.quality}}, reverse{std::string{second.text}, std::string{second.quality}};
  const auto& mates = file.mate ? *file.mate : file.path;
  if (!first.broken.empty()) return skip(file.path, first, first.broken);
  if (!second.broken.empty()) return skip(mates, second, second.broken);
  cleaner_.trim(forward);
  cleaner_.trim(reverse);
  if (auto one = collapse_pair(forward, reverse); !one.empty()) {
    ++content_.counts.collapsed;
    forward.bases = std::move(one);
    return add_read(file.path, first, forward);
  }
  PRIME_CHECK(add_read(file.path, first, forward));
  return add_read(mates, second, reverse);
}

Result<void> ShardCompiler::add_pairs(const SourceFile& file) {
  PRIME_TRY(const auto firsts, open_fastq(file.path));
  std::unique_ptr<RecordReader> of_mates;
  if (file.mate) {
    PRIME_TRY(of_mates, open_fastq(*file.mate));
  }
  auto& seconds = file.mate ? *of_mates : *firsts;
  Record first, second;
  std::string bases, quality, name;
  while (true) {
    PRIME_CHECK(unless_stopped());
    PRIME_TRY(const bool one, firsts->next(first));
    // The same reader uses its memory again.
    bases = first.text;
    quality = first.quality;
    name = first.name;
    first.text = bases;
    first.quality = quality;
    first.name = name;
    if (!one && !file.mate) return {};
    PRIME_TRY(const bool other, seconds.next(second));
    if (!one && !other) return {};
    if (one != other)
      return fail(broken_record(one || !file.mate ? file.path : *file.mate, one ? first : second,
                                "has no other read of its pair" + (file.mate ? " in " + (one ? *file.mate : file.path) : std::string{})));
    if (first.broken.empty() && second.broken.empty() && name_of_pair(first.name) != name_of_pair(second.name))
      return fail(broken_record(file.mate ? *file.mate : file.path, second,
                                "is `" + name_of_pair(second.name) + "`, and stands where the other read of `" + name_of_pair(first.name) +
                                    "` belongs: `collapse` needs both in the same order"));
    PRIME_CHECK(add_pair(file, first, second));
  }
}

Result<void> ShardCompiler::add_tokens(const SourceFile& file) {
  std::uint64_t bytes = 0;
  return read_token_file(file.path, plan_.source.format, plan_.tokenizer.end_of_document(),
                         [&](std::span<const Token> tokens, bool ends) -> Result<void> {
                           PRIME_CHECK(unless_stopped());
                           PRIME_CHECK(writer_.add(tokens));
                           const std::string_view text(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
                           hash_ = hash_on(hash_, text);
                           const auto decoded = plan_.tokenizer.decode(tokens).size();
                           bytes += decoded;
                           if (!ends) return {};
                           PRIME_CHECK(writer_.end_document(hash_));
                           now_.mark = hash_on(now_.mark, {reinterpret_cast<const char*>(&hash_), sizeof hash_});
                           now_.bytes += bytes;
                           ++now_.documents;
                           content_.counts.bytes += bytes;
                           ++content_.counts.documents;
                           hash_ = bytes = 0;
                           return {};
                         });
}

}  // namespace prime::data
