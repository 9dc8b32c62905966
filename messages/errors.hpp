// Owns errors as values: one table (errors.def), one plain struct, one rendering for log, command line and wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace prime {

enum class ErrorName : std::uint8_t {
#define X(name, code, klass, exit_code, text, hint) name,
#include "messages/errors.def"
#undef X
};

/// What a receiver can do about an error.
enum class ErrorClass : std::uint8_t { Retry, Rejoin, User, Fatal };

/// One row of errors.def.
struct ErrorInfo {
  std::string_view name;
  std::string_view code;
  ErrorClass klass;
  int exit_code;
  std::string_view text;
  std::string_view hint;
};

const ErrorInfo& info(ErrorName name);
/// All rows, in the order of errors.def.
const std::vector<ErrorInfo>& error_table();

/// The row of that name, as in errors.def.
std::optional<ErrorName> find_error(std::string_view name);

/// An error as plain data. `detail` says what and where in this case; `context` is the chain of what was being done,
/// innermost first. Travels between nodes and to trainers unchanged.
struct Error {
  ErrorName name = ErrorName::InternalError;
  std::string detail;
  std::vector<std::string> context;

  Error() = default;
  explicit Error(ErrorName error_name, std::string error_detail = {}) : name(error_name), detail(std::move(error_detail)) {}

  /// The same error with one more line of context ("while fetching revision 12").
  [[nodiscard]] Error with_context(std::string line) && {
    context.push_back(std::move(line));
    return std::move(*this);
  }
  friend bool operator==(const Error&, const Error&) = default;
};

template <class Inspector>
auto inspect(Inspector& f, Error& x) {
  return f(x.name, x.detail, x.context);
}

/// "refused: the run has its maximum of peers: 8 of 8 [PR0414]": one line, without hint.
std::string to_string(const Error& error);
/// The full rendering of the command line: `error: …`, context lines, `hint: …`.
std::string render(const Error& error);

}  // namespace prime
