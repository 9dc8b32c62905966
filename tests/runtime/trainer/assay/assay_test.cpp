// Owns the checks of what a genome model is compared with.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "runtime/trainer/assay/classifier.hpp"
#include "runtime/trainer/assay/report.hpp"
#include "runtime/trainer/permutation.hpp"

namespace {

using namespace prime;
using namespace prime::assay;

std::string drawn(std::size_t size, std::uint64_t seed, std::string_view letters = "ACGT") {
  std::string bases;
  for (std::size_t i = 0; i < size; ++i) bases += letters[trainer::mix(seed + i) % letters.size()];
  return bases;
}

std::string complement(std::string bases) {
  std::ranges::reverse(bases);
  for (char& base : bases) base = base == 'A' ? 'T' : base == 'T' ? 'A' : base == 'C' ? 'G' : base == 'G' ? 'C' : base;
  return bases;
}

BOOST_AUTO_TEST_SUITE(assays)

/// The same by maps of strings.
BOOST_AUTO_TEST_CASE(a_table_is_what_a_plain_count_of_both_strands_makes_it) {
  constexpr unsigned ORDER = 3;
  const std::string text = drawn(300, 1) + "N" + drawn(200, 900, "AC"), asked = drawn(80, 5) + "N" + drawn(40, 70, "AAC");
  Markov markov(ORDER);
  markov.learn(text);
  std::map<std::string, double> counts;
  for (const auto& strand : {text, complement(text)})
    for (std::size_t size = 1; size <= ORDER + 1; ++size)
      for (std::size_t i = 0; i + size <= strand.size(); ++i)
        if (strand.substr(i, size).find('N') == std::string::npos) ++counts[strand.substr(i, size)];
  constexpr double WEIGHT = 3;
  std::vector<double> bits, expected(ORDER + 1);
  markov.add_bits(asked, WEIGHT, bits);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] == 'N') continue;
    double likely = 0.25;
    for (std::size_t order = 0; order <= ORDER; ++order) {
      const auto context = i >= order ? asked.substr(i - order, order) : "N";
      if (context.find('N') == std::string::npos) {
        double all = 0;
        for (const char base : std::string_view{"ACGT"}) all += counts[context + base];
        likely = (counts[context + asked[i]] + WEIGHT * likely) / (all + WEIGHT);
      }
      expected[order] -= std::log2(likely);
    }
  }
  BOOST_REQUIRE(bits.size() == expected.size());
  for (std::size_t order = 0; order <= ORDER; ++order) BOOST_TEST(bits[order] == expected[order], boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_high_order_knows_what_it_has_seen_and_nothing_of_chance) {
  Markov markov(8);
  const auto genome = drawn(20'000, 1);
  markov.learn(genome);
  const auto foreign = drawn(2'000, 1U << 20);
  const std::string known = complement(genome.substr(500, 2'000));
  BOOST_TEST(measure(markov, {known})[8].bits_per_base < 1.0);
  for (const auto& order : measure(markov, {foreign})) BOOST_TEST(std::abs(order.bits_per_base - 2) < 0.05);
}

BOOST_AUTO_TEST_CASE(shares_of_k_mers_are_the_same_on_both_strands) {
  const auto bases = drawn(150, 3);
  const auto one = kmer_shares(bases), other = kmer_shares(complement(bases));
  BOOST_TEST(one.size() == 136U);
  BOOST_TEST(one == other, boost::test_tools::per_element());
  double sum = 0;
  for (const double share : one) sum += share;
  BOOST_TEST(sum == 1.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(kmer_shares("NNNN").size() == 136U);
}

BOOST_AUTO_TEST_CASE(scores_are_those_of_the_textbook) {
  Confusion confusion{6, 1, 2, 1};
  BOOST_TEST(confusion.matthews() == (6.0 * 2 - 1.0 * 1) / std::sqrt(7.0 * 7 * 3 * 3), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(confusion.f1() == 12.0 / 14, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(Confusion{}.matthews() == 0);
  const double threshold = best_threshold({{1, false}, {2, true}, {3, false}, {4, true}, {5, true}}, &Confusion::f1);
  BOOST_TEST((threshold > 1 && threshold < 2));  // four of them: all that is positive, and one that is not
}

BOOST_AUTO_TEST_CASE(a_classifier_finds_the_feature_that_tells_and_shrugs_at_noise) {
  const auto examples = [](std::uint64_t seed, bool tells) {
    std::vector<Example> made;
    for (std::uint64_t n = 0; n < 400; ++n) {
      const auto uniform = [&](std::uint64_t i) { return static_cast<double>(trainer::mix(seed + 100 * n + i) >> 11) * 0x1p-53; };
      const bool positive = uniform(0) < 0.3;
      Example example{{}, positive};
      for (std::uint64_t i = 1; i < 8; ++i) example.features.push_back(uniform(i) * 1e3);
      if (tells) example.features[3] += positive ? 700 : 0;
      made.push_back(example);
    }
    return made;
  };
  const auto score = [&](bool tells) {
    const auto classifier = Classifier::learn(examples(1, tells));
    Confusion confusion;
    for (const auto& example : examples(1U << 20, tells)) confusion.add(example.positive, classifier.judges(example.features));
    return confusion.matthews();
  };
  BOOST_TEST(score(true) > 0.7);
  BOOST_TEST(std::abs(score(false)) < 0.2);
}

BOOST_AUTO_TEST_CASE(a_sample_is_even_and_the_same_each_time) {
  const auto taken = [] {
    Sample sample(100);
    for (int i = 0; i < 10'000; ++i) sample.show("r source=s" + std::to_string(i) + " start=3", "ACGT");
    return std::move(sample).take();
  };
  double sum = 0;
  for (const auto& read : taken()) sum += std::stod(read.source.substr(1));
  BOOST_TEST(std::abs(sum / 100 - 5000) < 1000);
  BOOST_TEST(taken().front().source == taken().front().source);
  BOOST_TEST(random_like(taken())[7].bases.size() == 4U);
}

/// As of a model that gives each base of a known read one bit, and each of a random one two.
BOOST_AUTO_TEST_CASE(a_report_has_the_figures_of_what_a_model_made_of_the_reads) {
  ReadSets sets;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const bool phage = i % 3 == 0;
    for (auto* set : {&sets.trained, &sets.held_out, &sets.random}) {
      set->reads.push_back({phage ? "phage" : "other", drawn(60, 1000 * i + (set == &sets.trained ? 0 : 500))});
      const double bits = (set == &sets.random ? 2.0 : 1.0) * 60;
      set->readings.push_back({bits * std::log(2.0), 15, 60, {phage ? 1.0 : 0.0, static_cast<double>(i % 7)}});
    }
  }
  Markov markov(4);
  for (const auto& read : sets.trained.reads) markov.learn(read.bases);
  const auto report = make_report(sets, markov, {"phage"});
  BOOST_TEST(report.held_out.bits_per_base == 1.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(report.random.nats_per_token == 8 * std::log(2.0), boost::test_tools::tolerance(1e-9));
  const auto counted = [](const Density& density, std::size_t step) { return density.histogram[step - 1] + density.histogram[step]; };
  BOOST_TEST(counted(report.held_out, 20) == 60U, "of one bit, which rounding may put on either side");
  BOOST_TEST(counted(report.random, 40) == 60U);
  BOOST_TEST(report.held_out_against_random.f1 == 1.0);
  BOOST_TEST(report.markov.size() == 5U);
  BOOST_REQUIRE(report.classes.has_value());
  BOOST_TEST(report.classes->model == 1.0);
  BOOST_TEST(report.classes->kmers < 0.6);
  BOOST_TEST(!make_report(sets, markov, {"virus"}).classes.has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
