// Owns the tests of the invite's text form.
#include "runtime/net/run_key.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(run_key)

using namespace prime;
using namespace prime::net;

namespace {

const std::string KEY_TEXT = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
const std::string GOOD = "prime://10.0.0.7:4000/first-run#" + KEY_TEXT;

template <class T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};
static_assert(!Printable<RunKey>);
static_assert(!Printable<Invite>);

RunKey counting_key() {
  RunKey::Bytes bytes{};
  for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<std::uint8_t>(at);
  return RunKey(bytes);
}

void check_refused(const std::string& text, const std::string& cause) {
  const auto invite = parse_invite(text);
  BOOST_TEST_CONTEXT(text) {
    BOOST_REQUIRE(!invite);
    BOOST_TEST((invite.error().name == ErrorName::InviteMalformed));
    BOOST_TEST(invite.error().detail.find(cause) != std::string::npos, invite.error().detail);
    BOOST_TEST(to_string(invite.error()).find(KEY_TEXT.substr(0, 8)) == std::string::npos);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_invite_reads_as_it_was_written) {
  const auto invite = parse_invite(GOOD);
  BOOST_REQUIRE(invite);
  BOOST_CHECK(invite->addresses == Addresses(Endpoint{"10.0.0.7", 4000}));
  BOOST_TEST(invite->run == "first-run");
  BOOST_TEST((invite->key == counting_key()));
  BOOST_TEST(format_invite(*invite) == GOOD);
}

BOOST_AUTO_TEST_CASE(ipv6_hosts_stand_in_brackets) {
  const Invite invite{Endpoint{"2001:db8::1", 4000}, "run", counting_key()};
  const std::string text = format_invite(invite);
  BOOST_TEST(text.starts_with("prime://[2001:db8::1]:4000/run#"));
  const auto back = parse_invite(text);
  BOOST_REQUIRE(back);
  BOOST_TEST((*back == invite));
}

BOOST_AUTO_TEST_CASE(several_addresses_keep_their_order) {
  const std::string text = "prime://[2001:db8::1]:4000,10.0.0.7:4000,gate.example:80/first-run#" + KEY_TEXT;
  const auto invite = parse_invite(text);
  BOOST_REQUIRE(invite);
  BOOST_CHECK(invite->addresses == Addresses({{"2001:db8::1", 4000}, {"10.0.0.7", 4000}, {"gate.example", 80}}));
  BOOST_TEST(format_invite(*invite) == text);
}

BOOST_AUTO_TEST_CASE(random_keys_survive_the_round_trip_and_differ) {
  for (int round = 0; round < 200; ++round) {
    const Invite invite{Endpoint{"host.example", 1}, "r", RunKey::generate()};
    const auto back = parse_invite(format_invite(invite));
    BOOST_REQUIRE(back);
    BOOST_TEST((*back == invite));
  }
  BOOST_TEST(!(RunKey::generate() == RunKey::generate()));
}

BOOST_AUTO_TEST_CASE(a_malformed_invite_is_refused_by_the_part_that_is_wrong) {
  check_refused("", "prime://");
  check_refused("https://10.0.0.7:4000/first-run#" + KEY_TEXT, "prime://");
  check_refused("prime://10.0.0.7:4000/first-run", "quotes");
  check_refused("prime://10.0.0.7:4000#" + KEY_TEXT, "no run");
  check_refused("prime://10.0.0.7/first-run#" + KEY_TEXT, "no port");
  check_refused("prime://10.0.0.7:70000/first-run#" + KEY_TEXT, "65535");
  check_refused("prime://10.0.0.7:0/first-run#" + KEY_TEXT, "port 0");
  check_refused("prime://10.0.0.7:4x/first-run#" + KEY_TEXT, "not a number");
  check_refused("prime://:4000/first-run#" + KEY_TEXT, "no host");
  check_refused("prime://::1:4000/first-run#" + KEY_TEXT, "brackets");
  check_refused("prime://[::1:4000/first-run#" + KEY_TEXT, "closing bracket");
  check_refused("prime://ho st:4000/first-run#" + KEY_TEXT, "no host has");
  check_refused("prime://10.0.0.7:4000,/first-run#" + KEY_TEXT, "no port");
  check_refused("prime://10.0.0.7:4000,10.0.0.8/first-run#" + KEY_TEXT, "no port");
  check_refused("prime://a:1,b:2,c:3,d:4,e:5,f:6,g:7/first-run#" + KEY_TEXT, "more than 6");
  check_refused("prime://10.0.0.7:4000/#" + KEY_TEXT, "empty");
  check_refused("prime://10.0.0.7:4000/First_Run#" + KEY_TEXT, "a-z");
  check_refused("prime://10.0.0.7:4000/first-run#" + KEY_TEXT.substr(1), "42 characters");
  check_refused("prime://10.0.0.7:4000/first-run#" + KEY_TEXT + "A", "44 characters");
  check_refused("prime://10.0.0.7:4000/first-run#" + KEY_TEXT.substr(0, 42) + "+", "mistyped");
  // The last character carries four bits; one that sets the other two is no text of any key.
  check_refused("prime://10.0.0.7:4000/first-run#" + KEY_TEXT.substr(0, 42) + "9", "mistyped");
}

BOOST_AUTO_TEST_SUITE_END()
