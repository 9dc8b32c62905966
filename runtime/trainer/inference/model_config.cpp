// Owns the choice of the architecture that reads a config.json.
#include "runtime/trainer/inference/model_config.hpp"

#include <string>

#include "runtime/models/config_reader.hpp"
#include "runtime/store/strict_json.hpp"

namespace prime::trainer {

using namespace models;

Result<ModelConfig> parse_model_config(std::string_view text) {
  const auto config = store::parse_strictly(text);
  if (!config || !config->is_object()) return fail(ErrorName::CheckpointCorrupt, "config.json is no JSON object");
  const auto* type = value_at(*config, "model_type");
  std::string accepted;
  for (const auto each : ARCHITECTURES) {
    const auto& known = architecture_of(each);
    accepted += (accepted.empty() ? "`" : " and `") + std::string{known.type()} + "` (" + std::string{known.class_name()} + ")";
    if (type == nullptr || *type != known.type()) continue;
    if (const auto* names = value_at(*config, "architectures"); names != nullptr && *names != nlohmann::json{known.class_name()})
      return refused("its architecture is " + quoted(*names) + "; accepted is " + std::string{known.class_name()});
    if (const auto* value = value_at(*config, "quantization_config"))
      return refused("it is quantized (" + quoted(*value) + "); accepted are weights of f32, bf16 and f16");
    auto read = known.read_config(*config);
    if (read) read->arch = each;
    return read;
  }
  return refused("its architecture is " + (type != nullptr ? quoted(*type) : "not named") + "; accepted are " + accepted);
}

}  // namespace prime::trainer
