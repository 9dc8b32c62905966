// Owns the entry point of the command line's tests.
#include <boost/test/unit_test.hpp>
