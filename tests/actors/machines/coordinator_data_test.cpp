// Owns the tests of what a run trains on: whose data founds it, who is refused for others, what a run that goes on with others says.
#include <boost/test/unit_test.hpp>

#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(coordinator_data)

using namespace prime;
using namespace prime::coordinator;

BOOST_AUTO_TEST_CASE(other_data_is_refused_by_name_and_who_tells_of_none_is_not_checked) {
  Bench bench;
  const auto seat = [&](std::uint64_t peer, const DataIdentity& data) {
    bench.greet(peer);
    bench.hear(peer, Seated{Revision{}, INITIAL, LAYOUT, 3, 1, data});
  };
  seat(1, {});
  seat(2, {Digest{5, 5}, "7 files"});
  const auto founded = bench.journaled<events::DataFounded>();
  BOOST_REQUIRE(founded.size() == 1U);
  BOOST_TEST(founded[0].who.peer.value == 2U);
  BOOST_TEST(founded[0].data == "7 files");
  seat(3, {Digest{6, 6}, "9 files"});
  BOOST_CHECK(bench.dismissed(3) == ErrorName::DataMismatch);
  const auto refusals = bench.sent<Dismissed>();
  BOOST_REQUIRE(refusals.size() == 1U);
  BOOST_TEST(refusals[0].second.cause.detail == "this peer finds 9 files; the run trains on 7 files");
  BOOST_TEST(!bench.state.peers.contains(PeerId{3}));
  seat(4, {Digest{5, 5}, "7 files by another path"});
  seat(5, {});
  for (const std::uint64_t peer : {1U, 2U, 4U, 5U}) BOOST_TEST(bench.state.peers.contains(PeerId{peer}));
}

BOOST_AUTO_TEST_CASE(a_joiner_that_is_faster_than_those_who_started_the_run_lends_it_data_only_until_they_tell) {
  const DataIdentity own{Digest{5, 5}, "7 files"};
  const DataIdentity other{Digest{6, 6}, "9 files"};
  const auto bench_of = [](std::uint32_t quorum) {
    Bench bench{quorum, quorum};
    bench.state.options.founders = {Bench::hello_of(3).name};
    bench.state.founders_awaited = {Bench::hello_of(3).name};
    return bench;
  };
  const auto seat = [](Bench& bench, std::uint64_t peer, const DataIdentity& data) {
    bench.greet(peer);
    bench.hear(peer, Seated{Revision{}, INITIAL, LAYOUT, 3, 1, data});
  };
  Bench early = bench_of(3);
  seat(early, 1, other);
  seat(early, 2, own);
  BOOST_CHECK(early.dismissed(2) == ErrorName::DataMismatch);
  seat(early, 4, {});
  seat(early, 3, own);
  BOOST_CHECK(early.dismissed(1) == ErrorName::DataMismatch);
  BOOST_TEST(early.sent<Dismissed>().back().second.cause.detail == "this peer finds 9 files; the run trains on 7 files");
  BOOST_TEST(early.journaled<events::DataFounded>().back().data == "7 files");
  for (const std::uint64_t peer : {3U, 4U}) BOOST_TEST(early.state.peers.contains(PeerId{peer}));
  seat(early, 5, other);
  BOOST_CHECK(early.dismissed(5) == ErrorName::DataMismatch);

  // With the joiner goes what its trainer was born with.
  Bench born = bench_of(1);
  born.greet(1);
  born.hear(1, Seated{Revision{}, Digest{9, 9}, LAYOUT, 3, 1, other});
  seat(born, 3, own);
  BOOST_CHECK(born.dismissed(1) == ErrorName::DataMismatch);
  born.tick();
  BOOST_TEST((born.state.digest == INITIAL));
  BOOST_TEST(born.state.view.members.size() == 1U);

  // Until one of them has told, or is gone, nobody trains on what is lent.
  Bench late = bench_of(2);
  seat(late, 1, other);
  seat(late, 2, other);
  late.hear(2, Fetched{Revision{}, INITIAL});
  late.tick();
  BOOST_TEST(late.state.view.members.empty());
  late.greet(3);
  late.tick();
  BOOST_TEST(late.state.view.members.empty());
  late.lose(3);
  late.tick();
  BOOST_TEST(late.state.view.members.size() == 2U);
}

BOOST_AUTO_TEST_CASE(who_has_other_data_hears_which_files_differ) {
  Bench bench;
  const auto seat = [&](std::uint64_t peer, const DataIdentity& data) {
    bench.greet(peer);
    bench.hear(peer, Seated{Revision{}, INITIAL, LAYOUT, 3, 1, data});
  };
  seat(1, {Digest{5, 5}, "2 files", "1 5 00000001 a.h\n1 7 00000002 b.h\n"});
  seat(2, {Digest{6, 6}, "1 file", "1 9 00000003 b.h\n"});
  BOOST_TEST(bench.sent<Dismissed>().back().second.cause.detail ==
             "`a.h` (5 bytes in the run) is missing here; `b.h` has 9 bytes here and 7 in the run. In detail: this peer finds 1 file; the "
             "run trains on "
             "2 files");
  seat(3, {Digest{7, 7}, "no listing", std::string(2 * MAX_DATA_LISTING_BYTES, 'x')});
  BOOST_TEST(bench.sent<Dismissed>().back().second.cause.detail == "this peer finds no listing; the run trains on 2 files");
}

BOOST_AUTO_TEST_CASE(a_run_that_goes_on_with_other_data_says_so_and_goes_on) {
  const DataIdentity before{Digest{5, 5}, "2 files", "1 5 00000001 a.h\n1 7 00000002 b.h\n"};
  const auto founded = [&](const DataIdentity& found) {
    Bench bench;
    bench.state.options.origin_data = before;
    bench.greet(1);
    bench.hear(1, Seated{Revision{}, INITIAL, LAYOUT, 3, 1, found});
    BOOST_TEST(bench.state.peers.contains(PeerId{1}));
    return bench.journaled<events::DataFounded>().at(0).differs;
  };
  BOOST_TEST((founded(before) == std::nullopt));
  BOOST_TEST((founded({Digest{6, 6}, "1 file", "1 5 00000001 a.h\n"}) == "`b.h` (7 bytes there) is missing here"));
  BOOST_TEST((founded({Digest{6, 6}, "1 file"}) == "there it was 2 files"));
}

BOOST_AUTO_TEST_SUITE_END()
