#include "runtime/session/wire_fields.hpp"

namespace prime::wire {

using nlohmann::json;

void Fields::refuse(const char* key, const char* why) {
  if (!error_) error_ = Error(ErrorName::TrainerProtocol, "`" + std::string(key) + "` " + why);
}

const json& Fields::field(const char* key) {
  static const json missing;
  const auto found = object_.find(key);
  if (found != object_.end()) return *found;
  refuse(key, "is missing");
  return missing;
}

std::uint64_t Fields::number(const char* key, std::uint64_t least, std::uint64_t most) {
  const auto& value = field(key);
  if (!value.is_number_unsigned()) {
    refuse(key, "is not a whole number");
    return least;
  }
  const auto number = value.get<std::uint64_t>();
  if (number >= least && number <= most) return number;
  refuse(key, "is out of range");
  return least;
}

std::uint32_t Fields::small_number(const char* key, std::uint32_t least, std::uint32_t most) {
  return static_cast<std::uint32_t>(number(key, least, most));
}

std::optional<double> Fields::real_or_null(const char* key) {
  const auto& value = field(key);
  if (value.is_number()) return value.get<double>();  // parsed JSON holds no infinity
  if (!value.is_null()) refuse(key, "is not a number");
  return std::nullopt;
}

double Fields::positive_real(const char* key) {
  const auto value = real_or_null(key);
  if (!value || *value < 0) refuse(key, "is not a number of at least zero");
  return value.value_or(0);
}

std::string Fields::text(const char* key, std::size_t max_bytes) {
  const auto& value = field(key);
  if (!value.is_string()) {
    refuse(key, "is not a text");
    return {};
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() <= max_bytes) return text;
  refuse(key, "is too long");
  return {};
}

bool Fields::flag(const char* key) {
  const auto& value = field(key);
  if (value.is_boolean()) return value.get<bool>();
  refuse(key, "is neither true nor false");
  return false;
}

void Fields::each(const char* key, std::size_t max_items, const std::function<bool(const json&)>& accept) {
  const auto& value = field(key);
  if (!value.is_array()) return refuse(key, "is not a list");
  if (value.size() > max_items) return refuse(key, "has too many items");
  for (const auto& item : value) {
    if (!accept(item)) return refuse(key, "holds an item that is not allowed");
  }
}

void Fields::object_or_null(const char* key, const std::function<void(Fields&)>& read) {
  const auto& value = field(key);
  if (value.is_null()) return;
  if (!value.is_object()) return refuse(key, "is not an object");
  Fields inner(value);
  read(inner);
  if (inner.error() && !error_) error_ = inner.error();
}

std::string clipped_text(std::string_view text, std::size_t max_bytes) {
  const json raw = std::string(text.substr(0, max_bytes));
  // Writing replaces what is no UTF-8; reading back gives the text as the other side will see it.
  auto valid = json::parse(raw.dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
  if (valid.size() <= max_bytes) return valid;
  auto end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(valid[end]) & 0xC0U) == 0x80U) --end;
  valid.resize(end);
  return valid;
}

}  // namespace prime::wire
