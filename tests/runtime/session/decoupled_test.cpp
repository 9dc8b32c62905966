// Owns the tests of what a session publishes, and what it weighs, where no peer waits for another one (`sync.algorithm: decoupled`).
#include <boost/test/unit_test.hpp>
#include <future>
#include <prime/session.hpp>
#include <vector>

#include "tests/runtime/session/puppeteer.hpp"
#include "tests/runtime/session/quadratic.hpp"

BOOST_AUTO_TEST_SUITE(decoupled_session)

using namespace prime;
using namespace prime::test;

namespace {

/// A trainer that has begun its first lease, and its agent. A report waits for nobody, so both are of one thread.
struct Pair {
  Puppeteer agent;
  std::vector<float> x = initial_values(5, 0);
  std::optional<Session> session;
  std::uint32_t inner_steps;

  explicit Pair(std::uint32_t steps, bool by_throughput = true) : inner_steps(steps) {
    auto begun = std::async(std::launch::async, [this] {
      session.emplace(Session::attach().value());
      must(session->bind({"x", {5}, x}));
      return session->next().has_value();
    });
    agent.welcome();
    agent.segments({.elements = 5, .decoupled = true, .by_throughput = by_throughput});
    lease(1);
    BOOST_REQUIRE(begun.get());
  }
  void lease(std::uint64_t number) {
    auto plan = Puppeteer::plan(number);
    plan.base = agent.state.counters().revision;
    plan.inner_steps = inner_steps;
    agent.say(wire::Begin{plan, agent.state.digest(), agent.state.places()});
  }
  /// Inner steps within a lease.
  void train(std::uint32_t steps, std::uint64_t tokens) {
    for (std::uint32_t i = 0; i < steps; ++i) {
      BOOST_REQUIRE(session->report({descend(x), tokens, 1}));
      if (i + 1 < steps) BOOST_REQUIRE(session->next());
    }
  }
  void next() { BOOST_REQUIRE(session->next()); }
  void ask(std::uint64_t version) { agent.say(wire::Publish{0, OuterStep{version}}); }
  /// The next version is committed, and the trainer is told.
  void commit() {
    agent.advance();
    const auto revision = agent.state.counters().revision;
    agent.say(wire::StepCommitted{{OuterStep{revision.value}, revision, agent.state.digest(), 1}, agent.state.places()});
  }
  [[nodiscard]] bool has_the_state() const { return std::ranges::equal(x, agent.state.fragments()[0].parameters); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_contribution_weighs_its_tokens_where_the_run_says_so) {
  Pair pair{10, false};
  pair.train(10, 5);
  const auto published = pair.agent.hear<wire::Contribute>();
  BOOST_TEST((published.weight == 50U && published.tokens == 50U));
}

// Identity (iv) of the paper's readers: 100 tokens in 10 inner steps weigh 1000.
BOOST_AUTO_TEST_CASE(a_contribution_weighs_its_tokens_squared_by_its_inner_steps) {
  for (const auto& [tokens, weight] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{10, 1000}, {5, 250}}) {
    Pair pair{10};
    pair.train(10, tokens);
    const auto published = pair.agent.hear<wire::Contribute>();
    BOOST_TEST((published.step == OuterStep{1} && published.tokens == 10 * tokens));
    BOOST_TEST(published.weight == weight, "half of the batch in as many steps weighs a quarter");
    BOOST_TEST((pair.agent.hear<wire::LeaseUsed>().step == OuterStep{1}));
  }
}

BOOST_AUTO_TEST_CASE(who_is_asked_publishes_at_the_next_boundary_what_it_has) {
  Pair pair{10};
  pair.train(3, 10);
  pair.ask(1);
  pair.next();
  pair.train(1, 10);
  BOOST_TEST(pair.agent.hear<wire::Contribute>().weight == 400U, "40² by 4");
}

BOOST_AUTO_TEST_CASE(what_is_made_while_a_result_travels_is_overwritten_and_weighs_nothing) {
  Pair pair{4};
  pair.train(4, 10);
  BOOST_TEST(pair.agent.hear<wire::Contribute>().weight == 400U);
  pair.agent.hear<wire::LeaseUsed>();
  pair.lease(2);
  pair.next();
  pair.train(2, 10);
  pair.commit();
  pair.next();
  BOOST_TEST(!pair.has_the_state());
  pair.train(1, 10);
  BOOST_TEST(pair.has_the_state(), "at the boundary after it has arrived");
  pair.next();
  pair.train(1, 10);  // the fourth since it published
  const auto published = pair.agent.hear<wire::Contribute>();
  BOOST_TEST((published.step == OuterStep{2} && published.weight == 100U), "one inner step from the version before");
}

BOOST_AUTO_TEST_CASE(who_is_asked_and_has_just_taken_the_version_over_publishes_once_it_has_made_something) {
  Pair pair{4};
  pair.train(4, 10);
  pair.agent.hear<wire::Contribute>();
  pair.agent.hear<wire::LeaseUsed>();
  pair.lease(2);
  pair.next();
  pair.commit();
  pair.ask(2);
  pair.train(1, 10);
  pair.next();
  pair.train(1, 10);
  const auto published = pair.agent.hear<wire::Contribute>();
  BOOST_TEST((published.step == OuterStep{2} && published.weight == 100U && published.tokens == 10U));
}

BOOST_AUTO_TEST_SUITE_END()
