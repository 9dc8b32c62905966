// Owns a GPT-2 in training. Its matrices lie as [inputs, outputs], as Hugging Face has them.
#include "runtime/trainer/model/model.hpp"

namespace prime::trainer {
namespace {

class Gpt2 final : public Model {
 public:
  Gpt2(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where) : Model(shape, seed, where) {
    tokens_ = parameters_.take();
    positions_ = parameters_.take();
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      Block block;
      for (Affine* part : {&block.attention_norm, &block.qkv, &block.output, &block.inner_norm, &block.up, &block.down}) *part = take();
      blocks_.push_back(std::move(block));
    }
    norm_ = take();
    head_ = shape.tie_embeddings ? tokens_ : parameters_.take();
  }

 private:
  struct Affine {
    at::Tensor weight, bias;
  };
  struct Block {
    Affine attention_norm, qkv, output, inner_norm, up, down;
  };

  Affine take() {
    at::Tensor weight = parameters_.take();
    return {std::move(weight), parameters_.take()};
  }

  [[nodiscard]] at::Tensor normed(const at::Tensor& x, const Affine& norm) const {
    return at::layer_norm(x, {x.size(-1)}, as_used(norm.weight), as_used(norm.bias), shape_.norm_epsilon);
  }
  [[nodiscard]] at::Tensor product(const at::Tensor& x, const Affine& linear) const {
    return at::addmm(as_used(linear.bias), x, as_used(linear.weight));
  }

  // Gradients of a token's many places are summed in f32, whatever the type of what follows.
  [[nodiscard]] at::Tensor embed(const at::Tensor& ids) const override {
    const std::int64_t time = ids.size(1), dim = shape_.dim;
    const at::Tensor tokens = rows_of(tokens_, ids).view({-1, time, dim});
    return (tokens + positions_.narrow(0, 0, time)).view({-1, dim}).to(type());
  }

  [[nodiscard]] at::Tensor through(std::size_t number, const at::Tensor& x, const Batch& batch) const override {
    const Block& block = blocks_[number];
    const std::int64_t heads = shape_.heads, width = shape_.dim / heads;
    // [windows, time, 3, heads, width]: which of the three comes first, and heads before time.
    const at::Tensor qkv =
        product(normed(x, block.attention_norm), block.qkv).view({-1, batch.time, 3, heads, width}).permute({2, 0, 3, 1, 4});
    const at::Tensor beside = x + product(attended(qkv[0], qkv[1], qkv[2], batch), block.output);
    return beside + product(at::gelu(product(normed(beside, block.inner_norm), block.up), "tanh"), block.down);
  }

  [[nodiscard]] at::Tensor logits_of(const at::Tensor& x) const override {
    return at::linear(normed(x, norm_), as_used(head_)).to(at::kFloat);
  }

  at::Tensor tokens_, positions_, head_;
  Affine norm_;
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Model> make_gpt2(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where) {
  return std::make_unique<Gpt2>(shape, seed, where);
}

}  // namespace prime::trainer
