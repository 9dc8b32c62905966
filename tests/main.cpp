// Owns the entry point of every Boost.Test program, and where the checkout lies.
#define BOOST_TEST_MODULE prime
#include <boost/test/unit_test.hpp>

#include "tests/support/repository.hpp"

std::filesystem::path prime::test::repository() { return PRIME_SOURCE_DIR; }
