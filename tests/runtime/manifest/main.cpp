// Owns the entry point of the manifest tests.
#include <boost/test/unit_test.hpp>
