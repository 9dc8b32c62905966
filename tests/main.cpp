// Owns the entry point of every Boost.Test program.
#define BOOST_TEST_MODULE prime
#include <boost/test/unit_test.hpp>
