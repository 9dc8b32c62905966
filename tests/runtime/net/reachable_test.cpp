// Owns the tests of which addresses a process offers to others.
#include "runtime/net/reachable.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "runtime/net/run_key.hpp"

BOOST_AUTO_TEST_SUITE(reachable)

using namespace prime;
using namespace prime::net;

namespace {

using Texts = std::vector<std::string>;

std::string told(const Endpoint& at, const Texts& advertise, const Texts& towards) {
  const auto addresses = peer_addresses({at}, 7, advertise, towards);
  return addresses ? format_addresses(*addresses) : to_string(addresses.error());
}

}  // namespace

BOOST_AUTO_TEST_CASE(towards_this_machine_the_own_address_is_a_loopback_one) {
  BOOST_CHECK(addresses_towards(Endpoint{"127.0.0.1", 7077}, 10s).value() == Texts{"127.0.0.1"});
  BOOST_TEST(is_loopback(addresses_towards(Endpoint{"localhost", 7077}, 10s).value().front()));
  BOOST_TEST((addresses_towards(Endpoint{"no-such-name.invalid", 7077}, 10s).error().name == ErrorName::RunUnreachable));
  BOOST_CHECK(addresses_towards(Addresses({{"no-such-name.invalid", 1}, {"127.0.0.1", 2}, {"127.0.0.1", 3}}), 10s).value() ==
              Texts{"127.0.0.1"});
}

BOOST_AUTO_TEST_CASE(who_names_no_address_listens_where_the_coordinator_can_come_from) {
  BOOST_TEST(format_endpoint(listen_towards({"127.0.0.1"})) == "127.0.0.1:0");
  BOOST_TEST(format_endpoint(listen_towards({"::1", "127.0.0.1"})) == "[::1]:0");
  for (const auto& own : {Texts{"10.0.0.7"}, Texts{"fd00::7"}, Texts{"127.0.0.1", "10.0.0.7"}})
    BOOST_TEST(is_wildcard(listen_towards(own).host));
}

BOOST_AUTO_TEST_CASE(a_peer_offers_what_is_advertised_or_where_it_listens) {
  BOOST_TEST(told({"10.0.0.8", 0}, {}, {"10.0.0.7"}) == "10.0.0.8:7");
  BOOST_TEST(told({"0.0.0.0", 0}, {"example.org"}, {"10.0.0.7"}) == "example.org:7");
  BOOST_TEST(told({"127.0.0.1", 0}, {"example.org"}, {"10.0.0.7"}) == "example.org:7");
  BOOST_TEST(told({"0.0.0.0", 0}, {"example.org:80", "203.0.113.7", "[2001:db8::1]:81", "2001:db8::2"}, {"10.0.0.7"}) ==
             "example.org:80,203.0.113.7:7,[2001:db8::1]:81,[2001:db8::2]:7");
  BOOST_TEST(told({"127.0.0.1", 0}, {}, {"127.0.0.1"}) == "127.0.0.1:7");
}

BOOST_AUTO_TEST_CASE(of_all_addresses_those_towards_the_run_come_first_and_the_machines_others_after_them) {
  for (const auto* host : {"0.0.0.0", "::", ""}) {
    const auto addresses = told_addresses({{host, 0}}, 7, {}, {"127.0.0.1", "10.0.0.7"});
    BOOST_CHECK(addresses.list.front() == (Endpoint{"10.0.0.7", 7}));
    BOOST_TEST(addresses.list.size() <= MAX_ADDRESSES);
    BOOST_TEST(std::ranges::none_of(addresses.list, [](const Endpoint& each) { return is_loopback(each.host) || is_wildcard(each.host); }));
  }
  const auto only_v4 = told_addresses({{"0.0.0.0", 0}}, 7, {}, {"fd00::7", "10.0.0.7"});
  BOOST_CHECK(only_v4.list.front() == (Endpoint{"10.0.0.7", 7}));
}

BOOST_AUTO_TEST_CASE(a_loopback_address_is_not_offered_to_other_machines) {
  for (const auto* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    BOOST_TEST((peer_addresses({{host, 0}}, 7, {}, {"10.0.0.7"}).error().name == ErrorName::AddressUnreachable));
    BOOST_TEST((peer_addresses({{"0.0.0.0", 0}}, 7, {host}, {"10.0.0.7"}).error().name == ErrorName::AddressUnreachable));
  }
}

BOOST_AUTO_TEST_CASE(from_where_an_address_is_reached_shows_in_it) {
  for (const auto* host : {"127.0.0.1", "::1", "localhost"}) BOOST_CHECK(reach_of(host) == Reach::Machine);
  for (const auto* host : {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "fd00::1", "fc00::1"})
    BOOST_CHECK_MESSAGE(reach_of(host) == Reach::Network, host);
  for (const auto* host : {"169.254.1.1", "fe80::1", "fe80::1%eth0"}) BOOST_CHECK_MESSAGE(reach_of(host) == Reach::Link, host);
  for (const auto* host : {"8.8.8.8", "172.32.0.1", "172.15.0.1", "100.128.0.1", "2001:db8::1", "worker1"})
    BOOST_CHECK_MESSAGE(reach_of(host) == Reach::Anywhere, host);
}

BOOST_AUTO_TEST_CASE(only_a_name_is_taken_for_another_one_than_it_says) {
  for (const auto* host : {"127.0.0.1", "127.0.1.1", "::1", "localhost", "0.0.0.0", "", "no-such-name.invalid"}) {
    const auto listening = listening_for({host, 5});
    BOOST_CHECK_MESSAGE(listening.at == (Endpoint{host, 5}) && listening.name.empty(), host);
  }
}

BOOST_AUTO_TEST_SUITE_END()
