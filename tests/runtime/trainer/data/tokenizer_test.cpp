// Owns the checks of tokenizers that need no other program: what is refused by name, and the ways of merging against each other. Ids are
// compared with Hugging Face's in tokenizer_test.py.
#include "runtime/trainer/data/tokenizer.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "runtime/trainer/data/pair_training.hpp"
#include "runtime/trainer/data/splitting.hpp"
#include "tests/runtime/trainer/data/support.hpp"

BOOST_AUTO_TEST_SUITE(data_tokenizer)

namespace {

using namespace prime;
using namespace prime::data;
using namespace prime::data::test;

std::vector<Token> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  const auto done = Encoder(tokenizer).encode(text, tokens);
  BOOST_REQUIRE_MESSAGE(done, done.error().detail);
  return tokens;
}

const std::string SMALL = R"({"added_tokens": [{"id": 0, "content": "[EOS]", "special": true}], "pre_tokenizer": {"type": "Whitespace"},
  "model": {"type": "BPE", "unk_token": "?", "vocab": {"[EOS]": 0, "?": 1, "a": 2, "b": 3, "ab": 4, "aba": 5}, "merges": ["a b", ["ab", "a"]]}})";

BOOST_AUTO_TEST_CASE(pairs_are_merged_by_rank_and_documents_end_with_the_known_token) {
  const auto tokenizer = Tokenizer::parse(SMALL, "t.json").value();
  BOOST_TEST(encoded(tokenizer, "aba abab aab") == (std::vector<Token>{5, 4, 4, 2, 4}), boost::test_tools::per_element());
  BOOST_TEST(encoded(tokenizer, "xa[EOS]b") == (std::vector<Token>{1, 2, 0, 3}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer.end_of_document().value() == 0U);
  BOOST_TEST(tokenizer.size() == 6U);
  BOOST_TEST(tokenizer.decode(std::vector<Token>{5, 0, 3}) == "aba[EOS]b");
  BOOST_TEST(Tokenizer::parse(SMALL, "t.json", "ab")->end_of_document().value() == 4U);
  BOOST_TEST(Tokenizer::parse(SMALL, "t.json", "no").error().detail == "t.json: has no token `no` (`data.tokenizer.end_of_document`)");
  std::vector<Token> tokens;
  BOOST_TEST(Encoder(tokenizer).encode("ab\xff", tokens).error().detail == "byte 2 of it is no UTF-8");
}

BOOST_AUTO_TEST_CASE(what_is_not_done_here_is_refused_by_name) {
  const auto said = [](const std::string& what, const std::string& instead) {
    auto text = SMALL;
    text.replace(text.find(what), what.size(), instead);
    const auto tokenizer = Tokenizer::parse(text, "t");
    return tokenizer ? std::string{} : tokenizer.error().detail.substr(0, tokenizer.error().detail.find(": convert the data"));
  };
  const std::string done = "\"BPE\"", way = "{\"type\": \"Whitespace\"}";
  BOOST_TEST(said(done, "\"WordPiece\"") == "t: its model `WordPiece` is not done here");
  BOOST_TEST(said(done, "\"Unigram\"") == "t: its model `Unigram` is not done here");
  BOOST_TEST(said(done, "\"BPE\", \"dropout\": 0.1") == "t: its option `dropout` of the model is not done here");
  BOOST_TEST(said(done, "\"BPE\", \"byte_fallback\": true") == "t: its option `byte_fallback` of the model is not done here");
  BOOST_TEST(said(way, "{\"type\": \"Metaspace\"}") == "t: its pre-tokenizer `Metaspace` is not done here");
  BOOST_TEST(said(way, "{\"type\": \"ByteLevel\"}") ==
             "t: its option `add_prefix_space` of the pre-tokenizer `ByteLevel` is not done here");
  BOOST_TEST(said(way, "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}]}") ==
             "t: its pre-tokenizer `Digits` is not done here");
  BOOST_TEST(said(way, "{\"type\": \"Split\", \"behavior\": \"MergedWithNext\"}") ==
             "t: its pre-tokenizer `Split` with the behavior `MergedWithNext` is not done here");
  BOOST_TEST(said(way, "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"(\"}}") ==
             "t: the regular expression `(` goes wrong at its character 1");
  BOOST_TEST(said("\"pre_tokenizer\"", "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\"") ==
             "t: its normalizer `NFC` is not done here");
  BOOST_TEST(said("\"special\": true", "\"lstrip\": true") == "t: its option `lstrip` of the added token `[EOS]` is not done here");
  BOOST_TEST(said("\"a b\"", "\"a c\"") == "t: its merge 1 names a token that its `vocab` has not");
  BOOST_TEST(said("\"a b\"", "\"a\"") == "t: its merge 1 is no pair");
  BOOST_TEST(said("\"merges\"", "\"merge\"") == "t: its model has no `merges`");
  BOOST_TEST(said("\"aba\": 5", "\"aba\": \"5\"") == "t: its token `aba` has no id");
  for (const auto* id : {"-5", "5.0", "18446744073709551616"})
    BOOST_TEST(said("\"aba\": 5", std::string{"\"aba\": "} + id).find("and ids are whole numbers below 16777216") != std::string::npos, id);
  BOOST_TEST(said("\"aba\": 5", "\"\": 4") == "t: its tokens `` and `ab` have the same id, 4");
  BOOST_TEST(said("[{\"id\"", "[{\"id\": 7, \"content\": \"[EOS]\"}, {\"id\"") == "t: its token `[EOS]` has two ids, 7 and 0");
  BOOST_TEST(said("\"aba\": 5", "\"aba\": 4294967301") ==
             "t: its token `aba` has the id 4294967301, and ids are whole numbers below 16777216");
  BOOST_TEST(said("\"id\": 0", "\"id\": 4294967296") ==
             "t: its token `[EOS]` has the id 4294967296, and ids are whole numbers below 16777216");
  BOOST_TEST(said("\"aba\": 5", "\"aba\": 4") == "t: its tokens `ab` and `aba` have the same id, 4");
  BOOST_TEST(said("\"id\": 0", "\"id\": 4").starts_with("t: its token"));
  BOOST_TEST(said("\"[EOS]\": 0", "\"[EOS]\": 6") == "t: its token `[EOS]` has two ids, 0 and 6");
  BOOST_TEST(said("{\"added", "\"added") == "t: is no JSON");
}

BOOST_AUTO_TEST_CASE(utf8_is_what_unicode_says) {
  for (const auto* good :
       {"", "abc", "h\xc3\xa9llo world, long enough", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xee\x80\x80"})
    BOOST_TEST(valid_utf8(good) == std::string_view(good).size(), good);
  for (const auto* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xe2\x82", "\xe2\x82x"}) {
    BOOST_TEST(valid_utf8(bad) == 0U);
    BOOST_TEST(valid_utf8("long enough " + std::string{bad}) == 12U);
  }
}

/// The definition, word by word: the pair that is there most often, of equal ones that of the lowest ids.
std::vector<data::Merge> merges_by_counting(std::vector<std::vector<Token>> words, const std::vector<std::uint64_t>& counts, Token next,
                                            std::size_t most) {
  std::vector<data::Merge> merges;
  while (merges.size() < most) {
    std::map<std::pair<Token, Token>, std::uint64_t> pairs;
    for (std::size_t w = 0; w < words.size(); ++w)
      for (std::size_t i = 0; i + 1 < words[w].size(); ++i) pairs[{words[w][i], words[w][i + 1]}] += counts[w];
    if (pairs.empty()) break;
    const auto best = std::ranges::max_element(pairs, {}, [](const auto& pair) { return pair.second; })->first;
    for (auto& word : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i] == best.first && word[i + 1] == best.second)
          word[i] = next, word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    merges.push_back({best.first, best.second});
    ++next;
  }
  return merges;
}

BOOST_AUTO_TEST_CASE(merges_are_learned_as_they_are_defined) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<Token>> words(1 + random() % 20);
    std::vector<std::uint64_t> counts;
    for (auto& word : words) {
      word.resize(random() % 30);
      for (auto& token : word) token = static_cast<Token>(random() % 3);
      counts.push_back(1 + random() % 5);
    }
    BOOST_TEST((learn_merges(words, counts, 3, 40).value() == merges_by_counting(words, counts, 3, 40)), "round " << round);
  }
}

BOOST_AUTO_TEST_CASE(a_trained_tokenizer_of_nucleotides_has_metagenes_ids_and_long_words_are_merged_like_short_ones) {
  const Folder folder;
  std::mt19937 random(5);
  std::string reads, long_read;
  for (int i = 0; i < 400; ++i) {
    std::string read;
    for (int j = 0; j < 120; ++j) read += "ACGT"[random() % 4 * (random() % 2)];
    reads += "@r\n" + read + "\n+\n" + std::string(120, 'I') + "\n";
    long_read += read;
  }
  PairTraining training;
  training.format = DataFormat::Fastq;
  training.vocab = 200;
  const auto trained = train_pairs({folder.write("r.fq", reads)}, training).value();
  BOOST_TEST(trained.vocab == 200U);
  BOOST_TEST(trained.documents == 400U);
  const auto tokenizer = Tokenizer::parse(trained.json, "t").value();
  BOOST_TEST(tokenizer.end_of_document().value() == 4U);
  BOOST_TEST(encoded(tokenizer, "_").front() == 6U);
  BOOST_TEST(encoded(tokenizer, "N").front() == 11U);
  // 48 000 letters go the way of long words. Cut where no merge reaches over, the parts are the whole: N is in no merge.
  const auto whole = encoded(tokenizer, long_read);
  BOOST_TEST(whole.size() < long_read.size() / 2);
  BOOST_TEST(tokenizer.decode(whole) == long_read);
  std::string joined;
  std::vector<Token> parts;
  for (std::size_t at = 0; at < long_read.size(); at += 100) {
    joined += long_read.substr(at, 100) + "N";
    for (const auto token : encoded(tokenizer, long_read.substr(at, 100))) parts.push_back(token);
    parts.push_back(11);
  }
  BOOST_TEST((encoded(tokenizer, joined) == parts));
  BOOST_TEST((train_pairs({folder.path("r.fq")}, {.format = DataFormat::Fastq, .vocab = 11}).error().name == ErrorName::Usage));
  BOOST_TEST((train_pairs({folder.write("e.fq", "")}, training).error().name == ErrorName::DataTooSmall));
}

BOOST_AUTO_TEST_CASE(a_corpus_of_a_tokenizer_ends_documents_and_needs_room_in_the_model) {
  const Folder folder;
  manifest::Data data;
  data.sources = {source_of(folder.write("a.txt", "abab b"), DataFormat::Text), source_of(folder.write("b.txt", "a"), DataFormat::Text)};
  data.tokenizer.file = folder.write("t.json", SMALL);
  data.held_out_percent = 0;
  const auto open = [&](std::uint32_t vocab) { return Corpus::open(data, {1, 1, vocab}, {folder.root / "cache", ~0ULL, 1, {}}); };
  const auto corpus = open(6).value();
  std::vector<Token> all;
  for (const auto& shard : corpus.shards()) {
    std::vector<Token> tokens(shard.tokens());
    BOOST_REQUIRE(shard.read(0, tokens));
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  BOOST_TEST(all == (std::vector<Token>{4, 4, 3, 0, 2, 0}), boost::test_tools::per_element());
  BOOST_TEST(open(5).error().detail == "`model.vocab` must be at least 6 for the tokenizer " + folder.path("t.json") + ", found 5");
  data.tokenizer.file = folder.path("none.json");
  BOOST_TEST(open(6).error().detail.find("none.json") != std::string::npos);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
