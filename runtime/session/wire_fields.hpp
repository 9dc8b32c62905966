// Owns the reading of one untrusted JSON object, field by field; the first thing that is wrong is kept as a TrainerProtocol error.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "messages/errors.hpp"

namespace prime::wire {

/// Reads return a harmless value once something was wrong; callers look at `error()` at the end.
class Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {}

  std::uint64_t number(const char* key, std::uint64_t least, std::uint64_t most);
  std::uint32_t small_number(const char* key, std::uint32_t least, std::uint32_t most);
  std::optional<double> real_or_null(const char* key);
  double positive_real(const char* key);
  std::string text(const char* key, std::size_t max_bytes);
  bool flag(const char* key);
  /// Every item must satisfy `accept`.
  void each(const char* key, std::size_t max_items, const std::function<bool(const nlohmann::json&)>& accept);
  void object_or_null(const char* key, const std::function<void(Fields&)>& read);
  /// A text that `parse` understands.
  template <class T>
  T parsed(const char* key, std::optional<T> (*parse)(std::string_view)) {
    const auto value = parse(text(key, 64));
    if (!value) refuse(key, "is malformed");
    return value.value_or(T{});
  }

  void refuse(const char* key, const char* why);
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  /// Null (as JSON) when the key is missing, which is refused.
  const nlohmann::json& field(const char* key);

  const nlohmann::json& object_;
  std::optional<Error> error_;
};

/// `text` as valid UTF-8 of at most `max_bytes`; bytes that are none become the replacement character.
std::string clipped_text(std::string_view text, std::size_t max_bytes);

}  // namespace prime::wire
