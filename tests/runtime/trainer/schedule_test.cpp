// Owns the checks of the learning rate.
#include "runtime/trainer/schedule.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(schedule)

namespace {

using prime::manifest::Constant;
using prime::manifest::Cosine;
using prime::manifest::Linear;
using prime::manifest::Train;
using prime::manifest::Wsd;
using prime::trainer::learning_rate;

Train with(const prime::manifest::Schedule& schedule) {
  Train train;
  train.optimizer = prime::manifest::AdamW{.learning_rate = 1.0};
  train.schedule = schedule;
  return train;
}

BOOST_AUTO_TEST_CASE(the_cosine_warms_up_peaks_halves_and_ends_at_its_floor) {
  const Train train = with(Cosine{.warmup = 10, .floor = 0.2});
  const auto close = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(learning_rate(train, 0, 111) == 0.1, close);
  BOOST_TEST(learning_rate(train, 4, 111) == 0.5, close);
  BOOST_TEST(learning_rate(train, 9, 111) == 1.0, close);
  BOOST_TEST(learning_rate(train, 10, 111) == 1.0, close);
  BOOST_TEST(learning_rate(train, 60, 111) == 0.6, close);
  BOOST_TEST(learning_rate(train, 110, 111) == 0.2, close);
  BOOST_TEST(learning_rate(train, 5000, 111) == 0.2, close);
}

BOOST_AUTO_TEST_CASE(degenerate_lengths_stay_finite) {
  BOOST_TEST(learning_rate(with(Cosine{.warmup = 0, .floor = 0.1}), 0, 1) == 1.0);
  BOOST_TEST(learning_rate(with(Cosine{.warmup = 20, .floor = 0.1}), 3, 4) == 0.2);
}

BOOST_AUTO_TEST_CASE(the_line_warms_up_and_ends_at_its_floor) {
  const Train train = with(Linear{.warmup = 10, .floor = 0.2});
  const auto close = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(learning_rate(train, 4, 111) == 0.5, close);
  BOOST_TEST(learning_rate(train, 10, 111) == 1.0, close);
  BOOST_TEST(learning_rate(train, 60, 111) == 0.6, close);
  BOOST_TEST(learning_rate(train, 85, 111) == 0.4, close);
  BOOST_TEST(learning_rate(train, 110, 111) == 0.2, close);
  BOOST_TEST(learning_rate(train, 5000, 111) == 0.2, close);
}

BOOST_AUTO_TEST_CASE(wsd_is_stable_until_its_last_share_and_falls_by_a_root) {
  const Train train = with(Wsd{.warmup = 10, .decay_percent = 25, .floor = 0.1});
  const auto close = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(learning_rate(train, 4, 404) == 0.5, close);
  BOOST_TEST(learning_rate(train, 10, 404) == 1.0, close);
  BOOST_TEST(learning_rate(train, 303, 404) == 1.0, close);
  BOOST_TEST(learning_rate(train, 328, 404) == 0.1 + 0.9 * 0.5, close);  // a quarter of the way
  BOOST_TEST(learning_rate(train, 403, 404) == 0.1, close);
  BOOST_TEST(learning_rate(train, 9000, 404) == 0.1, close);
  BOOST_TEST(learning_rate(with(Wsd{.warmup = 0, .decay_percent = 0}), 99, 100) == 1.0);
  BOOST_TEST(learning_rate(with(Wsd{.warmup = 10, .decay_percent = 100}), 10, 100) == 1.0);
  BOOST_TEST(learning_rate(with(Wsd{.warmup = 10, .decay_percent = 100}), 5, 100) == 0.6);
}

BOOST_AUTO_TEST_CASE(the_schedule_scales_the_rate_of_each_optimizer) {
  Train train = with(Constant{});
  train.optimizer = prime::manifest::Sgd{.learning_rate = 0.25};
  BOOST_TEST(learning_rate(train, 3, 10) == 0.25);
  train.optimizer = prime::manifest::Muon{.learning_rate = 0.125};
  BOOST_TEST(learning_rate(train, 3, 10) == 0.125);
}

BOOST_AUTO_TEST_CASE(the_constant_schedule_never_changes) {
  BOOST_TEST(learning_rate(with(Constant{}), 0, 100) == 1.0);
  BOOST_TEST(learning_rate(with(Constant{}), 99, 100) == 1.0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
