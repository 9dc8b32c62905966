// Owns cutting text into words by a regular expression with Unicode's classes, before a byte-pair encoding.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace prime::data {

/// The first byte of `text` that is no UTF-8; its size where all is.
std::size_t valid_utf8(std::string_view text);

class Splitter {
 public:
  /// What matches is a word of its own, or is dropped, and so is what lies between two matches.
  struct Keeps {
    bool matches = true;
    bool gaps = true;
  };
  static Result<Splitter> of(const std::string& expression, Keeps keeps);

  /// GPT-2's own expression, and those of Hugging Face's `Whitespace` and `WhitespaceSplit`.
  static Splitter gpt2();
  static Splitter whitespace();
  static Splitter whitespace_split();

  /// `text` is valid UTF-8. False where the expression asks for more steps or memory than a match may take.
  [[nodiscard]] bool split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Compiled;
  Splitter(std::shared_ptr<const Compiled> compiled, Keeps keeps) : compiled_(std::move(compiled)), keeps_(keeps) {}
  std::shared_ptr<const Compiled> compiled_;
  Keeps keeps_;
};

}  // namespace prime::data
