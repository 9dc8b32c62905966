// Owns reading journal lines that another version may have written: a field that is missing or of another type is absent, an event without
// a rule is passed over.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/store/journal.hpp"

namespace prime::telemetry {

inline std::optional<std::string> text_field(const nlohmann::json& fields, const char* key) {
  const auto found = fields.find(key);
  return found != fields.end() && found->is_string() ? std::optional{found->get<std::string>()} : std::nullopt;
}
inline std::optional<std::uint64_t> count_field(const nlohmann::json& fields, const char* key) {
  const auto found = fields.find(key);
  return found != fields.end() && found->is_number_unsigned() ? std::optional{found->get<std::uint64_t>()} : std::nullopt;
}
inline std::optional<double> real_field(const nlohmann::json& fields, const char* key) {
  const auto found = fields.find(key);
  return found != fields.end() && found->is_number() ? std::optional{found->get<double>()} : std::nullopt;
}

/// The line's time, and so many seconds.
inline std::optional<std::string> time_field(const nlohmann::json& fields, std::optional<double> and_seconds) {
  const auto told = store::parse_utc(text_field(fields, "t").value_or(""));
  if (!told || !and_seconds) return std::nullopt;
  return store::format_utc(*told + std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(*and_seconds)));
}

/// What an event changes in what is read out of a journal.
template <class Journal>
struct JournalRule {
  std::string_view event;
  void (*apply)(Journal&, const nlohmann::json& fields);
};

template <class Rules, class Journal>
void apply_rules(const Rules& rules, Journal& journal, std::string_view event, const nlohmann::json& fields) {
  for (const auto& rule : rules)
    if (rule.event == event) return rule.apply(journal, fields);
}

}  // namespace prime::telemetry
