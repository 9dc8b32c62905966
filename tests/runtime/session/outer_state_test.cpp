// Checks the outer state: votes on what comes next, a commit that is a swap, an abort that touches nothing.
#include "runtime/agent/outer_state.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cmath>
#include <limits>
#include <random>
#include <sys/mman.h>
#include <thread>

#include "kernels/digest/digest.hpp"

BOOST_AUTO_TEST_SUITE(outer_state)

using namespace prime;

namespace {

struct Fixture {
  Layout layout = make_layout({{"embed", {3, 5}}, {"scale", {}}, {"head", {4}}}).value();
  OuterState state = OuterState::create(layout, {}).value();
  SharedFloats local = SharedFloats::map(state.descriptors()[wire::OUTER_SLOTS], layout.elements(), Access::ReadWrite).value();
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
  Result<Digest> reduce_and_prepare() {
    std::ranges::copy(state.input(), state.result().begin());
    return state.prepare(operation, {100, 7});
  }
  Digest step() {
    train();
    BOOST_REQUIRE(state.take_contribution());
    const auto digest = reduce_and_prepare().value();
    BOOST_REQUIRE(state.commit(operation));
    operation.sequence = operation.sequence.next();
    return digest;
  }
};

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

BOOST_FIXTURE_TEST_CASE(the_initial_state_is_the_trainers_with_zero_momentum, Fixture) {
  BOOST_TEST(!state.initialized());
  initialize();
  BOOST_TEST(copy(state.parameters()) == copy(local.values()), boost::test_tools::per_element());
  BOOST_TEST(std::ranges::all_of(state.momentum(), [](float m) { return m == 0; }));
  BOOST_TEST((state.counters() == StateCounters{}));
  BOOST_TEST((state.digest() == state_digest(state.parameters(), state.momentum(), {}, 2)));
}

BOOST_FIXTURE_TEST_CASE(prepare_and_discard_leave_every_bit_as_it_was, Fixture) {
  initialize();
  step();
  train();
  BOOST_REQUIRE(state.take_contribution());
  const auto parameters = copy(state.parameters());
  const auto momentum = copy(state.momentum());
  const auto input = copy(state.input());
  const auto digest = state.digest();
  const auto slot = state.slot();
  BOOST_REQUIRE(reduce_and_prepare());
  state.discard();
  BOOST_TEST(copy(state.parameters()) == parameters);
  BOOST_TEST(copy(state.momentum()) == momentum);
  BOOST_TEST(copy(state.input()) == input);
  BOOST_TEST((state.digest() == digest));
  BOOST_TEST(state.slot() == slot);
  BOOST_TEST(state.counters().revision.value == 1U);
  BOOST_TEST((state_digest(state.parameters(), state.momentum(), state.counters()) == digest));
}

BOOST_FIXTURE_TEST_CASE(the_same_contribution_prepared_twice_has_the_same_digest, Fixture) {
  initialize();
  step();
  train();
  BOOST_REQUIRE(state.take_contribution());
  const auto first = reduce_and_prepare().value();
  state.discard();
  std::ranges::fill(state.result(), std::numeric_limits<float>::quiet_NaN());  // what an aborted reduce may leave behind
  const auto second = reduce_and_prepare().value();
  BOOST_TEST((first == second));
}

BOOST_FIXTURE_TEST_CASE(a_commit_makes_the_prepared_state_current, Fixture) {
  initialize();
  const auto before = state.digest();
  const auto slot = state.slot();
  const auto voted = step();
  BOOST_TEST((voted != before));
  BOOST_TEST((state.digest() == voted));
  BOOST_TEST(state.slot() != slot);
  BOOST_TEST((state.counters() == StateCounters{Revision{1}, OuterStep{1}, 100, 7}));
  BOOST_TEST((state_digest(state.parameters(), state.momentum(), state.counters()) == voted));
}

BOOST_FIXTURE_TEST_CASE(a_late_trainer_is_compared_with_the_base_that_it_started_from, Fixture) {
  initialize();
  state.pin_base();
  const auto base = copy(state.parameters());
  const auto slot = state.slot();
  const auto commit_without_it = [&](std::uint64_t sequence) {
    std::ranges::fill(state.result(), 0.25F);
    const OperationId other{Epoch{1}, Sequence{sequence}};
    BOOST_REQUIRE(state.prepare(other, {1, 1}));
    BOOST_REQUIRE(state.commit(other));
  };
  for (std::uint64_t sequence = 10; sequence < 15; ++sequence) {
    commit_without_it(sequence);
    BOOST_TEST(state.slot() != slot);
  }
  // It ends while the sixth step is prepared without it.
  std::ranges::fill(state.result(), 0.25F);
  const auto voted = state.prepare(operation, {1, 1}).value();
  train();
  BOOST_REQUIRE(state.take_contribution());
  for (std::size_t i = 0; i < base.size(); ++i) BOOST_TEST(state.input()[i] == base[i] - model[i]);
  const auto input = copy(state.input());
  BOOST_REQUIRE(state.commit(operation));
  BOOST_TEST((state.digest() == voted));
  BOOST_TEST((state_digest(state.parameters(), state.momentum(), state.counters()) == voted));
  commit_without_it(20);
  BOOST_TEST(copy(state.input()) == input);
}

BOOST_FIXTURE_TEST_CASE(a_contribution_outlives_the_trainer_that_made_it_and_is_out_of_the_next_ones_reach, Fixture) {
  initialize();
  train();
  BOOST_REQUIRE(state.take_contribution());
  const auto contribution = copy(state.input());
  BOOST_REQUIRE(state.begin_life());
  local = SharedFloats::map(state.descriptors()[wire::OUTER_SLOTS], layout.elements(), Access::ReadWrite).value();
  train();
  BOOST_TEST(copy(state.input()) == contribution);
  BOOST_REQUIRE(reduce_and_prepare());
  BOOST_REQUIRE(state.commit(operation));
  operation.sequence = operation.sequence.next();
  train();
  BOOST_REQUIRE(state.take_contribution());
  for (std::size_t i = 0; i < model.size(); ++i) BOOST_TEST(state.input()[i] == state.parameters()[i] - model[i]);
  // A trainer that has contributed nothing yet is replaced by one that writes to the same place.
  BOOST_REQUIRE(state.begin_life());
  const auto number = state.descriptors()[wire::OUTER_SLOTS];
  BOOST_REQUIRE(state.begin_life());
  BOOST_TEST(state.descriptors()[wire::OUTER_SLOTS] == number);
}

BOOST_FIXTURE_TEST_CASE(the_counters_are_part_of_the_vote, Fixture) {
  initialize();
  train();
  BOOST_REQUIRE(state.take_contribution());
  std::ranges::copy(state.input(), state.result().begin());
  const auto one = state.prepare(operation, {100, 7}).value();
  state.discard();
  std::ranges::copy(state.input(), state.result().begin());
  BOOST_TEST((state.prepare(operation, {101, 7}).value() != one));
}

BOOST_FIXTURE_TEST_CASE(only_the_prepared_operation_can_be_committed, Fixture) {
  initialize();
  BOOST_TEST((state.commit(operation).error().name == ErrorName::InternalError));
  train();
  BOOST_REQUIRE(state.take_contribution());
  BOOST_REQUIRE(reduce_and_prepare());
  BOOST_TEST((state.commit({Epoch{2}, Sequence{1}}).error().name == ErrorName::InternalError));
  BOOST_TEST((state.prepare(operation, {}).error().name == ErrorName::InternalError));
  BOOST_TEST(state.counters().revision.value == 0U);
  BOOST_TEST(state.commit(operation).has_value());
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
  refused = state.take_contribution();
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().detail == "scale[0] of the contribution");
  local.values()[15] = 0;
  BOOST_REQUIRE(state.take_contribution());
  state.result()[14] = std::nanf("");
  const auto mean = state.prepare(operation, {});
  BOOST_REQUIRE(!mean);
  BOOST_TEST(mean.error().detail == "embed[14] of the mean");
  BOOST_TEST((state.digest() == digest));
  BOOST_TEST(!state.prepared());
}

BOOST_FIXTURE_TEST_CASE(a_snapshot_loads_into_another_peer_with_the_same_digest, Fixture) {
  initialize();
  step();
  step();
  const auto snapshot = state.snapshot(Holder::Joiner);
  BOOST_TEST(snapshot == state.snapshot(Holder::Disk), "one revision is held once");
  auto joiner = OuterState::create(layout, {}).value();
  BOOST_REQUIRE(joiner.load(*snapshot));
  BOOST_TEST((joiner.digest() == state.digest()));
  BOOST_TEST((joiner.counters() == state.counters()));
  BOOST_TEST((state_digest(joiner.parameters(), joiner.momentum(), joiner.counters()) == state.digest()));
  step();
  BOOST_TEST(snapshot != state.snapshot(Holder::Joiner));
  BOOST_TEST((snapshot->state == joiner.digest()));
}

BOOST_FIXTURE_TEST_CASE(a_snapshot_is_no_copy_and_stays_as_it_is_while_the_run_goes_on, Fixture) {
  initialize();
  step();
  const auto held = state.snapshot(Holder::Disk);
  BOOST_TEST(held->parameters.data() == state.parameters().data());
  BOOST_TEST(held->momentum.data() == state.momentum().data());
  for (int commits = 0; commits < 7; ++commits) step();
  BOOST_TEST((state_digest(held->parameters, held->momentum, held->counters) == held->state), "nobody has written there");
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
  for (const auto& one : held) BOOST_TEST((state_digest(one->parameters, one->momentum, one->counters) == one->state));
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
  BOOST_TEST((state_digest(held->parameters, held->momentum, held->counters) == held->state));
}

BOOST_FIXTURE_TEST_CASE(what_was_fetched_lies_where_it_was_put_and_is_refused_when_it_is_damaged, Fixture) {
  initialize();
  step();
  const auto donor = state.snapshot(Holder::Joiner);
  auto joiner = OuterState::create(layout, {}).value();
  const auto fill = [&] {
    const auto at = joiner.reserve();
    std::ranges::copy(donor->parameters, at.parameters.begin());
    std::ranges::copy(donor->momentum, at.momentum.begin());
    return at;
  };
  fill().momentum[2] += 1.0F;
  BOOST_TEST((joiner.adopt(donor->counters, donor->state).error().name == ErrorName::FetchFailed));
  BOOST_TEST(!joiner.initialized());
  const auto at = fill();
  BOOST_REQUIRE(joiner.adopt(donor->counters, donor->state));
  BOOST_TEST(joiner.parameters().data() == at.parameters.data());
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
        if (held && state_digest(held->parameters, held->momentum, held->counters) != held->state) std::abort();
      }
    });
  for (int commits = 0; commits < 200; ++commits) step();
  over = true;
  readers.clear();
  BOOST_TEST(state.counters().revision.value == 200U);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_or_foreign_snapshot_is_refused_and_changes_nothing, Fixture) {
  initialize();
  step();
  const auto digest = state.digest();
  auto damaged = *state.snapshot(Holder::Joiner);
  std::vector<float> momentum{damaged.momentum.begin(), damaged.momentum.end()};
  momentum[3] = std::nextafter(momentum[3], 9.0F);
  damaged.momentum = momentum;
  BOOST_TEST((state.load(damaged).error().name == ErrorName::FetchFailed));
  auto foreign = *state.snapshot(Holder::Joiner);
  foreign.layout = make_layout({{"embed", {5, 3}}, {"scale", {}}, {"head", {4}}}).value();
  BOOST_TEST((state.load(foreign).error().name == ErrorName::LayoutMismatch));
  BOOST_TEST((state.digest() == digest));
  BOOST_TEST((state_digest(state.parameters(), state.momentum(), state.counters()) == digest));
}

BOOST_FIXTURE_TEST_CASE(a_trainer_cannot_write_to_the_outer_slots_nor_resize_anything, Fixture) {
  for (std::size_t number = 0; number < wire::OUTER_SLOTS; ++number) {
    const int slot = state.descriptors()[number];
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
  const auto why = [&](std::vector<TensorShape> tensors) { return make_layout(std::move(tensors), limits).error().detail; };
  BOOST_TEST(why({{"a", {1}}, {"b", {1}}, {"c", {1}}}) == "3 tensors are bound, and a model has at most 2: merge small ones");
  BOOST_TEST(why({{"a", {6}}, {"b", {5}}}) == "with `b` the tensors have more than 10 values, which is the most of a whole model");
  BOOST_TEST(why({{"a", {11}}}) == "`a` has more than 10 values, which is the most of a whole model");
  BOOST_TEST(why({{"a", {3, 0}}}) == "`a` has an extent of 0: leave out a tensor without values");
  BOOST_TEST(why({{"tab\there", {1}}}) == "character 3 of a tensor's name, after `tab`, is not printable ASCII: rename the tensor");
  BOOST_TEST(why({{std::string(300, 'n'), {1}}}) ==
             "`" + std::string(40, 'n') + "…`, a tensor's name, has 300 characters: shorten it to 256");
}

BOOST_AUTO_TEST_SUITE_END()
