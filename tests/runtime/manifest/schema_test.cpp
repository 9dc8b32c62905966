// Owns the freshness of the committed JSON schema.
#include "runtime/manifest/describe.hpp"
#include "tests/runtime/manifest/support.hpp"

BOOST_AUTO_TEST_SUITE(schema)

BOOST_AUTO_TEST_CASE(the_committed_schema_is_the_one_of_the_field_table) {
  prime::manifest::test::check_golden(prime::manifest::test::repository() / "manifests/schema/run.v1.json", prime::manifest::json_schema());
}

BOOST_AUTO_TEST_SUITE_END()
