// Owns the keys of those files. `rope_parameters` and `dtype` are their names from version 5 on, the older ones stand beside them.
#include "runtime/trainer/hugging_face.hpp"

#include <nlohmann/json.hpp>

namespace prime::trainer {

std::string config_json(const manifest::Model& model) {
  const nlohmann::ordered_json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", model.vocab},
      {"hidden_size", model.dim},
      {"intermediate_size", model.ffn},
      {"num_hidden_layers", model.layers},
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", model.kv_heads},
      {"head_dim", model.dim / model.heads},
      {"max_position_embeddings", model.context},
      {"rope_theta", model.rope_theta},
      {"rope_scaling", nullptr},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", model.rope_theta}}},
      {"rms_norm_eps", model.norm_epsilon},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"attention_dropout", 0.0},
      {"tie_word_embeddings", model.tie_embeddings},
      {"torch_dtype", "float32"},
      {"dtype", "float32"},
      {"use_cache", true},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"pad_token_id", nullptr},
  };
  return config.dump(2) + "\n";
}

std::string generation_config_json() {
  const nlohmann::ordered_json config = {
      {"do_sample", true}, {"temperature", 0.8}, {"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
  return config.dump(2) + "\n";
}

}  // namespace prime::trainer
