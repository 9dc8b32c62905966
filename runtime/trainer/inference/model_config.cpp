// Owns reading of config.json. Absent and null are the same to Hugging Face.
#include "runtime/trainer/inference/model_config.hpp"

#include <cmath>
#include <optional>
#include <string>

#include "runtime/store/strict_json.hpp"

namespace prime::trainer {
namespace {

using nlohmann::json;

constexpr std::uint64_t DEEPEST = 4096, WIDEST = 1 << 20, LONGEST = 1 << 24;

tl::unexpected<Error> refused(const std::string& what) { return fail(ErrorName::ModelUnsupported, what); }
tl::unexpected<Error> malformed(const std::string& what) { return fail(ErrorName::CheckpointCorrupt, "config.json: " + what); }

std::string quoted(const json& value) { return "`" + value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80) + "`"; }

const json* value_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null() ? &*found : nullptr;
}

/// Reads the numbers of a configuration; the first that is not usable is named.
class Numbers {
 public:
  explicit Numbers(const json& config) : config_(config) {}
  std::uint32_t count(const char* key, std::uint64_t most, std::optional<std::uint32_t> absent = {}) {
    const auto* value = value_at(config_, key);
    if (value == nullptr && absent) return *absent;
    if (value == nullptr) return note(std::string{"`"} + key + "` is missing");
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 || value->get<std::uint64_t>() > most)
      return note(std::string{"`"} + key + "` is " + quoted(*value) + ", no number from 1 to " + std::to_string(most));
    return static_cast<std::uint32_t>(value->get<std::uint64_t>());
  }
  double real(const json& object, const char* key, double absent) {
    const auto* value = value_at(object, key);
    if (value == nullptr) return absent;
    if (value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > 0) return value->get<double>();
    note(std::string{"`"} + key + "` is " + quoted(*value) + ", no number above 0");
    return absent;
  }
  bool flag(const char* key, bool absent) {
    const auto* value = value_at(config_, key);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) note(std::string{"`"} + key + "` is " + quoted(*value) + ", neither true nor false");
    return value->is_boolean() && value->get<bool>();
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::uint32_t note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    return 1;
  }
  const json& config_;
  std::string problem_;
};

/// Why heads do not divide the width, if so.
std::optional<std::string> misfit(const ModelConfig& model) {
  const bool divides = model.dim % model.heads == 0 && model.heads % model.kv_heads == 0;
  if (divides && (model.family != Family::Llama || (model.dim / model.heads) % 2 == 0)) return std::nullopt;
  return std::to_string(model.heads) + " heads with " + std::to_string(model.kv_heads) + " for keys do not divide a width of " +
         std::to_string(model.dim);
}

/// The first key that is there with another value than the one that is computed.
std::optional<std::string> other_than(const json& config, std::initializer_list<std::pair<const char*, json>> accepted) {
  for (const auto& [key, wanted] : accepted)
    if (const auto* value = value_at(config, key); value != nullptr && *value != wanted)
      return std::string{"`"} + key + "` is " + quoted(*value) + "; accepted is " + quoted(wanted);
  return std::nullopt;
}

Result<ModelConfig> parse_llama(const json& config) {
  if (const auto problem = other_than(config, {{"attention_bias", false}, {"mlp_bias", false}, {"hidden_act", "silu"}}))
    return refused(*problem);
  for (const auto* key : {"rope_scaling", "rope_parameters"}) {
    const auto* value = value_at(config, key);
    if (value == nullptr) continue;
    if (!value->is_object()) return refused(std::string{"`"} + key + "` is " + quoted(*value) + ", no object");
    for (const auto* kind : {"rope_type", "type"})
      if (const auto* name = value_at(*value, kind); name != nullptr && *name != "default")
        return refused("its rotations are scaled (" + quoted(*name) + "); accepted are plain ones");
  }
  Numbers numbers(config);
  ModelConfig model;
  model.layers = numbers.count("num_hidden_layers", DEEPEST);
  model.dim = numbers.count("hidden_size", WIDEST);
  model.heads = numbers.count("num_attention_heads", WIDEST);
  model.kv_heads = numbers.count("num_key_value_heads", WIDEST, model.heads);
  model.ffn = numbers.count("intermediate_size", WIDEST);
  model.vocab = numbers.count("vocab_size", LONGEST);
  model.context = numbers.count("max_position_embeddings", LONGEST, 2048);
  model.norm_epsilon = numbers.real(config, "rms_norm_eps", 1e-6);
  model.tie_embeddings = numbers.flag("tie_word_embeddings", false);
  // The older place of the base first; the newer one counts where there are both.
  model.rope_theta = numbers.real(config, "rope_theta", 10000);
  if (const auto* rope = value_at(config, "rope_parameters")) model.rope_theta = numbers.real(*rope, "rope_theta", model.rope_theta);
  if (!numbers.problem().empty()) return malformed(numbers.problem());
  if (const auto problem = misfit(model)) return malformed(*problem);
  const auto head_width = numbers.count("head_dim", WIDEST, model.dim / model.heads);
  if (!numbers.problem().empty()) return malformed(numbers.problem());
  if (head_width != model.dim / model.heads)
    return refused("`head_dim` is " + std::to_string(head_width) + "; accepted is hidden_size / num_attention_heads, " +
                   std::to_string(model.dim / model.heads));
  return model;
}

Result<ModelConfig> parse_gpt2(const json& config) {
  if (const auto problem = other_than(config, {{"scale_attn_weights", true},
                                               {"scale_attn_by_inverse_layer_idx", false},
                                               {"reorder_and_upcast_attn", false},
                                               {"add_cross_attention", false}}))
    return refused(*problem);
  ModelConfig model;
  model.family = Family::Gpt2;
  if (const auto* value = value_at(config, "activation_function");
      value != nullptr && *value != "gelu_new" && *value != "gelu_pytorch_tanh") {
    if (*value != "gelu") return refused("`activation_function` is " + quoted(*value) + "; accepted are `gelu_new` and `gelu`");
    model.exact_gelu = true;
  }
  Numbers numbers(config);
  model.layers = numbers.count("n_layer", DEEPEST);
  model.dim = numbers.count("n_embd", WIDEST);
  model.heads = model.kv_heads = numbers.count("n_head", WIDEST);
  model.ffn = numbers.count("n_inner", WIDEST, 4 * model.dim);
  model.vocab = numbers.count("vocab_size", LONGEST);
  model.context = numbers.count("n_positions", LONGEST, 1024);
  model.norm_epsilon = numbers.real(config, "layer_norm_epsilon", 1e-5);
  model.tie_embeddings = numbers.flag("tie_word_embeddings", true);
  if (!numbers.problem().empty()) return malformed(numbers.problem());
  if (const auto problem = misfit(model)) return malformed(*problem);
  return model;
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view text) {
  struct Known {
    const char *type, *architecture;
    Result<ModelConfig> (*parse)(const json&);
  };
  static constexpr Known KNOWN[]{{"llama", "LlamaForCausalLM", &parse_llama}, {"gpt2", "GPT2LMHeadModel", &parse_gpt2}};
  const auto config = store::parse_strictly(text);
  if (!config || !config->is_object()) return fail(ErrorName::CheckpointCorrupt, "config.json is no JSON object");
  const auto* type = value_at(*config, "model_type");
  for (const auto& known : KNOWN) {
    if (type == nullptr || *type != known.type) continue;
    if (const auto* names = value_at(*config, "architectures"); names != nullptr && *names != json{known.architecture})
      return refused("its architecture is " + quoted(*names) + "; accepted is " + known.architecture);
    if (const auto* value = value_at(*config, "quantization_config"))
      return refused("it is quantized (" + quoted(*value) + "); accepted are weights of f32, bf16 and f16");
    return known.parse(*config);
  }
  return refused("its architecture is " + (type != nullptr ? quoted(*type) : "not named") +
                 "; accepted are `llama` (LlamaForCausalLM) and `gpt2` (GPT2LMHeadModel)");
}

}  // namespace prime::trainer
