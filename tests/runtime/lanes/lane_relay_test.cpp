// Owns the proof that members that cannot reach each other reduce through a third one, and what becomes of it when that one fails.
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>
#include <unistd.h>

#include "tests/runtime/lanes/mesh.hpp"

BOOST_AUTO_TEST_SUITE(lane_relay)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

BOOST_AUTO_TEST_CASE(a_pair_that_cannot_connect_reduces_through_a_third_member_with_the_same_bits) {
  for (const auto transport : {net::Transport::Tls, net::Transport::Plain})
    for (const std::size_t world : {3U, 4U})
      for (const std::uint32_t streams : {1U, 3U}) {
        Mesh mesh(world, transport, streams);
        mesh.cut(0, 1);
        BOOST_TEST(mesh.reduce().all_succeeded());
        BOOST_TEST(mesh.reduce(3).all_succeeded());
        BOOST_TEST((mesh.ways() == Mesh::Ways{{{0, 1}, Mesh::id(2)}}));
        BOOST_TEST(mesh.relayed_by(2) == 1U, "one lane, of one stream");
        BOOST_TEST(mesh.dials(0, 1) == 1U, "no further stream is tried");
      }
}

BOOST_AUTO_TEST_CASE(who_reaches_each_other_needs_nobody) {
  Mesh mesh(3);
  BOOST_TEST(mesh.reduce().all_succeeded());
  BOOST_TEST(mesh.ways().empty());
  for (std::size_t rank = 0; rank < 3; ++rank) BOOST_TEST(mesh.relayed_by(rank) == 0U);
}

BOOST_AUTO_TEST_CASE(who_is_told_to_be_the_best_is_asked_first) {
  Mesh mesh(5);
  mesh.relays_of_the_first = {{}, {3, 2}, {}, {}, {}};
  mesh.cut(0, 1);
  BOOST_TEST(mesh.reduce().all_succeeded());
  BOOST_TEST((mesh.ways() == Mesh::Ways{{{0, 1}, Mesh::id(3)}}));
}

BOOST_AUTO_TEST_CASE(the_next_one_is_asked_when_one_cannot_reach_it_either) {
  Mesh mesh(4);
  mesh.cut(0, 1);
  mesh.cut(1, 2);  // the first one to be asked; it is relayed to as well
  BOOST_TEST(mesh.reduce().all_succeeded());
  BOOST_TEST((mesh.ways() == Mesh::Ways{{{0, 1}, Mesh::id(3)}, {{1, 2}, Mesh::id(3)}}));
}

BOOST_AUTO_TEST_CASE(without_anybody_who_reaches_both_it_fails_and_says_what_was_tried) {
  Mesh mesh(3);
  BOOST_TEST(mesh.reduce().all_succeeded());
  mesh.cut(0, 1);
  mesh.forbid(1, 2);
  const auto reduced = mesh.reduce();
  BOOST_TEST(reduced.sound());
  BOOST_TEST(reduced.succeeded == 0U);
  std::string said;
  for (const auto& [rank, outcome] : reduced.outcomes) said += to_string(outcome.stats.error()) + "\n";
  BOOST_TEST(said.find("the test says so; through peer 0000000000000003: it cannot reach it") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_lane_that_breaks_between_reduces_is_opened_anew_through_another_one_and_directly_when_that_is_possible_again) {
  Mesh mesh(3);
  BOOST_TEST(mesh.reduce().all_succeeded());
  mesh.cut(0, 1);
  BOOST_TEST(mesh.reduce().all_succeeded());
  BOOST_TEST((mesh.ways() == Mesh::Ways{{{0, 1}, Mesh::id(2)}}));
  mesh.heal();
  mesh.end_relays(2);
  BOOST_TEST(mesh.reduce().all_succeeded());
  BOOST_TEST((mesh.ways() == Mesh::Ways{{{0, 1}, PeerId{}}}), "directly again");
}

BOOST_AUTO_TEST_CASE(a_lane_that_breaks_in_a_reduce_costs_that_reduce_alone) {
  Mesh mesh(3);
  std::atomic<bool> broken = false;
  mesh.hook = [&](std::size_t, OperationId, std::uint64_t done, std::uint64_t) {
    if (done >= 10 && !broken.exchange(true)) mesh.cut(0, 1);
  };
  const auto first = mesh.reduce(1'000'000);
  BOOST_TEST(broken.load());
  BOOST_TEST(first.sound());
  BOOST_TEST(first.succeeded < 3U);
  BOOST_TEST(mesh.reduce(1'000'000).all_succeeded());
  BOOST_TEST((mesh.ways() == Mesh::Ways{{{0, 1}, Mesh::id(2)}}));
}

BOOST_AUTO_TEST_CASE(when_the_one_in_the_middle_ends_in_a_reduce_the_others_go_on_through_another_one) {
  Mesh mesh(4);
  mesh.cut(0, 1);
  BOOST_TEST(mesh.reduce().all_succeeded());
  BOOST_TEST(mesh.relayed_by(2) == 1U);
  std::promise<void> reached;
  std::promise<void> ended;
  std::atomic<bool> struck = false;
  // When the first rank has more than half of the chunks, some of them are of its own segment or of the second rank's: over the relayed
  // lane. It waits for the blow, so that the reduce cannot be over before.
  mesh.hook = [&](std::size_t rank, OperationId, std::uint64_t done, std::uint64_t total) {
    if (rank != 0 || 2 * done <= total || struck.exchange(true)) return;
    reached.set_value();
    ended.get_future().wait_for(PATIENCE);
  };
  std::thread killer([&] {
    reached.get_future().wait_for(PATIENCE);
    mesh.end_relays(2);
    ended.set_value();
  });
  mesh.waits_for_the_first = true;
  const auto aborted = mesh.reduce(4'000'000);
  mesh.waits_for_the_first = false;
  killer.join();
  BOOST_TEST(aborted.sound());
  BOOST_TEST(aborted.succeeded < 4U);
  BOOST_REQUIRE(!aborted.outcomes.at(0).stats);
  const auto said = to_string(aborted.outcomes.at(0).stats.error());
  BOOST_TEST(said.find("relayed by peer 0000000000000003") != std::string::npos, said);
  mesh.hook = nullptr;

  mesh.end(2);
  mesh.view().epoch = Epoch{2};
  auto& members = mesh.view().members.edit();
  members.erase(members.begin() + 2);
  BOOST_TEST(mesh.reduce().all_succeeded());
  BOOST_TEST((mesh.ways() == Mesh::Ways{{{0, 1}, Mesh::id(3)}}));
}

BOOST_AUTO_TEST_CASE(a_relayed_lane_is_measured_as_the_link_of_its_pair) {
  Mesh mesh(3);
  mesh.cut(0, 1);
  for (std::size_t rank = 0; rank < 3; ++rank) mesh.engine(rank).know(mesh.view());
  std::promise<Result<std::uint64_t>> measured;
  mesh.engine(0).measure(mesh.view().members[1], [&](Result<std::uint64_t> speed) { measured.set_value(std::move(speed)); });
  auto speed = measured.get_future();
  BOOST_REQUIRE((speed.wait_for(PATIENCE) == std::future_status::ready));
  const auto result = speed.get();
  BOOST_REQUIRE(result);
  BOOST_TEST(*result > 1000U);
  BOOST_TEST(mesh.relayed_by(2) == 1U);
}

/// It would last for the minute that is allowed.
BOOST_AUTO_TEST_CASE(the_end_of_an_engine_ends_a_dial_that_is_under_way) {
  std::promise<void> begun;
  std::atomic<bool> stopped = false;
  std::array<int, 2> mute{};
  BOOST_REQUIRE(::pipe(mute.data()) == 0);
  {
    EngineOptions options;
    options.self = PeerId{1};
    options.dial_timeout = PATIENCE;
    options.dial = [&](const Member&, net::DialLimit limit) -> Result<net::ChannelPtr> {
      begun.set_value();
      (void)net::wait_ready(mute[0], POLLIN, monotonic_now() + limit.timeout, limit.stop);
      stopped = limit.stop->stopped();
      return fail(ErrorName::Interrupted);
    };
    LaneEngine engine(std::move(options));
    engine.measure(Member{PeerId{2}, "", Endpoint{}, 1}, [](const auto&) {});
    begun.get_future().wait();
  }
  BOOST_TEST(stopped);
  for (const int end : mute) ::close(end);
}

BOOST_AUTO_TEST_SUITE_END()
