// Owns Record: one event of the journal as plain data, built by pure machines and written by runtime/store.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace prime {

struct Record {
  using Value = std::variant<std::uint64_t, double, bool, std::string, std::vector<std::string>>;

  std::string event;
  std::vector<std::pair<std::string, Value>> fields;
  bool durable = false;  ///< on disk before anything that follows it is told to anybody (DESIGN law 8)

  Record() = default;
  explicit Record(std::string event_name) : event(std::move(event_name)) {}
  /// Returns by value, so that `record = std::move(record).with(…)` is no move onto itself, which would empty it.
  [[nodiscard]] Record with(std::string key, Value value) && {
    fields.emplace_back(std::move(key), std::move(value));
    return std::move(*this);
  }
};

}  // namespace prime
