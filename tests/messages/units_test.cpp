// Proves that quantities carry their unit, that nothing overflows silently, and what people read.
#include "messages/units.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(units)

using namespace prime;

BOOST_AUTO_TEST_CASE(durations_are_read_with_their_unit) {
  BOOST_TEST((parse_duration("250ms") == 250ms));
  BOOST_TEST((parse_duration("30s") == 30s));
  BOOST_TEST((parse_duration("5min") == 5min));
  BOOST_TEST((parse_duration("2h") == 120min));
  BOOST_TEST((parse_duration("0s") == 0s));
}

BOOST_AUTO_TEST_CASE(sizes_are_read_with_their_unit) {
  BOOST_TEST((parse_byte_count("512B") == 512));
  BOOST_TEST((parse_byte_count("32KiB") == 32 * KIB));
  BOOST_TEST((parse_byte_count("4MiB") == 4 * MIB));
  BOOST_TEST((parse_byte_count("1GiB") == GIB));
}

BOOST_AUTO_TEST_CASE(rates_are_read_with_their_unit_in_thousands_of_bits) {
  BOOST_TEST((parse_bit_rate("500kbit/s") == 500'000));
  BOOST_TEST((parse_bit_rate("40Mbit/s") == 40'000'000));
  BOOST_TEST((parse_bit_rate("1Gbit/s") == 1'000'000'000));
}

BOOST_AUTO_TEST_CASE(a_bare_number_another_unit_or_anything_around_it_is_refused) {
  for (const std::string_view text : {"", "30", "s", "30 s", " 30s", "30s ", "-30s", "+30s", "1.5s", "30sec", "30S", "1d", "0x1s"})
    BOOST_TEST(!parse_duration(text), text);
  for (const std::string_view text : {"", "32", "KiB", "32KB", "32kib", "32 KiB", "-1B", "1.5MiB", "1TiB"})
    BOOST_TEST(!parse_byte_count(text), text);
  for (const std::string_view text :
       {"", "40", "40Mbit", "40MB/s", "40mbit/s", "40 Mbit/s", "1.5Mbit/s", "40Mbit/s ", "-1kbit/s", "1bit/s"})
    BOOST_TEST(!parse_bit_rate(text), text);
}

BOOST_AUTO_TEST_CASE(a_quantity_that_would_overflow_is_refused) {
  BOOST_TEST((parse_duration("2562047h") == std::chrono::hours{2'562'047}));
  BOOST_TEST(!parse_duration("2562048h"));
  BOOST_TEST(!parse_duration("99999999999999999999999s"));
  BOOST_TEST((parse_byte_count("9223372036854775807B") == static_cast<std::uint64_t>(INT64_MAX)));
  BOOST_TEST(!parse_byte_count("9223372036854775808B"));
  BOOST_TEST(!parse_byte_count("9000000000GiB"));
  BOOST_TEST(!parse_bit_rate("9300000000Gbit/s"));
}

BOOST_AUTO_TEST_CASE(durations_are_shown_in_the_unit_that_people_would_choose) {
  BOOST_TEST(format_duration(Duration{41'000}) == "41 us");
  BOOST_TEST(format_duration(41ms) == "41 ms");
  BOOST_TEST(format_duration(1200ms) == "1.2 s");
  BOOST_TEST(format_duration(250s) == "4m10s");
}

BOOST_AUTO_TEST_CASE(sizes_are_shown_in_the_largest_unit_that_keeps_them_at_or_above_one) {
  BOOST_TEST(format_byte_count(0) == "0 B");
  BOOST_TEST(format_byte_count(1023) == "1023 B");
  BOOST_TEST(format_byte_count(KIB) == "1.0 KiB");
  BOOST_TEST(format_byte_count(MIB + MIB / 10) == "1.1 MiB");
  BOOST_TEST(format_byte_count(3 * GIB) == "3.0 GiB");
}

BOOST_AUTO_TEST_SUITE_END()
