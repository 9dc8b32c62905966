// Owns asking SentencePiece's own library, Python's `sentencepiece` in a process of its own, which pieces a text becomes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/trainer/data/python_process.hpp"
#include "runtime/trainer/data/sentence_pieces.hpp"

namespace prime::data {

class SentenceEncoder {
 public:
  /// `name`: of the model's file, for people.
  SentenceEncoder(std::shared_ptr<const SentencePieces> pieces, std::string name);

  /// Adds the ids of `text`, which is UTF-8. The process is started for the first one. `goes_on`: `text` is not the beginning of its
  /// document, and was cut off before a line's end that follows no space. DataUnreadable: of this text nothing can be made, or of the
  /// model; ProcessFailed: nor of any other.
  Result<void> encode(std::string_view text, bool goes_on, std::vector<Token>& tokens);

 private:
  Result<void> start();
  Result<void> encode_stretch(std::string_view text, bool goes_on, std::vector<Token>& tokens);
  Result<std::uint32_t> ask(char what, std::string_view text, char answer);

  std::shared_ptr<const SentencePieces> pieces_;
  std::string name_;
  std::unique_ptr<PythonProcess> python_;  ///< once it has the model
};

}  // namespace prime::data
