// Owns what the program knows of an architecture without computing it: its tensors, what it costs, and how Hugging Face writes it down.
// Free of libtorch. What a tensor is multiplied by stands in runtime/trainer/model.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"
#include "messages/tensor_shape.hpp"
#include "runtime/manifest/check.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::models {

/// What config.json says of a model: all that a manifest says of one, and what is computed of others' models besides.
struct ModelConfig : manifest::Model {
  bool exact_gelu = false;  ///< GPT-2: by the error function, not by tanh
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// A tensor as Hugging Face has it, how it begins, and what an optimizer makes of it.
struct ModelTensor {
  enum class Start : std::uint8_t { Zero, One, Normal };
  TensorShape as;
  Start start = Start::Normal;
  double deviation = 0;  ///< of normal ones
  /// The matrices of a block that it is made of, by their outputs, from the first; empty: it is none of a block, or a vector.
  std::vector<std::int64_t> matrices = {};
  bool transposed = false;  ///< its matrices lie side by side as [inputs, outputs]
};

class Architecture {
 public:
  virtual ~Architecture() = default;

  /// `model_type` of config.json, and the class that loads it.
  [[nodiscard]] virtual std::string_view type() const = 0;
  [[nodiscard]] virtual std::string_view class_name() const = 0;
  /// What stands before some names of tensors in files of this architecture, and not in others.
  [[nodiscard]] virtual std::string_view optional_prefix() const { return {}; }

  /// What a manifest that leaves it out means.
  [[nodiscard]] virtual std::uint32_t usual_ffn(std::uint32_t dim) const = 0;
  [[nodiscard]] virtual bool usually_tied() const = 0;
  virtual void check(const manifest::Model& model, std::vector<manifest::Conflict>& found) const = 0;

  /// In the order in which a trainer binds them.
  [[nodiscard]] virtual std::vector<ModelTensor> tensors(const manifest::Model& model) const = 0;
  /// Values that training keeps of a token for the way back through one block.
  [[nodiscard]] virtual std::uint64_t values_of_block(const manifest::Model& model) const = 0;

  /// The keys of config.json that say what is computed.
  [[nodiscard]] virtual nlohmann::ordered_json write_config(const manifest::Model& model) const = 0;
  /// ModelUnsupported names what is not computed here, CheckpointCorrupt what is no configuration.
  [[nodiscard]] virtual Result<ModelConfig> read_config(const nlohmann::json& config) const = 0;
  /// What makes two models of equal tensors different ones, beside their sizes: part of what names a model (docs/VERIFYING.md).
  [[nodiscard]] virtual nlohmann::json identity(const ModelConfig& config) const = 0;
};

/// The one place that knows which there are.
const Architecture& architecture_of(manifest::Architecture architecture);
inline constexpr manifest::Architecture ARCHITECTURES[]{manifest::Architecture::Llama, manifest::Architecture::Gpt2};

/// Names and shapes of all tensors.
std::vector<TensorShape> tensor_shapes(const manifest::Model& model);

/// Of the initial weights.
inline constexpr double DEVIATION = 0.02;
/// Those that write into the residual stream get less, so that its size does not grow with the depth.
double residual_deviation(const manifest::Model& model);

const Architecture& llama();
const Architecture& gpt2();

}  // namespace prime::models
