// Owns the entry point of the manifest tests.
#include <boost/test/included/unit_test.hpp>
