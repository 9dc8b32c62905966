// Owns the checks of the cache, of mixes and of what is told apart.
#include <set>
#include <sys/wait.h>
#include <thread>

#include "runtime/trainer/data/mix.hpp"
#include "runtime/trainer/data/read_ahead.hpp"
#include "tests/runtime/trainer/data/support.hpp"

BOOST_AUTO_TEST_SUITE(data_compiling)

namespace {

using namespace prime;
using namespace prime::data;
using namespace prime::data::test;

std::string numbered_lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += "{\"text\": \"" + std::to_string(i) + "\"}\n";
  return text;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

BOOST_AUTO_TEST_CASE(what_is_compiled_is_not_read_again_and_what_has_changed_is) {
  const Folder folder;
  const auto source = source_of(folder.write("a.jsonl", numbered_lines(0, 9)), DataFormat::Jsonl);
  const auto first = data::test::open(folder, {source}).value();
  const auto names = names_in(folder.root / "cache");
  BOOST_TEST(names.size() == 1U);
  const auto time = fs::last_write_time(folder.root / "cache" / *names.begin());
  const auto again = data::test::open(folder, {source}).value();
  BOOST_TEST((names_in(folder.root / "cache") == names));
  BOOST_TEST((fs::last_write_time(folder.root / "cache" / *names.begin()) == time));
  BOOST_TEST((again.digest() == first.digest()));
  // Damage is seen, and made good.
  fs::resize_file(folder.root / "cache" / *names.begin(), 100);
  BOOST_TEST(documents_of(data::test::open(folder, {source}).value()) == "0|1|2|3|4|5|6|7|8|");
  folder.write("a.jsonl", numbered_lines(0, 8) + "{\"text\": \"9\"}\n");
  const auto changed = data::test::open(folder, {source}).value();
  BOOST_TEST(documents_of(changed) == "0|1|2|3|4|5|6|7|9|");
  BOOST_TEST((changed.digest() != first.digest()));
  auto options = source;
  options.on_error = OnError::Skip;
  BOOST_TEST(documents_of(data::test::open(folder, {options}).value()) == "0|1|2|3|4|5|6|7|9|");
  BOOST_TEST(names_in(folder.root / "cache").size() == 3U);
}

BOOST_AUTO_TEST_CASE(peers_of_one_machine_compile_at_once_and_none_sees_half_a_shard) {
  const Folder folder;
  std::vector<Source> sources;
  for (int i = 0; i < 4; ++i)
    sources.push_back(source_of(folder.write(std::to_string(i) + ".jsonl", numbered_lines(i, 20'000)), DataFormat::Jsonl));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const auto child = ::fork();
    if (child == 0) {
      const auto corpus = data::test::open(folder, sources);
      ::_exit(corpus && corpus->sources()[3].counts.documents == 19'997 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const auto child : children) {
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
  }
  for (const auto& name : names_in(folder.root / "cache")) BOOST_TEST(name.ends_with(".tokens"), name);
  BOOST_TEST(names_in(folder.root / "cache").size() == 4U);
}

BOOST_AUTO_TEST_CASE(who_is_told_to_end_leaves_nothing_half_written_and_the_next_one_goes_on) {
  const Folder folder;
  const auto source = source_of(folder.write("a.jsonl", numbered_lines(0, 600'000)), DataFormat::Jsonl);
  manifest::Data data;
  data.sources = {source};
  const auto ended = Corpus::open(
      data, {4, 1, 257}, {folder.root / "cache", ~0ULL, 1, [](const Progress&) -> Result<void> { return fail(ErrorName::Interrupted); }});
  if (!ended) {
    BOOST_TEST((ended.error().name == ErrorName::Interrupted));
    BOOST_TEST(names_in(folder.root / "cache").empty());
  }  // else it was done before anybody was asked
  BOOST_TEST(data::test::open(folder, {source}).value().sources()[0].counts.documents == 600'000U);
}

BOOST_AUTO_TEST_CASE(the_digest_is_of_the_documents_and_not_of_how_they_lie_there) {
  const Folder folder;
  const auto digest = [&](const std::string& name, const std::string& content) {
    return data::test::open(folder, {source_of(folder.write(name, content), DataFormat::Jsonl)}).value().digest();
  };
  const auto lines = numbered_lines(0, 50);
  BOOST_TEST((digest("a", lines) == digest("b.gz", gzipped(lines))));
  BOOST_TEST((digest("a", lines) != digest("c", numbered_lines(0, 49) + "{\"text\": \"50\"}\n")));
  BOOST_TEST((digest("d", "{\"text\": \"ab\"}\n{\"text\": \"c\"}\n") != digest("e", "{\"text\": \"a\"}\n{\"text\": \"bc\"}\n")));
}

BOOST_AUTO_TEST_CASE(packed_documents_follow_one_another_and_each_token_is_predicted_once) {
  const Folder folder;
  const auto corpus = data::test::open(folder,
                                       {source_of(folder.write("a", numbered_lines(0, 300)), DataFormat::Jsonl),
                                        source_of(folder.write("b", numbered_lines(300, 900)), DataFormat::Jsonl)},
                                       7)
                          .value();
  std::string all;
  for (int i = 0; i < 900; ++i) all += std::to_string(i) + "|";
  BOOST_TEST(documents_of(corpus) == all);
  std::set<std::string> windows, expected;
  std::vector<Token> window(8);
  for (std::uint64_t i = 0; i < corpus.windows(); ++i) {
    BOOST_REQUIRE(corpus.read(i, window));
    std::string text;
    for (const auto token : window) text += token == BYTE_VALUES ? '|' : static_cast<char>(token);
    windows.insert(text);
  }
  for (std::size_t at = 0; at + 8 <= all.size(); at += 7) expected.insert(all.substr(at, 8));
  BOOST_TEST((windows == expected));
}

BOOST_AUTO_TEST_CASE(documents_are_held_out_by_what_they_hold) {
  const Folder folder;
  manifest::Data data;
  data.sources = {source_of(folder.write("a", numbered_lines(1000, 3000)), DataFormat::Jsonl)};
  data.held_out_percent = 20;
  data.held_out_limit_bytes = MIB;
  const auto open = [&] { return Corpus::open(data, {9, 1, 257}, {folder.root / "cache", ~0ULL, 1, {}}).value(); };
  const auto tokens_of = [](const Corpus& corpus) {
    std::set<std::string> documents;
    std::vector<Token> window(10);
    for (std::uint64_t i = 0; i < corpus.held_out_windows(); ++i) {
      BOOST_REQUIRE(corpus.read_held_out(i, window));
      const auto text = corpus.tokenizer().decode(window);
      documents.insert(text);
    }
    return documents;
  };
  const auto corpus = open();
  const auto held_out = corpus.held_out_windows() * 9;
  BOOST_TEST(held_out > 1500U);
  BOOST_TEST(held_out < 2500U);
  BOOST_TEST(!corpus.holds_out_ends());
  BOOST_TEST((corpus.windows() + corpus.held_out_windows()) * 9 > 9950U);
  // In another order, and with others beside them, the same ones are held out.
  folder.write("a", numbered_lines(2000, 3000) + numbered_lines(1000, 2000));
  BOOST_TEST((tokens_of(open()) == tokens_of(corpus)));
  data.held_out_limit_bytes = 100;
  // Of four digits and their end each: 100 bytes are 125 tokens.
  BOOST_TEST(open().held_out_windows() == (125U - 1) / 9);
}

BOOST_AUTO_TEST_CASE(a_mix_gives_exact_shares_and_each_sample_of_a_source_once) {
  const std::vector<manifest::SourceWeight> weights{1, 3, 0.0001};
  const Mix mix(weights, 5);
  std::vector<std::uint64_t> counts(3);
  std::vector<std::set<std::uint64_t>> seen(3);
  constexpr std::uint64_t SAMPLES = 4 * Mix::BLOCK;
  for (std::uint64_t i = 0; i < SAMPLES; ++i) {
    const auto [source, index] = mix.draw(mix.block_of(i), i);
    ++counts[source];
    seen[source].insert(index);
  }
  BOOST_TEST(counts[2] == 4U);
  BOOST_TEST(std::abs(static_cast<double>(counts[1]) / static_cast<double>(counts[0]) - 3) < 0.01);
  for (std::size_t source = 0; source < 3; ++source) {
    BOOST_TEST(seen[source].size() == counts[source]);
    BOOST_TEST(*seen[source].rbegin() == counts[source] - 1);
  }
  const Folder folder;
  auto a = source_of(folder.write("a", numbered_lines(0, 300)), DataFormat::Jsonl),
       b = source_of(folder.write("b", "{\"text\": \"" + std::string(50, 'x') + "\"}\n"), DataFormat::Jsonl);
  a.weight = 1, b.weight = 1;
  const auto corpus = data::test::open(folder, {a, b}).value();
  std::vector<Token> window(5);
  int of_b = 0;
  for (std::uint64_t i = 0; i < Mix::BLOCK; ++i) {
    BOOST_REQUIRE(corpus.read(i, window));
    of_b += window[0] == 'x' || window[1] == 'x' ? 1 : 0;
  }
  BOOST_TEST(of_b == static_cast<int>(Mix::BLOCK / 2));
}

BOOST_AUTO_TEST_CASE(shares_follow_their_points_and_a_sample_is_the_same_one_wherever_one_begins) {
  // Down to nothing over 200 blocks, level, and up from nothing with a step at block 150.
  constexpr std::uint64_t LAST = 200 * Mix::BLOCK, STEP = 150 * Mix::BLOCK;
  std::vector<manifest::SourceWeight> weights{1, 3, 1};
  weights[0].points = {{0, 4}, {LAST, 0}};
  weights[2].points = {{STEP - 1, 0}, {STEP, 1}};
  const Mix mix(weights, 5);
  std::vector<std::set<std::uint64_t>> seen(3);
  int repeated = 0;
  const auto counts_of = [&](std::uint64_t block, bool keep) {
    std::vector<double> counts(3);
    const auto dealt = mix.block_of(block * Mix::BLOCK);
    for (std::uint64_t i = block * Mix::BLOCK; i < (block + 1) * Mix::BLOCK; ++i) {
      const auto [source, index] = mix.draw(dealt, i);
      ++counts[source];
      if (keep && !seen[source].insert(index).second) ++repeated;
    }
    return counts;
  };
  for (const std::uint64_t block : {0U, 50U, 100U, 149U, 150U, 199U, 200U, 5000U}) {
    const double down = block >= 200 ? 0 : 4 * (1 - static_cast<double>(block) / 200), up = block >= 150 ? 1 : 0, sum = 3 + down + up;
    const auto counts = counts_of(block, false);
    BOOST_TEST(std::abs(counts[0] - down / sum * 4096) <= 1.5);
    BOOST_TEST(std::abs(counts[1] - 3 / sum * 4096) <= 1.5);
    BOOST_TEST(std::abs(counts[2] - up / sum * 4096) <= 1.5);
    BOOST_TEST((down > 0) == (counts[0] > 0));
    BOOST_TEST((up > 0) == (counts[2] > 0));
  }
  // From the first block to beyond the last change each sample of a source comes once, and none is left out.
  for (std::uint64_t block = 0; block < 210; ++block) counts_of(block, true);
  BOOST_TEST(repeated == 0);
  for (const auto& indices : seen) BOOST_TEST(*indices.rbegin() == indices.size() - 1);
}

BOOST_AUTO_TEST_CASE(a_range_is_of_one_source_and_each_sample_of_it_comes_once) {
  constexpr std::uint64_t RANGE = 6;
  for (const auto& [weights, shares] : std::vector<std::pair<std::vector<manifest::SourceWeight>, std::vector<std::size_t>>>{
           {{1, 1, 1, 1}, {16, 16, 16, 16}}, {{6, 1.5, 0, 0.5}, {48, 12, 0, 4}}}) {
    const Mix mix(weights, 5, RANGE);
    std::vector<std::set<std::uint64_t>> seen(4);
    std::vector<std::size_t> order;
    for (std::uint64_t range = 0; range < 3 * Mix::BLOCK; ++range) {
      if (range % 64 == 0) order.clear();
      const auto block = mix.block_of(range * RANGE);
      for (std::uint64_t i = 0; i < RANGE; ++i) {
        BOOST_REQUIRE(mix.is_in(block, range * RANGE + i));
        const auto [source, index] = mix.draw(block, range * RANGE + i);
        if (i == 0) order.push_back(source);
        BOOST_REQUIRE(source == order.back());
        BOOST_REQUIRE(seen[source].insert(index).second);
      }
      if (range % 64 != 63) continue;
      for (std::size_t source = 0; source < 4; ++source)
        BOOST_REQUIRE(static_cast<std::size_t>(std::ranges::count(order, source)) == shares[source]);
    }
    for (const auto& indices : seen) BOOST_TEST((indices.empty() || *indices.rbegin() == indices.size() - 1));
  }
  // Four peers, each with what one number in four draws, have a source each.
  const Mix mix(std::vector<manifest::SourceWeight>{1, 1, 1, 1}, 5, RANGE);
  for (std::uint64_t peer = 0; peer < 4; ++peer)
    for (std::uint64_t step = 1; step < 50; ++step) {
      const auto first = (4 * step + peer) * RANGE;
      BOOST_TEST(mix.draw(mix.block_of(first), first).source == mix.draw(mix.block_of(0), peer * RANGE).source);
    }
}

BOOST_AUTO_TEST_CASE(peers_with_other_leases_read_the_same_samples_of_a_mix_that_changes_and_its_points_are_in_the_digest) {
  const Folder folder;
  auto a = source_of(folder.write("a", numbered_lines(0, 300)), DataFormat::Jsonl),
       b = source_of(folder.write("b", "{\"text\": \"" + std::string(50, 'x') + "\"}\n"), DataFormat::Jsonl);
  a.weight.points = {{0, 1}, {3 * Mix::BLOCK, 0}};
  b.weight = 1;
  const auto corpus = data::test::open(folder, {a, b}).value(), again = data::test::open(folder, {a, b}).value();
  std::vector<Token> whole(5 * 6 * Mix::BLOCK), part(5 * 1000), one(5);
  BOOST_REQUIRE(corpus.read(0, whole));
  for (const std::uint64_t first : {0U, 999U, 4000U, 12200U, 20000U}) {
    BOOST_REQUIRE(again.read(first, part));
    BOOST_TEST(std::ranges::equal(part, std::span(whole).subspan(first * 5, part.size())));
    BOOST_REQUIRE(again.read(first, one));
    BOOST_TEST(std::ranges::equal(one, std::span(whole).subspan(first * 5, one.size())));
  }
  const auto of_b = [&](std::uint64_t block) {
    std::uint64_t count = 0;
    for (auto i = block * Mix::BLOCK; i < (block + 1) * Mix::BLOCK; ++i) count += whole[i * 5 + 1] == 'x' || whole[i * 5] == 'x' ? 1 : 0;
    return count;
  };
  BOOST_TEST(of_b(0) == Mix::BLOCK / 2);
  BOOST_TEST(of_b(2) == Mix::BLOCK * 3 / 4);
  BOOST_TEST(of_b(5) == Mix::BLOCK);
  BOOST_TEST((corpus.digest() == again.digest()));
  auto other = a;
  other.weight.points.back().at += 1;
  BOOST_TEST((data::test::open(folder, {other, b})->digest() != corpus.digest()));
  other.weight = 1;
  BOOST_TEST((data::test::open(folder, {other, b})->digest() != corpus.digest()));
}

BOOST_AUTO_TEST_CASE(what_is_read_ahead_is_what_would_be_read_now) {
  const Folder folder;
  const auto corpus = data::test::open(folder, {source_of(folder.write("a", numbered_lines(0, 500)), DataFormat::Jsonl)}).value();
  ReadAhead ahead(corpus, 3);
  std::vector<Token> expected(15);
  for (const std::uint64_t first : {0, 3, 6, 100, 103, 50, 53, 56, 0}) {
    BOOST_REQUIRE(corpus.read(first, expected));
    const auto batch = ahead.batch(first);
    BOOST_REQUIRE(batch.has_value());
    BOOST_TEST(std::vector<Token>(batch->begin(), batch->end()) == expected, boost::test_tools::per_element());
  }
}

/// A clock that goes on by a second each time that it is read.
Instant ticking() {
  static Instant now{};
  return now += 1s;
}

BOOST_AUTO_TEST_CASE(waiting_for_a_batch_is_measured) {
  const Folder folder;
  const auto corpus = data::test::open(folder, {source_of(folder.write("a", numbered_lines(0, 500)), DataFormat::Jsonl)}).value();
  ReadAhead ahead(corpus, 3, ticking);
  BOOST_TEST((ahead.waited() == 0s));
  BOOST_REQUIRE(ahead.batch(0));
  BOOST_TEST((ahead.waited() == 1s));
  BOOST_REQUIRE(ahead.batch(3));
  BOOST_TEST((ahead.waited() == 1s), "of the last one alone");
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
