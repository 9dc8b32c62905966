// Owns the checks of the data: what is read, what is held out, and that nothing is read twice.
#include "runtime/trainer/data/corpus.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

BOOST_AUTO_TEST_SUITE(corpus)

namespace {

namespace fs = std::filesystem;
using prime::ErrorName;
using prime::data::Corpus;
using prime::data::Token;

constexpr std::uint32_t CONTEXT = 16;

/// A folder of its own that goes with the test.
struct Tree {
  Tree() {
    std::string pattern = (fs::temp_directory_path() / "prime-corpus-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    root = pattern;
  }
  ~Tree() { fs::remove_all(root); }
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name, std::ios::binary) << content;
  }
  /// Many files in which each window begins with bytes that no other window has.
  void fill(int files) const {
    for (int i = 0; i < files; ++i) {
      std::string content;
      while (content.size() < 100U + static_cast<unsigned>(i)) content += std::to_string(i) + ":" + std::to_string(content.size()) + ";";
      write("d" + std::to_string(i % 7) + "/f" + std::to_string(i) + ".h", content);
    }
  }
  fs::path root;
};

prime::manifest::Data settings() {
  prime::manifest::Data data;
  data.include = "*.h";
  data.held_out_percent = 20;
  return data;
}

/// Whatever is compiled goes with the tests.
const Tree& cache() {
  static const Tree tree;
  return tree;
}

prime::Result<Corpus> open_at(prime::manifest::Data data, const std::string& path, std::uint32_t context, std::uint32_t batch) {
  data.path = path;
  return Corpus::open(data, {context, batch, 256}, {cache().root, ~0ULL, 2, {}});
}

prime::Result<Corpus> open(const Tree& tree, const prime::manifest::Data& data, std::uint32_t batch = 1) {
  return open_at(data, tree.root.string(), CONTEXT, batch);
}

std::string training_window(const Corpus& corpus, std::uint64_t sample) {
  std::vector<Token> bytes(corpus.window_tokens());
  BOOST_REQUIRE(corpus.read(sample, bytes));
  return {bytes.begin(), bytes.end()};
}

std::string summary_of(const Corpus& corpus, const prime::manifest::Data& data = {}) {
  prime::manifest::Shared shared;
  shared.data = data;
  return corpus.identity(shared).summary;
}

std::multiset<std::string> pass(const Corpus& corpus, std::uint64_t first) {
  std::multiset<std::string> windows;
  for (std::uint64_t i = 0; i < corpus.windows(); ++i) windows.insert(training_window(corpus, first + i));
  return windows;
}

std::vector<std::string> held_out(const Corpus& corpus) {
  std::vector<std::string> windows;
  for (std::uint64_t i = 0; i < corpus.held_out_windows(); ++i) {
    std::vector<Token> bytes(corpus.window_tokens());
    BOOST_REQUIRE(corpus.read_held_out(i, bytes));
    windows.emplace_back(bytes.begin(), bytes.end());
  }
  return windows;
}

BOOST_AUTO_TEST_CASE(each_pass_takes_every_window_exactly_once_in_another_order) {
  const Tree tree;
  tree.fill(60);
  auto data = settings();
  data.held_out_percent = 0;
  const auto corpus = open(tree, data);
  BOOST_REQUIRE(corpus);
  std::multiset<std::string> expected;
  for (const auto& entry : fs::recursive_directory_iterator(tree.root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content(std::istreambuf_iterator<char>(file), {});
    for (std::size_t at = 0; at + CONTEXT + 1 <= content.size(); at += CONTEXT) expected.insert(content.substr(at, CONTEXT + 1));
  }
  BOOST_TEST((pass(*corpus, 0) == expected));
  BOOST_TEST((pass(*corpus, corpus->windows()) == expected));
  BOOST_TEST(training_window(*corpus, 0) + training_window(*corpus, 1) !=
             training_window(*corpus, corpus->windows()) + training_window(*corpus, corpus->windows() + 1));
}

BOOST_AUTO_TEST_CASE(a_batch_is_its_samples_one_after_the_other_also_across_a_pass) {
  const Tree tree;
  tree.fill(10);
  const auto corpus = open(tree, settings());
  BOOST_REQUIRE(corpus);
  const std::uint64_t first = corpus->windows() - 2;
  std::vector<Token> batch(4 * corpus->window_tokens());
  BOOST_REQUIRE(corpus->read(first, batch));
  std::string expected;
  for (std::uint64_t i = 0; i < 4; ++i) expected += training_window(*corpus, first + i);
  BOOST_TEST(std::string(batch.begin(), batch.end()) == expected);
}

BOOST_AUTO_TEST_CASE(held_out_windows_are_never_trained_on) {
  const Tree tree;
  tree.fill(60);
  const auto corpus = open(tree, settings());
  BOOST_REQUIRE(corpus);
  const auto training = pass(*corpus, 0);
  const auto evaluated = held_out(*corpus);
  BOOST_TEST(evaluated.size() > 10U);
  for (const auto& window : evaluated) BOOST_TEST(training.count(window) == 0U);
}

BOOST_AUTO_TEST_CASE(the_held_out_files_follow_from_their_names_alone) {
  // SHA-256("f.h") begins with 3d0fbf5d393fefbf, which over 2^64 is 23.8522 %; "a.h" comes at 87.6 %.
  const Tree tree;
  tree.write("a.h", std::string(CONTEXT + 1, 'a'));
  tree.write("f.h", std::string(CONTEXT + 1, 'f'));
  auto data = settings();
  data.held_out_percent = 23.86;
  const auto with = open(tree, data);
  BOOST_REQUIRE(with);
  BOOST_TEST(held_out(*with) == std::vector<std::string>{std::string(CONTEXT + 1, 'f')});
  data.held_out_percent = 23.85;
  const auto without = open(tree, data);
  BOOST_REQUIRE(without);
  BOOST_TEST(without->held_out_windows() == 0U);
  BOOST_TEST(without->windows() == 2U);
}

BOOST_AUTO_TEST_CASE(a_held_out_text_begins_with_whole_words) {
  const auto beginning_of = [](const std::string& content) {
    const Tree tree;
    for (int i = 0; i < 40; ++i) tree.write("f" + std::to_string(i) + ".h", content);
    auto data = settings();
    const auto corpus = open_at(data, tree.root.string(), 64, 1);
    BOOST_REQUIRE(corpus);
    return corpus->beginning();
  };
  const std::string filler(100, 'x');
  BOOST_TEST(beginning_of("\n\n  Once upon a midnight dreary, while\n" + filler) == "Once upon a midnight");
  BOOST_TEST(beginning_of("Call me\n" + filler) == "Call me");
  BOOST_TEST(beginning_of(filler) == std::string(24, 'x'));
  BOOST_TEST(beginning_of("a caf\xc3\xa9\n" + filler) == "a caf");
  BOOST_TEST(beginning_of(std::string(200, '\n')) == "");
}

BOOST_AUTO_TEST_CASE(limits_on_bytes_are_kept) {
  const Tree tree;
  for (int i = 0; i < 50; ++i) tree.write(std::to_string(i) + ".h", std::string(1000, 'x'));
  auto data = settings();
  data.per_file_bytes = 5 * CONTEXT + 1;
  data.held_out_per_file_bytes = 2 * CONTEXT + 1;
  const auto open_ended = open(tree, data);
  BOOST_REQUIRE(open_ended);
  const std::uint64_t held_out_files = open_ended->held_out_windows() / 2;
  BOOST_TEST(held_out_files > 3U);
  BOOST_TEST(open_ended->windows() == 5 * (50 - held_out_files));
  data.held_out_limit_bytes = 3 * CONTEXT + 5;
  const auto limited = open(tree, data);
  BOOST_REQUIRE(limited);
  BOOST_TEST(limited->held_out_windows() == 3U);
  BOOST_TEST(limited->windows() == open_ended->windows());
}

BOOST_AUTO_TEST_CASE(the_order_in_which_files_were_made_does_not_matter) {
  const Tree first, second;
  const std::vector<std::string> names{"b/x.h", "a.h", "b.h", "c/d/e.h", "aa.h", "b/a.h"};
  for (auto name = names.begin(); name != names.end(); ++name) first.write(*name, *name + std::string(100, '.'));
  for (auto name = names.rbegin(); name != names.rend(); ++name) second.write(*name, *name + std::string(100, '.'));
  const auto a = open(first, settings()), b = open(second, settings());
  BOOST_REQUIRE(a && b);
  for (std::uint64_t i = 0; i < a->windows(); ++i) BOOST_TEST(training_window(*a, i) == training_window(*b, i));
  BOOST_TEST(held_out(*a) == held_out(*b));
}

BOOST_AUTO_TEST_CASE(what_is_passed_over_is_said) {
  const Tree tree;
  tree.write("good.h", std::string(CONTEXT + 1, 'g'));
  tree.write("short.h", std::string(CONTEXT, 's'));
  tree.write("empty.h", "");
  tree.write("other.txt", std::string(500, 'o'));
  tree.write("packed.h",
             "\xfd"
             "7zXZ" +
                 std::string(100, '\0'));
  tree.write("table.h", "PAR1" + std::string(100, 'p'));
  tree.write("another.h", "PAR1" + std::string(100, 'p'));
  tree.write("numbers.h", std::string("12\0"
                                      "34",
                                      5) +
                              std::string(100, '5'));
  auto data = settings();
  data.held_out_percent = 0;
  const auto corpus = open(tree, data);
  BOOST_REQUIRE(corpus);
  BOOST_TEST(corpus->windows() == 1U);
  BOOST_TEST(training_window(*corpus, 0) == std::string(CONTEXT + 1, 'g'));
  BOOST_TEST(summary_of(*corpus, data) ==
             "7 files in " + tree.root.string() +
                 ", matching *.h: 1 used (passed over: 2 Parquet as another.h, 1 binary as numbers.h, "
                 "1 xz as packed.h, 2 too short for a sample, 1 of another name), 33 bytes; 1 sample of 17 bytes, none held out "
                 "(`data.held_out`); in 60 outer steps 2 peers read each sample 38400 times on average, and 8 peers 153600 times");
}

BOOST_AUTO_TEST_CASE(a_single_file_that_is_no_text_is_refused_by_what_it_is) {
  const Tree tree;
  for (const auto& [head, kind] : std::vector<std::pair<std::string, std::string>>{
           {"BZh", "bzip2"}, {"PK\x03\x04", "zip"}, {"PAR1", "Parquet"}, {std::string("a\0b", 3), "binary"}}) {
    tree.write("data", head + std::string(500, 'x'));
    const auto refused = open_at(settings(), (tree.root / "data").string(), CONTEXT, 1);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().name == ErrorName::DataUnreadable));
    BOOST_TEST(refused.error().detail ==
               (tree.root / "data").string() + " is " + kind + ", and only plain text can be read: unpack or convert it");
  }
  auto data = settings();
  data.include = "*";
  const auto all = open(tree, data);
  BOOST_REQUIRE(!all);
  BOOST_TEST(all.error().detail == tree.root.string() + ": none of its files that match * can be read as plain text: 1 binary (data)");
}

BOOST_AUTO_TEST_CASE(links_are_followed_once_and_never_in_circles) {
  const Tree tree, elsewhere;
  elsewhere.write("folder/a.h", std::string(CONTEXT + 1, 'a'));
  elsewhere.write("folder/deep/b.h", std::string(CONTEXT + 1, 'b'));
  tree.write("own.h", std::string(CONTEXT + 1, 'o'));
  fs::create_directory_symlink(elsewhere.root / "folder", tree.root / "linked");
  fs::create_directory_symlink(elsewhere.root / "folder" / "deep", tree.root / "z-again");
  fs::create_directory_symlink(tree.root, tree.root / "circle");
  fs::create_directory_symlink("itself", tree.root / "itself");
  fs::create_symlink(tree.root / "own.h", tree.root / "another-name.h");
  fs::create_symlink(elsewhere.root / "nothing", tree.root / "dangling.h");
  fs::create_directory_symlink(tree.root, elsewhere.root / "folder" / "back");
  auto data = settings();
  data.held_out_percent = 0;
  const auto corpus = open(tree, data);
  BOOST_REQUIRE(corpus);
  BOOST_TEST((pass(*corpus, 0) ==
              std::multiset<std::string>{std::string(CONTEXT + 1, 'a'), std::string(CONTEXT + 1, 'b'), std::string(CONTEXT + 1, 'o')}));
  const auto said = summary_of(*corpus);
  BOOST_TEST(said.find("1 links to nothing as dangling.h") != std::string::npos, said);
  BOOST_TEST(said.find("1 reached twice as another-name.h, 3 folders reached twice as circle/") != std::string::npos, said);
  data.include = "*.zzz";
  const auto none = open(tree, data);
  BOOST_REQUIRE(!none);
  BOOST_TEST((none.error().name == ErrorName::DataTooSmall));
  BOOST_TEST(none.error().detail.find("`data.include` is *.zzz, which matches none of its ") != std::string::npos, none.error().detail);
  data.include = settings().include;
  // A folder that holds nothing but links.
  const Tree links;
  fs::create_symlink(elsewhere.root / "folder" / "a.h", links.root / "x.h");
  const auto of_links = open(links, data);
  BOOST_REQUIRE(of_links);
  BOOST_TEST(of_links->windows() == 1U);
}

BOOST_AUTO_TEST_CASE(one_large_file_is_used_as_a_whole_and_its_end_held_out_whatever_it_is_called) {
  const prime::manifest::Data defaults;
  // By its hash, "f.h" would be held out as a whole at 23.9 %.
  for (const std::string name : {"book.txt", "f.h", "a.h"}) {
    const Tree tree;
    std::string content;
    while (content.size() < 900'000) content += std::to_string(content.size()) + " ";
    tree.write(name, content);
    auto data = defaults;
    data.held_out_percent = 30;
    data.held_out_limit_bytes = 100 * CONTEXT;
    for (const auto& path : {tree.root, tree.root / name}) {
      const auto corpus = open_at(data, path.string(), CONTEXT, 1);
      BOOST_REQUIRE(corpus);
      BOOST_TEST(corpus->held_out_windows() == 100U);
      BOOST_TEST(corpus->windows() + 100 == (content.size() - 1) / CONTEXT);
      const auto evaluated = held_out(*corpus);
      BOOST_TEST(evaluated.back() == content.substr((content.size() - 1) / CONTEXT * CONTEXT - CONTEXT, CONTEXT + 1));
      const auto training = pass(*corpus, 0);
      for (const auto& window : evaluated) BOOST_TEST(training.count(window) == 0U);
      BOOST_TEST(summary_of(*corpus).find("100 more held out, the end of each file") != std::string::npos);
    }
  }
  BOOST_TEST(defaults.per_file_bytes > 1ULL << 39);
}

BOOST_AUTO_TEST_CASE(where_the_names_would_hold_out_most_of_it_the_ends_are_held_out) {
  const Tree tree;
  tree.write("f.h", std::string(100 * CONTEXT + 1, 'f'));  // chosen by its name
  tree.write("a.h", std::string(10 * CONTEXT + 1, 'a'));
  auto data = settings();
  data.held_out_percent = 24;
  const auto corpus = open(tree, data);
  BOOST_REQUIRE(corpus);
  BOOST_TEST(corpus->holds_out_ends());
  BOOST_TEST(corpus->held_out_windows() == 24U + 3U);
  BOOST_TEST(corpus->windows() == 110U - 27U);
}

BOOST_AUTO_TEST_CASE(a_limit_that_leaves_data_out_is_said) {
  const Tree tree;
  tree.write("a.h", std::string(3'000'000, 'a'));
  auto data = settings();
  data.per_file_bytes = 32 * prime::KIB;
  const auto corpus = open(tree, data);
  BOOST_REQUIRE(corpus);
  BOOST_TEST(summary_of(*corpus).find(": 1 used, 32 KiB of 2.9 MiB (`data.per_file`); ") != std::string::npos, summary_of(*corpus));
}

BOOST_AUTO_TEST_CASE(the_digest_tells_other_data_apart) {
  const Tree tree, same, higher, longer, edited, named;
  for (const auto* each : {&tree, &same, &longer, &edited}) each->fill(20);
  fs::create_directory(higher.root / "data");
  fs::copy(tree.root, higher.root / "data", fs::copy_options::recursive);
  fs::copy(tree.root, named.root, fs::copy_options::recursive);
  longer.write("d0/f0.h", std::string(400, 'l'));
  std::ifstream original(edited.root / "d0/f0.h");
  std::string content(std::istreambuf_iterator<char>(original), {});
  content.front() = '?';
  edited.write("d0/f0.h", content);
  fs::rename(named.root / "d0/f0.h", named.root / "d0/f00.h");
  const auto digest = [](const Tree& of) { return open(of, settings()).value().identity({}).digest; };
  BOOST_TEST((digest(tree) == digest(same)));
  for (const auto* other : {&higher, &longer, &edited, &named}) BOOST_TEST((digest(tree) != digest(*other)));
}

BOOST_AUTO_TEST_CASE(a_single_file_is_a_corpus) {
  const Tree tree;
  tree.write("only.h", std::string(10 * CONTEXT + 1, 'g'));
  auto data = settings();
  data.held_out_percent = 0;
  const auto corpus = open_at(data, (tree.root / "only.h").string(), CONTEXT, 1);
  BOOST_REQUIRE(corpus);
  BOOST_TEST(corpus->windows() == 10U);
}

BOOST_AUTO_TEST_CASE(less_than_one_batch_is_too_small) {
  const Tree tree;
  tree.write("a.h", std::string(4 * CONTEXT, 'a'));
  auto data = settings();
  data.held_out_percent = 0;
  BOOST_TEST(open(tree, data, 3).has_value());
  const auto small = open(tree, data, 4);
  BOOST_REQUIRE(!small);
  BOOST_TEST((small.error().name == ErrorName::DataTooSmall));
  data.include = "*.nothing";
  const auto none = open(tree, data);
  BOOST_REQUIRE(!none);
  BOOST_TEST((none.error().name == ErrorName::DataTooSmall));
  BOOST_TEST(none.error().detail == tree.root.string() + ": `data.include` is *.nothing, which matches none of its 1 files");
}

BOOST_AUTO_TEST_CASE(a_path_that_is_not_there_is_named) {
  const auto missing = open_at(settings(), "/nonexistent/corpus", CONTEXT, 1);
  BOOST_REQUIRE(!missing);
  BOOST_TEST((missing.error().name == ErrorName::DataUnreadable));
  BOOST_TEST(missing.error().detail.find("/nonexistent/corpus") != std::string::npos);
}

/// Root may read everything, so permissions are tested as somebody else.
struct Unprivileged {
  Unprivileged() {
    if (::geteuid() == 0) changed = ::seteuid(65534) == 0;
  }
  ~Unprivileged() {
    if (changed && ::seteuid(0) != 0) std::abort();
  }
  bool changed = false;
};

BOOST_AUTO_TEST_CASE(unreadable_files_are_skipped_and_counted_unless_there_is_nothing_else) {
  const Tree tree;
  tree.write("readable.h", std::string(100, 'r'));
  tree.write("secret.h", std::string(100, 's'));
  fs::permissions(tree.root, static_cast<fs::perms>(0755));
  fs::permissions(tree.root / "secret.h", fs::perms::none);
  fs::permissions(cache().root, fs::perms::all);
  auto data = settings();
  data.held_out_percent = 0;
  {
    const Unprivileged somebody;
    const auto corpus = open(tree, data);
    BOOST_REQUIRE(corpus);
    BOOST_TEST(summary_of(*corpus).find("1 cannot be opened as secret.h") != std::string::npos);
    BOOST_TEST(corpus->windows() == 6U);
  }
  fs::permissions(tree.root / "readable.h", fs::perms::none);
  const Unprivileged somebody;
  const auto nothing = open(tree, data);
  BOOST_REQUIRE(!nothing);
  BOOST_TEST((nothing.error().name == ErrorName::DataUnreadable));
  BOOST_TEST(nothing.error().detail.find(tree.root.string()) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(data_that_is_gone_is_read_all_the_same_once_it_is_compiled_and_a_damaged_cache_is_named) {
  const Tree tree, kept;
  tree.fill(3);
  auto data = settings();
  data.path = tree.root.string();
  const auto corpus = Corpus::open(data, {CONTEXT, 1, 256}, {kept.root, ~0ULL, 1, {}}).value();
  const auto before = training_window(corpus, 0);
  fs::remove_all(tree.root);
  BOOST_TEST(training_window(corpus, 0) == before);
  for (const auto& file : fs::directory_iterator(kept.root)) fs::resize_file(file.path(), 64);
  std::vector<Token> window(corpus.window_tokens());
  const auto outcome = corpus.read(0, window);
  BOOST_REQUIRE(!outcome);
  BOOST_TEST((outcome.error().name == ErrorName::StorageFailed));
  BOOST_TEST(outcome.error().detail.find(kept.root.string()) != std::string::npos, outcome.error().detail);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
