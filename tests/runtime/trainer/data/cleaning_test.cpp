// Owns the checks of reads: what is cut off, what becomes one, what is left out, and that each is counted.
#include "runtime/trainer/data/read_cleaning.hpp"
#include "tests/runtime/trainer/data/support.hpp"

BOOST_AUTO_TEST_SUITE(data_cleaning)

namespace {

using namespace prime;
using namespace prime::data;
using namespace prime::data::test;

std::string fastq(const std::vector<std::pair<std::string, std::string>>& reads) {
  std::string text;
  for (const auto& [bases, quality] : reads)
    text += "@r\n" + bases + "\n+\n" + (quality.empty() ? std::string(bases.size(), 'I') : quality) + "\n";
  return text;
}

BOOST_AUTO_TEST_CASE(an_end_of_low_quality_is_cut_by_the_sum_rule) {
  // cutadapt's own example: qualities 42, 40, 26, 27, 8, 7, 11, 4, 2, 3 and a limit of 10 leave four.
  const std::string example{char('!' + 42), char('!' + 40), char('!' + 26), char('!' + 27), char('!' + 8),
                            char('!' + 7),  char('!' + 11), char('!' + 4),  char('!' + 2),  char('!' + 3)};
  BOOST_TEST(quality_cut(example, 10) == 4U);
  BOOST_TEST(quality_cut("IIII", 20) == 4U);
  BOOST_TEST(quality_cut("!!!!", 20) == 0U);
  BOOST_TEST(quality_cut("", 20) == 0U);
}

BOOST_AUTO_TEST_CASE(an_adapter_is_found_whole_or_by_its_beginning_with_one_error_in_ten) {
  const std::string adapter = "AGATCGGAAGAGC";
  BOOST_TEST(adapter_cut("TTTTTTTT" + adapter + "CCCC", adapter) == 8U);
  BOOST_TEST(adapter_cut("TTTTTTTTAGATCGGTAGAGCCC", adapter) == 8U);   // one of thirteen differs
  BOOST_TEST(adapter_cut("TTTTTTTTAGTTCGGTAGAGCCC", adapter) == 23U);  // two do
  BOOST_TEST(adapter_cut("TTTTTTTTAGA", adapter) == 8U);
  BOOST_TEST(adapter_cut("TTTTTTTTAG", adapter) == 10U);  // too little to be sure
}

BOOST_AUTO_TEST_CASE(a_pair_that_overlaps_becomes_one_read_with_the_better_bases) {
  const std::string fragment = "ACGTTGCAGGCTTAACCGATTGACTTGCATCC";  // 32
  const auto turned = [](std::string text) {
    std::string result(text.rbegin(), text.rend());
    for (char& c : result) c = c == 'A' ? 'T' : c == 'T' ? 'A' : c == 'C' ? 'G' : 'C';
    return result;
  };
  const Read forward{fragment.substr(0, 22), std::string(22, 'I')};
  Read reverse{turned(fragment.substr(10)), std::string(22, 'I')};
  BOOST_TEST(collapse_pair(forward, reverse) == fragment);
  // Fragment place 20 is place 11 of the reverse read. The better score decides.
  reverse.bases[11] = reverse.bases[11] == 'A' ? 'C' : 'A';
  reverse.quality[11] = '#';
  BOOST_TEST(collapse_pair(forward, reverse) == fragment);
  reverse.quality[11] = 'J';
  auto other = fragment;
  other[20] = turned({reverse.bases[11]})[0];
  BOOST_TEST(collapse_pair(forward, reverse) == other);
  // A fragment shorter than its reads: what is beyond it is adapter.
  const std::string adapter = "AGATCGGA";
  BOOST_TEST(collapse_pair({fragment + adapter, {}}, {turned(fragment) + adapter, {}}) == fragment);
  BOOST_TEST(collapse_pair({fragment.substr(0, 12), {}}, {turned(fragment.substr(8)), {}}).empty());
}

BOOST_AUTO_TEST_CASE(what_is_asked_for_is_done_and_counted_and_nothing_else) {
  const Folder folder;
  const auto path = folder.write("r.fq", fastq({{"ACGTACGTAA", ""},
                                                {"ACGTACGTAA", ""},
                                                {"ACNNNNNNAA", ""},
                                                {"ACG", ""},
                                                {"ACGTACGTCCGG", "IIIIIIII!!!!"},
                                                {"GGGGGGGGAGATCGG", ""}}));
  auto source = source_of(path, DataFormat::Fastq);
  BOOST_TEST(documents_of(data::test::open(folder, {source}).value()) ==
             "ACGTACGTAA|ACGTACGTAA|ACNNNNNNAA|ACG|ACGTACGTCCGG|GGGGGGGGAGATCGG|");
  source.quality_trim = 20;
  source.adapter = "AGATCGGAAGAGC";
  source.n_percent = 50;
  source.min_length = 4;
  source.deduplicate = true;
  const auto corpus = data::test::open(folder, {source}).value();
  BOOST_TEST(documents_of(corpus) == "ACGTACGTAA|ACGTACGT|GGGGGGGG|");
  BOOST_TEST((corpus.sources()[0].counts == Counts{3, 26, 0, 1, 1, 1, 1, 1, 0}));
  source.max_length = 8;
  BOOST_TEST(documents_of(data::test::open(folder, {source}).value()) == "ACGTACGT|GGGGGGGG|");
}

BOOST_AUTO_TEST_CASE(sequences_that_come_in_pieces_are_left_out_by_the_same_rules) {
  const Folder folder;
  const auto bases = [](std::size_t count, char of) { return std::string(count, of); };
  const auto in_lines = [](const std::string& sequence, std::size_t width) {
    std::string text = ">s\n";
    for (std::size_t at = 0; at < sequence.size(); at += width) text += sequence.substr(at, width) + "\n";
    return text;
  };
  const auto long_one = bases(3 * MIB, 'A') + bases(1000, 'C'), unknown = bases(2 * MIB, 'N');
  const auto path =
      folder.write("s.fa", in_lines(long_one, 70) + in_lines(unknown, 70) + in_lines("ACGTACGT", 70) + in_lines(long_one, 60));
  auto source = source_of(path, DataFormat::Fasta);
  const auto counts = [&] { return data::test::open(folder, {source}).value().sources()[0].counts; };
  BOOST_TEST(counts().documents == 4U);
  source.max_length = 1000;
  BOOST_TEST(counts().documents == 1U);
  BOOST_TEST(counts().dropped_length == 3U);
  source.max_length = 0;
  source.n_percent = 5;
  source.deduplicate = true;
  BOOST_TEST(counts().documents == 2U);
  BOOST_TEST(counts().dropped_n == 1U);
  BOOST_TEST(counts().dropped_duplicate == 1U);  // however long its lines are
  source.adapter = "AGATCGGAAGAGC";
  BOOST_TEST(data::test::open(folder, {source}).error().detail.find("s.fa:1: is longer than 1 MiB, and `adapter` is for reads") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(two_reads_of_different_names_are_no_pair) {
  const Folder folder;
  const auto reads = [](const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += "@" + name + "\nACGTTGCAGGCTTAACCGAT\n+\nIIIIIIIIIIIIIIIIIIII\n";
    return text;
  };
  const auto read = [&](const std::string& path, Collapse collapse) {
    auto source = source_of(folder.path(path), DataFormat::Fastq);
    source.collapse = collapse;
    const auto corpus = data::test::open(folder, {source});
    return corpus ? std::string{"read"} : corpus.error().detail;
  };
  folder.write("a_R1.fq", reads({"r1/1", "r2/1 of 1", "r3.1"}));
  folder.write("a_R2.fq", reads({"r1/2", "r2/2\tof 1", "r3.2"}));
  BOOST_TEST(read("a_R1.fq", Collapse::Files) == "read");
  folder.write("a_R2.fq", reads({"r1/2", "r3/2", "r4/2"}));
  BOOST_TEST(read("a_R1.fq", Collapse::Files) == folder.path("a_R2.fq") +
                                                     ":5 (record 2): is `r3`, and stands where the other read of `r2` belongs: "
                                                     "`collapse` needs both in the same order");
  folder.write("both.fq", reads({"r1/1", "r1/2", "r2/1", "r3/2"}));
  BOOST_TEST(read("both.fq", Collapse::Interleaved).starts_with(folder.path("both.fq") + ":13 (record 4): is `r3`"));
}

BOOST_AUTO_TEST_CASE(pairs_lie_in_two_files_or_behind_one_another) {
  const Folder folder;
  const std::string first = "ACGTTGCAGGCTTAACCGAT", second = "GGATGCAAGTCAATCGGTTAAGCCTG", alone = "TTTTTTTTTTTTTTTT",
                    other = "CCCCCCCCCCCCCCCC";
  folder.write("x_R1.fq.gz", gzipped(fastq({{first, ""}, {alone, ""}})));
  folder.write("x_R2.fq.gz", gzipped(fastq({{second, ""}, {other, ""}})));
  folder.write("both.fq", fastq({{first, ""}, {second, ""}, {alone, ""}, {other, ""}}));
  const auto read = [&](const std::string& path, Collapse collapse) {
    auto source = source_of(folder.path(path), DataFormat::Fastq);
    source.collapse = collapse;
    const auto corpus = data::test::open(folder, {source});
    return corpus ? documents_of(*corpus) + " " + std::to_string(corpus->sources()[0].counts.collapsed) : corpus.error().detail;
  };
  const std::string expected = "ACGTTGCAGGCTTAACCGATTGACTTGCATCC|" + alone + "|" + other + "| 1";
  BOOST_TEST(read("x_R*.fq.gz", Collapse::Files) == expected);
  BOOST_TEST(read("x_R1.fq.gz", Collapse::Files) == expected);
  BOOST_TEST(read("both.fq", Collapse::Interleaved) == expected);
  BOOST_TEST(read("both.fq", Collapse::Files) ==
             folder.path("both.fq") + ": `collapse: files` needs `_R1` or `_1` in the name of a first file");
  folder.write("y_1.fq", fastq({{first, ""}}));
  BOOST_TEST(read("y_1.fq", Collapse::Files) ==
             folder.path("y_2.fq") + ": is not there, and `collapse: files` needs it beside " + folder.path("y_1.fq"));
  folder.write("y_2.fq", fastq({{second, ""}, {other, ""}}));
  BOOST_TEST(read("y_1.fq", Collapse::Files) ==
             folder.path("y_2.fq") + ":5 (record 2): has no other read of its pair in " + folder.path("y_1.fq"));
  folder.write("odd.fq", fastq({{first, ""}, {second, ""}, {alone, ""}}));
  BOOST_TEST(read("odd.fq", Collapse::Interleaved) == folder.path("odd.fq") + ":9 (record 3): has no other read of its pair");
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
