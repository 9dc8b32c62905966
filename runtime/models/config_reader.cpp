// Owns the words for what is not usable in a configuration.
#include "runtime/models/config_reader.hpp"

#include <cmath>

namespace prime::models {

using nlohmann::json;

tl::unexpected<Error> refused(const std::string& what) { return fail(ErrorName::ModelUnsupported, what); }
tl::unexpected<Error> malformed(const std::string& what) { return fail(ErrorName::CheckpointCorrupt, "config.json: " + what); }

std::string quoted(const json& value) { return "`" + value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80) + "`"; }

const json* value_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null() ? &*found : nullptr;
}

std::uint32_t Numbers::count(const json& object, const char* key, std::uint64_t most, std::optional<std::uint32_t> absent) {
  const auto* value = value_at(object, key);
  if (value == nullptr && absent) return *absent;
  if (value == nullptr) note(std::string{"`"} + key + "` is missing");
  else if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 || value->get<std::uint64_t>() > most)
    note(std::string{"`"} + key + "` is " + quoted(*value) + ", no number from 1 to " + std::to_string(most));
  else return static_cast<std::uint32_t>(value->get<std::uint64_t>());
  return 1;
}

double Numbers::real(const json& object, const char* key, std::optional<double> absent) {
  const auto* value = value_at(object, key);
  if (value == nullptr && absent) return *absent;
  if (value == nullptr) note(std::string{"`"} + key + "` is missing");
  else if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0)
    note(std::string{"`"} + key + "` is " + quoted(*value) + ", no number above 0");
  else return value->get<double>();
  return absent.value_or(1);
}

bool Numbers::flag(const char* key, bool absent) {
  const auto* value = value_at(config_, key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) note(std::string{"`"} + key + "` is " + quoted(*value) + ", neither true nor false");
  return value->is_boolean() && value->get<bool>();
}

void Numbers::note(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
}

std::optional<std::string> misfit(const ModelConfig& model) {
  if (model.dim % model.heads == 0 && model.heads % model.kv_heads == 0) return std::nullopt;
  return std::to_string(model.heads) + " heads with " + std::to_string(model.kv_heads) + " for keys do not divide a width of " +
         std::to_string(model.dim);
}

std::optional<std::string> other_than(const json& config, std::initializer_list<std::pair<const char*, json>> accepted) {
  for (const auto& [key, wanted] : accepted)
    if (const auto* value = value_at(config, key); value != nullptr && *value != wanted)
      return std::string{"`"} + key + "` is " + quoted(*value) + "; accepted is " + quoted(wanted);
  return std::nullopt;
}

}  // namespace prime::models
