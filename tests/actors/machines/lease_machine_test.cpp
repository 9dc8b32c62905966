// Owns the tests of who leads, by one process's own judgement: each rule at its exact moment.
#include "actors/coordinator/lease_machine.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(lease_machine)

using namespace prime;
using namespace prime::lease;

namespace {

constexpr Duration LEASE = 4s;
const Error AWAY{ErrorName::StandbyStoreFailed, "the test says so"};
const Error DEPOSED{ErrorName::LeadershipLost, "the test says so"};

/// One machine, and the time of its process.
struct Process {
  explicit Process(Duration length = LEASE, Duration asked = {}) : state(initial({length, "a:1"}, Instant{} + asked)) { feed(Entered{}); }
  const std::vector<Effect>& feed(const Event& event) {
    auto transition = step(state, event, now);
    state = std::move(transition.state);
    judgement = transition.judgement;
    return effects = std::move(transition.effects);
  }
  Process& at(Duration time) {
    now = Instant{} + time;
    return *this;
  }
  const std::vector<Effect>& lead() {
    feed(Tick{});
    return feed(CampaignAnswered{std::nullopt});
  }
  const std::vector<Effect>& renewal(Duration asked, Result<bool> alive) {
    return feed(RenewalAnswered{Instant{} + asked, std::move(alive)});
  }
  const std::vector<Effect>& decision(Duration asked, Result<void> kept) {
    return feed(DecisionAnswered{Instant{} + asked, std::move(kept)});
  }
  /// The only effect, if it is such a one.
  template <class T>
  [[nodiscard]] std::optional<T> only() const {
    const auto* found = effects.size() == 1 ? std::get_if<T>(&effects.front()) : nullptr;
    return found == nullptr ? std::nullopt : std::optional<T>{*found};
  }
  [[nodiscard]] bool holds() const { return holds_lead(state, now); }

  State state;
  Instant now{};
  std::vector<Effect> effects;
  Judgement judgement{};
};

/// In milliseconds; -1 when that is not the only effect.
template <class T>
std::int64_t after(const Process& process) {
  const auto found = process.only<T>();
  return found ? std::chrono::duration_cast<std::chrono::milliseconds>(found->after).count() : -1;
}

template <class T>
std::string ends_with(const Process& process) {
  const auto found = process.only<T>();
  return found ? to_string(found->cause) : "it does not end: " + std::string{to_string(process.judgement)};
}

CampaignAnswered leads(const std::string& address, std::int64_t lease = 7) { return {Leader{address, lease}}; }

}  // namespace

// Renewals ------------------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_lease_is_renewed_at_once_and_then_four_times_in_its_length) {
  Process process;
  BOOST_TEST(after<Renew>(process) == 0);
  process.at(10ms).renewal(0ms, true);
  BOOST_REQUIRE(process.effects.size() == 2U);
  BOOST_TEST(std::holds_alternative<LookAround>(process.effects[0]));
  BOOST_CHECK(std::get<Renew>(process.effects[1]).after == LEASE / 4);
}

BOOST_AUTO_TEST_CASE(under_a_long_lease_it_looks_around_every_two_seconds_all_the_same) {
  Process process{60min};
  process.at(10ms).renewal(0ms, true);
  BOOST_CHECK(std::get<Renew>(process.effects.at(1)).after == 2s);
}

BOOST_AUTO_TEST_CASE(several_calls_of_the_store_fit_into_a_lease_and_none_takes_longer_than_five_seconds) {
  BOOST_CHECK(call_limit(4s) == 1s);
  BOOST_CHECK(call_limit(20s) == 5s);
  BOOST_CHECK(call_limit(60min) == 5s);
}

BOOST_AUTO_TEST_CASE(the_first_calls_may_take_a_lease_each_and_no_more_than_ten_seconds) {
  BOOST_CHECK(first_call_limit(4s) == 4s);
  BOOST_CHECK(first_call_limit(60min) == 10s);
}

BOOST_AUTO_TEST_CASE(the_lease_counts_from_before_it_was_asked_for) {
  Process process;
  process.lead();
  process.at(1900ms).renewal(1000ms, true);
  BOOST_TEST(process.at(4999ms).holds());
  BOOST_TEST(!process.at(5s).holds());
}

BOOST_AUTO_TEST_CASE(also_the_first_one_counts_from_there) {
  Process process{LEASE, 10s};
  process.at(10500ms).lead();
  BOOST_TEST(process.at(13999ms).holds());
  BOOST_TEST(!process.at(14s).holds());
}

BOOST_AUTO_TEST_CASE(an_outage_that_is_shorter_than_the_lease_ends_nothing) {
  Process process;
  process.lead();
  for (auto asked = 100ms; asked < 3900ms; asked += 100ms) {
    process.at(asked + 50ms).renewal(asked, fail(AWAY));
    BOOST_TEST(after<Renew>(process) == 100);
  }
  process.at(3999ms).renewal(3900ms, fail(AWAY));
  BOOST_TEST(after<Renew>(process) == 100);
  process.at(4001ms).renewal(3990ms, true);
  BOOST_TEST(process.holds());
}

BOOST_AUTO_TEST_CASE(a_lease_that_could_not_be_renewed_for_its_whole_length_is_the_end_and_names_the_store) {
  Process process;
  process.lead();
  process.at(4s).renewal(3900ms, fail(AWAY));
  BOOST_TEST(ends_with<End>(process) == to_string(AWAY));
  BOOST_CHECK(process.state.phase == Phase::Lost);
  BOOST_TEST(!process.holds());
}

BOOST_AUTO_TEST_CASE(who_stands_by_ends_by_the_same_rule) {
  Process process;
  process.feed(Tick{});
  process.feed(leads("b:2"));
  process.at(4s).renewal(3900ms, fail(AWAY));
  BOOST_TEST(ends_with<End>(process) == to_string(AWAY));
}

BOOST_AUTO_TEST_CASE(a_lease_that_has_run_out_is_the_end_at_once) {
  Process process;
  process.lead();
  process.at(1s).renewal(900ms, false);
  BOOST_TEST(ends_with<End>(process) == to_string(Error{ErrorName::LeadershipLost, "its lease has run out"}));
  BOOST_TEST(!process.holds(), "whatever its own clock says");
}

BOOST_AUTO_TEST_CASE(who_stood_still_while_it_renewed_asks_once_more_and_believes_the_answer) {
  // A call takes a quarter of the lease at most. One that failed after twice that was answered to nobody.
  Process process;
  process.lead();
  process.at(60s).renewal(58s, fail(AWAY));
  BOOST_TEST(after<Renew>(process) == 100);
  BOOST_TEST(!process.holds(), "until it is told otherwise");
  auto other = process;
  process.at(60200ms).renewal(60100ms, fail(AWAY));
  BOOST_TEST(ends_with<End>(process) == to_string(AWAY));
  other.at(60200ms).renewal(60100ms, true);
  BOOST_TEST(other.holds(), "the store has kept it, whatever the process believed");
}

BOOST_AUTO_TEST_CASE(a_failure_within_the_time_that_calls_may_take_says_that_the_store_is_away) {
  Process process;
  process.lead();
  process.at(60s).renewal(60s - 1999ms, fail(AWAY));
  BOOST_TEST(ends_with<End>(process) == to_string(AWAY));
}

BOOST_AUTO_TEST_CASE(nothing_is_renewed_after_the_end) {
  Process process;
  process.at(1s).renewal(900ms, false);
  process.at(2s).renewal(1s, true);
  BOOST_TEST(process.effects.empty());
  BOOST_CHECK(process.state.phase == Phase::Lost);
}

// Candidacy -----------------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(who_stands_by_asks_at_every_tick_until_it_leads) {
  Process process;
  for (int tick = 0; tick < 3; ++tick) {
    process.feed(Tick{});
    BOOST_TEST(process.only<Campaign>().has_value());
    process.feed(leads("b:2"));
    BOOST_TEST(process.effects.empty());
    BOOST_TEST(process.state.leader->address == "b:2");
    BOOST_TEST(!process.holds());
  }
  process.lead();
  BOOST_CHECK(process.state.phase == Phase::Leading);
  BOOST_TEST(!process.state.leader.has_value());
  BOOST_TEST(process.holds());
  BOOST_TEST(process.feed(Tick{}).empty());
}

BOOST_AUTO_TEST_CASE(who_cannot_even_ask_first_ends_by_the_name_of_the_store) {
  Process process;
  process.feed(Tick{});
  process.feed(CampaignAnswered{fail(AWAY)});
  BOOST_TEST(ends_with<End>(process) == to_string(AWAY));
  BOOST_TEST(to_string(*process.state.cause) == to_string(AWAY));
}

BOOST_AUTO_TEST_CASE(for_how_long_a_standby_may_ask_in_vain_the_lease_says) {
  Process process;
  process.feed(Tick{});
  process.feed(leads("b:2"));
  process.at(60min).feed(Tick{});
  BOOST_TEST(process.feed(CampaignAnswered{fail(AWAY)}).empty());
  BOOST_CHECK(process.state.phase == Phase::StandingBy);
  BOOST_TEST(process.state.leader->address == "b:2", "what it heard last");
}

BOOST_AUTO_TEST_CASE(whoever_led_from_this_address_is_dead_and_is_deposed_once) {
  Process process;
  process.feed(Tick{});
  process.feed(leads("a:1", 5));
  BOOST_REQUIRE(process.only<Depose>().has_value());
  BOOST_TEST(process.only<Depose>()->lease == 5);
  auto other = process;
  process.feed(CampaignAnswered{std::nullopt});
  BOOST_CHECK(process.state.phase == Phase::Leading);
  // Two at one address must not depose each other as fast as they can.
  BOOST_TEST(other.feed(leads("a:1", 6)).empty());
  other.feed(Tick{});
  other.feed(leads("a:1", 6));
  BOOST_TEST(other.only<Depose>().has_value(), "but at the next tick");
}

BOOST_AUTO_TEST_CASE(whom_the_lease_has_ended_is_no_candidate_whatever_was_answered) {
  Process process;
  process.feed(Tick{});
  process.at(1s).renewal(900ms, false);
  BOOST_TEST(process.feed(CampaignAnswered{std::nullopt}).empty());
  BOOST_CHECK(process.state.phase == Phase::Lost);
  BOOST_TEST(process.feed(Tick{}).empty());
}

// Decisions -----------------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_decision_is_told_when_it_is_kept_and_not_before) {
  Process process;
  process.lead();
  process.at(1s).feed(Decided{});
  BOOST_TEST(after<Keep>(process) == 0);
  process.at(1010ms).decision(1s, {});
  BOOST_TEST(process.only<Tell>().has_value());
}

BOOST_AUTO_TEST_CASE(a_refused_decision_is_the_end_on_the_spot) {
  Process process;
  process.lead();
  process.at(1s).feed(Decided{});
  process.at(1010ms).decision(1s, fail(DEPOSED));
  BOOST_TEST(ends_with<EndUntold>(process) == to_string(DEPOSED));
  BOOST_TEST(!process.holds());
}

BOOST_AUTO_TEST_CASE(a_decision_waits_for_the_store_for_the_length_of_the_lease) {
  Process process;
  process.lead();
  process.at(10s).feed(Decided{});
  process.at(13999ms).decision(13s, fail(AWAY));
  BOOST_TEST(after<Keep>(process) == 100);
  process.at(14s).decision(13s, fail(AWAY));
  BOOST_TEST(ends_with<EndUntold>(process) == to_string(AWAY));
}

BOOST_AUTO_TEST_CASE(who_stood_still_with_a_decision_asks_once_more_and_hears_that_it_is_deposed) {
  Process process;
  process.lead();
  process.at(1s).feed(Decided{});
  process.at(60s).decision(1s, fail(AWAY));
  BOOST_TEST(after<Keep>(process) == 100);
  auto other = process;
  process.at(60200ms).decision(60100ms, fail(DEPOSED));
  BOOST_TEST(ends_with<EndUntold>(process) == to_string(DEPOSED));
  other.at(60200ms).decision(60100ms, fail(AWAY));
  BOOST_TEST(ends_with<EndUntold>(other) == to_string(AWAY));
}

BOOST_AUTO_TEST_CASE(a_decision_that_is_refused_after_it_stood_still_is_not_tried_again) {
  Process process;
  process.lead();
  process.at(1s).feed(Decided{});
  process.at(60s).decision(1s, fail(DEPOSED));
  BOOST_TEST(ends_with<EndUntold>(process) == to_string(DEPOSED));
}

BOOST_AUTO_TEST_CASE(what_the_store_has_kept_may_be_told_though_the_lease_is_gone_meanwhile) {
  Process process;
  process.lead();
  process.at(1s).feed(Decided{});
  process.at(1100ms).renewal(1s, false);
  process.at(1200ms).decision(1s, {});
  BOOST_TEST(process.only<Tell>().has_value());
  process.at(1300ms).feed(Decided{});
  process.at(1400ms).decision(1300ms, fail(DEPOSED));
  BOOST_TEST(ends_with<EndUntold>(process) == to_string(DEPOSED));
  BOOST_TEST(to_string(*process.state.cause) == to_string(Error{ErrorName::LeadershipLost, "its lease has run out"}), "the first one");
}

BOOST_AUTO_TEST_SUITE_END()
