#include "messages/errors.hpp"

#include <algorithm>
#include <cstddef>

namespace prime {

const std::vector<ErrorInfo>& error_table() {
  static const std::vector<ErrorInfo> table = {
#define X(name, code, klass, exit_code, text, hint) {#name, #code, ErrorClass::klass, exit_code, text, hint},
#include "messages/errors.def"
#undef X
  };
  return table;
}

const ErrorInfo& info(ErrorName name) {
  const auto index = static_cast<std::size_t>(name);
  // A name from a newer peer is shown as an internal error rather than read out of bounds.
  return index < error_table().size() ? error_table()[index] : error_table().front();
}

std::string to_string(const Error& error) {
  const auto& row = info(error.name);
  std::string text{row.text};
  if (!error.detail.empty()) text += ": " + error.detail;
  // A detail that quotes an error of the same name ends in the code already.
  const auto code = " [" + std::string{row.code} + "]";
  return text.ends_with(code) ? text : text + code;
}

std::string render(const Error& error) {
  std::string text = "error: " + to_string(error) + "\n";
  for (const auto& line : error.context) text += "  while " + line + "\n";
  if (const auto hint = info(error.name).hint; !hint.empty()) {
    text += "hint: ";
    text += hint;
    text += "\n";
  }
  return text;
}

std::optional<ErrorName> find_error(std::string_view name) {
  const auto& table = error_table();
  const auto row = std::find_if(table.begin(), table.end(), [&](const ErrorInfo& entry) { return entry.name == name; });
  if (row == table.end()) return std::nullopt;
  return static_cast<ErrorName>(row - table.begin());
}

}  // namespace prime
