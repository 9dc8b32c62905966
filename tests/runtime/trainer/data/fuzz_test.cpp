// Owns throwing damaged input at each parser of data: none may crash, read where it should not, or go on for ever. PRIME_FUZZ=N makes N of
// each instead of a few thousand.
#include <cstdlib>
#include <random>

#include "runtime/trainer/data/record_reader.hpp"
#include "runtime/trainer/data/token_file.hpp"
#include "tests/runtime/trainer/data/support.hpp"

BOOST_AUTO_TEST_SUITE(data_fuzz)

namespace {

using namespace prime;
using namespace prime::data;
using namespace prime::data::test;

using Random = std::mt19937;

int rounds() {
  const char* wanted = std::getenv("PRIME_FUZZ");
  return wanted != nullptr ? std::atoi(wanted) : 1000;
}

/// What breaks files: other bytes, missing ones, some twice, and signs of the format in the wrong place.
std::string damaged(std::string text, Random& random) {
  static const std::vector<std::string> SIGNS{"\n",   "\r\n", "@",    ">",    "+",       "{",       "}", "\"", "\\", std::string(1, '\0'),
                                              "\xff", "N",    "\n\n", "[[[[", "\\ud800", "PRIMETOK"};
  for (auto count = 1 + random() % 4; count > 0 && !text.empty(); --count) {
    const auto at = random() % text.size();
    switch (random() % 5) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.erase(at, random() % 20); break;
      case 2: text.insert(at, SIGNS[random() % SIGNS.size()]); break;
      case 3: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
      default: text.resize(at);
    }
  }
  return text;
}

void read_all(const std::string& path, DataFormat format) {
  auto reader = open_records(path, {format, "text", 100'000});
  if (!reader) return;
  Record record;
  for (int records = 0; records < 100'000; ++records) {
    const auto more = (*reader)->next(record);
    if (!more || !*more) return;
    if (format == DataFormat::Fastq && record.broken.empty()) BOOST_REQUIRE(record.text.size() == record.quality.size());
  }
  BOOST_FAIL("it goes on for ever");
}

BOOST_AUTO_TEST_CASE(no_reader_of_records_falls_over) {
  const std::vector<std::pair<DataFormat, std::string>> seeds{
      {DataFormat::Text, "one line\nand another\n"},
      {DataFormat::Jsonl, "{\"id\": 1, \"text\": \"a \\u00e9 b\", \"meta\": {\"x\": [1, 2.5e3, null, true]}}\n{\"text\": \"two\"}\n"},
      {DataFormat::Fasta, ">a b\nACGTN\nacgt\n>b\n>c\nRYK\n"},
      {DataFormat::Fastq, "@a\nACGT\n+\nIIII\n@b x\nGGNN\n+b\n@+>I\n"}};
  const Folder folder;
  Random random(11);
  for (int round = 0; round < rounds(); ++round)
    for (const auto& [format, seed] : seeds) {
      auto text = damaged(seed, random);
      if (const auto packing = random() % 3; packing > 0) {
        text = packing == 1 ? gzipped(text) : zstd_packed(text);
        if (random() % 2 == 0) text = damaged(text, random);
      }
      read_all(folder.write("f", text), format);
    }
}

BOOST_AUTO_TEST_CASE(no_reader_of_tokens_falls_over) {
  const Folder folder;
  const auto corpus =
      data::test::open(folder, {source_of(folder.write("a", "{\"text\": \"some text\"}\n{\"text\": \"more\"}\n"), DataFormat::Jsonl)})
          .value();
  std::ifstream shard(corpus.shards()[0].path(), std::ios::binary);
  const std::string own(std::istreambuf_iterator<char>(shard), {});
  std::vector<std::int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = 3;
  const std::string headed(reinterpret_cast<const char*>(header.data()), 1024);
  Random random(12);
  for (int round = 0; round < rounds(); ++round)
    for (const auto& seed : {own, headed + "aabbcc", std::string{"aabbccdd"}}) {
      const auto path = folder.write("f", damaged(seed, random));
      std::uint64_t count = 0;
      const auto read = read_token_file(path, random() % 2 == 0 ? DataFormat::Tokens : DataFormat::Tokens32, 256,
                                        [&](std::span<const Token> tokens, bool) -> Result<void> {
                                          count += tokens.size();
                                          return {};
                                        });
      BOOST_REQUIRE(count < 10'000U);
      if (!read) BOOST_REQUIRE((read.error().name == ErrorName::DataUnreadable));
    }
}

BOOST_AUTO_TEST_CASE(no_tokenizer_falls_over) {
  const std::string seed =
      R"({"added_tokens": [{"id": 6, "content": "<eos>", "special": true}], "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "\\p{L}+|\\s"}}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ċ": 4, "aba": 5}, "merges": ["a b", "ab a"]}})";
  Random random(13);
  for (int round = 0; round < rounds(); ++round) {
    const auto tokenizer = Tokenizer::parse(damaged(seed, random), "t");
    if (!tokenizer) {
      BOOST_REQUIRE((tokenizer.error().name == ErrorName::DataUnreadable));
      continue;
    }
    std::vector<Token> tokens;
    const auto why = Encoder(*tokenizer).encode(damaged("abab ab<eos>\nb", random), tokens);
    for (const auto token : tokens) BOOST_REQUIRE(token < tokenizer->size());
    if (why.empty()) BOOST_REQUIRE(tokenizer->decode(tokens).size() <= 1000U * (tokens.size() + 1));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
