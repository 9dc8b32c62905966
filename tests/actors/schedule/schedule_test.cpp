// Owns the tests of the reduce plan: whatever the shape, all elements are summed once and reach everyone.
#include "actors/reduce_worker/schedule.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <rapidcheck.h>

using namespace prime;

namespace {

ReducePlan plan_of(std::uint64_t elements, std::uint32_t rank, const std::vector<bool>& contributes, std::uint64_t chunk_elements,
                   Schedule schedule = Schedule::Direct) {
  auto plan = ReducePlan::make(ReduceShape{elements, rank, contributes, chunk_elements, schedule});
  BOOST_REQUIRE(plan.has_value());
  return *plan;
}

std::vector<ReducePlan> plans_of_all(std::uint64_t elements, const std::vector<bool>& contributes, std::uint64_t chunk_elements,
                                     Schedule schedule = Schedule::Direct) {
  std::vector<ReducePlan> plans;
  for (std::uint32_t rank = 0; rank < contributes.size(); ++rank)
    plans.push_back(plan_of(elements, rank, contributes, chunk_elements, schedule));
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

namespace {

/// Runs the plans of all ranks on names instead of numbers: a chunk is the list of ranks whose inputs are in it, in their order.
struct Exchange {
  struct Message {
    PieceKind kind;
    std::uint32_t segment;
    std::uint32_t chunk;
    std::vector<std::uint32_t> content;
  };
  using Key = std::pair<std::uint32_t, std::uint32_t>;

  Exchange(std::vector<ReducePlan> all, std::uint32_t window, std::uint64_t seed) : plans(std::move(all)), window(window), random(seed) {
    const auto world = plans.size();
    links.resize(world * world);
    given.resize(world);
    gathered.resize(world);
    results.resize(world);
    steps.resize(world);
  }
  std::deque<Message>& link(std::size_t from, std::size_t to) { return links[from * plans.size() + to]; }

  void pass_on(std::uint32_t rank, PieceKind kind, Key key, const std::vector<std::uint32_t>& content,
               const std::vector<std::uint32_t>& to) {
    for (const auto each : to) link(rank, each).push_back({kind, key.first, key.second, content});
  }
  void finish(std::uint32_t rank, Key key, const std::vector<std::uint32_t>& content) {
    RC_ASSERT(results[rank].emplace(key, content).second);
    pass_on(rank, PieceKind::Result, key, content, plans[rank].route(key.first).result_to);
  }
  void combine(std::uint32_t rank, Key key) {
    const Route& route = plans[rank].route(key.first);
    std::vector<std::uint32_t> sum;
    for (const auto each : route.order) {
      if (each == rank) sum.push_back(rank);
      else sum.insert(sum.end(), gathered[rank][key][each].begin(), gathered[rank][key][each].end());
    }
    ++steps[rank];
    if (route.finishes) finish(rank, key, sum);
    else pass_on(rank, PieceKind::Input, key, sum, {*route.pass});
  }
  void receive(std::uint32_t from, std::uint32_t to) {
    const Message message = link(from, to).front();
    link(from, to).pop_front();
    const Key key{message.segment, message.chunk};
    const Route& route = plans[to].route(key.first);
    ++steps[to];
    if (message.kind == PieceKind::Result) {
      RC_ASSERT(route.result_from == from);
      return finish(to, key, message.content);
    }
    RC_ASSERT(std::count(route.take.begin(), route.take.end(), from) == 1);
    RC_ASSERT(route.takes_sums || message.content == std::vector<std::uint32_t>{from});
    RC_ASSERT(gathered[to][key].emplace(from, message.content).second);
    if (gathered[to][key].size() == route.take.size()) combine(to, key);
  }
  std::size_t results_of(std::uint32_t rank, std::uint32_t segment) const {
    std::size_t count = 0;
    for (const auto& [key, content] : results[rank]) count += key.first == segment ? 1 : 0;
    return count;
  }
  /// Gives chunks as the window allows, and what nobody has to give for.
  std::vector<std::function<void()>> possible() {
    std::vector<std::function<void()>> moves;
    for (std::uint32_t rank = 0; rank < plans.size(); ++rank) {
      const auto& plan = plans[rank];
      for (std::uint32_t segment = 0; segment < plan.segments(); ++segment) {
        const Route& route = plan.route(segment);
        auto& next = given[rank][segment];
        const bool alone = route.finishes && route.take.empty();
        if (next == plan.chunk_count(segment) || (route.give.empty() && !alone)) continue;
        if (plan.schedule() != Schedule::Whole && !alone && next >= results_of(rank, segment) + window) continue;
        moves.push_back([this, rank, segment, &next, &route, alone] {
          const Key key{segment, next++};
          pass_on(rank, PieceKind::Input, key, {rank}, route.give);
          if (alone) combine(rank, key);
        });
      }
      for (std::uint32_t from = 0; from < plans.size(); ++from)
        if (!link(from, rank).empty()) moves.push_back([this, from, rank] { receive(from, rank); });
    }
    return moves;
  }
  void run() {
    for (auto moves = possible(); !moves.empty(); moves = possible()) moves[random() % moves.size()]();
  }

  std::vector<ReducePlan> plans;
  std::uint32_t window;
  std::mt19937_64 random;
  std::vector<std::deque<Message>> links;
  std::vector<std::map<std::uint32_t, std::uint32_t>> given;
  std::vector<std::map<Key, std::map<std::uint32_t, std::vector<std::uint32_t>>>> gathered;
  std::vector<std::map<Key, std::vector<std::uint32_t>>> results;
  std::vector<std::uint64_t> steps;
};

}  // namespace

BOOST_AUTO_TEST_CASE(all_ranks_end_with_the_same_sum_of_all_whatever_the_order_of_delivery) {
  for (const auto schedule : {Schedule::Direct, Schedule::Ring, Schedule::Whole}) {
    BOOST_TEST(rc::check([schedule] {
      auto shape = any_shape();
      shape.contributes[*rc::gen::inRange<std::size_t>(0, shape.contributes.size())] = true;  // a sum of nobody does not exist
      if (schedule == Schedule::Whole) shape.chunk_elements = std::max<std::uint64_t>(shape.elements, 1);
      else shape.chunk_elements = std::max(shape.chunk_elements, shape.elements / 100 + 1);
      Exchange exchange(plans_of_all(shape.elements, shape.contributes, shape.chunk_elements, schedule),
                        *rc::gen::inRange<std::uint32_t>(1, 4), *rc::gen::arbitrary<std::uint64_t>());
      exchange.run();
      std::vector<std::uint32_t> contributors;
      for (std::uint32_t r = 0; r < shape.contributes.size(); ++r)
        if (shape.contributes[r]) contributors.push_back(r);
      for (std::uint32_t rank = 0; rank < shape.contributes.size(); ++rank) {
        RC_ASSERT(exchange.results[rank].size() == exchange.plans[rank].chunks());
        RC_ASSERT(exchange.results[rank] == exchange.results[0]);
        RC_ASSERT(exchange.steps[rank] == exchange.plans[rank].steps());
        for (auto [key, content] : exchange.results[rank]) {
          if (schedule != Schedule::Ring) RC_ASSERT(content == contributors);
          std::sort(content.begin(), content.end());
          RC_ASSERT(content == contributors);
        }
      }
    }));
  }
}

BOOST_AUTO_TEST_CASE(each_rank_serves_the_next_one_first) {
  const auto plan = plan_of(100, 2, std::vector<bool>(4, true), 16);
  BOOST_TEST((plan.peers() == std::vector<std::uint32_t>{3, 0, 1}));
}

BOOST_AUTO_TEST_CASE(a_rank_without_weight_gives_nothing_but_owns_and_receives) {
  const auto plan = plan_of(64, 1, {true, false}, 16);
  BOOST_TEST(plan.route(0).give.empty());
  BOOST_TEST((plan.route(0).result_from == 0U));
  BOOST_TEST((plan.route(1).take == std::vector<std::uint32_t>{0}));
  BOOST_TEST((plan.route(1).result_to == std::vector<std::uint32_t>{0}));
}

BOOST_AUTO_TEST_CASE(a_shape_that_is_none_is_refused) {
  const auto refused = [](ReduceShape shape) { return !ReducePlan::make(std::move(shape)).has_value(); };
  BOOST_TEST(refused({100, 0, {}, 16}));
  BOOST_TEST(refused({100, 2, {true, true}, 16}));
  BOOST_TEST(refused({100, 0, {true}, 0}));
  BOOST_TEST(refused({100, 0, std::vector<bool>(MAX_PEERS + 1), 16}));
  BOOST_TEST(refused({std::uint64_t{1} << 60, 0, {true}, 16}));
  BOOST_TEST(refused({std::uint64_t{1} << 40, 0, {true}, 1}));
  BOOST_TEST(refused({100, 0, {true}, 16, Schedule::Whole}));
}

BOOST_AUTO_TEST_CASE(automatic_is_whole_when_small_a_ring_where_one_is_known_to_be_good_and_direct_else) {
  constexpr std::uint64_t CHUNK = 256 * 1024;
  constexpr std::uint64_t LARGE = 64 << 20;
  const auto chosen = [](Codec codec, std::uint64_t bytes, bool good_ring) {
    return choose_schedule(Schedule::Automatic, codec, bytes, CHUNK, good_ring);
  };
  BOOST_TEST((chosen(Codec::None, WHOLE_BYTES, false) == Schedule::Whole));
  BOOST_TEST((chosen(Codec::None, WHOLE_BYTES + 4, false) == Schedule::Direct));
  BOOST_TEST((choose_schedule(Schedule::Automatic, Codec::None, WHOLE_BYTES, WHOLE_BYTES / 2, false) == Schedule::Direct));
  BOOST_TEST((chosen(Codec::None, LARGE, false) == Schedule::Direct));
  BOOST_TEST((chosen(Codec::None, 64, true) == Schedule::Ring));
  for (const bool good_ring : {false, true}) {
    BOOST_TEST((chosen(Codec::Int8Block, LARGE, good_ring) == Schedule::Direct));
    BOOST_TEST((chosen(Codec::Int8Block, 64, good_ring) == Schedule::Direct));
    for (const auto wanted : {Schedule::Direct, Schedule::Ring, Schedule::Whole})
      BOOST_TEST((choose_schedule(wanted, Codec::None, LARGE, CHUNK, good_ring) == wanted));
  }
}

BOOST_AUTO_TEST_CASE(what_may_be_no_ring_goes_directly_also_where_the_manifest_wants_one) {
  BOOST_TEST((schedule_of_try(Schedule::Ring, true) == Schedule::Ring));
  BOOST_TEST((schedule_of_try(Schedule::Ring, false) == Schedule::Direct));
  for (const auto wanted : {Schedule::Automatic, Schedule::Direct})
    for (const bool ring : {false, true}) BOOST_TEST((schedule_of_try(wanted, ring) == wanted));
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
