// Checks the embedding API from the trainer's side: whole lives, agents that die, steps that went on without us, and joining.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <future>
#include <prime/session.hpp>
#include <sys/wait.h>
#include <thread>

#include "kernels/small_floats.hpp"
#include "tests/runtime/session/door.hpp"
#include "tests/runtime/session/puppeteer.hpp"
#include "tests/runtime/session/quadratic.hpp"
#include "tests/runtime/session/test_agent.hpp"

BOOST_AUTO_TEST_SUITE(session)

using namespace prime;
using namespace prime::test;

namespace {

/// What a trainer saw in the end.
struct Seen {
  std::optional<Error> error;
  std::vector<Committed> commits;
  std::vector<float> x;
};

/// Trains on one tensor until the run is done or something fails.
Seen train(std::vector<float> initial) {
  Seen seen;
  seen.x = std::move(initial);
  const auto give_up = [&](const Error& error) {
    seen.error = error;
    return seen;
  };
  auto session = Session::attach();
  if (!session) return give_up(session.error());
  if (auto bound = session->bind({"x", {static_cast<std::int64_t>(seen.x.size())}, seen.x}); !bound) return give_up(bound.error());
  while (true) {
    auto step = session->next();
    if (!step) return give_up(step.error());
    if (!*step) break;
    auto applied = session->report({descend(seen.x), 10, 1});
    if (!applied) return give_up(applied.error());
    seen.commits.insert(seen.commits.end(), applied->begin(), applied->end());
  }
  if (auto answered = session->finish([&](const FinalPlan&) {
        [[maybe_unused]] const auto waits = session->alive("a file that is away");
        [[maybe_unused]] const auto told = session->alive();
        return FinalAnswer{HeldOut{1.5, 8}, "end"};
      });
      !answered)
    return give_up(answered.error());
  return seen;
}

std::future<Seen> train_beside(std::vector<float> initial = initial_values(5, 0)) {
  return std::async(std::launch::async, [initial = std::move(initial)]() mutable { return train(std::move(initial)); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_trains_to_the_same_bits_as_the_reference) {
  TestAgent agent;
  Door door;
  auto client = train_beside(initial_values(11, 2.0F));
  agent.adopt(door.let_in());
  agent.seat();
  ByHand reference{initial_values(11, 2.0F)};
  std::vector<Digest> digests;
  for (std::uint32_t step = 1; step <= 5; ++step) {
    const auto contribution = agent.step();
    BOOST_TEST(contribution.weight == 30U);
    digests.push_back(agent.state->digest());
    reference.step(3);
    BOOST_TEST(std::ranges::equal(agent.state->fragments()[0].parameters, reference.values));
  }
  agent.finish();
  BOOST_TEST(agent.expect<TrainerAlive>().waits_for == "a file that is away");
  BOOST_TEST(agent.expect<TrainerAlive>().waits_for == "", "that it is over is told at once");
  BOOST_TEST(agent.expect<TrainerFinal>().answer.held_out->loss == 1.5);
  agent.expect<TrainerLeft>();
  const auto seen = client.get();
  BOOST_TEST(!seen.error);
  BOOST_TEST(seen.x == reference.values);
  BOOST_REQUIRE(seen.commits.size() == 5U);
  for (std::size_t i = 0; i < 5; ++i) BOOST_TEST((seen.commits[i].state == digests[i] && seen.commits[i].peers == 1));
}

BOOST_AUTO_TEST_CASE(what_no_checkpoint_could_hold_is_refused_before_the_agent_is_asked) {
  const auto errors_of = [](const std::function<void(Session&, std::vector<Error>&)>& act, bool told) {
    Puppeteer agent;
    auto attached = std::async(std::launch::async, [] { return Session::attach(); });
    agent.welcome();
    auto session = attached.get().value();
    std::vector<Error> errors;
    act(session, errors);
    Packet packet;
    BOOST_TEST((agent.socket().receive(packet) == (told ? ReceiveOutcome::Received : ReceiveOutcome::Closed)));
    if (told) BOOST_TEST((std::get<wire::Failure>(wire::decode_to_agent(packet.bytes).value()).error == errors.back()));
    return errors;
  };
  std::vector<float> x(1);
  const auto too_many = errors_of(
      [&](Session& session, std::vector<Error>& errors) {
        errors.push_back(session.bind({"__metadata__", {}, x}).error());
        for (std::size_t i = 0; i < MODEL_LIMITS.tensors; ++i) must(session.bind({"x" + std::to_string(i), {}, x}));
        errors.push_back(session.bind({"x", {}, x}).error());
        must(session.bind({"x7", {}, x}, Role::Copied));
        errors.push_back(session.next().error());
      },
      true);
  BOOST_REQUIRE(too_many.size() == 3U);
  for (const auto& error : too_many) BOOST_TEST((error.name == ErrorName::LayoutUnusable), to_string(error));
  BOOST_TEST(too_many[1].detail == "100001 tensors are bound, and a model has at most 100000: merge small ones");
  BOOST_TEST(too_many[2].detail == "`x7` is bound as copied, and in another role, too");
  for (const std::string name : {"model.safetensors", "prime", ".hidden", "a/b", ""}) {
    const auto exported = errors_of(
        [&](Session& session, std::vector<Error>& errors) {
          session.export_file(name, "content");
          must(session.bind({"x", {}, x}));
          errors.push_back(session.next().error());
        },
        false);
    BOOST_TEST((exported.at(0).detail.find("no plain file name, or that of a file of the checkpoint itself") != std::string::npos), name);
  }
}

BOOST_AUTO_TEST_CASE(many_tensors_with_long_names_are_bound_in_several_packets) {
  TestAgent agent;
  Door door;
  auto client = std::async(std::launch::async, [] {
    std::vector<float> values(3000, 1.0F);
    auto session = Session::attach().value();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto name = std::string(240, '"') + std::to_string(i);
      must(session.bind({name, {1, 1}, std::span(values).subspan(i, 1)}));
    }
    must(session.describe_device(std::string(500, 'c')));
    return session.next().error();
  });
  agent.adopt(door.let_in());
  const auto bound = agent.expect<TrainerBound>();
  BOOST_TEST(bound.device == std::string(400, 'c'));
  BOOST_TEST(bound.layout.elements() == 3000U);
  agent.host->stop(Error(ErrorName::LayoutMismatch, "other tensors"));
  BOOST_TEST((client.get() == Error(ErrorName::LayoutMismatch, "other tensors")));
}

BOOST_AUTO_TEST_CASE(an_agent_that_dies_is_lost_in_every_waiting_state) {
  for (int reached = 0; reached < 4; ++reached) {
    BOOST_TEST_CONTEXT("reached " << reached) {
      Puppeteer agent;
      auto client = train_beside();
      if (reached > 0) agent.welcome();
      if (reached == 1) agent.hear<wire::Bind>();
      if (reached > 1) agent.segments();
      if (reached > 2) {
        agent.begin(1);
        agent.hear<wire::Contribute>();
      }
      agent.socket().close();
      const auto seen = client.get();
      BOOST_REQUIRE(seen.error);
      BOOST_TEST((seen.error->name == ErrorName::AgentLost), to_string(*seen.error));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_report_notices_that_the_agent_is_gone_and_a_farewell_tells_why) {
  Puppeteer agent;
  auto client = std::async(std::launch::async, [] {
    std::vector<float> x(5);
    auto session = Session::attach().value();
    must(session.bind({"x", {5}, x}));
    while (true) {
      session.next().value();
      if (const auto told = session.report({1, 1, 1}); !told) return std::pair(told.error(), session.next().error());
    }
  });
  agent.welcome();
  agent.segments();
  agent.begin(1);
  agent.say(wire::Stop{Error(ErrorName::CoordinatorLost, "at step 1")});
  agent.socket().close();
  const auto [first, second] = client.get();
  BOOST_TEST((first == Error(ErrorName::CoordinatorLost, "at step 1")));
  BOOST_TEST((second == first));  // errors are final
}

BOOST_AUTO_TEST_CASE(leaving_waits_for_the_agent_to_let_go) {
  for (const bool agent_dies : {false, true}) {
    Puppeteer agent;
    auto client = std::async(std::launch::async, [] { return Session::attach().value().leave().has_value(); });
    agent.welcome();
    if (!agent_dies) agent.hear<wire::Leave>();
    agent.socket().close();
    const bool left = client.get();
    BOOST_TEST((left || agent_dies));
  }
}

BOOST_AUTO_TEST_CASE(who_waits_may_end_the_wait_and_then_only_leave) {
  Puppeteer agent;
  std::atomic<bool> goes_on = true;
  auto waiting = std::async(std::launch::async, [&] {
    std::vector<float> x(5);
    auto session = Session::attach([&] { return goes_on.load(); }).value();
    must(session.bind({"x", {5}, x}));
    std::vector<ErrorName> ends;
    for (int i = 0; i < 2; ++i) ends.push_back(session.next().error().name);
    goes_on = true;
    return std::pair{ends, session.leave().has_value()};
  });
  agent.welcome();
  agent.segments();
  goes_on = false;  // it waits for its first step
  agent.hear<wire::Leave>();
  agent.socket().close();
  const auto [ends, left] = waiting.get();
  BOOST_TEST((ends == std::vector(2, ErrorName::Interrupted)));
  BOOST_TEST(left);
}

BOOST_AUTO_TEST_CASE(a_stop_while_waiting_is_its_error_or_the_end) {
  {
    Puppeteer agent;
    auto client = train_beside();
    agent.welcome();
    agent.segments();
    agent.begin(1);
    agent.hear<wire::Contribute>();
    agent.say(wire::Stop{Error(ErrorName::Evicted, "too late")});
    BOOST_TEST((client.get().error == Error(ErrorName::Evicted, "too late")));
  }
  {
    Puppeteer agent;
    auto client = train_beside();
    agent.welcome();
    agent.segments();
    agent.say(wire::Stop{});
    BOOST_TEST(!client.get().error);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_went_on_without_us_is_followed_and_no_error) {
  Puppeteer agent;
  auto client = train_beside();
  agent.welcome();
  agent.segments();
  agent.begin(1);
  agent.hear<wire::Contribute>();
  agent.advance();
  agent.begin(2);
  BOOST_TEST(agent.hear<wire::Contribute>().step.value == 2U);
  agent.advance();
  agent.say(wire::Finish{{}, OuterStep{2}, agent.state.counters().revision, agent.state.digest(), agent.state.places()});
  agent.hear<wire::Final>();
  const auto seen = client.get();
  BOOST_TEST(!seen.error);
  BOOST_REQUIRE(seen.commits.size() == 2U);
  BOOST_TEST((seen.commits[0].step.value == 1 && seen.commits[0].peers == 0 && seen.commits[1].revision.value == 2 &&
              seen.commits[1].step.value == 2));
  BOOST_TEST((seen.commits[1].state == agent.state.digest()));
  BOOST_TEST(std::ranges::equal(seen.x, agent.state.fragments()[0].parameters));
}

BOOST_AUTO_TEST_CASE(what_is_due_in_the_next_step_is_taken_over_then_however_early_it_is_known) {
  constexpr std::uint32_t INNER = 3;
  constexpr std::uint32_t OVERLAP = 2;
  for (const bool known_before : {false, true}) {
    BOOST_TEST_CONTEXT("known before the next step begins: " << known_before) {
      Puppeteer agent;
      auto client = train_beside();
      agent.welcome();
      agent.segments({.elements = 5, .overlap = OVERLAP, .mix = 0.5});
      auto first = agent.plan(1);
      auto second = agent.plan(2);
      first.inner_steps = second.inner_steps = INNER;
      agent.say(wire::Begin{first, agent.state.digest(), agent.state.places()});
      agent.hear<wire::Contribute>();
      const auto commit = [&] {
        agent.advance();
        agent.say(wire::StepCommitted{{OuterStep{1}, Revision{1}, agent.state.digest(), 1}, agent.state.places()});
      };
      if (known_before) commit();
      wire::Begin begin{second, agent.state.digest(), agent.state.places()};
      if (!known_before) begin.in_flight = {0};
      agent.say(begin);
      if (!known_before) commit();
      agent.hear<wire::Contribute>();
      auto expected = initial_values(5, 0);
      for (std::uint32_t made = 1; made <= INNER + INNER; ++made) {
        descend(expected);
        if (made != INNER + OVERLAP) continue;
        const auto theirs = agent.state.fragments()[0].parameters;
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 0.5F * expected[i] + 0.5F * theirs[i];
      }
      agent.say(wire::Stop{Error(ErrorName::Interrupted)});
      BOOST_TEST(client.get().x == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(of_a_step_that_is_left_for_an_earlier_one_nothing_is_in_that) {
  constexpr std::uint32_t INNER = 3;
  Puppeteer agent;
  auto client = train_beside();
  agent.welcome();
  agent.segments({.elements = 5, .overlap = 2, .mix = 0.5});
  for (const std::uint64_t step : {2U, 1U}) {
    auto plan = agent.plan(step);
    plan.base = Revision{};
    plan.inner_steps = INNER;
    agent.say(wire::Begin{plan, agent.state.digest(), agent.state.places()});
    agent.hear<wire::Contribute>();
  }
  auto expected = initial_values(5, 0);
  for (std::uint32_t made = 0; made < INNER; ++made) descend(expected);
  agent.say(wire::Stop{Error(ErrorName::Interrupted)});
  BOOST_TEST(client.get().x == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(only_the_newest_of_several_steps_that_wait_is_begun) {
  Puppeteer agent;
  auto client = train_beside();
  agent.welcome();
  agent.hear<wire::Bind>();
  const auto numbers = agent.state.descriptors();
  agent.say(wire::Segments{5}, {numbers.begin(), numbers.end()});
  agent.hear<wire::Initial>();
  // How much of this lies in the socket when the trainer looks is a matter of chance; wherever it starts, it ends at the newest.
  BOOST_REQUIRE(agent.state.initialize());
  agent.begin(1);
  agent.advance();
  agent.say(wire::StepCommitted{{OuterStep{1}, Revision{1}, agent.state.digest(), 1}, agent.state.places()});
  agent.advance();
  agent.say(wire::StepCommitted{{OuterStep{2}, Revision{2}, agent.state.digest(), 1}, agent.state.places()});
  agent.begin(3);
  while (agent.hear<wire::Contribute>().step.value != 3U) {
  }
  agent.say(wire::Stop{Error(ErrorName::Interrupted)});
  BOOST_TEST((client.get().error == Error(ErrorName::Interrupted)));
}

BOOST_AUTO_TEST_CASE(a_program_tells_of_its_data_once_and_before_the_first_step) {
  Puppeteer agent;
  const DataIdentity data{Digest{1, 2}, std::string(2000, 's')};
  auto client = std::async(std::launch::async, [&] {
    std::vector<ErrorName> names;
    std::vector<float> x(5);
    auto session = Session::attach().value();
    names.push_back(session.describe_data({Digest{}, "nothing"}).error().name);
    must(session.describe_data(data));
    names.push_back(session.describe_data(data).error().name);
    must(session.bind({"x", {5}, x}));
    session.next().value();
    names.push_back(session.describe_data(data).error().name);
    names.push_back(session.describe_device("too late").error().name);
    return names;
  });
  agent.welcome();
  const auto told = agent.hear<wire::Data>().data;
  BOOST_TEST((told == DataIdentity{data.digest, std::string(MAX_DATA_SUMMARY_BYTES, 's')}));
  agent.segments();
  agent.begin(1);
  BOOST_TEST((client.get() == std::vector(4, ErrorName::Usage)));
}

BOOST_AUTO_TEST_CASE(misuse_is_named_and_does_not_hang) {
  Puppeteer agent;
  auto client = std::async(std::launch::async, [] {
    std::vector<ErrorName> names;
    std::vector<float> x(5);
    auto session = Session::attach().value();
    names.push_back(session.bind({"x", {4}, x}).error().name);
    names.push_back(session.bind({"", {5}, x}).error().name);
    names.push_back(session.finish({}).error().name);
    must(session.bind({"x", {5}, x}));
    session.next().value();
    names.push_back(session.bind({"y", {5}, x}).error().name);
    names.push_back(session.contribute().error().name);
    names.push_back(session.report({}).error().name);
    names.push_back(session.next().error().name);
    return names;
  });
  agent.welcome();
  agent.segments();
  agent.begin(1);
  const auto names = client.get();
  const std::vector expected{ErrorName::LayoutUnusable, ErrorName::LayoutUnusable, ErrorName::Usage, ErrorName::Usage,
                             ErrorName::Usage,          ErrorName::Usage,          ErrorName::Usage};
  BOOST_TEST((names == expected));
}

BOOST_AUTO_TEST_CASE(steps_follow_this_peers_samples_and_what_is_not_reported_is_handed_back) {
  TestAgent agent;  // three inner steps of four samples
  Door door;
  std::vector<InnerStep> steps;
  std::vector<std::vector<Samples>> ahead;
  auto client = std::async(std::launch::async, [&]() -> Result<void> {
    std::vector<float> x(5, 1.0F);
    PRIME_TRY(auto session, Session::attach());
    PRIME_CHECK(session.bind({"x", {5}, x}));
    const auto next = [&]() -> Result<void> {
      ahead.push_back(session.upcoming(9));
      PRIME_TRY(const auto step, session.next());
      steps.push_back(*step);
      return {};
    };
    PRIME_CHECK(next());
    PRIME_CHECK(next());  // nobody trained on them
    PRIME_CHECK(session.report({.tokens = 1, .samples = 1, .held_out = HeldOut{2.5, 3}, .data_wait_s = 0.5}));
    PRIME_CHECK(next());
    PRIME_CHECK(session.report({.tokens = 1, .data_wait_s = 0.25}));
    PRIME_CHECK(next());
    PRIME_CHECK(session.report({.tokens = 1}));
    PRIME_CHECK(next());
    ahead.push_back(session.upcoming(1));
    return {};
  });
  agent.adopt(door.let_in());
  agent.seat();
  const auto contribution = agent.step();
  BOOST_TEST(contribution.samples == 9U);
  BOOST_TEST(contribution.held_out->loss == 2.5);
  BOOST_TEST(contribution.data_wait_s.value() == 0.75, "of all steps that measured it");
  agent.begin();
  must(client.get());
  const auto seen = [&](std::size_t i) {
    return std::tuple(steps[i].outer_step.value, steps[i].index, steps[i].clock, steps[i].samples.first, steps[i].samples.count);
  };
  BOOST_REQUIRE(steps.size() == 5U);
  BOOST_TEST((seen(0) == std::tuple(1U, 0U, 0U, 0U, 4U) && seen(1) == seen(0)));
  BOOST_TEST((seen(2) == std::tuple(1U, 1U, 1U, 1U, 4U)), "from behind what was taken");
  BOOST_TEST((seen(3) == std::tuple(1U, 2U, 2U, 5U, 4U)));
  BOOST_TEST((seen(4) == std::tuple(2U, 0U, 3U, 9U, 4U)));
  BOOST_TEST((steps[0].total == 12U && steps[0].inner_steps == 3U));
  BOOST_TEST((steps[0].loaded && !steps[1].loaded && !steps[2].loaded && steps[4].loaded));
  BOOST_TEST((!steps[0].stored && !steps[2].stored && steps[3].stored));
  BOOST_TEST((steps[1].evaluate.of == 1U && steps[2].evaluate.of == 0U), "it is asked before the first inner step");
  BOOST_TEST(ahead[0].empty(), "nothing was given yet");
  BOOST_REQUIRE(ahead[1].size() == 2U);
  BOOST_TEST((ahead[1][0].first == 4U && ahead[1][0].count == 4U && ahead[1][1].first == 8U));
  BOOST_TEST((ahead[3].empty() && ahead[4].empty()), "of the next outer step nobody knows yet");
  BOOST_TEST((ahead[5].size() == 1U && ahead[5][0].first == 13U));
}

BOOST_AUTO_TEST_CASE(who_takes_other_counts_reports_them_and_nobody_takes_what_is_another_peers) {
  TestAgent agent;
  Door door;
  std::vector<Samples> given;
  auto client = std::async(std::launch::async, [&] {
    std::vector<float> x(5, 1.0F);
    auto session = Session::attach().value();
    must(session.bind({"x", {5}, x}));
    given.push_back(session.next().value()->samples);
    session.report({.tokens = 1, .samples = 11}).value();  // of the twelve of this outer step
    given.push_back(session.next().value()->samples);
    given.insert(given.end(), 1, session.upcoming(1).at(0));
    return session.report({.tokens = 1, .samples = 2}).error();
  });
  agent.adopt(door.let_in());
  agent.seat();
  agent.begin();
  const auto error = client.get();
  BOOST_TEST((error.name == ErrorName::Usage), to_string(error));
  BOOST_TEST(error.detail.find("took 2 samples, and this peer has 1 left") != std::string::npos, error.detail);
  BOOST_REQUIRE(given.size() == 3U);
  BOOST_TEST((given[1].first == 11U && given[1].count == 1U && given[2].first == 12U && given[2].count == 0U));
}

BOOST_AUTO_TEST_CASE(a_program_contributes_when_it_likes) {
  TestAgent agent;
  Door door;
  auto client = std::async(std::launch::async, [&] {
    std::vector<Committed> applied;
    std::vector<float> x(5, 1.0F);
    auto session = Session::attach().value();
    must(session.bind({"x", {5}, x}));
    for (int outer = 0; outer < 2; ++outer) {
      session.next().value();
      x[0] += 1;
      session.report({.loss = 3, .tokens = 5}).value();
      if (outer == 1) session.next().value();  // of which nothing is reported
      const auto done = session.contribute().value();
      applied.insert(applied.end(), done.begin(), done.end());
    }
    const auto step = session.next().value();
    return std::pair(applied, step->index);
  });
  agent.adopt(door.let_in());
  agent.seat();
  for (std::uint64_t outer = 1; outer < 3; ++outer) {
    const auto contribution = agent.step();
    BOOST_TEST((contribution.step.value == outer && contribution.weight == 5U && contribution.samples == 4U && contribution.loss == 3.0));
  }
  agent.begin();
  const auto [applied, index] = client.get();
  BOOST_REQUIRE(applied.size() == 2U);
  BOOST_TEST(applied[1].step.value == 2U);
  BOOST_TEST(applied[1].peers == 1U);
  BOOST_TEST(index == 0U);
}

namespace {

/// Inner steps whose outcome depends on what a trainer keeps for itself: descent with momentum, a count and some text.
struct Momentum {
  std::vector<float> x = initial_values(9, 1.0F);
  std::vector<float> velocity = std::vector<float>(9);
  std::vector<std::int64_t> count{0};
  std::string text;
  std::vector<InnerStep> steps = {};
  bool restored = false;

  void bind_to(Session& session) {
    must(session.bind({"velocity", {9}, velocity}, Role::Private));
    must(session.bind({"x", {9}, x}));
    must(session.bind({.name = "text",
                       .capacity = 16,
                       .save = [this] { return text; },
                       .load = [this](std::string_view saved) -> Result<void> {
                         text = saved;
                         return {};
                       }}));
    must(session.bind({"count", {}, count}, Role::Private));
  }
  /// Until so many inner steps are made or the run is done.
  void live(int inner_steps) {
    auto session = Session::attach().value();
    bind_to(session);
    for (; inner_steps > 0; --inner_steps) {
      const auto step = session.next().value();
      if (!step) return;
      restored = restored || step->restored;
      steps.push_back(*step);
      for (std::size_t i = 0; i < x.size(); ++i) {
        velocity[i] = 0.5F * velocity[i] + 0.125F * (x[i] - 3.0F) + 0.01F * static_cast<float>(count[0]);
        x[i] -= velocity[i];
      }
      ++count[0];
      text += static_cast<char>('a' + count[0] % 26);
      if (text.size() > 16) text.erase(0, 9);
      session.report({.loss = 1.0 + static_cast<double>(count[0]), .tokens = 10}).value();
    }
  }
};

/// The contribution of each outer step, of trainers that live for so many inner steps each.
std::vector<wire::Contribute> contributions(TestAgent& agent, const std::vector<int>& lives, std::vector<Momentum>& trainers) {
  Door door;
  std::vector<wire::Contribute> brought;
  for (const int inner_steps : lives) {
    trainers.emplace_back();
    auto client = std::async(std::launch::async, [&trainer = trainers.back(), inner_steps] { trainer.live(inner_steps); });
    agent.adopt(door.let_in());
    agent.seat();
    bool over = false;
    while (!over) {
      agent.begin();
      while (true) {
        auto event = agent.events.pop();
        if (const auto* recorded = std::get_if<TrainerRecorded>(&event)) agent.keep(*recorded);
        if (const auto* contributed = std::get_if<TrainerContributed>(&event)) {
          brought.push_back(contributed->contribution);
          agent.commit(contributed->contribution);
          break;
        }
        over = std::holds_alternative<TrainerLost>(event);
        if (over) break;
      }
    }
    client.get();
    agent.host.reset();
    agent.events.clear();
  }
  return brought;
}

std::vector<Momentum> room() {
  std::vector<Momentum> trainers;
  trainers.reserve(16);  // they are bound where they are
  return trainers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_trainer_that_dies_goes_on_from_its_last_publication_to_the_same_bits) {
  TestAgent whole;  // three inner steps each
  auto alone = room();
  const auto expected = contributions(whole, {12}, alone);
  BOOST_REQUIRE(expected.size() == 4U);
  TestAgent agent;
  auto trainers = room();
  // It dies in the second outer step, twice, and in the third.
  const auto brought = contributions(agent, {5, 1, 5, 6}, trainers);
  BOOST_REQUIRE(brought.size() == 4U);
  BOOST_TEST((agent.state->digest() == whole.state->digest()));
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST((brought[i].loss == expected[i].loss && brought[i].samples == 12U), i);
  BOOST_TEST((!trainers[0].restored && trainers[1].restored && trainers[2].restored && trainers[3].restored));
  BOOST_TEST(trainers[2].steps[0].index == 0U);
  BOOST_TEST(trainers[3].text == alone[0].text);
  BOOST_TEST((trainers[3].velocity == alone[0].velocity && trainers[3].count == alone[0].count));
}

BOOST_AUTO_TEST_CASE(with_records_between_publications_it_goes_on_within_the_outer_step) {
  TestAgent whole;
  auto alone = room();
  const auto expected = contributions(whole, {12}, alone);
  for (const std::uint32_t every : {1U, 2U}) {
    TestAgent agent;
    agent.record_every = every;
    auto trainers = room();
    const auto brought = contributions(agent, every == 1 ? std::vector{5, 3, 4} : std::vector{5, 5, 4}, trainers);
    BOOST_REQUIRE(brought.size() == 4U);
    BOOST_TEST((agent.state->digest() == whole.state->digest()));
    for (std::size_t i = 0; i < 4; ++i)
      BOOST_TEST((brought[i].loss == expected[i].loss && brought[i].samples == 12U && brought[i].weight == 30U), i);
    BOOST_TEST((trainers[1].steps[0].outer_step.value == 2U && trainers[1].steps[0].index == 2U));
    BOOST_TEST((trainers[1].steps[0].clock == 5U && trainers[1].steps[0].samples.first == 20U));
    BOOST_TEST((trainers[1].steps[0].loaded && trainers[1].steps[0].restored && !trainers[1].steps[1].restored));
    BOOST_TEST((alone[0].steps[4].stored == false && trainers[1].steps[0].stored));
  }
}

BOOST_AUTO_TEST_CASE(who_trains_in_bf16_contributes_what_it_made_of_what_it_was_given) {
  TestAgent agent;
  Door door;
  std::vector<std::uint16_t> codes(5, 0x3F80);  // 1.0
  std::vector<float> y(3, 2.0F);
  auto client = std::async(std::launch::async, [&] {
    auto session = Session::attach().value();
    must(session.bind({"x", {5}, TensorMemory{DataType::BF16, std::as_writable_bytes(std::span{codes})}}));
    must(session.bind({"y", {3}, y}));
    while (const auto step = session.next().value()) {
      // In the first outer step it learns, and in no other.
      if (step->clock == 0) codes[0] = 0x3F81, y[0] = 2.1F;
      session.report({.tokens = 1}).value();
    }
  });
  agent.adopt(door.let_in());
  agent.seat();
  agent.begin();
  const auto first = agent.expect<TrainerContributed>().contribution;
  (void)agent.state->take_contribution().value();
  BOOST_TEST(agent.state->input(0)[0] == -0.0078125F, "1 less the next bf16");
  BOOST_TEST(agent.state->input(0)[1] == 0.0F);
  BOOST_TEST(agent.state->input(0)[5] == 2.0F - 2.1F);
  // Makes a state that bf16 does not hold exactly.
  const OperationId operation{Epoch{1}, Sequence{1}};
  std::ranges::fill(agent.state->result(0), 0.001F);
  (void)agent.state->prepare(operation, 0, {}).value();
  must(agent.state->commit(operation, 100));
  const std::vector<float> held(agent.state->fragments()[0].parameters.begin(), agent.state->fragments()[0].parameters.end());
  BOOST_TEST(kernels::bf16_to_f32(kernels::f32_to_bf16(held[0])) != held[0]);
  agent.host->committed({{first.step, agent.state->counters().revision, agent.state->digest(), 1}, agent.state->places()});
  agent.begin();
  agent.expect<TrainerContributed>();
  BOOST_TEST(codes[0] == kernels::f32_to_bf16(held[0]));
  (void)agent.state->take_contribution().value();
  for (const float value : agent.state->input(0)) BOOST_TEST(value == 0.0F, "who trained nothing contributes nothing");
  agent.host->stop(std::nullopt);
  agent.host.reset();
  client.wait();
}

BOOST_AUTO_TEST_CASE(what_cannot_be_private_is_refused_by_name) {
  Puppeteer agent;
  auto attached = std::async(std::launch::async, [] { return Session::attach(); });
  agent.welcome();
  auto session = attached.get().value();
  std::vector<float> x(4);
  std::vector<std::int64_t> whole(4);
  const auto bytes = std::as_writable_bytes(std::span{x});
  const auto refusal = [](const Result<void>& outcome) { return outcome ? std::string{} : outcome.error().detail; };
  BOOST_TEST(refusal(session.bind({"x", {4}, whole})) == "`x` is of i64, and what is averaged is of f32 or bf16");
  BOOST_TEST(refusal(session.bind({"x", {2}, TensorMemory{DataType::F64, bytes}}, Role::Private)).find("f32, bf16, f16, i64, i32 or u8") !=
             std::string::npos);
  BOOST_TEST(refusal(session.bind({"x", {3}, x}, Role::Private)) == "`x` has 4 values, its shape asks for 3");
  BOOST_TEST(!session.bind({"__metadata__", {4}, x}, Role::Private));
  BOOST_TEST(!session.bind({.name = "blob", .capacity = 0, .save = [] { return ""; }, .load = [](auto) { return Result<void>{}; }}));
  BOOST_TEST(!session.bind({.name = "blob", .capacity = 8, .save = {}, .load = {}}));
  must(session.bind({"x", {4}, x}));
  BOOST_TEST(refusal(session.bind({"x", {4}, x})) == "`x` is bound twice");
  must(session.bind({"x", {4}, whole}, Role::Private));
  BOOST_TEST(refusal(session.bind({"x", {4}, whole}, Role::Private)) == "`x` is bound twice", "a name is used once in a role");
  for (std::size_t i = 1; i < MODEL_LIMITS.tensors; ++i) must(session.bind({"x" + std::to_string(i), {4}, whole}, Role::Private));
  BOOST_TEST(refusal(session.bind({"more", {4}, whole}, Role::Private)).starts_with("100001 tensors are bound"));
}

BOOST_AUTO_TEST_CASE(a_blob_larger_than_it_was_bound_for_ends_the_session_by_its_name) {
  TestAgent agent;
  Door door;
  auto client = std::async(std::launch::async, [] {
    Momentum trainer;
    auto session = Session::attach().value();
    trainer.bind_to(session);
    trainer.text = std::string(17, 'x');
    session.next().value();
    session.report({.tokens = 1}).value();
    return session.contribute().error();
  });
  agent.adopt(door.let_in());
  agent.seat();
  agent.begin();
  BOOST_TEST(client.get().detail == "`text` has 17 bytes, and was bound with a capacity of 16");
}

BOOST_AUTO_TEST_CASE(an_agent_of_another_version_is_named) {
  Puppeteer agent;
  auto client = std::async(std::launch::async, [] { return Session::attach().error(); });
  const auto packet = R"({"v":16,"type":"welcome"})";
  BOOST_REQUIRE((agent.socket().send(packet, {}) == SendOutcome::Sent));
  const auto error = client.get();
  BOOST_TEST((error.name == ErrorName::TrainerProtocol));
  BOOST_TEST(
      error.detail.find("speaks version 16 of the trainer's protocol, and not " + std::to_string(wire::VERSION)) != std::string::npos,
      error.detail);
}

BOOST_AUTO_TEST_CASE(without_an_agent_attach_says_so) {
  ::unsetenv(AGENT_SOCKET_VARIABLE);
  const auto attach = [] { return Session::attach().error(); };
  BOOST_TEST((attach().name == ErrorName::AgentLost));
  BOOST_TEST(attach().detail.find("a launcher between the two must pass them on") != std::string::npos);
  for (const auto& value : {std::string{}, std::string{"x"}, std::string{"/tmp"}, std::string(1000, 'x')}) {
    ::setenv(AGENT_SOCKET_VARIABLE, value.c_str(), 1);
    BOOST_TEST((attach().name == ErrorName::AgentLost), value);
  }
  // One with another secret waits for its welcome in vain, and is told to go.
  Door door;
  ::setenv(AGENT_SECRET_VARIABLE, "another", 1);
  auto stranger = std::async(std::launch::async, attach);
  pollfd watched{door.listener.number(), POLLIN, 0};
  while (stranger.wait_for(std::chrono::seconds::zero()) != std::future_status::ready) {
    ::poll(&watched, 1, 10);
    BOOST_TEST(!door.listener.accept());
  }
  BOOST_TEST((stranger.get().name == ErrorName::AgentLost));
}

BOOST_AUTO_TEST_CASE(joining_starts_an_agent_and_tells_what_became_of_it) {
  const auto join = [](const std::string& invite) {
    return Session::join({.invite = invite, .primectl = TEST_AGENT, .timeout = invite == "silent" ? 50ms : 60s});
  };
  BOOST_TEST((join("refuse").error() == Error(ErrorName::KeyRefused, "wrong key")));
  const auto broken = join("broken").error();
  BOOST_TEST((broken.name == ErrorName::ProcessFailed));
  BOOST_TEST(broken.detail == "the agent ended with exit status 5: error: no such thing");
  BOOST_TEST((join("silent").error().name == ErrorName::DeadlineExceeded));
  const auto absent = Session::join({.invite = "x", .primectl = "/nonexistent/primectl"}).error();
  BOOST_TEST((absent.name == ErrorName::ProcessFailed));
  BOOST_TEST(absent.detail.find("$PRIME_PRIMECTL") != std::string::npos, absent.detail);
  std::vector<float> x(3);
  auto session = join("leave").value();
  BOOST_TEST(session.manifest() == "run: test\n");
  BOOST_TEST(session.local_manifest() == "device: cpu\n");
  BOOST_TEST((session.peer() == PeerId{7}));
  BOOST_TEST((session.shard() == 0 && session.shards() == 1 && session.replica().empty()));
  BOOST_REQUIRE(session.bind({"x", {3}, x}));
  BOOST_REQUIRE(session.next());
  BOOST_TEST(session.leave().has_value());
}

BOOST_AUTO_TEST_CASE(a_session_knows_which_shard_of_which_replica_it_holds) {
  Puppeteer agent;
  auto attached = std::async(std::launch::async, [] { return Session::attach(); });
  agent.say(wire::Welcome{"run", PeerId{9}, "calm-heron.2", "m", "l", true, 2, 3, "calm-heron"});
  const auto session = attached.get().value();
  BOOST_TEST(session.shard() == 2U);
  BOOST_TEST(session.shards() == 3U);
  BOOST_TEST(session.replica() == "calm-heron");
  const auto told = Session::join({.invite = "tell", .primectl = TEST_AGENT, .replica = "calm-heron", .shard = 2}).error();
  BOOST_TEST(told.detail == "--replica calm-heron --shard 2");
  BOOST_TEST(Session::join({.invite = "tell", .primectl = TEST_AGENT}).error().detail == "");
}

BOOST_AUTO_TEST_CASE(the_embedding_example_trains_to_the_end) {
  ::setenv("PRIME_PRIMECTL", TEST_AGENT, 1);
  ::setenv("PRIMECTL_INVITE", "train", 1);
  ::unsetenv(AGENT_SOCKET_VARIABLE);  // which a case before has set: nobody started this program as a trainer
  FILE* const example = ::popen(EMBED_EXAMPLE, "r");
  BOOST_REQUIRE(example != nullptr);
  std::string output(4096, '\0');
  output.resize(std::fread(output.data(), 1, output.size(), example));
  const int status = ::pclose(example);
  BOOST_TEST(status == 0, output);
  BOOST_TEST(output.find("step 4: mean over 1 peers\nstate ") != std::string::npos, output);
}

BOOST_AUTO_TEST_SUITE_END()
