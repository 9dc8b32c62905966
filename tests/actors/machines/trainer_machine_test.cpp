// Owns the tests of a trainer's life beside its agent: what it is told waits for the state to be of that revision, and only what its
// present life says counts.
#include "actors/peer/trainer_machine.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(trainer_machine)

using namespace prime;
using namespace prime::trainer_life;
using namespace std::chrono_literals;

namespace {

const Error CRASH{ErrorName::ProcessFailed, "killed by signal 9"};
const DataIdentity DATA{Digest{5, 6}, "3 files"};

struct Bench {
  State state;
  Instant now{};
  std::vector<Effect> effects;

  explicit Bench(Options options = {}) { state.options = options; }

  Bench& on(const Event& event) {
    auto transition = step(std::move(state), event, now);
    state = std::move(transition.state);
    effects = std::move(transition.effects);
    return *this;
  }

  template <class T>
  [[nodiscard]] std::optional<T> effect() const {
    for (const auto& each : effects)
      if (const auto* found = std::get_if<T>(&each)) return *found;
    return std::nullopt;
  }
  template <class T>
  [[nodiscard]] std::optional<T> reported() const {
    for (const auto& each : effects)
      if (const auto* report = std::get_if<Report>(&each))
        if (const auto* found = std::get_if<T>(&report->event)) return *found;
    return std::nullopt;
  }

  Bench& ready(Revision revision = {}) {
    on(Start{}).on(Described{DATA}).on(TensorsBound{}).on(StateOpened{}).on(Initial{});
    return on(StateFound{Held{Digest{1, 0}, 3, Digest{2, 0}, revision, 77}});
  }
  Bench& begin(OuterStep number, Revision base) {
    BeginStep order;
    order.step = number;
    order.base = base;
    return on(Begin{order});
  }
  Bench& bring(OuterStep number, std::uint64_t weight = 64, std::uint32_t diverged_at = 0) {
    peer::TrainerContributed work;
    work.step = number;
    work.weight = weight;
    return on(Contributed{work, diverged_at});
  }
  /// With a record of its private state, as every publication of who has any.
  Bench& publish(OuterStep number) {
    peer::TrainerContributed work;
    work.step = number;
    work.weight = 64;
    return on(Contributed{work, 0, Record{.step = number, .base = {}, .content = {}}}).on(ContributionTaken{});
  }
  /// A new life, and what it is told to go on from.
  std::optional<Record> next_life(OuterStep number, Revision base) {
    on(Gone{CRASH}).ready(base).begin(number, base);
    return effect<TellBegin>()->resume;
  }
  Bench& contribute(OuterStep number, std::uint64_t weight = 64) { return bring(number, weight).on(ContributionTaken{}); }
  Bench& apply(Revision revision, bool own_work = true) {
    Commit commit;
    commit.step = OuterStep{revision.value};
    commit.revision = revision;
    return on(Applied{commit, own_work, 3});
  }
};

peer::SaveState order_of(Revision revision) { return {"a test", revision, true}; }

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_ready_once_it_has_bound_and_its_values_are_read) {
  Bench bench;
  bench.on(Start{});
  BOOST_TEST(bench.effect<Launch>()->fresh);
  bench.on(Described{DATA}).on(TensorsBound{});
  BOOST_TEST(bench.effect<OpenState>().has_value());
  bench.on(StateOpened{});
  BOOST_TEST(bench.effect<MapTensors>().has_value());
  bench.on(Initial{});
  BOOST_TEST(bench.effect<FoundState>().has_value());
  bench.on(StateFound{Held{Digest{1, 0}, 3, Digest{2, 0}, Revision{4}, 77}});
  const auto bound = bench.reported<peer::TrainerBound>();
  BOOST_REQUIRE(bound.has_value());
  BOOST_TEST(bound->elements == 3U);
  BOOST_TEST(bound->pid == 77U);
  BOOST_TEST((bound->revision == Revision{4}));
  BOOST_TEST(bound->data.summary == "3 files");
  bench.on(Gone{CRASH}).on(Start{});
  BOOST_TEST(!bench.effect<Launch>()->fresh, "the second life is told that it is not the first");
  BOOST_TEST(bench.state.data.summary.empty(), "it has yet to tell its own data");
}

BOOST_AUTO_TEST_CASE(a_start_that_this_agent_has_no_means_for_is_tried_again_and_is_no_failure_of_the_trainer) {
  const Error none{ErrorName::MemoryUnavailable, "starting trainer: all 32 descriptors that `ulimit -n` allows are open"};
  Bench bench{{.stall_limit = 10min}};
  bench.on(Start{}).on(Unserved{none});
  BOOST_TEST(!bench.effect<Died>().has_value(), "it never began");
  BOOST_REQUIRE(bench.reported<peer::TrainerWaits>().has_value());
  BOOST_TEST((bench.reported<peer::TrainerWaits>()->cause == Cause{none}));
  bench.on(Tick{});
  BOOST_TEST(!bench.effect<Launch>().has_value(), "not at once");
  int launches = 0;
  int reports = 0;
  for (const auto until = bench.now + 9min; bench.now < until; bench.now += 250ms) {
    bench.on(Tick{});
    if (!bench.effect<Launch>()) continue;
    BOOST_TEST(bench.effect<Launch>()->fresh, "it is still the first of this peer");
    ++launches;
    bench.on(Unserved{none});
    if (bench.reported<peer::TrainerWaits>()) ++reports;
    BOOST_TEST(!bench.effect<Died>().has_value());
  }
  BOOST_TEST(launches > 15);
  BOOST_TEST(launches < 40, "it waits longer each time, for 30 s at most");
  BOOST_TEST(reports == 0, "the same cause is told once");
  bench.now += 30s;
  bench.on(Tick{});
  BOOST_REQUIRE(bench.effect<Launch>().has_value());
  // There are descriptors again.
  bench.on(TensorsBound{}).on(StateOpened{}).on(Initial{}).on(StateFound{Held{Digest{1, 0}, 3, Digest{2, 0}, {}, 77}});
  BOOST_TEST(bench.reported<peer::TrainerBound>().has_value());
  BOOST_TEST(!bench.state.wait.has_value());
}

BOOST_AUTO_TEST_CASE(a_trainer_that_was_at_work_when_its_agent_had_no_means_left_goes_on_from_its_record) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{}).publish(OuterStep{1}).apply(Revision{1});
  bench.on(Unserved{Error{ErrorName::MemoryUnavailable, "all 32 descriptors that `ulimit -n` allows are open"}});
  bench.now += 1s;
  BOOST_REQUIRE(bench.on(Tick{}).effect<Launch>().has_value());
  bench.on(TensorsBound{}).on(StateOpened{}).on(Initial{}).on(StateFound{Held{Digest{1, 0}, 3, Digest{2, 0}, Revision{1}, 78}});
  bench.begin(OuterStep{2}, Revision{1});
  BOOST_REQUIRE(bench.effect<TellBegin>().has_value());
  BOOST_TEST(bench.effect<TellBegin>()->resume.has_value());
}

BOOST_AUTO_TEST_CASE(a_trainer_that_is_bound_waits_for_what_its_agent_has_not_and_is_not_started_again_for_it) {
  const Error none{ErrorName::MemoryUnavailable, "no shared memory for prime-outer: all 32 descriptors that `ulimit -n` allows are open"};
  Bench bench{{.stall_limit = 1min}};
  bench.on(Start{}).on(TensorsBound{}).on(StateOpened{fail(none)});
  BOOST_TEST(!bench.effect<TellStop>().has_value());
  BOOST_REQUIRE(bench.reported<peer::TrainerWaits>().has_value());
  bench.now += 1s;
  bench.on(Tick{});
  BOOST_REQUIRE(bench.effect<OpenState>().has_value());
  bench.on(StateOpened{}).on(Initial{}).on(StateFound{fail(none)});
  BOOST_TEST(!bench.effect<TellStop>().has_value());
  bench.now += 10s;
  bench.on(Tick{});
  BOOST_REQUIRE(bench.effect<FoundState>().has_value());
  bench.on(Gone{CRASH});
  BOOST_REQUIRE(bench.effect<Died>().has_value());
  BOOST_TEST((bench.effect<Died>()->cause == CRASH), "what happens to it meanwhile is its own");
  bench.now += 1h;
  BOOST_TEST(bench.on(Tick{}).effects.empty());
}

BOOST_AUTO_TEST_CASE(what_an_agent_lacks_for_longer_than_the_stall_limit_ends_it_by_that_cause) {
  const Error none{ErrorName::MemoryUnavailable, "starting trainer: all 32 descriptors that `ulimit -n` allows are open"};
  Bench bench{{.stall_limit = 1min}};
  bench.on(Start{}).on(Unserved{none});
  for (const auto until = bench.now + 50s; bench.now < until; bench.now += 250ms)
    if (bench.on(Tick{}).effect<Launch>()) bench.on(Unserved{none});
  bench.now += 30s;
  bench.on(Tick{}).on(Unserved{none});
  BOOST_REQUIRE(bench.effect<Died>().has_value());
  BOOST_TEST((bench.effect<Died>()->cause.name == ErrorName::MemoryUnavailable));
  BOOST_TEST(bench.effect<Died>()->cause.detail.find("for 60.0 s (`local.trainer.stall_limit`)") != std::string::npos,
             bench.effect<Died>()->cause.detail);
  bench.now += 1h;
  BOOST_TEST(bench.on(Tick{}).effects.empty());
  // A program that started this agent cannot be started again, but is not done with either.
  Bench ends;
  ends.on(Start{}).on(Unserved{none}).on(AgentEnds{});
  ends.now += 1h;
  BOOST_TEST(ends.on(Tick{}).effects.empty());
}

BOOST_AUTO_TEST_CASE(what_a_trainer_says_that_it_waits_for_is_told_once_until_that_is_over) {
  Bench bench{{.stall_limit = 1min}};
  bench.ready().begin(OuterStep{1}, Revision{});
  const auto told = [&]() -> std::optional<std::string> {
    const auto waits = bench.reported<peer::TrainerWaits>();
    return waits ? std::optional{waits->cause.text} : std::nullopt;
  };
  for (int i = 0; i < 100; ++i) {
    bench.now += 1s;
    bench.on(Worked{{}, "/data/x.txt: Stale file handle"});
    BOOST_TEST(told().value_or("") == (i == 0 ? "/data/x.txt: Stale file handle" : ""));
    BOOST_TEST(!bench.on(Tick{}).effect<Kill>().has_value(), "it lives");
  }
  bench.on(Worked{7});
  BOOST_TEST((told() == ""));
  BOOST_TEST(!bench.on(Worked{8}).reported<peer::TrainerWaits>().has_value());
}

BOOST_AUTO_TEST_CASE(a_step_is_told_once_the_state_is_of_its_base) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{});
  BOOST_REQUIRE(bench.effect<TellBegin>().has_value());
  bench.contribute(OuterStep{1});
  BOOST_TEST(bench.reported<peer::TrainerContributed>()->weight == 64U);
  bench.begin(OuterStep{2}, Revision{1});
  BOOST_TEST(!bench.effect<TellBegin>().has_value(), "the commit is being applied");
  bench.apply(Revision{1});
  BOOST_REQUIRE(bench.effect<TellCommitted>().has_value());
  BOOST_TEST(bench.effect<TellCommitted>()->contributors == 3U);
  BOOST_REQUIRE(bench.effect<TellBegin>().has_value());
  BOOST_TEST((bench.effect<TellBegin>()->base == Revision{1}));
  BOOST_TEST(std::holds_alternative<TellCommitted>(bench.effects[0]), "it hears of the commit before the next step");
}

BOOST_AUTO_TEST_CASE(a_step_waits_for_a_trainer_that_is_started_again_and_begins_with_what_was_committed_meanwhile) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{}).on(Gone{CRASH});
  BOOST_TEST(bench.effect<Died>()->began);
  bench.begin(OuterStep{1}, Revision{});
  BOOST_TEST(!bench.effect<TellBegin>().has_value());
  bench.apply(Revision{1}, false).ready(Revision{1}).begin(OuterStep{1}, Revision{});
  BOOST_TEST((bench.effect<TellBegin>()->base == Revision{1}));
  bench.contribute(OuterStep{1});
  BOOST_TEST((bench.reported<peer::TrainerContributed>()->base == Revision{1}), "its base is not the trainer's to say");
}

BOOST_AUTO_TEST_CASE(a_late_trainer_hears_nothing_of_what_is_committed_without_its_work) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{}).apply(Revision{1}, false);
  BOOST_TEST(!bench.effect<TellCommitted>().has_value());
  bench.contribute(OuterStep{1}).apply(Revision{2}, false);
  BOOST_TEST(!bench.effect<TellCommitted>().has_value(), "its work was not in that one either");
  bench.apply(Revision{3});
  BOOST_TEST(bench.effect<TellCommitted>().has_value());
  bench.apply(Revision{4});
  BOOST_TEST(!bench.effect<TellCommitted>().has_value(), "once is enough");
}

BOOST_AUTO_TEST_CASE(a_life_that_did_not_contribute_hears_of_no_commit_of_the_one_before) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{}).contribute(OuterStep{1}).on(Gone{CRASH}).ready().apply(Revision{1});
  BOOST_TEST(!bench.effect<TellCommitted>().has_value());
}

BOOST_AUTO_TEST_CASE(the_end_is_told_once_the_last_commit_is_applied) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{}).contribute(OuterStep{1});
  bench.on(Finish{RunDone{OuterStep{1}, Revision{1}, Digest{}, true, {0, 2}}});
  BOOST_TEST(!bench.effect<TellFinish>().has_value());
  bench.apply(Revision{1});
  BOOST_TEST(bench.effect<TellFinish>()->done.finalist);
  bench.on(Answered{{HeldOutLoss{Real{2.0}, 10}, "text"}});
  BOOST_TEST(bench.reported<peer::TrainerFinal>()->sample == "text");
  bench.on(Gone{CRASH});
  BOOST_TEST(bench.effects.empty(), "who has answered may end as it likes");
  bench.on(Start{});
  BOOST_TEST(bench.effects.empty(), "and is not started again");
}

BOOST_AUTO_TEST_CASE(a_trainer_that_dies_with_its_agent_is_nobodys_news) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{}).on(AgentEnds{}).on(Gone{CRASH});
  BOOST_TEST(bench.effects.empty());
  bench.now += 1h;
  BOOST_TEST(bench.on(Tick{}).effects.empty(), "it does not stall either");
  BOOST_TEST(bench.on(Start{}).effects.empty());
}

BOOST_AUTO_TEST_CASE(what_a_trainer_did_wrong_is_what_its_end_is_reported_with) {
  const Error layout{ErrorName::LayoutMismatch, "other tensors"};
  Bench bench;
  bench.on(Start{}).on(TensorsBound{}).on(StateOpened{fail(layout)});
  BOOST_TEST((bench.effect<TellStop>()->cause == layout));
  bench.on(Gone{CRASH});
  BOOST_TEST((bench.effect<Died>()->cause == layout));
  BOOST_TEST(!bench.effect<Died>()->began);
  // The next life has a death of its own.
  bench.ready().on(Gone{CRASH});
  BOOST_TEST((bench.effect<Died>()->cause == CRASH));
  bench.ready().on(Gone{});
  BOOST_TEST(bench.reported<peer::TrainerLeft>().has_value());
}

BOOST_AUTO_TEST_CASE(a_contribution_that_is_not_finite_or_of_nothing_is_not_sent) {
  const Error nan{ErrorName::NonFiniteValue, "w[3] of the contribution"};
  const auto named = [&](std::uint32_t diverged_at) {
    Bench bench;
    bench.ready().begin(OuterStep{1}, Revision{}).bring(OuterStep{1}, 64, diverged_at).on(ContributionTaken{fail(nan)});
    BOOST_TEST(!bench.reported<peer::TrainerContributed>().has_value());
    return bench.on(Gone{CRASH}).effect<Died>()->cause.detail;
  };
  BOOST_TEST(named(4) == "w[3] of the contribution to outer step 1; the loss of inner step 4 was the first that is not finite");
  BOOST_TEST(named(0) == "w[3] of the contribution to outer step 1; each inner step's loss was finite, so it happened in the last one");
  Bench idle;
  idle.ready().begin(OuterStep{1}, Revision{}).contribute(OuterStep{1}, 0);
  BOOST_TEST((idle.reported<peer::TrainerGaveUp>()->cause.name == ErrorName::TrainerProtocol));
}

BOOST_AUTO_TEST_CASE(outcomes_of_memory_work_for_a_life_that_is_over_are_dropped) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{}).bring(OuterStep{1}).on(Gone{CRASH}).on(ContributionTaken{});
  BOOST_TEST(bench.effects.empty());
  bench.on(StateOpened{});
  BOOST_TEST(bench.effects.empty());
  bench.on(Start{}).on(ContributionTaken{});
  BOOST_TEST(bench.effects.empty());
}

BOOST_AUTO_TEST_CASE(only_a_trainer_that_has_work_can_stall) {
  Bench bench{Options{1, 10s, false}};
  bench.on(Start{});
  bench.now += 11s;
  bench.on(Tick{});
  BOOST_TEST(bench.effect<Kill>().has_value(), "one that never binds");
  bench.on(Gone{CRASH});
  BOOST_TEST((bench.effect<Died>()->cause.name == ErrorName::TrainerFailed));
  bench.ready();
  bench.now += 1h;
  BOOST_TEST(bench.on(Tick{}).effects.empty(), "it waits for its first step");
  bench.begin(OuterStep{1}, Revision{});
  bench.now += 9s;
  bench.on(Worked{5});
  BOOST_TEST(bench.reported<peer::Progress>()->inner_steps == 5U);
  bench.now += 9s;
  BOOST_TEST(bench.on(Tick{}).effects.empty());
  bench.on(Worked{});
  BOOST_TEST(!bench.reported<peer::Progress>().has_value(), "no inner step");
  bench.now += 9s;
  BOOST_TEST(bench.on(Tick{}).effects.empty());
  bench.now += 2s;
  BOOST_TEST(bench.on(Tick{}).effect<Kill>().has_value());
  BOOST_TEST(bench.on(Tick{}).effects.empty(), "once");
}

BOOST_AUTO_TEST_CASE(a_trainer_that_joined_by_itself_takes_its_peer_with_it_and_is_not_started_again) {
  const auto ends = [](bool external, const Event& event) {
    Bench bench{Options{1, 10s, external}};
    bench.ready().on(event);
    return bench;
  };
  BOOST_TEST(ends(false, Lost{CRASH}).effect<Died>().has_value());
  BOOST_TEST(ends(true, Lost{CRASH}).reported<peer::TrainerLeft>().has_value(), "without a word");
  const auto failed = ends(true, Gone{CRASH});
  BOOST_TEST(!failed.effect<Died>().has_value());
  BOOST_TEST((failed.reported<peer::TrainerGaveUp>()->cause == CRASH));
  BOOST_TEST(ends(true, Gone{}).reported<peer::TrainerLeft>().has_value());
}

BOOST_AUTO_TEST_CASE(one_of_a_replica_begins_anew_if_the_agent_can_start_it) {
  Bench bench;
  bench.on(StartOver{});
  BOOST_TEST(bench.effects.empty(), "there is none");
  bench.ready().on(StartOver{});
  BOOST_TEST(bench.effect<Kill>().has_value());
  bench.on(Gone{CRASH});
  BOOST_TEST((bench.effect<Died>()->cause.name == ErrorName::Interrupted), "which the supervisor does not count");
  Bench external{Options{1, 10s, true}};
  external.ready().on(StartOver{});
  BOOST_TEST(!external.effect<Kill>().has_value());
  BOOST_TEST((external.reported<peer::TrainerGaveUp>()->cause.name == ErrorName::TrainerFailed));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_held_when_its_revision_is_current_and_not_before_or_after) {
  Bench bench;
  bench.ready(Revision{3}).on(Save{order_of(Revision{4})});
  BOOST_TEST(bench.effects.empty());
  bench.on(Save{order_of(Revision{3})});
  BOOST_TEST(bench.effect<Write>()->hold);
  bench.begin(OuterStep{5}, Revision{4}).apply(Revision{4});
  BOOST_TEST((bench.effect<Write>()->order.of == Revision{4}));
  BOOST_TEST(bench.effect<Write>()->hold);
  BOOST_TEST(std::holds_alternative<Write>(bench.effects[0]), "it is held before the trainer is told to go on");
  bench.on(Save{order_of(Revision{2})});
  BOOST_TEST(!bench.effect<Write>()->hold, "overtaken");
}

BOOST_AUTO_TEST_CASE(a_new_life_goes_on_from_the_record_of_the_last_publication_and_is_told_once) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{0});
  BOOST_TEST(!bench.effect<TellBegin>()->resume.has_value(), "nothing was recorded yet");
  bench.publish(OuterStep{1}).apply(Revision{1}).begin(OuterStep{2}, Revision{1});
  BOOST_TEST(!bench.effect<TellBegin>()->resume.has_value(), "this life knows itself what it did");
  auto resume = bench.next_life(OuterStep{2}, Revision{1});
  BOOST_REQUIRE(resume.has_value());
  BOOST_TEST((resume->step == OuterStep{1} && !resume->within));
  bench.publish(OuterStep{2}).apply(Revision{2}).begin(OuterStep{3}, Revision{2});
  BOOST_TEST(!bench.effect<TellBegin>()->resume.has_value());
  // Killed between publishing and applying: the commit finds the next life, which goes on from what was published.
  bench.publish(OuterStep{3}).on(Gone{CRASH}).ready(Revision{2}).apply(Revision{3}).begin(OuterStep{4}, Revision{3});
  BOOST_TEST((bench.effect<TellBegin>()->resume->step == OuterStep{3}));
}

BOOST_AUTO_TEST_CASE(a_record_within_a_step_is_gone_on_from_where_its_base_still_is_the_states) {
  Bench bench;
  bench.ready(Revision{4}).begin(OuterStep{5}, Revision{4}).on(Recorded{{.step = OuterStep{5}, .base = {}, .within = true, .content = {}}});
  auto resume = bench.next_life(OuterStep{5}, Revision{4});
  BOOST_TEST((resume && resume->within && resume->base == Revision{4}));
  bench.on(Recorded{{.step = OuterStep{5}, .base = {}, .within = true, .content = {}}});
  resume = bench.next_life(OuterStep{5}, Revision{5});
  BOOST_TEST((resume && !resume->within), "the run went on: what is private is of use, local parameters are not");
  bench.on(Recorded{{.step = OuterStep{5}, .base = {}, .within = true, .content = {}}});
  resume = bench.next_life(OuterStep{6}, Revision{5});
  BOOST_TEST((resume && !resume->within));
  bench.on(Gone{CRASH}).on(Recorded{{.step = OuterStep{6}, .base = {}, .within = true, .content = {}}});
  BOOST_TEST((bench.state.records.newest()->step == OuterStep{5}), "of a trainer that is gone nothing comes any more");
}

BOOST_AUTO_TEST_CASE(where_fragments_are_of_different_steps_no_local_parameters_are_gone_on_from) {
  Options options;
  options.decoupled = true;
  Bench bench{options};
  bench.ready(Revision{4}).begin(OuterStep{5}, Revision{4}).on(Recorded{{.step = OuterStep{5}, .base = {}, .within = true, .content = {}}});
  const auto resume = bench.next_life(OuterStep{5}, Revision{4});
  BOOST_TEST((resume && resume->step == OuterStep{5} && !resume->within), "what is private is of use");
}

BOOST_AUTO_TEST_CASE(what_a_life_before_published_to_a_void_attempt_is_published_again) {
  Bench bench;
  bench.ready().begin(OuterStep{1}, Revision{0}).publish(OuterStep{1});
  // It dies by itself when its replica begins the step anew: there is nobody to be started over.
  bench.on(Gone{CRASH});
  BeginStep anew;
  anew.step = OuterStep{1};
  anew.attempt = 1;
  bench.ready().on(Begin{anew}).bring(OuterStep{1});
  BOOST_TEST(bench.effect<TakeContribution>().has_value());
}

BOOST_AUTO_TEST_CASE(what_was_recorded_with_a_void_publication_is_void_and_the_record_before_it_counts) {
  Bench bench;
  bench.ready()
      .begin(OuterStep{1}, Revision{0})
      .publish(OuterStep{1})
      .apply(Revision{1})
      .begin(OuterStep{2}, Revision{1})
      .publish(OuterStep{2});
  // Another trainer of its replica died: all begin the step anew.
  bench.on(StartOver{});
  BOOST_TEST(bench.effect<Kill>().has_value());
  const auto resume = bench.next_life(OuterStep{2}, Revision{1});
  BOOST_TEST((resume && resume->step == OuterStep{1}));
  Bench first;
  first.ready().begin(OuterStep{1}, Revision{0}).publish(OuterStep{1}).on(StartOver{});
  BOOST_TEST(!first.next_life(OuterStep{1}, Revision{0}).has_value(), "before its first step it had nothing");
}

BOOST_AUTO_TEST_CASE(what_is_saved_with_a_state_is_the_last_record_that_the_state_has) {
  const auto within = [](std::uint64_t number) { return Recorded{{.step = OuterStep{number}, .base = {}, .within = true, .content = {}}}; };
  Bench bench{{.fragments = 2}};
  const auto saved = [&](std::uint64_t revision) { return bench.on(Save{order_of(Revision{revision})}).effect<Write>()->record; };
  bench.ready().begin(OuterStep{1}, Revision{0});
  BOOST_TEST(!saved(0).has_value(), "it has nothing but what it was born with");
  bench.on(within(1));
  BOOST_TEST(!saved(0).has_value());
  bench.publish(OuterStep{1});
  BOOST_TEST(!saved(0).has_value());
  bench.apply(Revision{1});
  BOOST_TEST(!saved(1).has_value(), "one fragment has it, the other has not");
  bench.on(Gone{CRASH}).on(Save{order_of(Revision{2})}).apply(Revision{2});
  BOOST_TEST((bench.effect<Write>()->record->step == OuterStep{1}), "also where its trainer has died meanwhile");
  bench.ready(Revision{2}).begin(OuterStep{2}, Revision{2}).on(within(2)).on(within(2));
  BOOST_TEST((saved(2)->step == OuterStep{1}));
  bench.publish(OuterStep{2});
  BOOST_TEST((saved(2)->step == OuterStep{1}));
  bench.apply(Revision{3}, false).apply(Revision{4}, false);
  BOOST_TEST((saved(4)->step == OuterStep{1}), "what was committed is others' work");
  bench.apply(Revision{5}).apply(Revision{6});
  BOOST_TEST((saved(6)->step == OuterStep{2}));
}

BOOST_AUTO_TEST_CASE(the_first_trainer_of_a_run_that_goes_on_gets_what_one_had_for_itself_before) {
  Bench bench;
  bench.on(Start{}).on(Described{DATA}).on(TensorsBound{}).on(StateOpened{}).on(Initial{});
  bench.on(StateFound{
      Held{Digest{1, 0}, 3, Digest{2, 0}, Revision{10}, 77, {}, Record{.step = OuterStep{10}, .base = Revision{10}, .content = {}}}});
  bench.on(Save{order_of(Revision{10})});
  BOOST_TEST((bench.effect<Write>()->record->step == OuterStep{10}), "it is saved again with the same state");
  bench.begin(OuterStep{11}, Revision{10});
  const auto resume = bench.effect<TellBegin>()->resume;
  BOOST_TEST((resume && resume->step == OuterStep{10} && !resume->within));
  BOOST_TEST((bench.next_life(OuterStep{11}, Revision{10})->step == OuterStep{10}), "and so does the next, as long as it made no record");
}

BOOST_AUTO_TEST_CASE(a_trainer_that_diverged_begins_without_a_record_which_would_lead_it_there_again) {
  Bench bench;
  bench.ready()
      .begin(OuterStep{1}, Revision{0})
      .publish(OuterStep{1})
      .apply(Revision{1})
      .begin(OuterStep{2}, Revision{1})
      .bring(OuterStep{2});
  bench.on(ContributionTaken{fail(ErrorName::NonFiniteValue, "x[0]")});
  BOOST_TEST(!bench.next_life(OuterStep{2}, Revision{1}).has_value());
  // What was not taken is no publication.
  bench.publish(OuterStep{2}).apply(Revision{2}).begin(OuterStep{3}, Revision{2}).bring(OuterStep{3});
  BOOST_TEST((bench.next_life(OuterStep{3}, Revision{2})->step == OuterStep{2}));
}

BOOST_AUTO_TEST_SUITE_END()
