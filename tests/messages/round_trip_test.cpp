// Owns the proof that every message survives the wire: a forgotten registration arrives empty, and CAF tells nobody.
#include <boost/test/unit_test.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/message.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "messages/caf_seam.hpp"

BOOST_AUTO_TEST_SUITE(round_trip)

using namespace prime;

namespace {

struct Fixture {
  struct Config : caf::actor_system_config {
    Config() { add_messages(*this); }
  } config;
  caf::actor_system system{config};

  /// Through a caf::message, as between nodes: the type is found by its registered name on the other side.
  template <class T>
  std::vector<char> bytes_of(const T& value) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    BOOST_REQUIRE(!sink(caf::make_message(value)));
    return bytes;
  }
  template <class T>
  T sent(const T& value) {
    const auto bytes = bytes_of(value);
    caf::message arrived;
    caf::binary_deserializer source{system, bytes};
    BOOST_REQUIRE(!source(arrived));
    BOOST_REQUIRE(arrived.match_elements<T>());
    // What it holds is judged by sending it again: equal bytes are equal values, NaN included.
    BOOST_TEST(bytes_of(arrived.get_as<T>(0)) == bytes);
    return arrived.get_as<T>(0);
  }
};

const View VIEW{Epoch{3},
                {Member{PeerId{1}, "brave-otter", Endpoint{"10.0.0.1", 7077}, 0}, Member{PeerId{2}, "calm-heron", Endpoint{"::1", 1}, 5}}};
const Error ERROR = Error{ErrorName::LaneBroken, "reset"}.with_context("reducing");
constexpr Digest DIGEST{1, std::numeric_limits<std::uint64_t>::max()};
constexpr OperationId OP{Epoch{3}, Sequence{9}};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(round_trip, Fixture)

BOOST_AUTO_TEST_CASE(messages_about_membership) {
  BOOST_TEST(sent(Hello{PROTOCOL_VERSION, "run-1", PeerId{7}, "x", Endpoint{"h", 65535}, 42}).name == "x");
  BOOST_TEST(sent(Welcome{5, std::string(40000, 'm')}).manifest.size() == 40000U);
  BOOST_CHECK(sent(Seated{Revision{1}, DIGEST, DIGEST, 12, 3}).state == DIGEST);
  BOOST_CHECK(sent(FetchState{PeerId{1}, Endpoint{"h", 1}, Revision{2}, DIGEST, VIEW.members}).relays == VIEW.members.list());
  BOOST_CHECK(sent(Fetched{Revision{2}, DIGEST}).revision == Revision{2});
  BOOST_CHECK(sent(FetchFailed{PeerId{1}, Revision{2}, ERROR}).error == ERROR);
  BOOST_TEST(sent(Heartbeat{1, 2}).moved_bytes == 2U);
  BOOST_CHECK(sent(HeartbeatSeen{Epoch{4}}).epoch == Epoch{4});
  BOOST_CHECK(sent(Deathrattle{false, ERROR}).cause == ERROR);
  BOOST_CHECK(sent(Dismissed{ERROR}).cause == ERROR);
  BOOST_CHECK(sent(LaneRelayed{PeerId{1}, PeerId{2}}).through == PeerId{2});
  BOOST_TEST(sent(ReplicaLacks{"shards 0, 2"}).missing == "shards 0, 2");
  BOOST_CHECK(sent(Coordinators{{Endpoint{"h", 1}, Addresses({{"::1", 65535}, {"g", 2}})}}).addresses.back() ==
              Addresses({{"::1", 65535}, {"g", 2}}));
}

BOOST_AUTO_TEST_CASE(messages_about_outer_steps) {
  BOOST_CHECK(sent(BeginStep{VIEW, OuterStep{4}, Revision{3}, false, 1, 99}).view == VIEW);
  const double denormal = std::numeric_limits<double>::denorm_min();
  BOOST_TEST(sent(Ready{OuterStep{4}, Revision{3}, 5, 6, Real{denormal}, HeldOutLoss{Real{std::nan("")}, 3}, Real{-0.0}, 8}).loss.value() ==
             denormal);
  Ready waited{OuterStep{4}, Revision{3}, 5, 6, Real{1.0}, {}, Real{1.0}, 8};
  BOOST_TEST(!data_wait_of(sent(waited)));
  waited.data_wait = Real{0.25};
  BOOST_TEST(data_wait_of(sent(waited)).value() == 0.25);
  const auto reduce = sent(StartReduce{OP,
                                       OuterStep{4},
                                       Revision{3},
                                       VIEW,
                                       {Contribution{PeerId{1}, 5}, Contribution{PeerId{2}, 0}},
                                       1000,
                                       77,
                                       3,
                                       true,
                                       {{}, {2, 3}},
                                       {Real{0.5}, Real{denormal}}});
  BOOST_TEST(reduce.fragment == 3U);
  BOOST_CHECK((reduce.relays == RelayOrder{{}, {2, 3}}));
  BOOST_TEST(reduce.contributions.size() == 2U);
  BOOST_TEST((reduce.radii == SharedList<Real>{Real{0.5}, Real{denormal}}));
  const std::vector<Lengths> lengths{{}, {Real{denormal}, Real{2.0}}, {Real{-0.0}}};
  BOOST_TEST((sent(Ready{OuterStep{4}, Revision{3}, 5, 6, Real{1.0}, {}, Real{1.0}, 8, 0, {0, 2, 3}, lengths}).lengths == lengths));
  BOOST_TEST(reduce.next_sample == 77U);
  BOOST_CHECK(sent(Vote{OP, DIGEST, 1, 2}).op == OP);
  BOOST_CHECK(sent(ReduceFailed{OP, PeerId{2}, ERROR}).suspect == PeerId{2});
  BOOST_CHECK(sent(InDoubt{OP}).op == OP);
  const auto commit = sent(Commit{OP, OuterStep{4}, Revision{4}, Digest{9, 9}, 2, DIGEST, false, {4, 40}});
  BOOST_TEST(commit.given_back == (std::vector<std::uint64_t>{4, 40}), boost::test_tools::per_element());
  BOOST_CHECK(commit.part == DIGEST);
  BOOST_TEST(commit.fragment == 2U);
  BOOST_TEST(!commit.completes);
  BOOST_TEST(sent(Abort{OP, "why"}).reason == "why");
  BOOST_TEST((sent(RunDone{OuterStep{4}, Revision{4}, DIGEST, true, {2, 3}}).evaluate == HeldOutShare{2, 3}));
  BOOST_TEST(sent(StateSaved{"c", "p"}).problem == "p");
  BOOST_TEST(sent(FinalReport{HeldOutLoss{Real{std::numeric_limits<double>::infinity()}, 5}, "s", "p"}).held_out.tokens == 5U);
}

BOOST_AUTO_TEST_CASE(a_view_of_the_largest_size_fits_the_control_plane) {
  StartReduce message{OP, OuterStep{4}, Revision{3}, View{Epoch{3}, {}}, {}, 1000, 77};
  for (std::uint64_t i = 0; i < 512; ++i) {
    message.view.members.push_back(Member{PeerId{i}, "brave-otter", Endpoint{"203.0.113.255", 65535}, i});
    message.contributions.push_back(Contribution{PeerId{i}, i});
  }
  BOOST_TEST(bytes_of(message).size() < 64U * 1024U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
