// Owns the way from token ids to hidden states.
#include "runtime/trainer/inference/decoder.hpp"

#include "runtime/trainer/permutation.hpp"

namespace prime::trainer {

Decoder::Decoder(const manifest::Model& shape, at::ScalarType type) : shape_(shape), type_(type), head_width_(shape.dim / shape.heads) {
  // As in llama.cpp: angles in f64, tables in f32.
  const std::int64_t half = head_width_ / 2;
  const at::Tensor exponent = at::arange(0, half, at::kDouble) / static_cast<double>(half);
  const at::Tensor frequency = at::pow(at::scalar_tensor(shape_.rope_theta, at::kDouble), -exponent);
  const at::Tensor angle = at::outer(at::arange(0, static_cast<std::int64_t>(shape_.context), at::kDouble), frequency);
  cosine_ = angle.cos().to(at::kFloat).to(type_);
  sine_ = angle.sin().to(at::kFloat).to(type_);
}

/// read(name, shape) → a tensor of f32. Parts that are multiplied by the same rows become one matrix.
template <class Read>
Result<void> Decoder::fill(Read read) {
  const std::int64_t dim = shape_.dim, kv = shape_.kv_heads * head_width_, ffn = shape_.ffn, vocab = shape_.vocab;
  const auto joined = [&](std::initializer_list<std::pair<std::string, std::int64_t>> parts, std::int64_t columns) -> Result<at::Tensor> {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, rows] : parts) {
      PRIME_TRY(const at::Tensor part, read(name, std::vector<std::int64_t>{rows, columns}));
      tensors.push_back(part.to(type_));
    }
    return tensors.size() == 1 ? tensors.front() : at::cat(tensors);
  };
  const auto norm = [&](const std::string& name) -> Result<at::Tensor> {
    PRIME_TRY(const at::Tensor weight, read(name, std::vector<std::int64_t>{dim}));
    return weight.to(type_);
  };
  PRIME_TRY(embedding_, joined({{"model.embed_tokens.weight", vocab}}, dim));
  for (std::uint32_t layer = 0; layer < shape_.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".", attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    Block block;
    PRIME_TRY(block.qkv,
              joined({{attention + "q_proj.weight", dim}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}}, dim));
    PRIME_TRY(block.output, joined({{attention + "o_proj.weight", dim}}, dim));
    PRIME_TRY(block.gate_up, joined({{mlp + "gate_proj.weight", ffn}, {mlp + "up_proj.weight", ffn}}, dim));
    PRIME_TRY(block.down, joined({{mlp + "down_proj.weight", dim}}, ffn));
    PRIME_TRY(block.input_norm, norm(prefix + "input_layernorm.weight"));
    PRIME_TRY(block.post_norm, norm(prefix + "post_attention_layernorm.weight"));
    blocks_.push_back(std::move(block));
  }
  PRIME_TRY(norm_, norm("model.norm.weight"));
  head_ = embedding_;
  if (shape_.tie_embeddings) return {};
  PRIME_TRY(head_, joined({{"lm_head.weight", vocab}}, dim));
  return {};
}

Result<Decoder> Decoder::load(ModelDirectory& directory, at::ScalarType type) {
  Decoder decoder(directory.shape(), type);
  PRIME_CHECK(decoder.fill([&](const std::string& name, const std::vector<std::int64_t>& shape) -> Result<at::Tensor> {
    const at::Tensor values = at::empty(shape, at::kFloat);
    PRIME_CHECK(directory.read(name, shape, {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())}));
    return values;
  }));
  return decoder;
}

Decoder Decoder::untrained(const manifest::Model& shape, at::ScalarType type) {
  Decoder decoder(shape, type);
  std::uint64_t counter = 0;
  const auto filled = decoder.fill([&](const std::string&, const std::vector<std::int64_t>& size) -> Result<at::Tensor> {
    if (size.size() == 1) return at::ones(size, at::kFloat);
    const at::Tensor values = at::empty(size, at::kFloat);
    const std::span<float> all{values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())};
    for (float& value : all) value = (static_cast<float>(mix(++counter) >> 40) * 0x1p-24F - 0.5F) * 0.1F;
    return values;
  });
  static_cast<void>(filled);  // nothing is read, so nothing fails
  return decoder;
}

Cache Decoder::make_cache(std::int64_t batch, std::int64_t length) const {
  Cache cache;
  for (std::uint32_t layer = 0; layer < shape_.layers; ++layer) {
    cache.keys.push_back(at::zeros({batch, length, shape_.kv_heads, head_width_}, type_));
    cache.values.push_back(at::zeros({batch, length, shape_.kv_heads, head_width_}, type_));
  }
  return cache;
}

/// As transformers has it: the mean square in f32 at least, the weight in the model's type.
at::Tensor Decoder::normed(const at::Tensor& x, const at::Tensor& weight) const {
  const at::Tensor wide = type_ == at::kDouble ? x : x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + shape_.norm_epsilon);
  return (wide * scale).to(type_) * weight;
}

/// x: [rows, heads, width], cosine and sine: [rows, 1, width / 2]; pairs are (i, i + width/2).
at::Tensor Decoder::rotated(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) const {
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1);
}

template <class Attend>
at::Tensor Decoder::through_blocks(at::Tensor x, const at::Tensor& cosine, const at::Tensor& sine, Attend attend) const {
  const std::int64_t rows = x.size(0), dim = shape_.dim, heads = shape_.heads, kv = shape_.kv_heads;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Block& block = blocks_[layer];
    const at::Tensor qkv = at::linear(normed(x, block.input_norm), block.qkv).view({rows, heads + 2 * kv, head_width_});
    const at::Tensor turned = rotated(qkv.narrow(1, 0, heads + kv), cosine, sine);
    const at::Tensor attended = attend(layer, turned.narrow(1, 0, heads), turned.narrow(1, heads, kv), qkv.narrow(1, heads + kv, kv));
    x = at::addmm(x, attended.reshape({rows, dim}), block.output.t());
    const auto parts = at::linear(normed(x, block.post_norm), block.gate_up).chunk(2, -1);
    x = at::addmm(x, at::silu(parts[0]) * parts[1], block.down.t());
  }
  return normed(x, norm_);
}

at::Tensor Decoder::prefill(const at::Tensor& ids, Cache* cache) const {
  const std::int64_t batch = ids.size(0), time = ids.size(1), group = shape_.heads / shape_.kv_heads;
  const auto table = [&](const at::Tensor& angles) { return angles.narrow(0, 0, time).repeat({batch, 1}).unsqueeze(1); };
  const auto attend = [&](std::size_t layer, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
    const auto by_head = [&](const at::Tensor& x) { return x.reshape({batch, time, -1, head_width_}).transpose(1, 2); };
    if (cache != nullptr) {
      cache->keys[layer].narrow(1, 0, time).copy_(key.reshape({batch, time, -1, head_width_}));
      cache->values[layer].narrow(1, 0, time).copy_(value.reshape({batch, time, -1, head_width_}));
    }
    const auto spread = [&](const at::Tensor& x) { return group == 1 ? by_head(x) : by_head(x).repeat_interleave(group, 1); };
    return at::scaled_dot_product_attention(by_head(query), spread(key), spread(value), {}, 0.0, /*is_causal=*/true).transpose(1, 2);
  };
  const at::Tensor x = at::embedding(embedding_, ids.reshape({-1}));
  return through_blocks(x, table(cosine_), table(sine_), attend).view({batch, time, static_cast<std::int64_t>(shape_.dim)});
}

at::Tensor Decoder::step(const at::Tensor& ids, std::span<const std::int64_t> positions, Cache& cache) const {
  const std::int64_t batch = ids.size(0), group = shape_.heads / shape_.kv_heads;
  const at::Tensor at_positions = at::tensor(at::ArrayRef<std::int64_t>(positions.data(), positions.size()), at::kLong);
  const std::int64_t seen = *std::ranges::max_element(positions) + 1;
  const bool ragged = std::ranges::any_of(positions, [&](std::int64_t position) { return position + 1 != seen; });
  at::Tensor mask;  // of what a shorter sequence has not seen: left from its padding, or of nothing
  if (ragged) mask = (at::arange(seen, at::kLong).unsqueeze(0) <= at_positions.unsqueeze(1)).view({batch, 1, 1, seen});
  const at::Tensor rows = at::arange(batch, at::kLong);
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
    const at::Tensor asked = query.reshape({batch, shape_.kv_heads, group, head_width_});
    const at::Tensor known = keys.narrow(1, 0, seen).transpose(1, 2), told = values.narrow(1, 0, seen).transpose(1, 2);
    return at::scaled_dot_product_attention(asked, known, told, ragged ? std::optional<at::Tensor>(mask) : std::nullopt, 0.0, false);
  };
  const auto table = [&](const at::Tensor& angles) { return angles.index_select(0, at_positions).unsqueeze(1); };
  return through_blocks(at::embedding(embedding_, ids), table(cosine_), table(sine_), attend);
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const { return at::linear(hidden, head_).to(at::kFloat).contiguous(); }

}  // namespace prime::trainer
