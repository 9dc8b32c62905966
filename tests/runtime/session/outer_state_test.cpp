// Checks the outer state: votes on what comes next, a commit that is a swap, an abort that touches nothing.
#include "runtime/agent/outer_state.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <thread>

#include "kernels/digest/digest.hpp"
#include "runtime/session/shared_memory.hpp"
#include "runtime/session/state_digest.hpp"

BOOST_AUTO_TEST_SUITE(outer_state)

using namespace prime;

namespace {

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

/// All fragments one after the other, as in the trainer's local region.
template <class State>
std::vector<float> values_of(const State& fragments, std::span<const float> Fragment::*which) {
  std::vector<float> values;
  for (const auto& fragment : fragments) values.insert(values.end(), (fragment.*which).begin(), (fragment.*which).end());
  return values;
}
std::vector<float> parameters(const OuterState& state) { return values_of(state.fragments(), &Fragment::parameters); }
std::vector<float> momentum(const OuterState& state) { return values_of(state.fragments(), &Fragment::momentum); }

/// As whoever holds the values computes it.
Digest recomputed(const std::vector<Fragment>& fragments) {
  std::vector<Digest> parts;
  for (const auto& fragment : fragments)
    parts.push_back(fragment_digest(static_cast<std::uint32_t>(parts.size()), fragment.version, fragment.parameters, fragment.momentum, 2));
  return kernels::digest_of_parts(parts);
}
Digest recomputed(const OuterState& state) { return recomputed(state.fragments()); }

std::vector<std::uint32_t> all(const Layout& layout) {
  std::vector<std::uint32_t> fragments(layout.fragments());
  std::iota(fragments.begin(), fragments.end(), 0U);
  return fragments;
}

/// What a joiner does with a snapshot of a donor.
Result<void> fetch(OuterState& joiner, const Snapshot& donor, const std::vector<std::uint32_t>& wanted) {
  auto incoming = joiner.reserve(wanted);
  for (auto& each : incoming) {
    const auto& from = donor.fragments[each.fragment];
    each.version = from.version;
    std::ranges::copy(from.parameters, each.parameters.begin());
    std::ranges::copy(from.momentum, each.momentum.begin());
  }
  return joiner.adopt(incoming, donor.counters, donor.state);
}

struct Fixture {
  explicit Fixture(Division division = {}) : layout(make_layout({{"embed", {3, 5}}, {"scale", {}}, {"head", {4}}}, division).value()) {}

  Layout layout;
  OuterState state = OuterState::create(layout, {}).value();
  SharedFloats local = SharedFloats::map(state.descriptors()[1], layout.elements(), Access::ReadWrite).value();
  std::vector<float> model = std::vector<float>(layout.elements());
  std::mt19937 random{5};
  OperationId operation{Epoch{1}, Sequence{1}};

  void train() {
    std::normal_distribution<float> noise;
    for (auto& value : model) value += noise(random);
    std::ranges::copy(model, local.values().begin());
  }
  void initialize() {
    train();
    BOOST_REQUIRE(state.initialize());
  }
  Result<Digest> reduce_and_prepare(std::uint32_t fragment = 0) {
    std::ranges::copy(state.input(fragment), state.result(fragment).begin());
    return state.prepare(operation, fragment, {7});
  }
  Digest reduce_and_commit(std::uint32_t fragment) {
    const auto digest = reduce_and_prepare(fragment).value();
    BOOST_REQUIRE(state.commit(operation, 100));
    operation.sequence = operation.sequence.next();
    return digest;
  }
  /// The digest of the last fragment.
  Digest step() {
    train();
    BOOST_REQUIRE(state.take_contribution());
    Digest digest;
    for (const auto fragment : all(layout)) digest = reduce_and_commit(fragment);
    return digest;
  }
};

struct Divided : Fixture {
  Divided() : Fixture({3, FragmentPattern::Balanced}) {}
};

std::vector<std::uint32_t> blocks_of(const OuterState& state) {
  std::vector<std::uint32_t> blocks;
  for (const auto& place : state.places()) blocks.push_back(place.block);
  return blocks;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(the_initial_state_is_the_trainers_with_zero_momentum, Fixture) {
  BOOST_TEST(!state.initialized());
  initialize();
  BOOST_TEST(parameters(state) == copy(local.values()), boost::test_tools::per_element());
  BOOST_TEST(std::ranges::all_of(momentum(state), [](float m) { return m == 0; }));
  BOOST_TEST((state.counters() == StateCounters{}));
  BOOST_TEST((state.digest() == recomputed(state)));
}

namespace {

/// A tensor of a layer, and one of none, which is averaged.
struct Radial : Fixture {
  Radial() {
    layout = make_layout({{"embed", {2}}, {"layers.0.w", {2}}, {"layers.1.w", {2}}}, {}).value();
    state = OuterState::create(layout, {.rule = {1.0F, 0.0F}, .merge = Merge::Radial}).value();
    local = SharedFloats::map(state.descriptors()[1], layout.elements(), Access::ReadWrite).value();
    std::ranges::fill(local.values(), 0.0F);
    BOOST_REQUIRE(state.initialize());
  }
  void work(std::vector<float> values) { std::ranges::copy(values, local.values().begin()); }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(tensors_of_layers_are_contributed_as_directions_and_get_the_mean_length, Radial) {
  work({-1, -2, -3, -4, 0, 0});
  const auto lengths = state.take_contribution().value();
  BOOST_TEST((lengths == std::vector<Lengths>{{Real{5.0}, Real{0.0}}}));
  BOOST_TEST(copy(state.input(0)) == (std::vector<float>{1, 2, 0.6F, 0.8F, 0, 0}), boost::test_tools::per_element());
  // The mean with one that brought (0, 15) and (2, 0).
  std::ranges::copy(std::vector<float>{1, 2, 0.3F, 0.9F, 0.5F, 0}, state.result(0).begin());
  const std::vector radii{Real{10.0}, Real{1.0}};
  BOOST_REQUIRE(state.prepare(operation, 0, {7, 2, radii}));
  BOOST_REQUIRE(state.commit(operation, 100));
  const auto moved = parameters(state);
  const double unit = std::sqrt(0.9);
  const std::vector<double> expected{-1, -2, -10 * 0.3 / unit, -10 * 0.9 / unit, -1 * 0.5 * std::sqrt(2.0), 0};
  for (std::size_t i = 0; i < expected.size(); ++i) BOOST_TEST(std::abs(moved[i] - expected[i]) < 1e-5, "value " << i << ": " << moved[i]);
}

BOOST_FIXTURE_TEST_CASE(lengths_of_other_tensors_are_refused_and_change_nothing, Radial) {
  work({1, 1, 1, 1, 1, 1});
  BOOST_REQUIRE(state.take_contribution());
  std::ranges::copy(state.input(0), state.result(0).begin());
  const auto before = state.digest();
  const std::vector radii{Real{1.0}};
  const auto refused = state.prepare(operation, 0, {7, 1, radii});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().name == ErrorName::ReduceMismatch));
  BOOST_TEST(refused.error().detail == "1 lengths for 2 tensors that `sync.merge: radial` is for");
  BOOST_TEST((state.digest() == before));
}

/// Two rounds late by one, with half of the mean expected to be its own: by hand, value by value.
BOOST_FIXTURE_TEST_CASE(a_trainer_goes_on_with_what_its_peer_expects_until_the_next_commit, Fixture) {
  const auto given = [&] {
    const auto file = SharedFloats::map(state.descriptors()[0], wire::outer_elements(layout), Access::ReadOnly).value();
    return copy(file.values().subspan(state.places()[0].block * wire::block_size(layout), layout.elements()));
  };
  initialize();
  state.pin_base();
  const kernels::NesterovOptions rule;
  std::vector<double> shared(model.begin(), model.end());
  auto own = shared;
  std::vector<double> momentum(model.size());
  std::vector<double> expected(model.size());
  for (int round = 0; round < 3; ++round) {
    train();
    BOOST_REQUIRE(state.take_contribution({}, 0.5F));
    state.pin_base();
    const auto delta = copy(state.input(0));
    const auto from = given();
    for (std::size_t i = 0; i < delta.size(); ++i) {
      expected[i] = rule.momentum * expected[i] + 0.5 * delta[i];
      const double to = shared[i] - rule.learning_rate * (0.5 * delta[i] + rule.momentum * expected[i]);
      BOOST_TEST(std::abs(own[i] - model[i] - delta[i]) < 1e-5, "what it was given, less what it has made of that");
      BOOST_TEST(std::abs(from[i] - to) < 1e-5);
      own[i] = to;
    }
    reduce_and_commit(0);
    BOOST_TEST(given() == parameters(state), boost::test_tools::per_element());
    for (std::size_t i = 0; i < delta.size(); ++i) {
      momentum[i] = rule.momentum * momentum[i] + delta[i];
      shared[i] -= rule.learning_rate * (delta[i] + rule.momentum * momentum[i]);
      BOOST_TEST(std::abs(shared[i] - parameters(state)[i]) < 1e-5);
    }
  }
  Fixture joiner;
  BOOST_REQUIRE(fetch(joiner.state, *state.snapshot(Holder::Joiner), {0}));
  BOOST_REQUIRE(fetch(state, *joiner.state.snapshot(Holder::Joiner), {0}));
  const auto expects_only_that = [&] {
    train();
    BOOST_REQUIRE(state.take_contribution({}, 0.5F));
    const auto from = given();
    for (std::size_t i = 0; i < from.size(); ++i)
      BOOST_TEST(std::abs(from[i] - (shared[i] - rule.learning_rate * 0.5 * (1 + rule.momentum) * state.input(0)[i])) < 1e-4);
  };
  expects_only_that();  // with what it adopts it forgets what it had contributed
  state.forget_expected();
  BOOST_TEST(given() == parameters(state), boost::test_tools::per_element());
  state.pin_base();
  expects_only_that();
}

BOOST_AUTO_TEST_CASE(what_a_codec_loses_is_kept_with_the_commit_and_not_before) {
  Fixture fixture;
  auto& state = fixture.state;
  BOOST_TEST(state.feedback(0).next.empty(), "nothing is fed back where that is not wanted");
  state = OuterState::create(fixture.layout, {{}, 1, 1, true}).value();
  fixture.local = SharedFloats::map(state.descriptors()[1], fixture.layout.elements(), Access::ReadWrite).value();
  fixture.initialize();
  const auto reduce = [&](float loses) {
    const auto [residual, next] = state.feedback(0);
    const auto before = copy(residual);
    std::ranges::fill(next, loses);
    fixture.train();
    BOOST_REQUIRE(state.take_contribution());
    BOOST_REQUIRE(fixture.reduce_and_prepare());
    return before.front();
  };
  BOOST_TEST(state.residuals().values.empty());
  BOOST_TEST(reduce(0.5F) == 0.0F);
  state.discard(fixture.operation);
  BOOST_TEST(reduce(0.25F) == 0.0F, "a reduce that was void loses nothing");
  BOOST_REQUIRE(state.commit(fixture.operation, 100));
  fixture.operation.sequence = fixture.operation.sequence.next();
  const auto held = state.residuals();
  BOOST_TEST(reduce(0.125F) == 0.25F);
  BOOST_REQUIRE(state.commit(fixture.operation, 100));
  BOOST_TEST(held.values.at(0).front() == 0.25F, "who saves it holds it");
  BOOST_TEST(state.residuals().values.at(0).front() == 0.125F);
  Fixture donor;
  BOOST_REQUIRE(fetch(donor.state, *state.snapshot(Holder::Joiner), {0}));
  BOOST_REQUIRE(fetch(state, *donor.state.snapshot(Holder::Joiner), {0}));
  BOOST_TEST(state.feedback(0).residual.front() == 0.0F, "what comes from others begins anew");
  std::ranges::fill(state.bring_residual(0), 3.0F);
  BOOST_TEST(state.feedback(0).residual.front() == 3.0F);
}

BOOST_FIXTURE_TEST_CASE(prepare_and_discard_leave_every_bit_as_it_was, Fixture) {
  initialize();
  step();
  train();
  BOOST_REQUIRE(state.take_contribution());
  const auto before = parameters(state);
  const auto momentum_before = momentum(state);
  const auto input = copy(state.input(0));
  const auto digest = state.digest();
  const auto blocks = blocks_of(state);
  BOOST_REQUIRE(reduce_and_prepare());
  state.discard(operation);
  BOOST_TEST(parameters(state) == before);
  BOOST_TEST(momentum(state) == momentum_before);
  BOOST_TEST(copy(state.input(0)) == input);
  BOOST_TEST((state.digest() == digest));
  BOOST_TEST((blocks_of(state) == blocks));
  BOOST_TEST(state.counters().revision.value == 1U);
  BOOST_TEST((recomputed(state) == digest));
}

BOOST_FIXTURE_TEST_CASE(the_same_contribution_prepared_twice_has_the_same_digest, Fixture) {
  initialize();
  step();
  train();
  BOOST_REQUIRE(state.take_contribution());
  const auto first = reduce_and_prepare().value();
  state.discard(operation);
  std::ranges::fill(state.result(0), std::numeric_limits<float>::quiet_NaN());  // what an aborted reduce may leave behind
  const auto second = reduce_and_prepare().value();
  BOOST_TEST((first == second));
}

BOOST_FIXTURE_TEST_CASE(a_commit_makes_the_prepared_state_current, Fixture) {
  initialize();
  const auto before = state.digest();
  const auto blocks = blocks_of(state);
  const auto voted = step();
  BOOST_TEST((voted != before));
  BOOST_TEST((state.digest() == voted));
  BOOST_TEST((blocks_of(state) != blocks));
  BOOST_TEST((state.counters() == StateCounters{Revision{1}, 100, 7}));
  BOOST_TEST((recomputed(state) == voted));
}

BOOST_FIXTURE_TEST_CASE(a_late_trainer_is_compared_with_the_base_that_it_started_from, Fixture) {
  initialize();
  state.pin_base();
  const auto base = parameters(state);
  const auto blocks = blocks_of(state);
  const auto commit_without_it = [&](std::uint64_t sequence) {
    std::ranges::fill(state.result(0), 0.25F);
    const OperationId other{Epoch{1}, Sequence{sequence}};
    BOOST_REQUIRE(state.prepare(other, 0, {1}));
    BOOST_REQUIRE(state.commit(other, 100));
  };
  for (std::uint64_t sequence = 10; sequence < 15; ++sequence) {
    commit_without_it(sequence);
    BOOST_TEST((blocks_of(state) != blocks));
  }
  // It ends while the sixth step is prepared without it.
  std::ranges::fill(state.result(0), 0.25F);
  const auto voted = state.prepare(operation, 0, {1}).value();
  train();
  BOOST_REQUIRE(state.take_contribution());
  for (std::size_t i = 0; i < base.size(); ++i) BOOST_TEST(state.input(0)[i] == base[i] - model[i]);
  const auto input = copy(state.input(0));
  BOOST_REQUIRE(state.commit(operation, 100));
  BOOST_TEST((state.digest() == voted));
  BOOST_TEST((recomputed(state) == voted));
  commit_without_it(20);
  BOOST_TEST(copy(state.input(0)) == input);
}

BOOST_FIXTURE_TEST_CASE(a_contribution_outlives_the_trainer_that_made_it_and_is_out_of_the_next_ones_reach, Fixture) {
  initialize();
  train();
  BOOST_REQUIRE(state.take_contribution());
  const auto contribution = copy(state.input(0));
  BOOST_REQUIRE(state.begin_life());
  local = SharedFloats::map(state.descriptors()[1], layout.elements(), Access::ReadWrite).value();
  train();
  BOOST_TEST(copy(state.input(0)) == contribution);
  BOOST_REQUIRE(reduce_and_prepare());
  BOOST_REQUIRE(state.commit(operation, 100));
  operation.sequence = operation.sequence.next();
  train();
  BOOST_REQUIRE(state.take_contribution());
  for (std::size_t i = 0; i < model.size(); ++i) BOOST_TEST(state.input(0)[i] == parameters(state)[i] - model[i]);
  // A trainer that has contributed nothing yet is replaced by one that writes to the same place.
  BOOST_REQUIRE(state.begin_life());
  const auto number = state.descriptors()[1];
  BOOST_REQUIRE(state.begin_life());
  BOOST_TEST(state.descriptors()[1] == number);
}

BOOST_FIXTURE_TEST_CASE(only_the_prepared_operation_can_be_committed, Fixture) {
  initialize();
  BOOST_TEST((state.commit(operation, 100).error().name == ErrorName::InternalError));
  train();
  BOOST_REQUIRE(state.take_contribution());
  BOOST_REQUIRE(reduce_and_prepare());
  BOOST_TEST((state.commit({Epoch{2}, Sequence{1}}, 100).error().name == ErrorName::InternalError));
  BOOST_TEST((state.prepare(operation, 0, {}).error().name == ErrorName::InternalError));
  BOOST_TEST(state.counters().revision.value == 0U);
  BOOST_TEST(state.commit(operation, 100).has_value());
}

BOOST_FIXTURE_TEST_CASE(values_that_are_not_finite_are_refused_by_tensor_and_index, Fixture) {
  local.values()[17] = std::numeric_limits<float>::infinity();
  auto refused = state.initialize();
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().name == ErrorName::NonFiniteValue));
  BOOST_TEST(refused.error().detail == "head[1] of the initial values");
  BOOST_TEST(!state.initialized());
  local.values()[17] = 1;
  initialize();
  const auto digest = state.digest();
  local.values()[15] = std::nanf("");
  const auto untaken = state.take_contribution();
  BOOST_REQUIRE(!untaken);
  BOOST_TEST(untaken.error().detail == "scale[0] of the contribution");
  local.values()[15] = 0;
  BOOST_REQUIRE(state.take_contribution());
  state.result(0)[14] = std::nanf("");
  const auto mean = state.prepare(operation, 0, {});
  BOOST_REQUIRE(!mean);
  BOOST_TEST(mean.error().detail == "embed[14] of the mean");
  BOOST_TEST((state.digest() == digest));
  BOOST_TEST(!state.prepared());
}

BOOST_FIXTURE_TEST_CASE(several_fragments_are_prepared_at_once_and_committed_in_any_order, Divided) {
  initialize();
  train();
  BOOST_REQUIRE(state.take_contribution());
  auto alone = OuterState::create(layout, {}).value();
  const auto before = state.snapshot(Holder::Joiner);
  BOOST_REQUIRE(fetch(alone, *before, all(layout)));
  std::vector<std::pair<OperationId, Digest>> voted;
  for (const auto fragment : all(layout)) {
    const OperationId op{Epoch{1}, Sequence{fragment + 1U}, Tag{fragment}};
    std::ranges::copy(state.input(fragment), state.result(fragment).begin());
    voted.emplace_back(op, state.prepare(op, fragment, {7}).value());
  }
  BOOST_TEST(state.prepared() == voted.size());
  state.discard(voted[1].first);
  std::ranges::copy(state.input(1), state.result(1).begin());
  BOOST_TEST((state.prepare(voted[1].first, 1, {7}).value() == voted[1].second), "what one of them does leaves the others as they are");
  for (const std::size_t each : {2U, 0U, 1U}) BOOST_REQUIRE(state.commit(voted[each].first, 100));
  for (const auto& fragment : state.fragments()) BOOST_TEST(fragment.version.value == 1U);
  for (const auto fragment : all(layout)) {
    const OperationId op{Epoch{1}, Sequence{fragment + 1U}};
    std::ranges::copy(state.input(fragment), alone.result(fragment).begin());
    BOOST_TEST((alone.prepare(op, fragment, {7}).value() == voted[fragment].second), "one after the other leads to the same bits");
    BOOST_REQUIRE(alone.commit(op, 100));
  }
  BOOST_TEST((state.digest() == alone.digest()));
  BOOST_TEST((state.counters() == StateCounters{Revision{3}, 100, 7}));
  BOOST_TEST((recomputed(state) == state.digest()));
}

BOOST_FIXTURE_TEST_CASE(a_snapshot_loads_into_another_peer_with_the_same_digest, Fixture) {
  initialize();
  step();
  step();
  const auto snapshot = state.snapshot(Holder::Joiner);
  BOOST_TEST(snapshot == state.snapshot(Holder::Disk), "one revision is held once");
  auto joiner = OuterState::create(layout, {}).value();
  BOOST_REQUIRE(fetch(joiner, *snapshot, all(layout)));
  BOOST_TEST((joiner.digest() == state.digest()));
  BOOST_TEST((joiner.counters() == state.counters()));
  BOOST_TEST((recomputed(joiner) == state.digest()));
  step();
  BOOST_TEST(snapshot != state.snapshot(Holder::Joiner));
  BOOST_TEST((snapshot->state == joiner.digest()));
}

BOOST_FIXTURE_TEST_CASE(a_snapshot_is_no_copy_and_stays_as_it_is_while_the_run_goes_on, Fixture) {
  initialize();
  step();
  const auto held = state.snapshot(Holder::Disk);
  BOOST_TEST(held->fragments[0].parameters.data() == state.fragments()[0].parameters.data());
  BOOST_TEST(held->fragments[0].momentum.data() == state.fragments()[0].momentum.data());
  for (int commits = 0; commits < 7; ++commits) step();
  BOOST_TEST((recomputed(held->fragments) == held->state), "nobody has written there");
}

BOOST_FIXTURE_TEST_CASE(joiners_leave_the_last_place_for_the_disk_and_what_is_let_go_is_used_again, Fixture) {
  initialize();
  std::vector<std::shared_ptr<const Snapshot>> held;
  for (std::uint32_t old = 0; old + 1 < PINNED_MAX; ++old) {
    held.push_back(state.snapshot(Holder::Joiner));
    BOOST_REQUIRE(held.back());
    step();
  }
  BOOST_TEST(!state.snapshot(Holder::Joiner));
  held.push_back(state.snapshot(Holder::Disk));
  BOOST_REQUIRE(held.back());
  step();
  BOOST_TEST(!state.snapshot(Holder::Disk), "there is a limit");
  step();
  for (const auto& one : held) BOOST_TEST((recomputed(one->fragments) == one->state));
  held.clear();
  BOOST_TEST(!!state.snapshot(Holder::Joiner));
}

BOOST_AUTO_TEST_CASE(a_snapshot_may_outlast_its_state) {
  const auto layout = make_layout({{"a", {3}}}).value();
  std::shared_ptr<const Snapshot> held;
  {
    auto state = OuterState::create(layout, {}).value();
    BOOST_REQUIRE(state.initialize());
    held = state.snapshot(Holder::Joiner);
  }
  BOOST_TEST((recomputed(held->fragments) == held->state));
}

BOOST_FIXTURE_TEST_CASE(what_was_fetched_lies_where_it_was_put_and_is_refused_when_it_is_damaged, Fixture) {
  initialize();
  step();
  const auto donor = state.snapshot(Holder::Joiner);
  auto joiner = OuterState::create(layout, {}).value();
  const auto fill = [&] {
    auto at = joiner.reserve({0});
    at[0].version = donor->fragments[0].version;
    std::ranges::copy(donor->fragments[0].parameters, at[0].parameters.begin());
    std::ranges::copy(donor->fragments[0].momentum, at[0].momentum.begin());
    return at;
  };
  auto damaged = fill();
  damaged[0].momentum[2] += 1.0F;
  BOOST_TEST((joiner.adopt(damaged, donor->counters, donor->state).error().name == ErrorName::FetchFailed));
  BOOST_TEST(!joiner.initialized());
  auto older = fill();
  older[0].version = OuterStep{7};
  BOOST_TEST((joiner.adopt(older, donor->counters, donor->state).error().name == ErrorName::FetchFailed), "of another version, as it says");
  const auto at = fill();
  BOOST_REQUIRE(joiner.adopt(at, donor->counters, donor->state));
  BOOST_TEST(joiner.fragments()[0].parameters.data() == at[0].parameters.data());
  BOOST_TEST((joiner.digest() == donor->state));
}

/// A checkpoint reads, a late trainer contributes and a donor asks while the reduce worker makes the next revision: none waits for another
/// one's memory, and none sees what is being written (the thread sanitizer watches).
BOOST_FIXTURE_TEST_CASE(readers_and_the_reduce_go_on_at_once, Fixture) {
  initialize();
  std::atomic<bool> over{false};
  std::vector<std::jthread> readers;
  for (const auto holder : {Holder::Disk, Holder::Joiner})
    readers.emplace_back([&, holder] {
      while (!over.load()) {
        const auto held = state.snapshot(holder);
        if (held && recomputed(held->fragments) != held->state) std::abort();
      }
    });
  for (int commits = 0; commits < 200; ++commits) step();
  over = true;
  readers.clear();
  BOOST_TEST(state.counters().revision.value == 200U);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_state_is_refused_and_changes_nothing, Fixture) {
  initialize();
  step();
  const auto digest = state.digest();
  auto damaged = state.reserve({0});
  std::ranges::fill(damaged[0].parameters, 1.0F);
  BOOST_TEST((state.adopt(damaged, {Revision{9}, 1, 1}, Digest{1, 2}).error().name == ErrorName::FetchFailed));
  BOOST_TEST((state.digest() == digest));
  BOOST_TEST((recomputed(state) == digest));
  BOOST_TEST((state.counters().revision == Revision{1}));
  step();
}

BOOST_FIXTURE_TEST_CASE(each_fragment_has_versions_of_its_own, Divided) {
  initialize();
  const auto before = state.fragments();
  const auto blocks = blocks_of(state);
  train();
  BOOST_REQUIRE(state.take_contribution());
  const auto voted = reduce_and_commit(1);
  const auto after = state.fragments();
  for (const auto fragment : {0U, 2U}) {
    BOOST_TEST((after[fragment].digest == before[fragment].digest));
    BOOST_TEST(blocks_of(state)[fragment] == blocks[fragment]);
  }
  BOOST_TEST((after[1].digest == voted && after[1].version == OuterStep{1}));
  BOOST_TEST((state.digest() == recomputed(state)));
  BOOST_TEST((state.counters() == StateCounters{Revision{1}, 100, 0}), "the step is not whole");
  BOOST_TEST((state.snapshot(Holder::Disk)->step() == OuterStep{0}));
  reduce_and_commit(0);
  reduce_and_commit(2);
  BOOST_TEST((state.counters() == StateCounters{Revision{3}, 100, 7}));
  BOOST_TEST((state.snapshot(Holder::Disk)->step() == OuterStep{1}));
}

BOOST_FIXTURE_TEST_CASE(the_parameters_of_a_divided_state_are_those_of_an_undivided_one, Divided) {
  Fixture whole;
  initialize();
  whole.initialize();
  for (int steps = 0; steps < 5; ++steps) {
    step();
    whole.step();
  }
  // Both trainers drew the same numbers, each into its own order of tensors.
  for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
    const auto& home = layout.homes()[tensor];
    const auto at = layout.begin(home.fragment) + home.offset;
    for (std::size_t i = 0; i < layout.counts()[tensor]; ++i) BOOST_TEST(parameters(state)[at + i] == parameters(whole.state)[at + i]);
  }
  BOOST_TEST((state.counters().tokens == whole.state.counters().tokens && state.counters().revision == Revision{15}));
}

BOOST_FIXTURE_TEST_CASE(a_joiner_fetches_only_what_it_does_not_hold, Divided) {
  initialize();
  auto joiner = OuterState::create(layout, {}).value();
  const auto first = state.snapshot(Holder::Joiner);
  BOOST_REQUIRE(fetch(joiner, *first, all(layout)));
  train();
  BOOST_REQUIRE(state.take_contribution());
  reduce_and_commit(2);
  const auto moved = state.snapshot(Holder::Joiner);
  const auto kept = joiner.fragments();
  BOOST_TEST((fetch(joiner, *moved, {1}).error().name == ErrorName::FetchFailed));
  BOOST_TEST((joiner.digest() == first->state));
  BOOST_REQUIRE(fetch(joiner, *moved, {2}));
  BOOST_TEST((joiner.digest() == state.digest()));
  BOOST_TEST(joiner.fragments()[0].parameters.data() == kept[0].parameters.data());
}

BOOST_FIXTURE_TEST_CASE(a_fragment_takes_the_memory_that_another_one_has_left, Divided) {
  initialize();
  for (int steps = 0; steps < 9; ++steps) step();
  BOOST_TEST(std::ranges::max(blocks_of(state)) <= layout.fragments(), "one block more than there are fragments");
}

BOOST_FIXTURE_TEST_CASE(a_trainer_cannot_write_to_the_outer_slots_nor_resize_anything, Fixture) {
  {
    const int slot = state.descriptors()[0];
    errno = 0;
    BOOST_TEST(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, slot, 0) == MAP_FAILED);
    BOOST_TEST((errno == EPERM || errno == EACCES));
    BOOST_TEST(::pwrite(slot, "x", 1, 0) == -1);
    void* const readable = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, slot, 0);
    BOOST_REQUIRE(readable != MAP_FAILED);
    BOOST_TEST(::mprotect(readable, 4096, PROT_READ | PROT_WRITE) == -1);
    ::munmap(readable, 4096);
  }
  for (const int file : state.descriptors()) {
    BOOST_TEST(::ftruncate(file, 0) == -1);
    BOOST_TEST(::ftruncate(file, 1 << 20) == -1);
  }
}

BOOST_AUTO_TEST_CASE(layouts_differ_in_digest_when_names_shapes_or_order_differ) {
  const auto digest = [](std::vector<TensorShape> tensors) { return make_layout(std::move(tensors)).value().digest(); };
  const auto base = digest({{"a", {2, 3}}, {"b", {4}}});
  BOOST_TEST((base == digest({{"a", {2, 3}}, {"b", {4}}})));
  BOOST_TEST((base != digest({{"a", {3, 2}}, {"b", {4}}})));
  BOOST_TEST((base != digest({{"b", {4}}, {"a", {2, 3}}})));
  BOOST_TEST((base != digest({{"a", {2, 3}}, {"c", {4}}})));
}

BOOST_AUTO_TEST_CASE(impossible_layouts_are_refused) {
  const auto refused = [](std::vector<TensorShape> tensors) {
    const auto layout = make_layout(std::move(tensors));
    return !layout && layout.error().name == ErrorName::LayoutUnusable;
  };
  BOOST_TEST(refused({}));
  BOOST_TEST(refused({{"", {1}}}));
  BOOST_TEST(refused({{"a\n", {1}}}));
  BOOST_TEST(refused({{std::string(257, 'a'), {1}}}));
  BOOST_TEST(refused({{"a", {0}}}));
  BOOST_TEST(refused({{"a", {-1}}}));
  BOOST_TEST(refused({{"a", {1}}, {"a", {1}}}));
  BOOST_TEST(refused({{"a", {std::int64_t{1} << 32, std::int64_t{1} << 32}}}));
  BOOST_TEST(refused({{"a", {std::int64_t{1} << 40}}, {"b", {1}}}));
  BOOST_TEST(refused({{"a", std::vector<std::int64_t>(17, 1)}}));
  BOOST_TEST(refused({{"__metadata__", {1}}}), "a word of the checkpoint's format");
}

BOOST_AUTO_TEST_CASE(a_refused_layout_says_what_where_how_much_and_what_to_do) {
  ModelLimits limits;
  limits.tensors = 2;
  limits.elements = 10;
  const auto why = [&](std::vector<TensorShape> tensors) { return make_layout(std::move(tensors), {}, limits).error().detail; };
  BOOST_TEST(why({{"a", {1}}, {"b", {1}}, {"c", {1}}}) == "3 tensors are bound, and a model has at most 2: merge small ones");
  BOOST_TEST(why({{"a", {6}}, {"b", {5}}}) == "with `b` the tensors have more than 10 values, which is the most of a whole model");
  BOOST_TEST(why({{"a", {11}}}) == "`a` has more than 10 values, which is the most of a whole model");
  BOOST_TEST(why({{"a", {3, 0}}}) == "`a` has an extent of 0: leave out a tensor without values");
  BOOST_TEST(why({{"tab\there", {1}}}) == "character 3 of a tensor's name, after `tab`, is not printable ASCII: rename the tensor");
  BOOST_TEST(why({{std::string(300, 'n'), {1}}}) ==
             "`" + std::string(40, 'n') + "…`, a tensor's name, has 300 characters: shorten it to 256");
}

BOOST_AUTO_TEST_SUITE_END()
