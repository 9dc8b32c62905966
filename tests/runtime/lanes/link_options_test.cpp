// Owns the tests of a lane's socket options.
#include "runtime/lanes/link_options.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <netinet/tcp.h>
#include <string>

#include "runtime/net/congestion.hpp"
#include "tests/runtime/lanes/plain_channel.hpp"

BOOST_AUTO_TEST_SUITE(link_options)

using namespace prime::lanes;
using prime::net::same_network;

namespace {

sockaddr_storage address(const char* text) {
  sockaddr_storage storage{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) storage.ss_family = AF_INET;
  else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) storage.ss_family = AF_INET6;
  return storage;
}

bool alike(const char* a, const char* b, const char* mask) { return same_network(address(a), address(b), address(mask)); }

}  // namespace

BOOST_AUTO_TEST_CASE(addresses_are_of_one_network_when_equal_under_the_mask) {
  BOOST_TEST(alike("10.1.2.3", "10.1.2.200", "255.255.255.0"));
  BOOST_TEST(!alike("10.1.2.3", "10.1.3.3", "255.255.255.0"));
  BOOST_TEST(alike("10.1.2.3", "10.1.3.3", "255.255.0.0"));
  BOOST_TEST(alike("fd00::1", "fd00::2:3", "ffff:ffff:ffff:ffff::"));
  BOOST_TEST(!alike("fd00::1", "fd01::1", "ffff:ffff:ffff:ffff::"));
  BOOST_TEST(!alike("10.1.2.3", "fd00::1", "255.255.255.0"));
  BOOST_TEST(alike("::ffff:10.1.2.3", "10.1.2.4", "255.255.255.0"));
}

BOOST_AUTO_TEST_CASE(loopback_is_near_and_does_not_wait_to_fill_packets) {
  const auto [near, far] = test::tcp_pair();
  const auto options = apply_link_options(near->fd());
  BOOST_TEST(options.near);
  int value = 0;
  socklen_t size = sizeof value;
  BOOST_TEST(getsockopt(near->fd(), IPPROTO_TCP, TCP_NODELAY, &value, &size) == 0);
  BOOST_TEST(value == 1);
  std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  const std::string allowed{std::istreambuf_iterator<char>(file), {}};
  if (allowed.find("reno") != std::string::npos) BOOST_TEST(options.congestion == "reno");
}

BOOST_AUTO_TEST_CASE(what_is_not_tcp_is_left_alone) {
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const test::Socket a(fds[0]);
  const test::Socket b(fds[1]);
  const auto options = apply_link_options(a.fd());
  BOOST_TEST(!options.near);
  BOOST_TEST(options.congestion.empty());
}

BOOST_AUTO_TEST_SUITE_END()
