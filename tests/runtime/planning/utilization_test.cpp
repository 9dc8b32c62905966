// Owns the tests of the utilisation simulator: what is known in closed form, and the published table.
#include "runtime/planning/utilization.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace prime::planning {
namespace {

/// Table 4 of Streaming DiLoCo (arXiv:2501.18512): the bandwidth, in Gbit/s, at which a method first computes for 50, 80, 90, 95 and 99 %
/// of its time. Bandwidths are the 50 points that divide 0.1 … 1000 evenly on a logarithmic scale.
constexpr std::array TARGETS{0.5, 0.8, 0.9, 0.95, 0.99};
constexpr int POINTS = 50;

double point(int index) { return 0.1 * std::pow(10.0, 4.0 * index / (POINTS - 1)); }

/// The table rounds what it tells.
int nearest_point(double gbit_per_s) { return static_cast<int>(std::lround(std::log10(gbit_per_s / 0.1) * (POINTS - 1) / 4)); }

int first_point(const Pattern& pattern, double target) {
  int index = 0;
  while (index < POINTS && compute_utilization(pattern, point(index) * 1e9) < target) ++index;
  return index;
}

struct PublishedModel {
  const char* name;
  double parameters;
  std::uint32_t layers;
  double step_s;
};
constexpr std::array MODELS{PublishedModel{"1B", 1e9, 24, 0.1}, PublishedModel{"10B", 1e10, 48, 0.8},
                            PublishedModel{"100B", 1e11, 108, 4.9}};

/// Of 16 bits for each parameter, 83 % are in blocks.
constexpr double BITS_PER_PARAMETER = 13.3;
constexpr double FOUR_OF_SIXTEEN = 0.25;
constexpr std::uint32_t INNER_STEPS = 100;

/// The published step time is that of three equal passes through each layer; the first layer has but two.
EvenModel even(const PublishedModel& model, double share = 1) {
  return {model.layers, model.step_s * (3.0 * model.layers - 1) / (3.0 * model.layers), BITS_PER_PARAMETER * share * model.parameters};
}

struct Method {
  const char* name;
  Pattern (*pattern)(const PublishedModel&);
  std::array<std::array<double, TARGETS.size()>, MODELS.size()> gbit_per_s;
};

const std::array METHODS{
    Method{"data-parallel",
           [](const PublishedModel& m) { return data_parallel(even(m)); },
           {{{86.8, 153, 184, 222, 569}, {105, 222, 222, 268, 472}, {184, 324, 391, 391, 472}}}},
    Method{"DiLoCo",
           [](const PublishedModel& m) { return diloco(even(m), INNER_STEPS); },
           {{{1.4, 6.2, 13.3, 23.3, 86.8}, {1.7, 7.5, 16, 33.9, 105}, {3, 11, 23.3, 49.4, 184}}}},
    Method{"Streaming",
           [](const PublishedModel& m) { return streaming(even(m), INNER_STEPS, m.layers / 3, 0); },
           {{{1.4, 5.2, 9.1, 16, 28.1}, {1.7, 5.2, 9.1, 13.3, 19.3}, {2.4, 6.2, 9.1, 11, 19.3}}}},
    Method{"overlapped",
           [](const PublishedModel& m) { return streaming(even(m), INNER_STEPS, m.layers / 3, 1); },
           {{{1.4, 4.3, 6.2, 9.1, 11}, {1.7, 3.6, 5.2, 6.2, 7.5}, {1.7, 3.6, 4.3, 5.2, 5.2}}}},
    Method{"overlapped, 4 bits",
           [](const PublishedModel& m) { return streaming(even(m, FOUR_OF_SIXTEEN), INNER_STEPS, m.layers / 3, 1); },
           {{{0.4, 0.9, 1.7, 2.0, 3}, {0.4, 0.9, 1.4, 1.4, 1.7}, {0.5, 0.9, 1.1, 1.1, 1.4}}}},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(utilization)

BOOST_AUTO_TEST_CASE(the_published_table_within_one_point_of_its_grid) {
  int cells = 0, equal = 0;
  for (const auto& method : METHODS) {
    for (std::size_t m = 0; m < MODELS.size(); ++m) {
      const auto pattern = method.pattern(MODELS.at(m));
      for (std::size_t t = 0; t < TARGETS.size(); ++t) {
        const auto published = nearest_point(method.gbit_per_s.at(m).at(t));
        const auto ours = first_point(pattern, TARGETS.at(t));
        BOOST_TEST(std::abs(ours - published) <= 1, method.name << ", " << MODELS.at(m).name << ", " << TARGETS.at(t) << ": "
                                                                << method.gbit_per_s.at(m).at(t) << " is published, ours is "
                                                                << point(ours));
        ++cells;
        if (ours == published) ++equal;
      }
    }
  }
  BOOST_TEST_MESSAGE(equal << " of " << cells << " cells are equal, the others are the next point of the grid");
  BOOST_TEST(cells == 75);
  BOOST_TEST(equal >= 68);  // as the independent reproduction of ../shared/spec/diloco.md
}

BOOST_AUTO_TEST_CASE(rounds_beside_the_next_step_cost_what_they_take_longer_than_it) {
  for (const double seconds : {1.0, 9.9, 10.0, 15.0, 40.0}) {  // an outer step takes ten
    const auto pattern = outer_rounds(0.1, 100, {seconds * 0.75e6, seconds * 0.25e6}, 100);
    BOOST_TEST(compute_utilization(pattern, 1e6) == std::min(1.0, 10.0 / seconds), boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(blocking_rounds_cost_what_they_take) {
  for (const std::uint32_t inner_steps : {1U, 7U, 40U, 1000000U}) {
    const auto pattern = outer_rounds(0.25, inner_steps, {3e6, 1e6});
    const double training_s = 0.25 * inner_steps;
    for (const double link : {1e5, 1e6, 1e9})
      BOOST_TEST(compute_utilization(pattern, link) == training_s / (training_s + 4e6 / link), boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(an_exchange_that_fits_beside_its_overlap_costs_nothing) {
  // One fragment of one layer, 10 steps of a second; the result is waited for from the end of one step to the begin of the next but two.
  const EvenModel model{1, 1, 1e6};
  for (const std::uint32_t overlap : {0U, 1U, 2U, 5U}) {
    const auto pattern = streaming(model, 10, 1, overlap);
    const double window_s = overlap;
    for (const double takes_s : {0.5, 1.0, 1.9, 2.1, 6.5}) {
      const double waited_s = std::max(0.0, takes_s - window_s);
      BOOST_TEST(compute_utilization(pattern, 1e6 / takes_s) == 10 / (10 + waited_s), boost::test_tools::tolerance(1e-9));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_link_that_is_too_slow_for_any_overlap_is_the_pace) {
  // 10 fragments of 1 Mbit in 10 s of computing, and 40 s of sending.
  const auto pattern = streaming({10, 1, 10e6}, 10, 10, 3);
  BOOST_TEST(compute_utilization(pattern, 10e6 / 40) == 0.25, boost::test_tools::tolerance(0.01));
  BOOST_TEST(compute_utilization(pattern, 1e12) == 1.0, boost::test_tools::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(fragments_are_due_evenly_and_hold_each_layer_once) {
  const auto pattern = streaming({12, 1, 12}, 10, 4, 2);
  BOOST_TEST(pattern.exchanges.size() == 12U);
  std::vector<std::uint32_t> due;
  for (const auto& exchange : pattern.exchanges) {
    BOOST_TEST(exchange.after_layer == exchange.before_layer);
    BOOST_TEST(exchange.delay == 3U);
    BOOST_TEST(exchange.bits == 1.0);
    due.push_back(exchange.due);
  }
  BOOST_TEST(due == (std::vector<std::uint32_t>{0, 3, 5, 8, 0, 3, 5, 8, 0, 3, 5, 8}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_needed_link_is_the_slowest_that_is_enough) {
  const EvenModel model{24, 0.1, 13.3e9};
  for (const auto& pattern : {data_parallel(model), diloco(model, 100), streaming(model, 100, 8, 1), outer_rounds(0.1, 100, {1e9, 2e9})}) {
    for (const double target : TARGETS) {
      const double link = link_for(pattern, target);
      BOOST_TEST(compute_utilization(pattern, link) >= target);
      BOOST_TEST(compute_utilization(pattern, link * 0.997) < target);
    }
  }
  BOOST_TEST(link_for(outer_rounds(0.1, 100, {0}), 0.9) == 0.0);
  BOOST_TEST(link_for(outer_rounds(0.1, 100, {}), 0.9) == 0.0);
  BOOST_TEST(compute_utilization(outer_rounds(0.1, 100, {}), 1e6) == 1.0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::planning
