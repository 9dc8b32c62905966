// Owns the loop over blocks, forward and backward, the mask of documents, and the choice of the model.
#include "runtime/trainer/model/model.hpp"

#include "messages/assert.hpp"

namespace prime::trainer {

Model::Model(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where)
    : shape_(shape),
      parameters_(models::architecture_of(shape.arch).tensors(shape), seed, where.device()),
      device_(where.device()),
      type_(where.dtype().toScalarType()) {}

Model::Batch Model::batch_of(const at::Tensor& ids) const {
  // Nothing where each window is of one document: the kernel that knows no mask is the faster one.
  if (!document_end_) return {ids.size(1), {}};
  const at::Tensor ends = ids.narrow(1, 0, ids.size(1) - 1).eq(*document_end_);
  if (!ends.any().item<bool>()) return {ids.size(1), {}};
  // The number of a token's document in its window; a document's end is its own.
  const at::Tensor document = at::constant_pad_nd(ends.to(at::kInt).cumsum(1), {1, 0});
  return {ids.size(1), document.unsqueeze(2).eq(document.unsqueeze(1)).tril().unsqueeze(1).to(device_)};
}

at::Tensor Model::rows_of(const at::Tensor& table, const at::Tensor& ids) const {
  return at::embedding(table, ids.reshape({-1}).to(device_));
}

at::Tensor Model::attended(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Batch& batch) const {
  const at::Tensor seen = batch.seen.defined() ? at::scaled_dot_product_attention(query, key, value, batch.seen)
                                               : at::scaled_dot_product_attention(query, key, value, {}, 0.0, /*is_causal=*/true);
  return seen.transpose(1, 2).reshape({-1, static_cast<std::int64_t>(shape_.dim)});
}

at::Tensor Model::logits(const at::Tensor& ids) const {
  const Batch batch = batch_of(ids);
  at::Tensor x = embed(ids);
  for (std::size_t block = 0; block < shape_.layers; ++block) x = through(block, x, batch);
  return logits_of(x);
}

void Model::backward_recomputing(const at::Tensor& ids, const std::function<at::Tensor(const at::Tensor& logits)>& objective) const {
  const Batch batch = batch_of(ids);
  std::vector<at::Tensor> inputs;  // of each block, and last that of the head
  {
    const at::NoGradGuard no_graph;
    inputs.push_back(embed(ids));
    for (std::size_t block = 0; block < shape_.layers; ++block) inputs.push_back(through(block, inputs.back(), batch));
  }
  const at::Tensor last = inputs.back().requires_grad_();
  objective(logits_of(last)).backward();
  at::Tensor slope = last.grad();
  for (std::size_t block = shape_.layers; block-- > 0;) {
    inputs.pop_back();
    const at::Tensor x = inputs.back().requires_grad_();
    through(block, x, batch).backward(slope);
    slope = x.grad();
  }
  embed(ids).backward(slope);
}

std::unique_ptr<Model> make_model(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where) {
  auto model = shape.arch == manifest::Architecture::Llama ? make_llama(shape, seed, where) : make_gpt2(shape, seed, where);
  PRIME_ASSERT(model->parameters().all_taken(), "a model takes all tensors that its architecture has");
  return model;
}

}  // namespace prime::trainer
