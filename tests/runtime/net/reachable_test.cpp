// Owns the tests of which address a process offers to others.
#include "runtime/net/reachable.hpp"

#include <boost/test/unit_test.hpp>

#include "runtime/net/run_key.hpp"

BOOST_AUTO_TEST_SUITE(reachable)

using namespace prime;
using namespace prime::net;

BOOST_AUTO_TEST_CASE(towards_this_machine_the_own_address_is_a_loopback_one) {
  BOOST_TEST(address_towards({"127.0.0.1", 7077}, 10s).value() == "127.0.0.1");
  BOOST_TEST(is_loopback(address_towards({"localhost", 7077}, 10s).value()));
  BOOST_TEST((address_towards({"no-such-name.invalid", 7077}, 10s).error().name == ErrorName::RunUnreachable));
}

BOOST_AUTO_TEST_CASE(who_names_no_address_listens_where_the_coordinator_can_come_from) {
  for (const auto& [own, listens] :
       {std::pair{"127.0.0.1", "127.0.0.1:0"}, {"::1", "[::1]:0"}, {"10.0.0.7", "0.0.0.0:0"}, {"fd00::7", "[::]:0"}})
    BOOST_TEST(format_endpoint(listen_towards(own)) == listens);
}

BOOST_AUTO_TEST_CASE(a_peer_offers_what_is_advertised_or_where_it_listens_or_its_own_address) {
  BOOST_TEST(peer_host("0.0.0.0", {}, "10.0.0.7").value() == "10.0.0.7");
  BOOST_TEST(peer_host("::", {}, "fd00::7").value() == "fd00::7");
  BOOST_TEST(peer_host("10.0.0.8", {}, "10.0.0.7").value() == "10.0.0.8");
  BOOST_TEST(peer_host("0.0.0.0", "example.org", "10.0.0.7").value() == "example.org");
  BOOST_TEST(peer_host("127.0.0.1", "example.org", "10.0.0.7").value() == "example.org");
  BOOST_TEST(peer_host("127.0.0.1", {}, "127.0.0.1").value() == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(a_loopback_address_is_not_offered_to_other_machines) {
  for (const auto* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    BOOST_TEST((peer_host(host, {}, "10.0.0.7").error().name == ErrorName::AddressUnreachable));
    BOOST_TEST((peer_host("0.0.0.0", host, "10.0.0.7").error().name == ErrorName::AddressUnreachable));
  }
}

BOOST_AUTO_TEST_CASE(an_invite_never_names_all_addresses) {
  BOOST_TEST(coordinator_host("127.0.0.1", {}) == "127.0.0.1");
  BOOST_TEST(coordinator_host("0.0.0.0", "example.org") == "example.org");
  for (const auto* host : {"0.0.0.0", "::", ""}) BOOST_TEST(!is_wildcard(coordinator_host(host, {})));
}

BOOST_AUTO_TEST_SUITE_END()
