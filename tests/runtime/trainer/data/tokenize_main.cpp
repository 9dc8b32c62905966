// Owns data-tokenize, for tests: `data-tokenize TOKENIZER` encodes each line of stdin, a JSON text, and prints its ids. Of a SentencePiece
// model, whose name ends with .model, it prints a map of the ids and of the text that they make; `data-tokenize TOKENIZER parts` takes
// lists of texts, the parts of a document.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/trainer/data/tokenizer.hpp"

int main(int argc, char** argv) {
  using namespace prime;
  using nlohmann::json;
  if (argc < 2) return 2;
  const std::string path = argv[1];
  const bool sentencepiece = path.ends_with(".model");
  manifest::TokenizerChoice choice;
  (sentencepiece ? choice.sentencepiece : choice.file) = path;
  const auto tokenizer = data::Tokenizer::open(choice, 1U << 20);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().detail.c_str());
    return 1;
  }
  data::Encoder encoder(*tokenizer);
  std::string line;
  std::vector<data::Token> tokens;
  while (std::getline(std::cin, line)) {
    tokens.clear();
    auto parts = json::parse(line);
    if (argc < 3) parts = json::array({parts});
    bool goes_on = false;
    for (const auto& part : parts) {
      if (const auto encoded = encoder.encode(part.get<std::string>(), tokens, goes_on); !encoded) {
        std::fprintf(stderr, "%s\n", encoded.error().detail.c_str());
        return 1;
      }
      goes_on = true;
    }
    const auto told = sentencepiece ? json{{"ids", tokens}, {"text", tokenizer->decode(tokens)}} : json(tokens);
    std::printf("%s\n", told.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  }
  return 0;
}
