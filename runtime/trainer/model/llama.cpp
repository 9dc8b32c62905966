// Owns a Llama in training.
#include "runtime/models/rotary.hpp"
#include "runtime/trainer/model/model.hpp"
#include "runtime/trainer/model/operations.hpp"

namespace prime::trainer {
namespace {

class Llama final : public Model {
 public:
  Llama(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where) : Model(shape, seed, where) {
    embedding_ = parameters_.take();
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      Block block;
      block.qkv = parameters_.take(3);
      if (shape.attention_bias) block.qkv_bias = parameters_.take(3);
      block.output = parameters_.take();
      if (shape.attention_bias) block.output_bias = parameters_.take();
      block.gate_up = parameters_.take(2);
      block.down = parameters_.take();
      block.input_norm = parameters_.take();
      block.post_norm = parameters_.take();
      blocks_.push_back(std::move(block));
    }
    norm_ = parameters_.take();
    head_ = shape.tie_embeddings ? embedding_ : parameters_.take();
    build_tables();
  }

 private:
  struct Block {
    at::Tensor input_norm, qkv, output, post_norm, gate_up, down;
    at::Tensor qkv_bias, output_bias;  // or none
  };

  void build_tables() {
    const at::Tensor frequency = at::tensor(models::rotary_frequencies(shape_), at::kDouble);
    const at::Tensor angle = at::outer(at::arange(0, static_cast<std::int64_t>(shape_.context), at::kDouble), frequency);
    cosine_ = angle.cos().to(at::kFloat).to(device(), type());
    sine_ = angle.sin().to(at::kFloat).to(device(), type());
  }

  [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const {
    return rms_norm(x, as_used(weight), shape_.norm_epsilon);
  }
  [[nodiscard]] at::Tensor product(const at::Tensor& x, const at::Tensor& matrix) const { return at::linear(x, as_used(matrix)); }
  [[nodiscard]] at::Tensor product(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) const {
    return bias.defined() ? at::linear(x, as_used(matrix), as_used(bias)) : product(x, matrix);
  }

  // Gradients of a token's many places are summed in f32, whatever the type of what follows.
  [[nodiscard]] at::Tensor embed(const at::Tensor& ids) const override { return rows_of(embedding_, ids).to(type()); }

  [[nodiscard]] at::Tensor through(std::size_t number, const at::Tensor& x, const Batch& batch) const override {
    const Block& block = blocks_[number];
    const HeadLayout layout{batch.time, shape_.heads, shape_.kv_heads, static_cast<std::int64_t>(shape_.dim) / shape_.heads,
                            cosine_,    sine_};
    const Heads heads = split_heads(product(normed(x, block.input_norm), block.qkv, block.qkv_bias), layout);
    const at::Tensor seen = attended(heads.query, heads.key, heads.value, batch);
    at::Tensor beside = at::addmm(x, seen, as_used(block.output).t());
    if (block.output_bias.defined()) beside = beside + as_used(block.output_bias);
    const at::Tensor inner = swiglu(product(normed(beside, block.post_norm), block.gate_up));
    return at::addmm(beside, inner, as_used(block.down).t());
  }

  [[nodiscard]] at::Tensor logits_of(const at::Tensor& x) const override { return product(normed(x, norm_), head_).to(at::kFloat); }

  at::Tensor embedding_, norm_, head_;
  at::Tensor cosine_, sine_;  // [context, head width / 2]
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Model> make_llama(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where) {
  return std::make_unique<Llama>(shape, seed, where);
}

}  // namespace prime::trainer
