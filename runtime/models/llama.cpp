// Owns what a Llama is made of: RMSNorm, rotary positions, SwiGLU, grouped keys.
#include "runtime/models/config_reader.hpp"
#include "runtime/models/rotary.hpp"

namespace prime::models {
namespace {

using nlohmann::json;
using Start = ModelTensor::Start;

class Llama final : public Architecture {
 public:
  [[nodiscard]] std::string_view type() const override { return "llama"; }
  [[nodiscard]] std::string_view class_name() const override { return "LlamaForCausalLM"; }
  [[nodiscard]] std::uint32_t usual_ffn(std::uint32_t dim) const override { return (dim * 8 + 95) / 96 * 32; }
  [[nodiscard]] bool usually_tied() const override { return false; }

  void check(const manifest::Model& model, std::vector<manifest::Conflict>& found) const override {
    const auto heads = std::to_string(model.heads);
    if (model.dim % model.heads == 0 && model.dim / model.heads % 2 != 0)
      found.push_back({{"model.dim", "model.heads"},
                       "`model.dim` / `model.heads` must be even, found " + std::to_string(model.dim) + " / " + heads + " = " +
                           std::to_string(model.dim / model.heads),
                       "for example `dim: " + std::to_string((model.dim / model.heads + 1) * model.heads) + "`"});
    if (model.heads % model.kv_heads != 0)
      found.push_back({{"model.kv_heads", "model.heads"},
                       "`model.kv_heads` must divide `model.heads`, found " + std::to_string(model.kv_heads) + " and " + heads,
                       "leave `kv_heads` out to have as many as `heads`"});
    check_rope(model.rope_scaling, found);
  }

  [[nodiscard]] std::vector<ModelTensor> tensors(const manifest::Model& model) const override {
    const std::int64_t dim = model.dim, ffn = model.ffn, vocab = model.vocab, kv_rows = model.kv_heads * (dim / model.heads);
    const double residual = residual_deviation(model);
    std::vector<ModelTensor> all;
    const auto matrix = [&](std::string name, std::int64_t rows, std::int64_t columns, double deviation = DEVIATION) {
      all.push_back({{std::move(name), {rows, columns}}, Start::Normal, deviation, {rows}});
    };
    const auto norm = [&](std::string name) { all.push_back({{std::move(name), {dim}}, Start::One}); };
    const auto bias = [&](const std::string& name, std::int64_t size) {
      if (model.attention_bias) all.push_back({{name + ".bias", {size}}, Start::Zero});
    };
    all.push_back({{"model.embed_tokens.weight", {vocab, dim}}, Start::Normal, DEVIATION});
    for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
      matrix(attention + "q_proj.weight", dim, dim);
      matrix(attention + "k_proj.weight", kv_rows, dim);
      matrix(attention + "v_proj.weight", kv_rows, dim);
      bias(attention + "q_proj", dim);
      bias(attention + "k_proj", kv_rows);
      bias(attention + "v_proj", kv_rows);
      matrix(attention + "o_proj.weight", dim, dim, residual);
      bias(attention + "o_proj", dim);
      matrix(mlp + "gate_proj.weight", ffn, dim);
      matrix(mlp + "up_proj.weight", ffn, dim);
      matrix(mlp + "down_proj.weight", dim, ffn, residual);
      norm(prefix + "input_layernorm.weight");
      norm(prefix + "post_attention_layernorm.weight");
    }
    norm("model.norm.weight");
    if (!model.tie_embeddings) all.push_back({{"lm_head.weight", {vocab, dim}}, Start::Normal, DEVIATION});
    return all;
  }

  /// Its input, both normed inputs, queries, keys and values by head, what was attended to, and the sum after it; gate and up, the gate's
  /// sigmoid, and their product.
  [[nodiscard]] std::uint64_t values_of_block(const manifest::Model& model) const override { return 8ULL * model.dim + 4ULL * model.ffn; }

  /// `rope_parameters` is the name from transformers 5 on, the older ones stand beside it.
  [[nodiscard]] nlohmann::ordered_json write_config(const manifest::Model& model) const override {
    const bool scaled = model.rope_scaling.kind != manifest::RopeKind::None;
    auto rope = write_rope(model.rope_scaling);
    const nlohmann::ordered_json older = scaled ? rope : nlohmann::ordered_json{};
    rope["rope_theta"] = model.rope_theta;
    return {{"vocab_size", model.vocab},
            {"hidden_size", model.dim},
            {"intermediate_size", model.ffn},
            {"num_hidden_layers", model.layers},
            {"num_attention_heads", model.heads},
            {"num_key_value_heads", model.kv_heads},
            {"head_dim", model.dim / model.heads},
            {"max_position_embeddings", model.context},
            {"rope_theta", model.rope_theta},
            {"rope_scaling", older},
            {"rope_parameters", rope},
            {"rms_norm_eps", model.norm_epsilon},
            {"hidden_act", "silu"},
            {"attention_bias", model.attention_bias},
            {"mlp_bias", false},
            {"attention_dropout", 0.0},
            {"tie_word_embeddings", model.tie_embeddings}};
  }

  [[nodiscard]] Result<ModelConfig> read_config(const json& config) const override {
    if (const auto problem = other_than(config, {{"mlp_bias", false}, {"hidden_act", "silu"}})) return refused(*problem);
    Numbers numbers(config);
    ModelConfig model;
    PRIME_TRY(model.rope_scaling, read_rope(config));
    model.layers = numbers.count("num_hidden_layers", DEEPEST);
    model.dim = numbers.count("hidden_size", WIDEST);
    model.heads = numbers.count("num_attention_heads", WIDEST);
    model.kv_heads = numbers.count("num_key_value_heads", WIDEST, model.heads);
    model.ffn = numbers.count("intermediate_size", WIDEST);
    model.vocab = numbers.count("vocab_size", LONGEST);
    model.context = numbers.count("max_position_embeddings", LONGEST, 2048);
    model.norm_epsilon = numbers.real(config, "rms_norm_eps", 1e-6);
    model.tie_embeddings = numbers.flag("tie_word_embeddings", false);
    model.attention_bias = numbers.flag("attention_bias", false);
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
    if (head_width % 2 != 0) return malformed("a head of " + std::to_string(head_width) + " values has no pairs that positions turn");
    return model;
  }

  [[nodiscard]] json identity(const ModelConfig& config) const override {
    json told{{"rope_theta", config.rope_theta}};
    // Where there is none, a model keeps the name that it had before there were any.
    if (config.rope_scaling.kind != manifest::RopeKind::None) told["rope_scaling"] = write_rope(config.rope_scaling);
    return told;
  }
};

}  // namespace

const Architecture& llama() {
  static const Llama instance;
  return instance;
}

}  // namespace prime::models
