// Owns the tests of the reduce plan: whatever the shape, all elements are summed once and reach everyone.
#include "actors/reduce_worker/schedule.hpp"

#include <boost/test/unit_test.hpp>
#include <random>
#include <rapidcheck.h>

using namespace prime;

namespace {

ReducePlan plan_of(std::uint64_t elements, std::uint32_t rank, const std::vector<bool>& contributes, std::uint64_t chunk_elements) {
  auto plan = ReducePlan::make(ReduceShape{elements, rank, contributes, chunk_elements});
  BOOST_REQUIRE(plan.has_value());
  return *plan;
}

std::vector<ReducePlan> plans_of_all(std::uint64_t elements, const std::vector<bool>& contributes, std::uint64_t chunk_elements) {
  std::vector<ReducePlan> plans;
  for (std::uint32_t rank = 0; rank < contributes.size(); ++rank) plans.push_back(plan_of(elements, rank, contributes, chunk_elements));
  return plans;
}

struct Shape {
  std::uint64_t elements;
  std::vector<bool> contributes;
  std::uint64_t chunk_elements;
};

Shape any_shape() {
  Shape shape;
  const auto world = *rc::gen::inRange<std::size_t>(1, 9);
  shape.elements = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 20), rc::gen::inRange<std::uint64_t>(0, 5000));
  shape.contributes = *rc::gen::container<std::vector<bool>>(world, rc::gen::arbitrary<bool>());
  shape.chunk_elements = *rc::gen::element<std::uint64_t>(1, 16, 100, 128, 5000);
  return shape;
}

Contribution weighing(std::uint64_t weight) { return Contribution{PeerId{1}, weight}; }

}  // namespace

BOOST_AUTO_TEST_CASE(segments_cut_the_tensor_without_gap_or_overlap_and_begin_aligned) {
  BOOST_TEST(rc::check([] {
    const auto shape = any_shape();
    const auto plan = plan_of(shape.elements, 0, shape.contributes, shape.chunk_elements);
    std::uint64_t at = 0;
    for (std::uint32_t owner = 0; owner < plan.world(); ++owner) {
      const auto segment = plan.segment(owner);
      RC_ASSERT(segment.begin == at);
      RC_ASSERT(segment.begin % SEGMENT_ALIGNMENT == 0 || segment.count == 0);
      for (std::uint32_t chunk = 0; chunk < plan.chunk_count(owner); ++chunk) {
        RC_ASSERT(plan.chunk(owner, chunk).begin == at);
        RC_ASSERT(plan.chunk(owner, chunk).count > 0U);
        RC_ASSERT(plan.chunk(owner, chunk).count <= shape.chunk_elements);
        at += plan.chunk(owner, chunk).count;
      }
      RC_ASSERT(segment.begin + segment.count == at);
    }
    RC_ASSERT(at == shape.elements);
  }));
}

BOOST_AUTO_TEST_CASE(owners_share_the_work_evenly) {
  const auto plan = plan_of(1'000'003, 0, std::vector<bool>(7, true), 1024);
  for (std::uint32_t owner = 0; owner < 7; ++owner) {
    BOOST_TEST(plan.segment(owner).count >= 1'000'003 / 7 - 2 * SEGMENT_ALIGNMENT);
    BOOST_TEST(plan.segment(owner).count <= 1'000'003 / 7 + 2 * SEGMENT_ALIGNMENT);
  }
}

BOOST_AUTO_TEST_CASE(what_one_rank_sends_is_what_the_other_expects) {
  BOOST_TEST(rc::check([] {
    const auto shape = any_shape();
    const auto plans = plans_of_all(shape.elements, shape.contributes, shape.chunk_elements);
    for (const auto& sender : plans) {
      for (const auto to : sender.peers()) {
        RC_ASSERT(sender.send_count(to) == plans[to].receive_count(sender.rank()));
        for (std::uint64_t i = 0; i < sender.send_count(to); ++i) RC_ASSERT(sender.send(to, i) == plans[to].receive(sender.rank(), i));
      }
    }
  }));
}

BOOST_AUTO_TEST_CASE(every_element_is_summed_once_and_its_result_reaches_everyone) {
  BOOST_TEST(rc::check([] {
    const auto shape = any_shape();
    const auto plans = plans_of_all(shape.elements, shape.contributes, shape.chunk_elements);
    for (const auto& plan : plans) {
      // How often each rank's element comes to this owner, and how often each result comes to this rank.
      std::vector<std::vector<int>> inputs(plan.world(), std::vector<int>(shape.elements));
      std::vector<int> results(shape.elements);
      const auto own = plan.segment(plan.rank());
      for (auto i = own.begin; i < own.begin + own.count; ++i) ++results[i];
      for (const auto from : plan.peers()) {
        for (std::uint64_t index = 0; index < plan.receive_count(from); ++index) {
          const auto piece = plan.receive(from, index);
          auto& counts = piece.kind == PieceKind::Result ? results : inputs[from];
          for (auto i = piece.range.begin; i < piece.range.begin + piece.range.count; ++i) ++counts[i];
        }
      }
      for (std::uint64_t i = 0; i < shape.elements; ++i) RC_ASSERT(results[i] == 1);
      for (const auto from : plan.peers())
        for (std::uint64_t i = 0; i < shape.elements; ++i)
          RC_ASSERT(inputs[from][i] == (shape.contributes[from] && i >= own.begin && i < own.begin + own.count ? 1 : 0));
    }
  }));
}

BOOST_AUTO_TEST_CASE(all_ranks_finish_whatever_the_order_of_delivery) {
  BOOST_TEST(rc::check([] {
    const auto shape = any_shape();
    const auto plans = plans_of_all(shape.elements, shape.contributes, shape.chunk_elements);
    const auto world = plans.size();
    std::vector<std::vector<std::uint64_t>> moved(world, std::vector<std::uint64_t>(world));
    std::vector<std::vector<std::uint32_t>> arrived(world, std::vector<std::uint32_t>(world));
    std::vector<std::uint32_t> summed(world);
    std::vector<std::uint64_t> steps(world);
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    // A move is a frame from one rank to another, or a sum; any that is possible may come next.
    while (true) {
      std::vector<std::pair<std::size_t, std::size_t>> possible;
      for (std::size_t from = 0; from < world; ++from) {
        if (plans[from].summable(summed[from], arrived[from])) possible.emplace_back(from, from);
        for (const auto to : plans[from].peers())
          if (moved[from][to] < plans[from].send_count(to) && ReducePlan::sendable(plans[from].send(to, moved[from][to]), summed[from]))
            possible.emplace_back(from, to);
      }
      if (possible.empty()) break;
      const auto [from, to] = possible[random() % possible.size()];
      if (from == to) {
        ++summed[from];
        ++steps[from];
        continue;
      }
      const auto piece = plans[from].send(static_cast<std::uint32_t>(to), moved[from][to]++);
      if (piece.kind == PieceKind::Input) ++arrived[to][from];
      if (piece.kind != PieceKind::Begin) ++steps[to];
    }
    for (const auto& plan : plans) {
      RC_ASSERT(summed[plan.rank()] == plan.chunk_count(plan.rank()));
      RC_ASSERT(steps[plan.rank()] == plan.steps());
      for (const auto to : plan.peers()) RC_ASSERT(moved[plan.rank()][to] == plan.send_count(to));
    }
  }));
}

BOOST_AUTO_TEST_CASE(each_rank_serves_the_next_one_first) {
  const auto plan = plan_of(100, 2, std::vector<bool>(4, true), 16);
  BOOST_TEST((plan.peers() == std::vector<std::uint32_t>{3, 0, 1}));
}

BOOST_AUTO_TEST_CASE(a_rank_without_weight_sends_no_input_but_owns_and_receives) {
  const auto plan = plan_of(64, 1, {true, false}, 16);
  BOOST_TEST(plan.send_count(0) == 1U + 2U);
  BOOST_TEST((plan.send(0, 1).kind == PieceKind::Result));
  BOOST_TEST(plan.receive_count(0) == 1U + 2U + 2U);
}

BOOST_AUTO_TEST_CASE(a_world_of_one_only_sums) {
  const auto plan = plan_of(100, 0, {true}, 16);
  BOOST_TEST(plan.peers().empty());
  BOOST_TEST(plan.chunk_count(0) == 7);
  BOOST_TEST(plan.summable(6, std::vector<std::uint32_t>{0}));
  BOOST_TEST(!plan.summable(7, std::vector<std::uint32_t>{0}));
}

BOOST_AUTO_TEST_CASE(a_shape_that_is_none_is_refused) {
  const auto refused = [](ReduceShape shape) { return !ReducePlan::make(std::move(shape)).has_value(); };
  BOOST_TEST(refused({100, 0, {}, 16}));
  BOOST_TEST(refused({100, 2, {true, true}, 16}));
  BOOST_TEST(refused({100, 0, {true}, 0}));
  BOOST_TEST(refused({100, 0, std::vector<bool>(MAX_PEERS + 1), 16}));
  BOOST_TEST(refused({std::uint64_t{1} << 60, 0, {true}, 16}));
  BOOST_TEST(refused({std::uint64_t{1} << 40, 0, {true}, 1}));
}

BOOST_AUTO_TEST_CASE(the_mean_divides_by_those_who_contributed) {
  const std::vector<Contribution> contributions{weighing(100), weighing(0), weighing(50), weighing(100)};
  const auto factors = mean_factors(contributions);
  BOOST_REQUIRE(factors.has_value());
  BOOST_TEST((factors->relative == std::vector<float>{1, 0, 0.5F, 1}));
  BOOST_TEST(factors->scale == 0.4F);
}

BOOST_AUTO_TEST_CASE(equal_weights_are_one_exactly_whatever_their_size) {
  for (const std::uint64_t weight : {std::uint64_t{1}, std::uint64_t{12'345'677}, ~std::uint64_t{0}}) {
    const auto factors = mean_factors(std::vector<Contribution>(4, weighing(weight)));
    BOOST_REQUIRE(factors.has_value());
    BOOST_TEST((factors->relative == std::vector<float>(4, 1)));
    BOOST_TEST(factors->scale == 0.25F);
  }
}

BOOST_AUTO_TEST_CASE(a_mean_of_nobody_is_an_error) {
  BOOST_TEST((mean_factors(std::vector<Contribution>(3, weighing(0))).error().name == ErrorName::TooFewPeers));
  BOOST_TEST((mean_factors({}).error().name == ErrorName::TooFewPeers));
}
