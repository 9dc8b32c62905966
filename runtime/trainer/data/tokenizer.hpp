// Owns what text becomes: bytes, the ids of a byte-pair encoding as Hugging Face's tokenizer.json describes it, or those of a SentencePiece
// model. Of the second, what cannot be carried out exactly is refused by name; the third is carried out by its own library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/data/token.hpp"

namespace prime::data {

struct BytePairs;
class SentencePieces;

/// Does not change once it is there: threads share it.
class Tokenizer {
 public:
  /// `vocab`: ids that the model has. DataUnreadable where the file cannot be read or asks for what is not done here.
  static Result<Tokenizer> open(const manifest::TokenizerChoice& choice, std::uint32_t vocab);
  static Result<Tokenizer> parse(std::string_view json, const std::string& name, const std::string& end_of_document = {});
  /// Of a SentencePiece model's file, which documents end by its own token for that, if it has one.
  static Result<Tokenizer> parse_sentencepiece(std::string model, const std::string& name, const std::string& end_of_document = {});
  static Tokenizer bytes(bool with_end);

  [[nodiscard]] bool is_bytes() const { return pairs_ == nullptr && sentence_ == nullptr; }
  [[nodiscard]] bool is_sentencepiece() const { return sentence_ != nullptr; }
  /// One more than the largest id.
  [[nodiscard]] std::uint32_t size() const { return size_; }
  /// Ids that text becomes: with `bytes`, not the one that ends a document.
  [[nodiscard]] std::uint32_t text_ids() const { return is_bytes() ? BYTE_VALUES : size_; }
  /// What stands behind each document; absent: samples of one document end with it.
  [[nodiscard]] std::optional<Token> end_of_document() const { return end_; }
  /// Of a token that stands for itself, as `[EOS]`, or that a text can become.
  [[nodiscard]] std::optional<Token> id_of(std::string_view text) const;
  /// The text of the token that the tokenizer itself lets play a part ("bos", "pad", "unk"); none where it says nothing of parts.
  [[nodiscard]] std::optional<std::string> special(std::string_view role) const;
  /// Name and content of what Hugging Face's libraries read: the file itself, and of `bytes` one that gives the same ids.
  [[nodiscard]] std::pair<std::string, std::string> file() const;
  /// Of what makes ids differ.
  [[nodiscard]] Digest digest() const { return digest_; }
  [[nodiscard]] std::string decode(std::span<const Token> tokens) const;

 private:
  friend class Encoder;
  Result<void> choose_end(const std::string& wanted);

  std::shared_ptr<const BytePairs> pairs_;
  std::shared_ptr<const std::string> json_;  ///< of pairs
  std::shared_ptr<const SentencePieces> sentence_;
  std::string name_;  ///< of a SentencePiece model
  std::uint32_t size_ = BYTE_VALUES;
  std::optional<Token> end_;
  Digest digest_;
};

/// What ends a document where tokens are bytes.
inline constexpr std::string_view END_OF_BYTES = "<|endoftext|>";
/// The tokenizer `bytes` as a byte-level encoding without merges.
std::string bytes_tokenizer_json(bool with_end);

/// One thread's use of a tokenizer, with what it remembers.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;
  ~Encoder();

  /// Adds the ids of `text`, without any that mark its beginning or end. `goes_on`: of a document whose first part was encoded before.
  /// DataUnreadable with what is wrong with this text ("byte 7 of it is no UTF-8"); ProcessFailed where none can be encoded.
  Result<void> encode(std::string_view text, std::vector<Token>& tokens, bool goes_on = false);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace prime::data
