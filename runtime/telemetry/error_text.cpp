#include "runtime/telemetry/error_text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace prime::telemetry {

std::optional<Error> parse_error_text(std::string_view text) {
  const auto& table = error_table();
  for (std::size_t index = 0; index < table.size(); ++index) {
    const auto end = " [" + std::string{table[index].code} + "]";
    if (!text.ends_with(end) || !text.starts_with(table[index].text)) continue;
    auto detail = text.substr(0, text.size() - end.size()).substr(table[index].text.size());
    if (detail.starts_with(": ")) detail.remove_prefix(2);
    return Error{static_cast<ErrorName>(index), std::string{detail}};
  }
  return std::nullopt;
}

std::optional<Error> last_error_in(std::string_view log) {
  constexpr std::string_view PREFIX = "error: ";
  std::optional<Error> last;
  while (!log.empty()) {
    const auto line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (!line.starts_with(PREFIX)) continue;
    if (auto error = parse_error_text(line.substr(PREFIX.size()))) last = std::move(error);
  }
  return last;
}

bool is_stop(const Cause& cause) { return cause.name == ErrorName::RunStopped || cause.name == ErrorName::Interrupted; }

bool is_refusal(const Cause& cause) {
  constexpr std::array REFUSALS{ErrorName::LayoutMismatch, ErrorName::StateMismatch, ErrorName::DataMismatch,
                                ErrorName::KeyRefused,     ErrorName::WrongRun,      ErrorName::VersionMismatch};
  return cause.name && std::ranges::find(REFUSALS, *cause.name) != REFUSALS.end();
}

namespace {

/// Of " [PR0502]" at the end of a text that quotes an error; 0 without one.
std::size_t code_length(std::string_view text) {
  for (const auto& row : error_table())
    if (const auto end = " [" + std::string{row.code} + "]"; text.ends_with(end)) return end.size();
  return 0;
}

}  // namespace

std::string short_reason(std::string_view text) {
  const auto error = parse_error_text(text);
  if (!error) return std::string{text.substr(0, text.size() - code_length(text))};
  // Rows are about peers; what befell somebody else keeps its subject.
  if (error->name == ErrorName::CoordinatorLost) return std::string{text.substr(0, text.size() - code_length(text))};
  // The files that differ say enough; what both sides have in all is for the whole text.
  if (error->name == ErrorName::DataMismatch) return error->detail.substr(0, error->detail.find(". In detail: "));
  // An error may carry another one as its detail; the innermost says what happened.
  return error->detail.empty() ? std::string{info(error->name).text} : short_reason(error->detail);
}

}  // namespace prime::telemetry
