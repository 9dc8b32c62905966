// Owns the freshness of the committed JSON schema and of the page of keys.
#include "runtime/manifest/describe.hpp"
#include "runtime/manifest/fields.hpp"
#include "tests/runtime/manifest/support.hpp"

BOOST_AUTO_TEST_SUITE(schema)

BOOST_AUTO_TEST_CASE(the_committed_schema_is_the_one_of_the_field_table) {
  prime::test::check_golden(prime::test::repository() / "manifests/schema/run.v1.json", prime::manifest::json_schema());
}

BOOST_AUTO_TEST_CASE(the_committed_page_is_the_one_of_the_field_table) {
  prime::test::check_golden(prime::test::repository() / "docs/MANIFEST.md", prime::manifest::reference_page());
}

BOOST_AUTO_TEST_CASE(the_page_has_every_key_that_is_no_section) {
  const auto page = prime::manifest::reference_page();
  for (const auto& field : prime::manifest::fields())
    if (!std::holds_alternative<prime::manifest::Section>(field.type))
      BOOST_TEST(page.find("\n| `" + std::string{field.path} + "` |") != std::string::npos, field.path);
  BOOST_TEST(page.find("| `sync.wire.streams` | an integer ≥ 1 and ≤ 64 |") != std::string::npos);
  BOOST_TEST(page.find("| `sync.deadline` | a duration from 100ms to 24h in whole units (ms, s, min, h) | 2min |") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
