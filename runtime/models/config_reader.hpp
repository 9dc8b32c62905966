// Owns how values of a config.json are read: bounded, and the first that is not usable is named. Absent and null are the same to Hugging
// Face.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "messages/result.hpp"
#include "runtime/models/architecture.hpp"

namespace prime::models {

inline constexpr std::uint64_t DEEPEST = 4096, WIDEST = 1 << 20, LONGEST = 1 << 24;

tl::unexpected<Error> refused(const std::string& what);
tl::unexpected<Error> malformed(const std::string& what);
/// For people, and not longer than they want to read.
std::string quoted(const nlohmann::json& value);
/// Null where it is absent or null.
const nlohmann::json* value_at(const nlohmann::json& object, const char* key);

class Numbers {
 public:
  explicit Numbers(const nlohmann::json& config) : config_(config) {}
  std::uint32_t count(const char* key, std::uint64_t most, std::optional<std::uint32_t> absent = {}) {
    return count(config_, key, most, absent);
  }
  std::uint32_t count(const nlohmann::json& object, const char* key, std::uint64_t most, std::optional<std::uint32_t> absent = {});
  double real(const nlohmann::json& object, const char* key, std::optional<double> absent = {});
  bool flag(const char* key, bool absent);
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void note(const std::string& problem);
  const nlohmann::json& config_;
  std::string problem_;
};

/// Why heads do not divide the width, if so.
std::optional<std::string> misfit(const ModelConfig& model);
/// The first key that is there with another value than the one that is computed.
std::optional<std::string> other_than(const nlohmann::json& config, std::initializer_list<std::pair<const char*, nlohmann::json>> accepted);

}  // namespace prime::models
