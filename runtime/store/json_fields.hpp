// Owns reading single fields of a JSON object whose writer is not trusted: nothing where one is missing or of another type.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace prime::store {

inline std::optional<std::uint64_t> count_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? std::optional{found->get<std::uint64_t>()} : std::nullopt;
}

inline std::optional<std::string> text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? std::optional{found->get<std::string>()} : std::nullopt;
}

inline std::optional<bool> flag_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? std::optional{found->get<bool>()} : std::nullopt;
}

}  // namespace prime::store
