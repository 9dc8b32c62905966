// Owns the tests of the files that carry proofs: what is written comes back, and what is wrong is named.
#include "runtime/commitment/proof_file.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

#include "runtime/store/strict_json.hpp"
#include "support.hpp"

using namespace prime;
using namespace prime::test;
using namespace prime::proofs;

namespace {

GenerationFile generation() {
  GenerationFile file;
  file.model = std::string(64, 'a');
  file.tokenizer = "bytes";
  file.dtype = "f32";
  file.sampling = {0.75, UINT64_MAX};
  file.sequences.push_back({{1, 2, 3}, {4, UINT32_MAX}, "text \xff", {"AAAA", "BBBB"}});
  return file;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  BOOST_REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(proof_file)

BOOST_AUTO_TEST_CASE(a_commitment_comes_back) {
  const CommitmentFile file{{16, 4, 7}, {"AAAA", "nonsense"}};
  const auto text = format(file);
  BOOST_TEST(text == R"({"schema":"primectl.commitment/1","k":16,"tokens":4,"prefill":7,"proofs":["AAAA","nonsense"]})"
                     "\n");
  const auto back = parse_commitment(text);
  BOOST_REQUIRE(back);
  BOOST_TEST((back->options == file.options));
  BOOST_TEST(back->proofs == file.proofs, boost::test_tools::per_element());
  BOOST_TEST(parse_commitment(R"({"schema":"primectl.commitment/1","k":1,"tokens":1,"proofs":[],"engine":"other"})")->options.prefill ==
             0U);
}

BOOST_AUTO_TEST_CASE(a_commitment_that_is_wrong_says_where) {
  const auto good = format(CommitmentFile{{16, 4, 7}, {"AAAA"}});
  const auto says = [&](const std::string& from, const std::string& to) {
    return refusal(parse_commitment(with(good, from, to)), ErrorName::ProofMalformed);
  };
  BOOST_TEST(says("primectl.commitment/1", "primectl.commitment/2") ==
             "its schema is `primectl.commitment/2`, and `primectl.commitment/1` is wanted");
  BOOST_TEST(says("\"k\":16", "\"k\":0") == "`k` is 0; it goes from 1 to 8192");
  BOOST_TEST(says("\"k\":16", "\"k\":8193") == "`k` is 8193; it goes from 1 to 8192");
  BOOST_TEST(says("\"k\":16", "\"k\":16.0") == "`k` is not a whole number");
  BOOST_TEST(says("\"k\":16,", "") == "`k` is missing");
  BOOST_TEST(says("\"tokens\":4", "\"tokens\":-4") == "`tokens` is not a whole number");
  BOOST_TEST(says("[\"AAAA\"]", "[\"AAAA\", 1]") == "`proofs` is not a list of texts");
  BOOST_TEST(says("\"tokens\":4", "\"k\":16").starts_with("an object names `k` twice"));
  for (const auto* text : {"", "[]", "null", "{", "\xff\xfe", "{\"schema\": \"primectl.commitment/1\"} x"})
    refusal(parse_commitment(text), ErrorName::ProofMalformed);
}

BOOST_AUTO_TEST_CASE(a_generation_comes_back) {
  const auto file = generation();
  const auto back = parse_generation(format(file));
  BOOST_REQUIRE(back);
  BOOST_TEST(back->model == file.model);
  BOOST_TEST(back->k == 128U);
  BOOST_TEST(back->segment_tokens == 32U);
  BOOST_TEST((back->sampling == file.sampling));
  BOOST_REQUIRE(back->sequences.size() == 1U);
  BOOST_TEST(back->sequences[0].prompt == file.sequences[0].prompt, boost::test_tools::per_element());
  BOOST_TEST(back->sequences[0].tokens == file.sequences[0].tokens, boost::test_tools::per_element());
  BOOST_TEST(back->sequences[0].proofs == file.sequences[0].proofs, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_generation_that_is_wrong_says_where) {
  const auto good = format(generation());
  const auto says = [&](const std::string& from, const std::string& to) {
    return refusal(parse_generation(with(good, from, to)), ErrorName::ProofMalformed);
  };
  BOOST_TEST(says("primectl.proof/1", "primectl.commitment/1") ==
             "its schema is `primectl.commitment/1`, and `primectl.proof/1` is wanted");
  BOOST_TEST(says(std::string(64, 'a'), "A") == "`model` is no SHA-256 of 64 digits");
  BOOST_TEST(says("\"bytes\"", "\"words\"") == "`tokenizer` is neither `bytes` nor a SHA-256 of 64 digits");
  BOOST_TEST(says("\"f32\"", "\"int8\"") == "`dtype` is none of f32, f64, bf16, f16");
  BOOST_TEST(says("0.75", "-0.75") == "`sampling.temperature` is below 0");
  BOOST_TEST(says("18446744073709551615", "18446744073709551616") == "`sampling.seed` is not a whole number");
  BOOST_TEST(says("[1,2,3]", "[]") == "`sequences[0].prompt` is empty");
  BOOST_TEST(says("[1,2,3]", "[1,2,4294967296]") == "`sequences[0].prompt` is not a list of token ids");
  BOOST_TEST(parse_generation(with(good, "[4,4294967295]", "[]"))->sequences[0].tokens.empty(), "nothing was written after a prompt");
  BOOST_TEST(says("\"AAAA\"", R"("","","","","")") == "`sequences[0].proofs` holds more proofs than there are tokens");
  BOOST_TEST(says("\"AAAA\"", "7") == "`sequences[0].proofs` is not a list of texts");
}

#if !defined(__SANITIZE_ADDRESS__)  // minutes there; the same parser is fuzzed with small files
/// A file as full as check_room lets it be, of the widest tokens and texts.
GenerationFile full_file(std::size_t prompts, std::size_t prompt, std::size_t tokens, std::uint32_t k, bool texts) {
  auto file = generation();
  file.k = k;
  const CommitmentOptions options{k, file.segment_tokens, prompt};
  const std::string proof = to_base64(CommitmentProof(proof_bytes(k), 0xFF));
  const std::uint32_t token = texts ? 255 : UINT32_MAX;
  const Sequence sequence{std::vector(prompt, token), std::vector(tokens, token), std::string(prompt + tokens, '\x1f'),
                          std::vector(segments_of(prompt + tokens - 1, options).size(), proof)};
  file.sequences.assign(prompts, sequence);
  return file;
}

const std::vector<std::array<std::uint32_t, 3>> PROMPT_TOKENS_K{{20, 500, 128}, {1, 1, 8192}, {600, 3, 1}};

BOOST_AUTO_TEST_CASE(what_there_is_room_for_is_read_again) {
  for (const bool texts : {true, false}) {
    for (const auto& [prompt, tokens, k] : PROMPT_TOKENS_K) {
      const auto one = full_file(1, prompt, tokens, k, texts);
      std::size_t most = 0;
      for (std::size_t step = 1 << 20; step > 0; step /= 2) {
        auto file = one;
        file.sequences.assign(most + step, {one.sequences[0].prompt, {}, {}, {}});
        if (check_room(file, tokens, texts)) most += step;
      }
      BOOST_REQUIRE(most > 0U);
      const auto text = format(full_file(most, prompt, tokens, k, texts));
      BOOST_TEST(text.size() <= FILE_BYTES_MAX);
      BOOST_TEST(text.size() > FILE_BYTES_MAX / 6, "and not by far too little: " << text.size());
      BOOST_TEST(parse_generation(text).has_value());
    }
  }
  auto file = full_file(1, 8, 1, 128, true);
  BOOST_TEST(refusal(check_room(file, 5'000'000, true), ErrorName::Usage).find("holds 4194304 values and 67108864 bytes at most") !=
             std::string::npos);
}
#endif

BOOST_AUTO_TEST_CASE(json_that_would_fill_the_memory_is_refused_before_it_does) {
  BOOST_TEST(!store::parse_strictly(std::string(10'000'000, '[')));
  BOOST_TEST(!store::parse_strictly("[1,2,3]", {16, 3}));
  BOOST_TEST(store::parse_strictly("[1,2,3]", {16, 4}).has_value());
  BOOST_TEST(!store::parse_strictly("[[1]]", {1, 99}));
  BOOST_TEST(!store::parse_strictly(R"({"a":1,"a":2})"));
  BOOST_TEST(store::parse_strictly(R"({"a":{"a":2},"b":[{"a":1},{"a":1}]})").has_value());
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_a_text_and_where_is_said) {
  const auto says = [](std::string_view text, const store::JsonLimits& limits = {}) { return store::parse_strictly(text, limits).error(); };
  BOOST_TEST(says("") == "it is empty");
  BOOST_TEST(says(R"({"a": [1, 2)") == "it is cut: it ends at byte 11, before its JSON does");
  BOOST_TEST(says("{\"a\": \"te") == "it is cut: it ends at byte 9, before its JSON does");
  BOOST_TEST(says("<!DOCTYPE html>") == "it is no JSON from byte 1 on");
  BOOST_TEST(says(R"({"a": 1} x)") == "it is no JSON from byte 10 on");
  BOOST_TEST(says(R"({"a": 1, "a": 2})") == "an object names `a` twice");
  BOOST_TEST(says("[1,2,3]", {16, 3}) == "it holds more than 3 values");
  BOOST_TEST(says("[[1]]", {1, 99}) == "it nests deeper than 1");
}

BOOST_AUTO_TEST_CASE(a_gigabyte_is_refused_unread) {
  const auto path = std::filesystem::temp_directory_path() / ("prime-proofs-" + std::to_string(::getpid()));
  {
    std::FILE* file = std::fopen(path.c_str(), "w");
    BOOST_REQUIRE(file != nullptr);
    std::fclose(file);
  }
  std::filesystem::resize_file(path, std::uintmax_t{1} << 30);
  BOOST_TEST(refusal(read_text(path), ErrorName::ProofMalformed).find("holds 1073741824 bytes") != std::string::npos);
  std::filesystem::remove(path);
  refusal(read_text(path), ErrorName::StorageFailed);
}

BOOST_AUTO_TEST_CASE(a_text_that_is_no_base64_is_a_malformed_proof) {
  const auto bits = drawn_bits(8 * 16, 1);
  const CommitmentOptions options{4, 4, 0};
  const auto good = to_base64(build_proofs({bits, 16}, options)->front());
  const auto verdicts = check_texts({bits, 16}, std::vector<std::string>{good, "AA*="}, options, exact_f32());
  BOOST_REQUIRE(verdicts);
  BOOST_TEST((*verdicts)[0].accepted);
  BOOST_TEST((*verdicts)[1].reason == "malformed: no base64: the character at 2 is not of its alphabet");
}

BOOST_AUTO_TEST_CASE(mangled_files_are_answered) {
  std::mt19937_64 random(4);
  const auto good = format(generation());
  int accepted = 0;
  for (int round = 0; round < 50'000; ++round) {
    auto text = good;
    for (auto count = 1 + random() % 3; count > 0; --count) {
      const auto at = random() % text.size();
      if (random() % 2 == 0) text[at] = "{}[]:,\"0123456789eE+-.\\u"[random() % 24];
      else text.erase(at, 1 + random() % 6);
    }
    const auto parsed = parse_generation(text);
    accepted += parsed ? 1 : 0;
    if (!parsed) BOOST_REQUIRE((parsed.error().name == ErrorName::ProofMalformed && !parsed.error().detail.empty()));
  }
  BOOST_TEST(accepted > 100);
  BOOST_TEST(accepted < 49'000);
}

BOOST_AUTO_TEST_SUITE_END()
