// Owns what a GPT-2 is made of: LayerNorm, learned positions, GELU, biases everywhere.
#include "runtime/models/config_reader.hpp"

namespace prime::models {
namespace {

using nlohmann::json;
using Start = ModelTensor::Start;

class Gpt2 final : public Architecture {
 public:
  [[nodiscard]] std::string_view type() const override { return "gpt2"; }
  [[nodiscard]] std::string_view class_name() const override { return "GPT2LMHeadModel"; }
  [[nodiscard]] std::string_view optional_prefix() const override { return "transformer."; }
  [[nodiscard]] std::uint32_t usual_ffn(std::uint32_t dim) const override { return 4 * dim; }
  [[nodiscard]] bool usually_tied() const override { return true; }

  void check(const manifest::Model& model, std::vector<manifest::Conflict>& found) const override {
    if (model.kv_heads != model.heads)
      found.push_back({{"model.kv_heads", "model.arch"},
                       "`model.kv_heads` must be `model.heads` with `model.arch: gpt2`, found " + std::to_string(model.kv_heads) + " and " +
                           std::to_string(model.heads),
                       "leave `kv_heads` out, or take `arch: llama`, which groups keys"});
    if (model.rope_theta != manifest::Model{}.rope_theta)
      found.push_back({{"model.rope_theta", "model.arch"},
                       "`model.rope_theta` means nothing with `model.arch: gpt2`, which learns its positions",
                       "leave `rope_theta` out, or take `arch: llama`"});
    if (model.rope_scaling != manifest::RopeScaling{})
      found.push_back({{"model.rope_scaling", "model.arch"},
                       "`model.rope_scaling` means nothing with `model.arch: gpt2`, which learns its positions",
                       "leave `rope_scaling` out, or take `arch: llama`"});
    if (model.attention_bias)
      found.push_back({{"model.attention_bias", "model.arch"},
                       "`model.attention_bias` is for `arch: llama`: a `gpt2` has its biases always",
                       "leave `attention_bias` out"});
  }

  [[nodiscard]] std::vector<ModelTensor> tensors(const manifest::Model& model) const override {
    const std::int64_t dim = model.dim, ffn = model.ffn, vocab = model.vocab, context = model.context;
    const double residual = residual_deviation(model);
    std::vector<ModelTensor> all;
    const auto table = [&](std::string name, std::int64_t rows) {
      all.push_back({{std::move(name), {rows, dim}}, Start::Normal, DEVIATION});
    };
    const auto norm = [&](const std::string& name) {
      all.push_back({{name + ".weight", {dim}}, Start::One});
      all.push_back({{name + ".bias", {dim}}, Start::Zero});
    };
    const auto linear = [&](const std::string& name, std::int64_t in, std::vector<std::int64_t> outputs, double deviation = DEVIATION) {
      std::int64_t out = 0;
      for (const auto each : outputs) out += each;
      all.push_back({{name + ".weight", {in, out}}, Start::Normal, deviation, std::move(outputs), /*transposed=*/true});
      all.push_back({{name + ".bias", {out}}, Start::Zero});
    };
    table("transformer.wte.weight", vocab);
    table("transformer.wpe.weight", context);
    for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
      const std::string prefix = "transformer.h." + std::to_string(layer) + ".";
      norm(prefix + "ln_1");
      linear(prefix + "attn.c_attn", dim, {dim, dim, dim});
      linear(prefix + "attn.c_proj", dim, {dim}, residual);
      norm(prefix + "ln_2");
      linear(prefix + "mlp.c_fc", dim, {ffn});
      linear(prefix + "mlp.c_proj", ffn, {dim}, residual);
    }
    norm("transformer.ln_f");
    if (!model.tie_embeddings) table("lm_head.weight", vocab);
    return all;
  }

  /// Its input, both normed inputs, queries, keys and values, what was attended to by head and by token, and the sum after it; what GELU
  /// takes and gives.
  [[nodiscard]] std::uint64_t values_of_block(const manifest::Model& model) const override { return 9ULL * model.dim + 2ULL * model.ffn; }

  [[nodiscard]] nlohmann::ordered_json write_config(const manifest::Model& model) const override {
    return {{"vocab_size", model.vocab},
            {"n_embd", model.dim},
            {"n_inner", model.ffn},
            {"n_layer", model.layers},
            {"n_head", model.heads},
            {"n_positions", model.context},
            {"layer_norm_epsilon", model.norm_epsilon},
            {"activation_function", "gelu_new"},
            {"scale_attn_weights", true},
            {"scale_attn_by_inverse_layer_idx", false},
            {"reorder_and_upcast_attn", false},
            {"add_cross_attention", false},
            {"attn_pdrop", 0.0},
            {"embd_pdrop", 0.0},
            {"resid_pdrop", 0.0},
            {"tie_word_embeddings", model.tie_embeddings}};
  }

  [[nodiscard]] Result<ModelConfig> read_config(const json& config) const override {
    if (const auto problem = other_than(config, {{"scale_attn_weights", true},
                                                 {"scale_attn_by_inverse_layer_idx", false},
                                                 {"reorder_and_upcast_attn", false},
                                                 {"add_cross_attention", false}}))
      return refused(*problem);
    ModelConfig model;
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

  [[nodiscard]] json identity(const ModelConfig& config) const override { return {{"exact_gelu", config.exact_gelu}}; }
};

}  // namespace

const Architecture& gpt2() {
  static const Gpt2 instance;
  return instance;
}

}  // namespace prime::models
