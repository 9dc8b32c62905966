// Owns the checks of the simulated sequencer: where reads come from, how often they err, and that they are the same every time.
#include "runtime/trainer/data/sequencer.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

#include "runtime/trainer/permutation.hpp"

namespace {

using namespace prime;
using namespace prime::data;

std::string drawn(std::size_t size, std::uint64_t seed) {
  std::string bases;
  for (std::size_t i = 0; i < size; ++i) bases += "ACGT"[trainer::mix(seed + i) % 4];
  return bases;
}

/// Two files: one of a sequence, one of two, of which the second has a stretch of N.
struct World {
  World() : folder(std::filesystem::temp_directory_path() / ("prime-sequencer-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder);
    sequences = {{drawn(20'000, 1)}, {drawn(5'000, 1U << 20), drawn(2'000, 1U << 21) + std::string(1'000, 'N') + drawn(2'000, 1U << 22)}};
    paths = {(folder / "one.fna").string(), (folder / "two.fa").string()};
    for (std::size_t file = 0; file < 2; ++file) {
      std::ofstream out(paths[file]);
      for (const auto& sequence : sequences[file]) out << ">s\n" << sequence << "\n";
    }
  }
  ~World() { std::filesystem::remove_all(folder); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::filesystem::path folder;
  std::vector<std::vector<std::string>> sequences;
  std::vector<std::string> paths;
};

std::string complement(std::string bases) {
  std::ranges::reverse(bases);
  for (char& base : bases) base = base == 'A' ? 'T' : base == 'T' ? 'A' : base == 'C' ? 'G' : 'C';
  return bases;
}

BOOST_FIXTURE_TEST_SUITE(sequencer, World)

BOOST_AUTO_TEST_CASE(reads_without_errors_lie_in_the_part_that_they_come_from_on_both_strands) {
  const auto genomes = Genomes::open(paths).value();
  const auto machine = Sequencer::make(genomes, {.error_percent = 0, .from_percent = 10, .to_percent = 60, .shares = {3, 1}}).value();
  std::map<std::size_t, int> of_file;
  int reverse = 0;
  double bases = 0;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    const auto read = machine.read(number);
    const auto& sequence = sequences[read.file][read.sequence - 1];
    // Of the whole file: of the second one's two sequences of 5000 bases, 1000 up to 5000 of the first, and 1000 of the second.
    const std::uint64_t from = read.sequence == 1 ? (read.file == 0 ? 2'000 : 1'000) : 0;
    const std::uint64_t to = read.sequence == 1 ? (read.file == 0 ? 12'000 : 5'000) : 1'000;
    BOOST_REQUIRE(read.start >= from);
    BOOST_REQUIRE(read.start + read.bases.size() <= to);
    BOOST_REQUIRE(read.bases.find('N') == std::string::npos);
    BOOST_REQUIRE(sequence.substr(read.start, read.bases.size()) == (read.reverse ? complement(read.bases) : read.bases));
    BOOST_REQUIRE(read.quality == std::string(read.bases.size(), '!' + 40));
    ++of_file[read.file];
    reverse += read.reverse ? 1 : 0;
    bases += static_cast<double>(read.bases.size());
  }
  BOOST_TEST(std::abs(of_file[0] / 4000.0 - 0.75) < 0.03);
  BOOST_TEST(std::abs(reverse / 4000.0 - 0.5) < 0.03);
  BOOST_TEST(std::abs(bases / 4000 - 150) < 3);
}

BOOST_AUTO_TEST_CASE(errors_are_as_many_as_asked_for_more_towards_the_end_and_scores_tell_of_them) {
  const auto genomes = Genomes::open(paths).value();
  const auto exact = Sequencer::make(genomes, {.error_percent = 0, .shares = {1, 0}}).value();
  const auto machine = Sequencer::make(genomes, {.error_percent = 4, .shares = {1, 0}}).value();
  double errors = 0, late = 0, bases = 0, told = 0;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    const auto read = machine.read(number), truth = exact.read(number);
    BOOST_REQUIRE(read.start == truth.start);
    for (std::size_t i = 0; i < read.bases.size(); ++i) {
      const bool wrong = read.bases[i] != truth.bases[i];
      errors += wrong ? 1 : 0;
      late += wrong && 2 * i >= read.bases.size() ? 1 : 0;
      told += std::pow(10.0, -(read.quality[i] - '!') / 10.0);
    }
    bases += static_cast<double>(read.bases.size());
  }
  BOOST_TEST(std::abs(errors / bases - 0.04) < 0.002);
  BOOST_TEST(std::abs(told / bases - 0.04) < 0.002);
  BOOST_TEST(late / errors > 0.6);
}

BOOST_AUTO_TEST_CASE(a_short_fragment_is_read_into_the_adapter) {
  const auto genomes = Genomes::open(paths).value();
  const Sequencing settings{.length = 80, .spread = 10, .error_percent = 0, .adapter = "AGATCGGAAGAGC", .cycles = 100};
  const auto machine = Sequencer::make(genomes, settings).value();
  int with = 0;
  for (std::uint64_t number = 0; number < 500; ++number) {
    const auto read = machine.read(number);
    BOOST_REQUIRE(read.bases.size() == 100U);
    with += read.bases.find(settings.adapter) != std::string::npos ? 1 : 0;
  }
  BOOST_TEST(with > 350);
}

BOOST_AUTO_TEST_CASE(equal_settings_give_equal_reads_and_another_seed_others) {
  const auto genomes = Genomes::open(paths).value();
  const auto text = [&](std::uint64_t seed) {
    const auto machine = Sequencer::make(genomes, {.seed = seed}).value();
    std::string all;
    for (std::uint64_t number = 0; number < 50; ++number) all += fastq_record(machine.read(number), number, "x");
    return all;
  };
  BOOST_TEST(text(3) == text(3));
  BOOST_TEST(text(3) != text(4));
  const auto read = Sequencer::make(genomes, {.error_percent = 0}).value().read(0);
  const auto record = fastq_record(read, 7, source_name(paths[read.file]));
  BOOST_TEST(record.starts_with("@7 source=" + std::string{read.file == 0 ? "one" : "two"} + " sequence=" + std::to_string(read.sequence)),
             record);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_named) {
  std::ofstream(folder / "short.fa") << ">s\nACGTACGT\n";
  std::ofstream(folder / "protein.fa") << ">s\nMKLV\n";
  const auto genomes = Genomes::open({(folder / "short.fa").string()}).value();
  BOOST_TEST((Sequencer::make(genomes, {}).error().name == ErrorName::DataTooSmall));
  BOOST_TEST((Genomes::open({(folder / "protein.fa").string()}).error().name == ErrorName::DataUnreadable));
  BOOST_TEST((Genomes::open({(folder / "none.fa").string()}).error().name == ErrorName::DataUnreadable));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
