// Owns what each kind of scaling does to a frequency.
#include "runtime/models/rotary.hpp"

#include <cmath>
#include <numbers>

#include "runtime/models/config_reader.hpp"

namespace prime::models {
namespace {

using manifest::RopeKind;
using manifest::RopeScaling;
using nlohmann::json;

/// As transformers has it: by the length of its wave a frequency is divided, left as it is, or something between.
double as_llama3(const RopeScaling& scaling, double frequency) {
  const double turns = scaling.original_context * frequency / (2 * std::numbers::pi);  // in a window of those before
  const double kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  if (kept < 0) return frequency / scaling.factor;
  if (kept > 1) return frequency;
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

Result<RopeScaling> read_one(const json& config, const char* key) {
  const auto& value = *value_at(config, key);
  if (!value.is_object()) return refused(std::string{"`"} + key + "` is " + quoted(value) + ", no object");
  const auto* type = value_at(value, "rope_type");
  if (type == nullptr) type = value_at(value, "type");
  RopeScaling scaling;
  if (type == nullptr || *type == "default") return scaling;
  if (*type != "linear" && *type != "llama3")
    return refused("its rotations are scaled (" + quoted(*type) + "); accepted are plain ones, `linear` and `llama3`");
  Numbers numbers(value);
  scaling.factor = numbers.real(value, "factor");
  scaling.kind = RopeKind::Linear;
  if (*type == "llama3") {
    scaling.kind = RopeKind::Llama3;
    scaling.low_freq_factor = numbers.real(value, "low_freq_factor");
    scaling.high_freq_factor = numbers.real(value, "high_freq_factor");
    scaling.original_context = numbers.count("original_max_position_embeddings", LONGEST);
  }
  if (!numbers.problem().empty()) return malformed(std::string{"`"} + key + "`: " + numbers.problem());
  if (scaling.low_freq_factor >= scaling.high_freq_factor)
    return malformed(std::string{"`"} + key + "`: `low_freq_factor` is not less than `high_freq_factor`");
  return scaling;
}

}  // namespace

std::vector<double> rotary_frequencies(const manifest::Model& model) {
  const auto& scaling = model.rope_scaling;
  const std::uint32_t half = model.dim / model.heads / 2;
  std::vector<double> frequencies(half);
  for (std::uint32_t pair = 0; pair < half; ++pair) {
    double& frequency = frequencies[pair] = std::pow(model.rope_theta, -static_cast<double>(pair) / half);
    if (scaling.kind == RopeKind::Linear) frequency /= scaling.factor;
    if (scaling.kind == RopeKind::Llama3) frequency = as_llama3(scaling, frequency);
  }
  return frequencies;
}

void check_rope(const RopeScaling& scaling, std::vector<manifest::Conflict>& found) {
  constexpr std::string_view KIND = "model.rope_scaling.kind", FACTOR = "model.rope_scaling.factor";
  constexpr std::string_view LOW = "model.rope_scaling.low_freq_factor", HIGH = "model.rope_scaling.high_freq_factor";
  const RopeScaling usual;
  const auto unused = [&](std::string_view path, bool set, const std::string& without) {
    if (set)
      found.push_back({{path, KIND}, "`" + std::string{path} + "` means nothing without " + without, "leave it out, or set the `kind`"});
  };
  if (scaling.kind == RopeKind::None) unused(FACTOR, scaling.factor != usual.factor, "a `kind`");
  else if (scaling.factor <= 1)
    found.push_back({{FACTOR, KIND}, "`" + std::string{FACTOR} + "` must be more than 1 with a `kind`", "for example `factor: 8`"});
  if (scaling.kind != RopeKind::Llama3) {
    unused(LOW, scaling.low_freq_factor != usual.low_freq_factor, "`kind: llama3`");
    unused(HIGH, scaling.high_freq_factor != usual.high_freq_factor, "`kind: llama3`");
    unused("model.rope_scaling.original_context", scaling.original_context != usual.original_context, "`kind: llama3`");
  } else if (scaling.low_freq_factor >= scaling.high_freq_factor) {
    found.push_back({{LOW, HIGH},
                     "`" + std::string{LOW} + "` must be less than `high_freq_factor`",
                     "for example `low_freq_factor: 1, high_freq_factor: 4`"});
  }
}

nlohmann::ordered_json write_rope(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeKind::None: break;
    case RopeKind::Linear: return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case RopeKind::Llama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_freq_factor},
              {"high_freq_factor", scaling.high_freq_factor},
              {"original_max_position_embeddings", scaling.original_context}};
  }
  return {{"rope_type", "default"}};
}

Result<RopeScaling> read_rope(const json& config) {
  std::optional<RopeScaling> scaling;
  for (const auto* key : {"rope_parameters", "rope_scaling"}) {
    if (value_at(config, key) == nullptr) continue;
    PRIME_TRY(const auto one, read_one(config, key));
    if (scaling && *scaling != one) return refused("`rope_parameters` and `rope_scaling` do not say the same");
    scaling = one;
  }
  return scaling.value_or(RopeScaling{});
}

}  // namespace prime::models
