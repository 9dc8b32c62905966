// Proves that ids print as one fixed text, that only that text parses, and that readable names never change.
#include "messages/ids.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <type_traits>
#include <unordered_set>

BOOST_AUTO_TEST_SUITE(ids)

using namespace prime;

static_assert(!std::is_convertible_v<Epoch, Sequence>, "ids of different kinds must not mix");
static_assert(!std::is_convertible_v<std::uint64_t, PeerId>, "a bare number is not an id");

BOOST_AUTO_TEST_CASE(ids_print_as_fixed_width_hexadecimal) {
  BOOST_TEST(to_string(PeerId{0xab}) == "00000000000000ab");
  BOOST_TEST(to_string(Digest{1, UINT64_MAX}) == "0000000000000001ffffffffffffffff");
  BOOST_TEST(to_string(OperationId{Epoch{3}, Sequence{14}}) == "3.14");
}

BOOST_AUTO_TEST_CASE(ids_come_back_from_their_texts) {
  for (const std::uint64_t value : {0ULL, 1ULL, 0x8000000000000000ULL, 0xdeadbeefcafef00dULL, ~0ULL}) {
    BOOST_TEST((parse_peer_id(to_string(PeerId{value})) == PeerId{value}));
    const Digest digest{value, ~value};
    BOOST_TEST((parse_digest(to_string(digest)) == digest));
  }
}

BOOST_AUTO_TEST_CASE(anything_but_the_fixed_text_is_refused) {
  for (const std::string_view text : {"", "ab", "00000000000000abc", "0x000000000000ab", "-00000000000000a", "+00000000000000a",
                                      " 0000000000000ab", "00000000000000a ", "00000000000000ag"})
    BOOST_TEST(!parse_peer_id(text), text);
  const std::string good(32, '0');
  BOOST_REQUIRE(parse_digest(good));
  BOOST_TEST(!parse_digest(good + "0"));
  BOOST_TEST(!parse_digest(good.substr(1)));
  BOOST_TEST(!parse_digest(std::string(16, '0') + "-" + std::string(15, '0')));
  BOOST_TEST(!parse_digest(std::string_view{"0000000000000000\0000000000000000", 32}));
}

BOOST_AUTO_TEST_CASE(readable_names_are_the_same_on_every_machine_and_of_every_release) {
  BOOST_TEST(readable_name(PeerId{0}) == "brave-otter");
  BOOST_TEST(readable_name(PeerId{1}) == readable_name(PeerId{1}));
  std::set<std::string> names;
  for (std::uint64_t id = 0; id < 4096; ++id) names.insert(readable_name(PeerId{id}));
  BOOST_TEST(names.size() > 900u);
  for (const auto& name : names) BOOST_TEST(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos, name);
}

BOOST_AUTO_TEST_CASE(ids_are_ordered_counted_and_hashed_by_value) {
  BOOST_TEST((Revision{3}.next() == Revision{4}));
  BOOST_TEST((Epoch{1} < Epoch{2}));
  BOOST_TEST((OperationId{Epoch{1}, Sequence{9}} < OperationId{Epoch{2}, Sequence{0}}));
  const std::unordered_set<PeerId> set{PeerId{1}, PeerId{1}, PeerId{2}};
  BOOST_TEST(set.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
