// Owns data-tokenize, for tests: `data-tokenize TOKENIZER` encodes each line of stdin, a JSON text, and prints its ids.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/trainer/data/tokenizer.hpp"

int main(int argc, char** argv) {
  using namespace prime;
  if (argc < 2) return 2;
  const auto tokenizer = data::Tokenizer::open({argv[1], {}}, 1U << 20);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().detail.c_str());
    return 1;
  }
  data::Encoder encoder(*tokenizer);
  std::string line;
  std::vector<data::Token> tokens;
  while (std::getline(std::cin, line)) {
    tokens.clear();
    if (const auto why = encoder.encode(nlohmann::json::parse(line).get<std::string>(), tokens); !why.empty()) {
      std::fprintf(stderr, "%s\n", why.c_str());
      return 1;
    }
    std::printf("%s\n", nlohmann::json(tokens).dump().c_str());
  }
  return 0;
}
