// Owns reading the fields of journal lines that another version may have written: what is missing or of another type is absent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

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

}  // namespace prime::telemetry
