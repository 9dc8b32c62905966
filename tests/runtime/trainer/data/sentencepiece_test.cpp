// Owns the checks of SentencePiece models that need no library of theirs: what is read of a model's file, what text its pieces make, and
// that a process in the place of the library that is missing, falls over or says nonsense is named. `sentencepiece_test.py` has the ids.
#include <random>

#include "runtime/trainer/data/sentence_pieces.hpp"
#include "runtime/trainer/data/tokenizer.hpp"
#include "tests/runtime/trainer/data/support.hpp"

BOOST_AUTO_TEST_SUITE(data_sentencepiece)

namespace {

using namespace prime;
using namespace prime::data;
using namespace prime::data::test;

// The wire format of protocol buffers, for sizes below 128.
std::string number(int field, int value) {
  std::string text;
  const auto key = static_cast<unsigned>(field) << 3U;
  if (key >= 128) text += {static_cast<char>((key & 0x7fU) | 0x80U), static_cast<char>(key >> 7U)};
  else text += static_cast<char>(key);
  return text + static_cast<char>(value);
}
std::string bytes(int field, const std::string& content) {
  auto text = number(field, static_cast<int>(content.size()));
  text[0] = static_cast<char>(text[0] | 2);
  return text + content;
}
std::string piece(const std::string& text, int type = 1) {
  return bytes(1, bytes(1, text) + std::string("\x15\0\0\x80\x3f", 5) + (type == 1 ? "" : number(3, type)));
}
const std::string PIECES = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) + piece("<0xC3>", 6) + piece("<0xA9>", 6) +
                           piece("\u2581") + piece("\u2581ab") + piece("b") + piece("\u2581b\u2581c", 4);

std::string fault_of(const std::string& model) {
  const auto read = SentencePieces::parse(model, "m");
  return read ? std::string{} : read.error().detail;
}

BOOST_AUTO_TEST_CASE(pieces_are_read_and_make_text) {
  const auto tokenizer = Tokenizer::parse_sentencepiece(PIECES, "m").value();
  BOOST_TEST(tokenizer.size() == 9U);
  BOOST_TEST(!tokenizer.is_bytes());
  BOOST_TEST(tokenizer.end_of_document().value() == 2U);
  BOOST_TEST(tokenizer.id_of("\u2581ab").value() == 6U);
  BOOST_TEST(tokenizer.special("bos").value() == "<s>");
  BOOST_TEST(tokenizer.special("unk").value() == "<unk>");
  BOOST_TEST(!tokenizer.special("pad").has_value());
  BOOST_TEST((tokenizer.file() == std::pair<std::string, std::string>{"tokenizer.model", PIECES}));
  const auto text = [](const std::string& model, std::vector<Token> ids) {
    return Tokenizer::parse_sentencepiece(model, "m")->decode(ids);
  };
  BOOST_TEST(text(PIECES, {6, 7, 8, 3, 4, 0, 7}) == "abb b c\xc3\xa9 \u2047 b");
  BOOST_TEST(text(PIECES, {6, 2, 6, 2}) == "ab</s>ab</s>");
  BOOST_TEST(text(PIECES, {5, 5, 6, 99}) == "ab");
  const auto keeps_spaces = PIECES + bytes(3, number(4, 0)), adds_none = keeps_spaces + bytes(3, number(3, 0));
  BOOST_TEST(text(keeps_spaces, {5, 5, 6}) == "  ab");
  BOOST_TEST(text(adds_none, {5, 6}) == "  ab");
  BOOST_TEST(text(PIECES + bytes(2, bytes(44, "?")), {0}) == "?");
}

BOOST_AUTO_TEST_CASE(documents_end_with_the_token_that_the_model_has_for_it) {
  const auto end_of = [](const std::string& model, const std::string& wanted = {}) {
    const auto tokenizer = Tokenizer::parse_sentencepiece(model, "m", wanted);
    return tokenizer && tokenizer->end_of_document() ? static_cast<int>(*tokenizer->end_of_document()) : -1;
  };
  BOOST_TEST(end_of(PIECES + piece("[END]", 3) + bytes(2, bytes(47, "[END]"))) == 9);
  BOOST_TEST(end_of(PIECES + bytes(2, bytes(47, "[END]"))) == 2, "a name that no piece has");
  BOOST_TEST(end_of(PIECES, "<s>") == 1);
  BOOST_TEST(end_of(piece("<unk>", 2) + piece("a")) == -1);
  BOOST_TEST(Tokenizer::parse_sentencepiece(PIECES, "m", "no").error().detail == "m: has no token `no` (`data.tokenizer.end_of_document`)");
  const auto digest = [](const std::string& model, const std::string& end) {
    return Tokenizer::parse_sentencepiece(model, "m", end)->digest();
  };
  BOOST_TEST((digest(PIECES, "") == digest(PIECES, "</s>")));
  BOOST_TEST((digest(PIECES, "") != digest(PIECES, "<s>")));
  BOOST_TEST((digest(PIECES, "") != digest(PIECES + piece("d"), "")));
}

BOOST_AUTO_TEST_CASE(what_is_no_model_is_named) {
  const std::string says = "m: is no SentencePiece model: ";
  BOOST_TEST(fault_of("") == says + "it is empty");
  BOOST_TEST(fault_of("{\"a\": 1}") == says + "it begins with no piece");
  BOOST_TEST(fault_of(bytes(2, "")) == says + "it begins with no piece");
  BOOST_TEST(fault_of(PIECES.substr(0, PIECES.size() - 1)) == says + "it goes wrong behind its piece 8");
  BOOST_TEST(fault_of(PIECES + "\xff") == says + "it goes wrong behind its piece 9");
  BOOST_TEST(fault_of(PIECES + bytes(2, "\x0f")) == says + "it goes wrong behind its piece 9");
  BOOST_TEST(fault_of(bytes(1, "\x0a\x7f")) == says + "it begins with no piece");
}

BOOST_AUTO_TEST_CASE(no_damaged_model_is_read_beyond_its_end) {
  std::mt19937 random(14);
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto model = PIECES + bytes(2, bytes(47, "<s>") + number(35, 1)) + bytes(3, number(3, 1));
    for (auto count = 1 + random() % 3; count > 0; --count) {
      const auto at = random() % model.size();
      if (random() % 2 == 0) model[at] = static_cast<char>(random());
      else model.resize(at + 1);
    }
    const auto tokenizer = Tokenizer::parse_sentencepiece(model, "m");
    if (!tokenizer) continue;
    ++taken;
    std::vector<Token> ids(tokenizer->size());
    for (auto& id : ids) id = static_cast<Token>(random() % (ids.size() + 1));
    BOOST_REQUIRE(tokenizer->decode(ids).size() <= 200 * ids.size());
  }
  BOOST_TEST(taken > 100);
}

/// printf's words for an answer of the process; bytes below 64 alone.
std::string answer(char tag, const std::vector<int>& data) {
  const auto octal = [](std::size_t value) { return "\\0" + std::to_string(value / 8) + std::to_string(value % 8); };
  auto text = std::string("printf '") + tag + octal(data.size()) + "\\000\\000\\000";
  for (const auto byte : data) text += octal(static_cast<std::size_t>(byte));
  return text + "'\n";
}
/// Takes whatever it is asked.
const std::string LISTENS = "exec cat >/dev/null";

struct Opening {
  Folder folder;
  Result<Corpus> operator()(const std::string& script, OnError on_error = OnError::Skip) const {
    const Interpreter python(folder, script);
    manifest::Data data;
    data.sources = {source_of(folder.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n"), DataFormat::Jsonl)};
    data.sources[0].on_error = on_error;
    data.tokenizer.sentencepiece = folder.write("m.model", PIECES);
    data.held_out_percent = 0;
    return Corpus::open(data, {1, 1, 9}, {folder.root / "cache", ~0ULL, 1, {}});
  }
  [[nodiscard]] std::string model() const { return folder.path("m.model"); }
  [[nodiscard]] std::string python() const { return folder.path("python"); }
};

BOOST_AUTO_TEST_CASE(texts_become_the_ids_that_the_process_tells) {
  const Opening open;
  const auto corpus = open(answer('r', {9, 0, 0, 0}) + answer('i', {6, 0, 0, 0, 7, 0, 0, 0}) + answer('i', {5, 0, 0, 0}) + LISTENS);
  BOOST_REQUIRE_MESSAGE(corpus, corpus.error().detail);
  std::vector<Token> tokens(corpus->shards()[0].tokens());
  BOOST_REQUIRE(corpus->shards()[0].read(0, tokens));
  BOOST_TEST(tokens == (std::vector<Token>{6, 7, 2, 5, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_the_library_makes_nothing_of_is_a_broken_record) {
  const Opening open;
  const auto script = answer('r', {9, 0, 0, 0}) + answer('b', {'.', '.'}) + answer('i', {5, 0, 0, 0}) + LISTENS;
  const auto skipped = open(script);
  BOOST_REQUIRE_MESSAGE(skipped, skipped.error().detail);
  BOOST_TEST(skipped->sources()[0].counts.skipped == 1U);
  const Opening other;
  const auto stopped = other(script, OnError::Stop);
  BOOST_REQUIRE(!stopped);
  BOOST_TEST((stopped.error().name == ErrorName::DataUnreadable));
  BOOST_TEST(stopped.error().detail.starts_with(other.folder.path("a.jsonl") + ":1: .."), stopped.error().detail);
}

BOOST_AUTO_TEST_CASE(a_process_that_is_missing_falls_over_or_says_nonsense_ends_with_its_name) {
  const auto ready = answer('r', {9, 0, 0, 0});
  const std::string ended = "`, which applies this SentencePiece model, ended in between, ";
  const std::string cure = ": install it (`python3 -m pip install sentencepiece`), or let PRIME_PYTHON name an interpreter that has it";
  const std::vector<std::pair<std::string, std::string>> all{
      {"exit 3", ended + "with exit code 3"},
      {ready + "exit 3", ended + "with exit code 3"},
      {ready + "kill -9 $$", ended + "by signal 9"},
      {answer('r', {9, 0, 0}) + LISTENS, ended + "by signal 9"},
      {answer('?', {}) + LISTENS, ended + "by signal 9"},
      {ready + answer('i', {9, 0, 0, 0}) + LISTENS, ended + "by signal 9"},  // no id of the model's
      {ready + answer('i', {1, 0}) + LISTENS, ended + "by signal 9"},
      {ready + "printf 'i\\374\\377\\377\\377'; " + LISTENS, ended + "by signal 9"},
      {answer('r', {8, 0, 0, 0}) + LISTENS, ": its library finds 8 pieces in this SentencePiece model, and 9 are there"},
      {answer('b', {'!'}) + LISTENS, ": its library does not take this SentencePiece model: !"},
      {answer('m', {'!'}) + LISTENS, "` has none (!)" + cure},
  };
  for (const auto& [script, says] : all) {
    // Records are passed over, and none of this is one's fault.
    const Opening open;
    const auto corpus = open(script);
    BOOST_REQUIRE_MESSAGE(!corpus, script);
    BOOST_TEST((corpus.error().name == ErrorName::ProcessFailed));
    BOOST_TEST(corpus.error().detail.starts_with(open.model() + ": "), corpus.error().detail);
    BOOST_TEST(corpus.error().detail.ends_with(says), corpus.error().detail);
    BOOST_TEST(corpus.error().detail.find(says.starts_with("`") ? open.python() : "library") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_model_needs_room_and_a_file) {
  const Folder folder;
  manifest::Data data;
  data.tokenizer.sentencepiece = folder.path("none.model");
  const auto fault = [&] { return Corpus::open(data, {1, 1, 8}, {folder.root / "cache", ~0ULL, 1, {}}).error().detail; };
  BOOST_TEST(fault() == "`data.tokenizer`: open " + folder.path("none.model") + ": No such file or directory");
  data.tokenizer.sentencepiece = folder.write("m.model", PIECES);
  BOOST_TEST(fault() == "`model.vocab` must be at least 9 for the tokenizer " + folder.path("m.model") + ", found 8");
  data.tokenizer.sentencepiece = folder.root.string();
  BOOST_TEST(fault().starts_with("`data.tokenizer`: "), fault());
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
