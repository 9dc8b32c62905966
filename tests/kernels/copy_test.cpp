// Owns the test of copies: all bytes, and no others, wherever the two ends lie.
#include "kernels/copy.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/kernels/support.hpp"

BOOST_AUTO_TEST_SUITE(copy)

using namespace prime::kernels;

BOOST_AUTO_TEST_CASE(what_is_copied_lies_between_what_was_there) {
  std::mt19937_64 random(1);
  std::vector<std::byte> from(6000);
  for (auto& byte : from) byte = static_cast<std::byte>(random() % 255);
  constexpr std::byte OLD{255};
  for (const std::size_t size : test::SIZES)
    for (const std::size_t shift : {0U, 1U, 8U, 63U}) {
      std::vector<std::byte> to(size + 2 * shift, OLD);
      prime::kernels::copy(std::span{from}.subspan(7 * shift, size), to.data() + shift);
      BOOST_TEST(std::equal(from.begin() + static_cast<std::ptrdiff_t>(7 * shift),
                            from.begin() + static_cast<std::ptrdiff_t>(7 * shift + size), to.begin() + static_cast<std::ptrdiff_t>(shift)),
                 size << " bytes, shifted by " << shift);
      BOOST_TEST(static_cast<std::size_t>(std::ranges::count(to, OLD)) == 2 * shift);
    }
}

BOOST_AUTO_TEST_SUITE_END()
