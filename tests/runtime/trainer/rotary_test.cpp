// Owns the check of how rotations are scaled, by hand; tests/golden has the same beside transformers.
#include "runtime/models/rotary.hpp"

#include <boost/test/unit_test.hpp>
#include <numbers>

using namespace prime;

BOOST_AUTO_TEST_SUITE(rotary)

BOOST_AUTO_TEST_CASE(frequencies_are_scaled_by_the_length_of_their_waves) {
  manifest::Model model;
  model.dim = 16;
  model.heads = 2;
  const auto near = [&](const std::vector<double>& expected) {
    const auto found = models::rotary_frequencies(model);
    BOOST_REQUIRE(found.size() == expected.size());
    for (std::size_t pair = 0; pair < found.size(); ++pair) BOOST_TEST(found[pair] == expected[pair], boost::test_tools::tolerance(1e-14));
  };
  near({1, 0.1, 0.01, 0.001});
  model.rope_scaling = {.kind = manifest::RopeKind::Linear, .factor = 4};
  near({0.25, 0.025, 0.0025, 0.00025});
  // In a window of 400 they turn 63.7, 6.37, 0.637 and 0.0637 times.
  model.rope_scaling = {manifest::RopeKind::Llama3, 4, 0.5, 10, 400};
  const auto between = [](double frequency) {
    const double kept = (400 * frequency / (2 * std::numbers::pi) - 0.5) / 9.5;
    return frequency * (kept + (1 - kept) / 4);
  };
  near({1, between(0.1), between(0.01), 0.00025});
}

BOOST_AUTO_TEST_SUITE_END()
