// Owns the way from token ids to hidden states.
#include "runtime/trainer/inference/decoder.hpp"

#include "runtime/models/rotary.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::trainer {
namespace {

/// x: [rows, heads, width], cosine and sine: [rows, 1, width / 2]; pairs are (i, i + width/2).
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1);
}

at::Tensor swiglu_of(const ModelConfig&, const at::Tensor& gate_up) {
  const auto parts = gate_up.chunk(2, -1);
  return at::silu(parts[0]) * parts[1];
}

at::Tensor gelu_of(const ModelConfig& config, const at::Tensor& x) { return at::gelu(x, config.exact_gelu ? "none" : "tanh"); }

}  // namespace

Decoder::Decoder(const ModelConfig& config, const at::TensorOptions& where)
    : config_(config), where_(where), head_width_(config.dim / config.heads) {}

void Decoder::turn(std::int64_t positions) {
  // As in llama.cpp: angles in f64, tables in f32.
  const at::Tensor frequency = at::tensor(models::rotary_frequencies(config_), at::kDouble);
  const at::Tensor angle = at::outer(at::arange(0, positions, at::kDouble), frequency);
  cosine_ = angle.cos().to(at::kFloat).to(where_);
  sine_ = angle.sin().to(at::kFloat).to(where_);
}

/// read(name, shape) → a tensor of f32.
template <class Read>
Result<void> Decoder::fill_llama(Read read) {
  const std::int64_t dim = config_.dim, kv = config_.kv_heads * head_width_, ffn = config_.ffn, vocab = config_.vocab;
  using Parts = std::initializer_list<std::pair<std::string, std::int64_t>>;
  const auto read_parts = [&](Parts parts, const std::vector<std::int64_t>& of_row) -> Result<at::Tensor> {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, rows] : parts) {
      std::vector<std::int64_t> size{rows};
      size.insert(size.end(), of_row.begin(), of_row.end());
      PRIME_TRY(const at::Tensor part, read(name, size));
      tensors.push_back(part.to(where_));
    }
    return tensors.size() == 1 ? tensors.front() : at::cat(tensors);
  };
  const auto joined = [&](Parts parts, std::int64_t columns) { return read_parts(parts, {columns}); };
  const auto biases = [&](Parts parts) { return read_parts(parts, {}); };
  const auto norm = [&](const std::string& name) -> Result<at::Tensor> {
    PRIME_TRY(const at::Tensor weight, read(name, std::vector<std::int64_t>{dim}));
    return weight.to(where_);
  };
  PRIME_TRY(embedding_, joined({{"model.embed_tokens.weight", vocab}}, dim));
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".", attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    Block block;
    PRIME_TRY(block.qkv.weight,
              joined({{attention + "q_proj.weight", dim}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}}, dim));
    if (config_.attention_bias) {
      PRIME_TRY(block.qkv.bias,
                biases({{attention + "q_proj.bias", dim}, {attention + "k_proj.bias", kv}, {attention + "v_proj.bias", kv}}));
      PRIME_TRY(block.output.bias, biases({{attention + "o_proj.bias", dim}}));
    }
    PRIME_TRY(block.output.weight, joined({{attention + "o_proj.weight", dim}}, dim));
    PRIME_TRY(block.up.weight, joined({{mlp + "gate_proj.weight", ffn}, {mlp + "up_proj.weight", ffn}}, dim));
    PRIME_TRY(block.down.weight, joined({{mlp + "down_proj.weight", dim}}, ffn));
    PRIME_TRY(block.attention_norm.weight, norm(prefix + "input_layernorm.weight"));
    PRIME_TRY(block.mlp_norm.weight, norm(prefix + "post_attention_layernorm.weight"));
    blocks_.push_back(std::move(block));
  }
  PRIME_TRY(norm_.weight, norm("model.norm.weight"));
  head_.weight = embedding_;
  if (config_.tie_embeddings) return {};
  PRIME_TRY(head_.weight, joined({{"lm_head.weight", vocab}}, dim));
  return {};
}

/// A GPT-2's matrices lie as [in, out].
template <class Read>
Result<void> Decoder::fill_gpt2(Read read) {
  const std::int64_t dim = config_.dim, ffn = config_.ffn, vocab = config_.vocab, context = config_.context;
  const auto tensor = [&](const std::string& name, std::vector<std::int64_t> shape) -> Result<at::Tensor> {
    PRIME_TRY(const at::Tensor values, read(name, shape));
    return values.to(where_);
  };
  const auto norm = [&](const std::string& name) -> Result<Norm> {
    PRIME_TRY(at::Tensor weight, tensor(name + ".weight", {dim}));
    PRIME_TRY(at::Tensor bias, tensor(name + ".bias", {dim}));
    return Norm{std::move(weight), std::move(bias)};
  };
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) -> Result<Linear> {
    PRIME_TRY(const at::Tensor weight, tensor(name + ".weight", {in, out}));
    PRIME_TRY(at::Tensor bias, tensor(name + ".bias", {out}));
    return Linear{weight.t().contiguous(), std::move(bias)};
  };
  PRIME_TRY(embedding_, tensor("wte.weight", {vocab, dim}));
  PRIME_TRY(positions_, tensor("wpe.weight", {context, dim}));
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    Block block;
    PRIME_TRY(block.attention_norm, norm(prefix + "ln_1"));
    PRIME_TRY(block.qkv, linear(prefix + "attn.c_attn", dim, 3 * dim));
    PRIME_TRY(block.output, linear(prefix + "attn.c_proj", dim, dim));
    PRIME_TRY(block.mlp_norm, norm(prefix + "ln_2"));
    PRIME_TRY(block.up, linear(prefix + "mlp.c_fc", dim, ffn));
    PRIME_TRY(block.down, linear(prefix + "mlp.c_proj", ffn, dim));
    blocks_.push_back(std::move(block));
  }
  PRIME_TRY(norm_, norm("ln_f"));
  head_.weight = embedding_;
  if (config_.tie_embeddings) return {};
  PRIME_TRY(head_.weight, tensor("lm_head.weight", {vocab, dim}));
  return {};
}

template <class Read>
Result<void> Decoder::fill(std::int64_t positions, Read read) {
  switch (config_.arch) {
    case manifest::Architecture::Llama:
      activate_ = swiglu_of;
      turn(positions);
      return fill_llama(read);
    case manifest::Architecture::Gpt2: break;
  }
  activate_ = gelu_of;
  return fill_gpt2(read);
}

Result<Decoder> Decoder::load(ModelDirectory& directory, const at::TensorOptions& where, std::uint64_t positions) {
  Decoder decoder(directory.config(), where);
  const auto read = [&](const std::string& name, const std::vector<std::int64_t>& shape) -> Result<at::Tensor> {
    const at::Tensor values = at::empty(shape, at::kFloat);
    PRIME_CHECK(directory.read(name, shape, {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())}));
    return values;
  };
  PRIME_CHECK(decoder.fill(static_cast<std::int64_t>(std::min<std::uint64_t>(positions, directory.config().context)), read));
  return decoder;
}

Decoder Decoder::untrained(const ModelConfig& config, const at::TensorOptions& where) {
  Decoder decoder(config, where);
  std::uint64_t counter = 0;
  const auto draw = [&](const std::string&, const std::vector<std::int64_t>& size) -> Result<at::Tensor> {
    if (size.size() == 1) return at::ones(size, at::kFloat);
    const at::Tensor values = at::empty(size, at::kFloat);
    const std::span<float> all{values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())};
    for (float& value : all) value = (static_cast<float>(mix(++counter) >> 40) * 0x1p-24F - 0.5F) * 0.1F;
    return values;
  };
  const auto filled = decoder.fill(config.context, draw);
  static_cast<void>(filled);  // nothing is read, so nothing fails
  return decoder;
}

Cache Decoder::make_cache(std::int64_t batch, std::int64_t length) const {
  Cache cache;
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    cache.keys.push_back(at::zeros({batch, length, config_.kv_heads, head_width_}, where_));
    cache.values.push_back(at::zeros({batch, length, config_.kv_heads, head_width_}, where_));
  }
  return cache;
}

/// As transformers has it: the mean square in f32 at least, the weight in the model's type.
at::Tensor Decoder::normed(const at::Tensor& x, const Norm& norm) const {
  if (norm.bias.defined()) return at::layer_norm(x, {x.size(-1)}, norm.weight, norm.bias, config_.norm_epsilon);
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + config_.norm_epsilon);
  return (wide * scale).to(x.scalar_type()) * norm.weight;
}

template <class Attend>
at::Tensor Decoder::through_blocks(at::Tensor x, const Angles& angles, Attend attend) const {
  const std::int64_t rows = x.size(0), dim = config_.dim, heads = config_.heads, kv = config_.kv_heads;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Block& block = blocks_[layer];
    const at::Tensor qkv = block.qkv(normed(x, block.attention_norm)).view({rows, heads + 2 * kv, head_width_});
    at::Tensor asked = qkv.narrow(1, 0, heads + kv);
    if (rotates()) asked = rotated(asked, angles.cosine, angles.sine);
    const at::Tensor attended = attend(layer, asked.narrow(1, 0, heads), asked.narrow(1, heads, kv), qkv.narrow(1, heads + kv, kv));
    x = block.output(attended.reshape({rows, dim})).add_(x);
    x = block.down(activate_(config_, block.up(normed(x, block.mlp_norm)))).add_(x);
  }
  return normed(x, norm_);
}

at::Tensor Decoder::prefill(const at::Tensor& ids, std::span<const std::int64_t> lengths, Cache* cache) const {
  const std::int64_t batch = ids.size(0), time = ids.size(1), group = config_.heads / config_.kv_heads;
  const auto of_rows = [&](const at::Tensor& table) { return table.narrow(0, 0, time).repeat({batch, 1}); };
  // A weight of zero does not keep a NaN out: keys and values of padding are zeros.
  at::Tensor padding;
  if (std::ranges::any_of(lengths, [&](std::int64_t length) { return length < time; })) {
    const at::Tensor ends = at::tensor(at::ArrayRef<std::int64_t>(lengths.data(), lengths.size()), at::kLong);
    padding = (at::arange(time, at::kLong).unsqueeze(0) >= ends.unsqueeze(1)).view({batch * time, 1, 1}).to(where_.device());
  }
  const auto kept = [&](const at::Tensor& x) { return padding.defined() ? x.masked_fill(padding, 0) : x; };
  const auto attend = [&](std::size_t layer, const at::Tensor& query, const at::Tensor& every_key, const at::Tensor& every_value) {
    const at::Tensor key = kept(every_key), value = kept(every_value);
    const auto by_head = [&](const at::Tensor& x) { return x.reshape({batch, time, -1, head_width_}).transpose(1, 2); };
    if (cache != nullptr) {
      cache->keys[layer].narrow(1, 0, time).copy_(key.reshape({batch, time, -1, head_width_}));
      cache->values[layer].narrow(1, 0, time).copy_(value.reshape({batch, time, -1, head_width_}));
    }
    const auto spread = [&](const at::Tensor& x) { return group == 1 ? by_head(x) : by_head(x).repeat_interleave(group, 1); };
    return at::scaled_dot_product_attention(by_head(query), spread(key), spread(value), {}, 0.0, /*is_causal=*/true).transpose(1, 2);
  };
  at::Tensor x = at::embedding(embedding_, ids.reshape({-1}).to(where_.device()));
  Angles angles;
  if (rotates()) angles = {of_rows(cosine_).unsqueeze(1), of_rows(sine_).unsqueeze(1)};
  else x = x + of_rows(positions_);
  return through_blocks(x, angles, attend).view({batch, time, static_cast<std::int64_t>(config_.dim)});
}

at::Tensor Decoder::step(const at::Tensor& ids, std::span<const std::int64_t> positions, Cache& cache) const {
  const std::int64_t batch = ids.size(0), group = config_.heads / config_.kv_heads;
  const at::Tensor at_positions = at::tensor(at::ArrayRef<std::int64_t>(positions.data(), positions.size()), at::kLong).to(where_.device());
  const std::int64_t seen = *std::ranges::max_element(positions) + 1;
  const bool ragged = std::ranges::any_of(positions, [&](std::int64_t position) { return position + 1 != seen; });
  at::Tensor mask;  // of what a shorter sequence has not seen: left from its padding, or of nothing
  if (ragged) mask = (at::arange(seen, at_positions.options()).unsqueeze(0) <= at_positions.unsqueeze(1)).view({batch, 1, 1, seen});
  const at::Tensor rows = at::arange(batch, at_positions.options());
  const auto attend = [&](std::size_t layer, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
    at::Tensor &keys = cache.keys[layer], &values = cache.values[layer];
    if (ragged) {
      keys.index_put_({rows, at_positions}, key);
      values.index_put_({rows, at_positions}, value);
    } else {
      keys.select(1, seen - 1).copy_(key);
      values.select(1, seen - 1).copy_(value);
    }
    // Query heads that share keys are so many queries of one head.
    const at::Tensor asked = query.reshape({batch, config_.kv_heads, group, head_width_});
    const at::Tensor known = keys.narrow(1, 0, seen).transpose(1, 2), told = values.narrow(1, 0, seen).transpose(1, 2);
    return at::scaled_dot_product_attention(asked, known, told, ragged ? std::optional<at::Tensor>(mask) : std::nullopt, 0.0, false);
  };
  const auto of_rows = [&](const at::Tensor& table) { return table.index_select(0, at_positions); };
  at::Tensor x = at::embedding(embedding_, ids.to(where_.device()));
  Angles angles;
  if (rotates()) angles = {of_rows(cosine_).unsqueeze(1), of_rows(sine_).unsqueeze(1)};
  else x = x + of_rows(positions_);
  return through_blocks(x, angles, attend);
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const { return head_(hidden).to(at::kFloat).cpu().contiguous(); }

void Decoder::multiply_only(std::int64_t rows) const {
  const auto of_nothing = [&](const Linear& linear) { linear(at::zeros({rows, linear.weight.size(1)}, where_)); };
  for (const Block& block : blocks_)
    for (const auto* linear : {&block.qkv, &block.output, &block.up, &block.down}) of_nothing(*linear);
  of_nothing(head_);
}

void Decoder::wait() const {
  if (where_.device().is_cuda()) torch::cuda::synchronize(where_.device().index());
}

}  // namespace prime::trainer
