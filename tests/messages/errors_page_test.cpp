// Proves that docs/ERRORS.md is what errors.def says. PRIME_RECORD=1 writes the page anew.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "messages/errors.hpp"
#include "tests/support/repository.hpp"

using namespace prime;

namespace {

std::string class_text(ErrorClass klass) {
  switch (klass) {
    case ErrorClass::Retry: return "retry";
    case ErrorClass::Rejoin: return "rejoin";
    case ErrorClass::User: return "user";
    case ErrorClass::Fatal: return "fatal";
  }
  return {};
}

std::string page() {
  std::string text = R"(# Errors

<!-- Generated from messages/errors.def; `PRIME_RECORD=1 ./dev test -R errors_page` writes it anew. -->

Every error says what, where and what next, and ends in its code: `error: a peer was lost: brave-otter [PR0502]`.
The same text is in the log, on the command line and in what a trainer gets through the embedding API.

## What now?

| class | means |
|---|---|
| retry | try it again: it may succeed later |
| rejoin | join again, as a new peer |
| user | follow the hint: it fails again as long as nothing is changed |
| fatal | do not try it again: it cannot succeed |

## Exit codes of `primectl`

| exit | meaning |
|---|---|
| 0 | done, or left cleanly |
| 1 | failed at run time |
| 2 | usage, manifest or configuration wrong; nothing was started |
| 3 | run unreachable or unknown |
| 4 | refused: key, digest or version mismatch |
| 5 | answered, unhealthy: `status --check` of a run that failed or waits; without `--check` status answers with 0 |
| 6 | timed out |
| 130 / 143 | interrupted / ended by SIGTERM, where a command has nothing to end first |

## All errors

| code | name | class | exit | text | hint |
|---|---|---|---|---|---|
)";
  for (const auto& row : error_table()) {
    text += "| ";
    for (const std::string& cell : {std::string{row.code}, std::string{row.name}, class_text(row.klass), std::to_string(row.exit_code),
                                    std::string{row.text}, std::string{row.hint}})
      text += cell + " | ";
    text.back() = '\n';
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_page_of_errors_is_fresh) {
  const std::filesystem::path path = test::repository() / "docs/ERRORS.md";
  if (const char* record = std::getenv("PRIME_RECORD"); record != nullptr && std::string_view{record} == "1") std::ofstream{path} << page();
  std::ifstream file{path};
  const std::string found{std::istreambuf_iterator<char>{file}, {}};
  BOOST_TEST((found == page()), "docs/ERRORS.md is stale: run PRIME_RECORD=1 ./dev test -R errors_page");
}
