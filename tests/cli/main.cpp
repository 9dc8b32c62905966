// Owns the entry point of the command line's tests.
#include <boost/test/included/unit_test.hpp>
