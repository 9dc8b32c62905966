// Owns a file of tokens with the documents that they make up. It is complete at its name, with the digest of what it holds, or not there.
//
// "PRIMETOK", version, bytes of a token (1, 2, 4), tokens, documents, bytes of the footer, digest of tokens and index: 64 bytes, little-
// endian; then the tokens; of each document where it ends and a hash of its text, 8 bytes each; then the footer, JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/store/file_io.hpp"
#include "runtime/trainer/data/source.hpp"
#include "runtime/trainer/data/tokenizer.hpp"

namespace prime::data {

inline constexpr std::string_view SHARD_MAGIC = "PRIMETOK";

/// One file of the source, as the shard has it.
struct ShardFile {
  std::string name;         ///< below the source's root
  std::uint64_t bytes = 0;  ///< of its documents
  std::uint64_t documents = 0;
  std::uint64_t mark = 0;  ///< a hash of what it holds
};

struct ShardContent {
  std::vector<ShardFile> files;
  Counts counts;
  Token largest = 0;          ///< id
  std::string first_skipped;  ///< "reads.fq:17: has no line `+` …"; empty where nothing was skipped
};

struct ShardDocument {
  std::uint64_t end = 0;   ///< in tokens of the shard
  std::uint64_t hash = 0;  ///< of its text
};

/// Tokens as bytes of 1, 2 or 4 each.
class ShardWriter {
 public:
  /// Writes at `path`, which a reader does not know yet.
  static Result<ShardWriter> begin(const std::filesystem::path& path, store::Descriptor file, std::uint32_t token_bytes);

  Result<void> add(std::span<const Token> tokens);
  Result<void> end_document(std::uint64_t hash);
  /// What was added since the last document ended was in vain.
  Result<void> drop_document();
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  /// Everything is on the disk when this returns.
  Result<void> finish(const ShardContent& content);

 private:
  ShardWriter(std::filesystem::path path, store::Descriptor file, std::uint32_t token_bytes)
      : path_(std::move(path)), file_(std::move(file)), token_bytes_(token_bytes) {}
  Result<void> flush();
  Result<void> write(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  store::Descriptor file_;
  std::uint32_t token_bytes_;
  std::vector<std::byte> buffer_;
  std::uint64_t tokens_ = 0, kept_ = 0;
  Token largest_ = 0;
  std::vector<ShardDocument> documents_;
};

class TokenShard {
 public:
  /// Reads what the header and the footer say; StorageFailed where it is none, or not whole.
  static Result<TokenShard> open(const std::filesystem::path& path);
  /// Reads all of it, and compares with the digest.
  [[nodiscard]] Result<void> verify() const;

  [[nodiscard]] Result<void> read(std::uint64_t first, std::span<Token> into) const;
  [[nodiscard]] Result<std::vector<ShardDocument>> documents() const;

  [[nodiscard]] const ShardContent& content() const { return content_; }
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] std::uint64_t document_count() const { return documents_; }
  [[nodiscard]] Digest digest() const { return digest_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::uint32_t token_bytes_ = 0;
  std::uint64_t tokens_ = 0, documents_ = 0;
  Digest digest_;
  ShardContent content_;
};

}  // namespace prime::data
