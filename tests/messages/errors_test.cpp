// Proves the laws of the table of errors, and how an error reads in one line and in full.
#include "messages/errors.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "messages/result.hpp"

BOOST_AUTO_TEST_SUITE(errors)

using namespace prime;

BOOST_AUTO_TEST_CASE(codes_and_names_are_unique_and_codes_have_one_form) {
  std::set<std::string_view> codes;
  std::set<std::string_view> names;
  for (const auto& row : error_table()) {
    BOOST_TEST(codes.insert(row.code).second, row.code);
    BOOST_TEST(names.insert(row.name).second, row.name);
    BOOST_TEST(row.code.size() == 6u, row.code);
    BOOST_TEST(row.code.starts_with("PR"), row.code);
    BOOST_TEST(row.code.find_first_not_of("0123456789", 2) == std::string_view::npos, row.code);
  }
}

BOOST_AUTO_TEST_CASE(texts_are_short_lower_case_and_without_a_full_stop) {
  for (const auto& row : error_table()) {
    BOOST_TEST(!row.text.empty(), row.name);
    BOOST_TEST(row.text.size() <= 72u, row.text);
    BOOST_TEST(!std::isupper(static_cast<unsigned char>(row.text.front())), row.text);
    BOOST_TEST(row.text.back() != '.', row.text);
    BOOST_TEST((row.hint.empty() || row.hint.back() != '.'), row.hint);
    BOOST_TEST((!row.hint.empty() || row.name == "Interrupted"), row.name);
  }
}

BOOST_AUTO_TEST_CASE(exit_codes_are_those_that_the_command_line_promises) {
  const std::set<int> promised{0, 1, 2, 3, 4, 5, 6, 130, 143};
  for (const auto& row : error_table()) {
    BOOST_TEST(promised.contains(row.exit_code), row.name);
    BOOST_TEST(row.exit_code != 0, row.name);
  }
}

BOOST_AUTO_TEST_CASE(every_name_finds_its_own_row) {
  BOOST_TEST(info(ErrorName::InternalError).name == "InternalError");
  BOOST_TEST(info(ErrorName::RunFull).code == "PR0414");
  BOOST_TEST(info(ErrorName::Interrupted).name == "Interrupted");
  BOOST_TEST(static_cast<std::size_t>(ErrorName::Interrupted) + 1 == error_table().size());
}

BOOST_AUTO_TEST_CASE(a_name_of_a_newer_peer_reads_as_an_internal_error) {
  BOOST_TEST(info(static_cast<ErrorName>(255)).name == "InternalError");
}

BOOST_AUTO_TEST_CASE(one_line_says_what_where_and_the_code) {
  BOOST_TEST(to_string(Error{ErrorName::RunFull, "8 of 8"}) == "refused: the run has its maximum of peers: 8 of 8 [PR0414]");
  BOOST_TEST(to_string(Error{ErrorName::PeerLost}) == "a peer was lost [PR0502]");
  const Error inner{ErrorName::TrainerFailed, "exit status 1"};
  BOOST_TEST(to_string(Error{ErrorName::TrainerFailed, "1 restart; the last cause: " + to_string(inner)}) ==
             "the trainer failed: 1 restart; the last cause: the trainer failed: exit status 1 [PR0601]");
}

BOOST_AUTO_TEST_CASE(the_full_form_adds_the_context_innermost_first_and_the_hint_last) {
  const auto error = Error{ErrorName::PeerLost, "brave-otter"}.with_context("reducing segment 3").with_context("outer step 12");
  BOOST_TEST(render(error) ==
             "error: a peer was lost: brave-otter [PR0502]\n"
             "  while reducing segment 3\n"
             "  while outer step 12\n"
             "hint: a run goes on with the others\n");
  BOOST_TEST(render(Error{ErrorName::Interrupted}) == "error: interrupted [PR0801]\n");
}

BOOST_AUTO_TEST_CASE(a_result_hands_its_error_on_with_one_macro) {
  const auto half = [](int value) -> Result<int> {
    if (value % 2 != 0) return fail(ErrorName::Usage, "odd");
    return value / 2;
  };
  const auto quarter = [&](int value) -> Result<int> {
    PRIME_TRY(const int first, half(value));
    PRIME_TRY(const int second, half(first));
    return second;
  };
  const auto check = [&](int value) -> Result<void> {
    PRIME_CHECK(quarter(value));
    return {};
  };
  BOOST_TEST(quarter(8).value() == 2);
  BOOST_TEST((quarter(6).error() == Error{ErrorName::Usage, "odd"}));
  BOOST_TEST(check(8).has_value());
  BOOST_TEST((check(7).error().name == ErrorName::Usage));
}

BOOST_AUTO_TEST_SUITE_END()
