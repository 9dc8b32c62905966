// Owns throwing damaged input at each parser of data: none may crash, read where it should not, or go on for ever. PRIME_FUZZ=N makes N of
// each instead of a few thousand.
#include <cstdlib>
#include <cstring>
#include <random>
#include <xxhash.h>

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

/// The bytes of a shard of two documents.
std::string shard_in(const Folder& folder) {
  const auto corpus =
      data::test::open(folder, {source_of(folder.write("a", "{\"text\": \"some text\"}\n{\"text\": \"more\"}\n"), DataFormat::Jsonl)})
          .value();
  std::ifstream shard(corpus.shards()[0].path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(shard), {}};
}

/// A shard whose parts do not fit each other, but whose lengths, and mostly its digest, are those that its header says: what only damaged
/// bytes seldom get past.
std::string resigned(const std::string& own, Random& random) {
  constexpr std::size_t HEADER = 64, INDEX_ROW = 16;
  const auto number_at = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, own.data() + at, sizeof value);
    return value;
  };
  const auto token_bytes = number_at(16) * static_cast<unsigned char>(own[12]), index_bytes = number_at(24) * INDEX_ROW;
  auto held = own.substr(HEADER, token_bytes), index = own.substr(HEADER + token_bytes, index_bytes);
  auto footer = own.substr(HEADER + token_bytes + index_bytes);
  static const std::vector<std::string> VALUES{"null",       "-1",   "1.5", "\"x\"", "[]", "{}", "true", "18446744073709551616",
                                               "4294967296", "1e400"};
  const auto width = std::array<std::uint32_t, 4>{1, 2, 4, static_cast<std::uint32_t>(random() % 260)}[random() % 4];
  held.resize(random() % 3 == 0 ? random() % 40 : held.size(), 'x');
  held.resize(held.size() / std::max(width, 1U) * std::max(width, 1U));
  if (random() % 2 == 0) index = damaged(index, random);
  index.resize(index.size() / INDEX_ROW * INDEX_ROW);
  if (random() % 2 == 0) {
    const auto colon = footer.find_first_of(":,", random() % footer.size());
    const auto end = colon == std::string::npos ? colon : footer.find_first_of(",}]", colon + 1);
    if (end != std::string::npos) footer.replace(colon + 1, end - colon - 1, VALUES[random() % VALUES.size()]);
  }
  const auto covered = held + index;
  const auto hash = XXH3_128bits(covered.data(), covered.size());
  auto header = own.substr(0, HEADER);
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t size = 8) { std::memcpy(header.data() + at, &value, size); };
  put(12, width, 4);
  put(16, held.size() / std::max(width, 1U));
  put(24, index.size() / INDEX_ROW);
  put(32, footer.size());
  if (random() % 8 != 0) put(40, hash.high64), put(48, hash.low64);
  if (random() % 8 == 0) put(16 + 8 * (random() % 3), ~std::uint64_t{0} >> (random() % 64));
  return header + covered + footer;
}

BOOST_AUTO_TEST_CASE(no_reader_of_shards_falls_over) {
  const Folder folder;
  const auto own = shard_in(folder);
  Random random(15);
  int whole = 0;
  for (int round = 0; round < rounds(); ++round) {
    const auto path = folder.write("f", round == 0 ? own : resigned(own, random));
    std::uint64_t count = 0;
    const auto read = read_token_file(path, DataFormat::Tokens, 256, [&](std::span<const Token> tokens, bool) -> Result<void> {
      count += tokens.size();
      return {};
    });
    BOOST_REQUIRE(count < 10'000U);
    if (!read) BOOST_REQUIRE((read.error().name == ErrorName::DataUnreadable));
    whole += read ? 1 : 0;
    const auto width = token_bytes_of(path, DataFormat::Tokens);
    if (width) BOOST_REQUIRE((*width == 1 || *width == 2 || *width == 4));
    const auto shard = TokenShard::open(path);
    if (!shard) continue;
    const auto documents = shard->documents();
    std::vector<Token> tokens(shard->tokens());
    BOOST_REQUIRE(shard->read(0, tokens));
    if (documents && !documents->empty()) BOOST_REQUIRE(documents->back().end <= tokens.size());
  }
  BOOST_TEST(whole > rounds() / 10);
}

BOOST_AUTO_TEST_CASE(no_reader_of_tokens_falls_over) {
  const Folder folder;
  const auto own = shard_in(folder);
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
    const auto encoded = Encoder(*tokenizer).encode(damaged("abab ab<eos>\nb", random), tokens);
    for (const auto token : tokens) BOOST_REQUIRE(token < tokenizer->size());
    if (encoded) BOOST_REQUIRE(tokenizer->decode(tokens).size() <= 1000U * (tokens.size() + 1));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
