// Owns building and running the decoder.
#include "runtime/trainer/llama.hpp"

#include <cmath>

#include "runtime/trainer/permutation.hpp"

namespace prime::trainer {
namespace {

/// Of the initial weights; those that write into the residual stream get less, so that its size does not grow with the depth.
constexpr double DEVIATION = 0.02;

/// Nearly normal: twelve uniform numbers of 16 bits, summed. Exact sums only, so that the value has the same bits on every machine,
/// which logarithms and cosines do not promise.
float draw_normal(std::uint64_t& counter, double deviation) {
  std::int64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t bits = mix(counter += 0x9e3779b97f4a7c15ULL);
    for (int part = 0; part < 4; ++part) sum += static_cast<std::int64_t>((bits >> (16 * part)) & 0xffff);
  }
  const double normal = static_cast<double>(2 * sum - 12 * 0xffff) / 0x1p17;
  return static_cast<float>(normal * deviation);
}

}  // namespace

Llama::Llama(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where)
    : shape_(shape), device_(where.device()), type_(where.dtype().toScalarType()), draws_(mix(seed + 1)) {
  const std::int64_t dim = shape.dim, head_width = dim / shape.heads, kv_rows = shape.kv_heads * head_width, ffn = shape.ffn;
  const double residual = DEVIATION / std::sqrt(2.0 * shape.layers);
  embedding_ = add_matrix(Kind::Table, {{"model.embed_tokens.weight", shape.vocab}}, dim, DEVIATION);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    Block block;
    const Part query{attention + "q_proj.weight", dim};
    const Part key{attention + "k_proj.weight", kv_rows}, value{attention + "v_proj.weight", kv_rows};
    block.qkv = add_matrix(Kind::Matrix, {query, key, value}, dim, DEVIATION);
    block.output = add_matrix(Kind::Matrix, {{attention + "o_proj.weight", dim}}, dim, residual);
    block.gate_up = add_matrix(Kind::Matrix, {{mlp + "gate_proj.weight", ffn}, {mlp + "up_proj.weight", ffn}}, dim, DEVIATION);
    block.down = add_matrix(Kind::Matrix, {{mlp + "down_proj.weight", dim}}, ffn, residual);
    block.input_norm = add_norm(prefix + "input_layernorm.weight");
    block.post_norm = add_norm(prefix + "post_attention_layernorm.weight");
    blocks_.push_back(std::move(block));
  }
  norm_ = add_norm("model.norm.weight");
  head_ = shape.tie_embeddings ? embedding_ : add_matrix(Kind::Table, {{"lm_head.weight", shape.vocab}}, dim, DEVIATION);
  build_tables();
}

/// Pinned where a device copies from and to it.
at::Tensor Llama::host_tensor(at::IntArrayRef shape) const {
  return at::empty(shape, at::dtype(at::kFloat).pinned_memory(!device_.is_cpu()));
}

at::Tensor Llama::adopt(const at::Tensor& on_host, std::vector<std::int64_t> matrices) {
  on_host_.push_back(on_host);
  leaves_.push_back({(device_.is_cpu() ? on_host : on_host.to(device_)).requires_grad_(), std::move(matrices)});
  return leaves_.back().tensor;
}

at::Tensor Llama::add_norm(const std::string& name) {
  at::Tensor weight = host_tensor({shape_.dim}).fill_(1);
  views_.push_back({name, {shape_.dim}, std::span(weight.mutable_data_ptr<float>(), static_cast<std::size_t>(weight.numel()))});
  return adopt(weight);
}

at::Tensor Llama::add_matrix(Kind kind, const std::vector<Part>& parts, std::int64_t columns, double deviation) {
  std::int64_t rows = 0;
  std::vector<std::int64_t> matrices;
  for (const Part& part : parts) {
    rows += part.rows;
    if (kind == Kind::Matrix) matrices.push_back(part.rows);
  }
  at::Tensor matrix = host_tensor({rows, columns});
  float* at = matrix.mutable_data_ptr<float>();
  for (const Part& part : parts) {
    const std::span<float> values(at, static_cast<std::size_t>(part.rows * columns));
    for (float& value : values) value = draw_normal(draws_, deviation);
    views_.push_back({part.name, {part.rows, columns}, values});
    at += values.size();
  }
  return adopt(matrix, std::move(matrices));
}

void Llama::build_tables() {
  const std::int64_t half = shape_.dim / shape_.heads / 2;
  const at::Tensor exponent = at::arange(0, half, at::kDouble) / static_cast<double>(half);
  const at::Tensor frequency = at::pow(at::scalar_tensor(shape_.rope_theta, at::kDouble), -exponent);
  const at::Tensor angle = at::outer(at::arange(0, static_cast<std::int64_t>(shape_.context), at::kDouble), frequency);
  cosine_ = angle.cos().to(at::kFloat).to(device_, type_);
  sine_ = angle.sin().to(at::kFloat).to(device_, type_);
}

void Llama::load() {
  if (device_.is_cpu()) return;
  const at::NoGradGuard no_graph;
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].tensor.copy_(on_host_[i], /*non_blocking=*/true);
}

void Llama::store() {
  if (device_.is_cpu()) return;
  const at::NoGradGuard no_graph;
  for (std::size_t i = 0; i < leaves_.size(); ++i) on_host_[i].copy_(leaves_[i].tensor, /*non_blocking=*/true);
  torch::cuda::synchronize(device_.index());
}

// Of f32 `to` gives the tensor itself.
at::Tensor Llama::product(const at::Tensor& x, const at::Tensor& matrix) const { return at::linear(x, matrix.to(type_)); }

at::Tensor Llama::normed(const at::Tensor& x, const at::Tensor& weight) const { return rms_norm(x, weight.to(type_), shape_.norm_epsilon); }

HeadLayout Llama::layout_of(const at::Tensor& ids) const {
  return {ids.size(1), shape_.heads, shape_.kv_heads, static_cast<std::int64_t>(shape_.dim) / shape_.heads, cosine_, sine_, seen_in(ids)};
}

/// Nothing where each window is of one document: the kernel that knows no mask is the faster one.
at::Tensor Llama::seen_in(const at::Tensor& ids) const {
  if (!document_end_) return {};
  const at::Tensor ends = ids.narrow(1, 0, ids.size(1) - 1).eq(*document_end_);
  if (!ends.any().item<bool>()) return {};
  // The number of a token's document in its window; a document's end is its own.
  const at::Tensor document = at::constant_pad_nd(ends.to(at::kInt).cumsum(1), {1, 0});
  return document.unsqueeze(2).eq(document.unsqueeze(1)).tril().unsqueeze(1).to(device_);
}

// Gradients of a token's many places are summed in f32, whatever the type of what follows.
at::Tensor Llama::embed(const at::Tensor& ids) const { return at::embedding(embedding_, ids.reshape({-1}).to(device_)).to(type_); }

at::Tensor Llama::through(const Block& block, const at::Tensor& x, const HeadLayout& layout) const {
  const Heads heads = split_heads(product(normed(x, block.input_norm), block.qkv), layout);
  const at::Tensor attended = layout.seen.defined()
                                  ? at::scaled_dot_product_attention(heads.query, heads.key, heads.value, layout.seen)
                                  : at::scaled_dot_product_attention(heads.query, heads.key, heads.value, {}, 0.0, /*is_causal=*/true);
  const at::Tensor beside = at::addmm(x, attended.transpose(1, 2).reshape({x.size(0), shape_.dim}), block.output.to(type_).t());
  const at::Tensor inner = swiglu(product(normed(beside, block.post_norm), block.gate_up));
  return at::addmm(beside, inner, block.down.to(type_).t());
}

at::Tensor Llama::logits_of(const at::Tensor& x) const { return product(normed(x, norm_), head_).to(at::kFloat); }

at::Tensor Llama::logits(const at::Tensor& ids) const {
  const HeadLayout layout = layout_of(ids);
  at::Tensor x = embed(ids);
  for (const Block& block : blocks_) x = through(block, x, layout);
  return logits_of(x);
}

void Llama::backward_recomputing(const at::Tensor& ids, const std::function<at::Tensor(const at::Tensor& logits)>& objective) const {
  const HeadLayout layout = layout_of(ids);
  std::vector<at::Tensor> inputs;  // of each block, and last that of the head
  {
    const at::NoGradGuard no_graph;
    inputs.push_back(embed(ids));
    for (const Block& block : blocks_) inputs.push_back(through(block, inputs.back(), layout));
  }
  const at::Tensor last = inputs.back().requires_grad_();
  objective(logits_of(last)).backward();
  at::Tensor slope = last.grad();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    inputs.pop_back();
    const at::Tensor x = inputs.back().requires_grad_();
    through(blocks_[i], x, layout).backward(slope);
    slope = x.grad();
  }
  embed(ids).backward(slope);
}

}  // namespace prime::trainer
