// Owns a SentencePiece model in memory: what its pieces are and what text they make. Which pieces a text becomes is its library's to say
// (sentence_encoder).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "messages/result.hpp"
#include "runtime/trainer/data/token.hpp"

namespace prime::data {

class SentencePieces {
 public:
  /// Of the file's content, a protocol buffer. DataUnreadable with `name` where it is none, or has no pieces.
  static Result<std::shared_ptr<const SentencePieces>> parse(std::string model, const std::string& name);

  /// The file as it is.
  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(pieces_.size()); }
  /// Of the text that the model has for it: "</s>", "▁the", "<0x0A>".
  [[nodiscard]] std::optional<Token> id_of(std::string_view piece) const;
  /// The piece that the model itself lets play this part ("bos", "eos", "pad", "unk"); none where it has not got it.
  [[nodiscard]] std::optional<std::string> special(std::string_view role) const;
  /// As its library does, but for the pieces that mark beginnings and ends: they are shown, and what follows one begins anew.
  [[nodiscard]] std::string decode(std::span<const Token> tokens) const;

 private:
  friend class ModelReading;
  /// As the format numbers them.
  enum class Kind : std::uint8_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };
  struct Piece {
    std::string text;
    Kind kind = Kind::Normal;
  };

  std::string model_;
  std::vector<Piece> pieces_;  ///< by id
  std::unordered_map<std::string_view, Token> ids_;
  std::string bos_ = "<s>", eos_ = "</s>", pad_ = "<pad>", unknown_ = "<unk>";
  std::string unknown_text_ = " \u2047 ";
  bool adds_space_ = true;      ///< in front of a text, which is none of it
  bool removes_spaces_ = true;  ///< at its beginning and its end, and all but one of several
};

}  // namespace prime::data
