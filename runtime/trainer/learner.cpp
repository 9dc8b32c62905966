// Owns the step from bytes to tensors and back.
#include "runtime/trainer/learner.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "messages/assert.hpp"
#include "runtime/trainer/model/model.hpp"
#include "runtime/trainer/optimizer/optimizer.hpp"
#include "runtime/trainer/permutation.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {
namespace {

at::Tensor to_ids(std::span<const Token> tokens, std::int64_t width) {
  at::Tensor ids = at::empty({static_cast<std::int64_t>(tokens.size()) / width, width}, at::kLong);
  std::ranges::copy(tokens, ids.mutable_data_ptr<std::int64_t>());
  return ids;
}

/// A uniform number in [0, 1).
double draw_uniform(std::uint64_t& counter) { return static_cast<double>(mix(counter += 0x9e3779b97f4a7c15ULL) >> 11) * 0x1p-53; }

Token draw_token(std::span<const float> logits, double temperature, std::uint64_t& counter) {
  const float highest = *std::ranges::max_element(logits);
  std::vector<double> weights;
  double sum = 0;
  for (const float logit : logits) sum += weights.emplace_back(std::exp(static_cast<double>(logit - highest) / temperature));
  double left = draw_uniform(counter) * sum;
  std::size_t token = 0;
  while (token + 1 < weights.size() && left >= weights[token]) left -= weights[token++];
  return static_cast<Token>(token);
}

at::ScalarType type_of(manifest::Precision precision) { return precision == manifest::Precision::Bf16 ? at::kBFloat16 : at::kFloat; }

}  // namespace

void set_compute_threads(std::uint32_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  at::set_num_interop_threads(1);
}

struct Learner::Impl {
  Impl(const manifest::Model& shape, const manifest::Train& train, const Computing& computing)
      : shape(shape),
        computing(computing),
        z_loss(train.z_loss),
        model(make_model(shape, train.seed, at::device(at::Device(computing.device)).dtype(type_of(train.precision)))),
        optimizer(train.optimizer, train.clip_norm, model->parameters().leaves()) {
    if (computing.document_end) model->separate_documents(*computing.document_end);
  }

  /// [windows, context + 1]
  [[nodiscard]] at::Tensor ids_of(std::span<const Token> windows) const {
    const auto width = static_cast<std::int64_t>(shape.context) + 1;
    PRIME_ASSERT(!windows.empty() && windows.size() % static_cast<std::size_t>(width) == 0, "whole windows are learned");
    return to_ids(windows, width);
  }
  [[nodiscard]] at::Tensor context_of(const at::Tensor& ids) const { return ids.narrow(1, 0, shape.context); }

  [[nodiscard]] static at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& ids) {
    return at::cross_entropy_loss(logits, ids.narrow(1, 1, ids.size(1) - 1).reshape({-1}).to(logits.device()));
  }
  [[nodiscard]] at::Tensor loss(std::span<const Token> windows) const {
    const at::Tensor ids = ids_of(windows);
    return cross_entropy(model->logits(context_of(ids)), ids);
  }
  /// What is learned, of the loss that is reported.
  [[nodiscard]] at::Tensor objective(const at::Tensor& loss, const at::Tensor& logits) const {
    return z_loss == 0 ? loss : loss + z_loss * at::logsumexp(logits, 1).square().mean();
  }

  /// The mean loss over all windows; leaves its gradient in the leaves.
  [[nodiscard]] at::Tensor learn(std::span<const Token> windows) const {
    const std::size_t width = std::size_t{shape.context} + 1, count = windows.size() / width;
    const std::size_t at_once = computing.micro_batch == 0 ? count : std::min<std::size_t>(computing.micro_batch, count);
    at::Tensor sum;
    for (std::size_t begin = 0; begin < count; begin += at_once) {
      const std::size_t part = std::min(at_once, count - begin);
      const double share = static_cast<double>(part) / static_cast<double>(count);
      const at::Tensor ids = ids_of(windows.subspan(begin * width, part * width));
      const auto learned = [&](const at::Tensor& logits) {
        const at::Tensor mean = cross_entropy(logits, ids);
        const at::Tensor part_of_sum = mean.detach() * share;
        sum = sum.defined() ? sum + part_of_sum : part_of_sum;
        return objective(mean, logits) * share;
      };
      if (computing.activation_checkpointing) model->backward_recomputing(context_of(ids), learned);
      else learned(model->logits(context_of(ids))).backward();
    }
    return sum;
  }

  manifest::Model shape;
  Computing computing;
  double z_loss;
  std::unique_ptr<Model> model;
  Optimizer optimizer;
};

Learner::Learner(const manifest::Model& model, const manifest::Train& train, const Computing& computing)
    : impl_(std::make_unique<Impl>(model, train, computing)) {}
Learner::Learner(Learner&&) noexcept = default;
Learner& Learner::operator=(Learner&&) noexcept = default;
Learner::~Learner() = default;

const std::vector<TensorView>& Learner::parameters() const { return impl_->model->parameters().views(); }
std::vector<TensorView> Learner::optimizer_state() const { return impl_->optimizer.state(); }
void Learner::load() { impl_->model->parameters().load(); }
void Learner::load_optimizer() { impl_->optimizer.load(); }
void Learner::store() {
  impl_->model->parameters().store();
  impl_->optimizer.store();
}

double Learner::train(std::span<const Token> windows, double learning_rate) {
  PRIME_ASSERT(!windows.empty(), "who learns has something to learn from");
  const at::Tensor loss = impl_->learn(windows);
  impl_->optimizer.step(learning_rate);
  return loss.item<double>();
}

double Learner::loss(std::span<const Token> windows) const {
  const at::InferenceMode no_graph;
  return impl_->loss(windows).item<double>();
}

std::vector<float> Learner::gradient(std::span<const Token> windows) const {
  const at::Tensor ids = impl_->ids_of(windows);
  const at::Tensor logits = impl_->model->logits(impl_->context_of(ids));
  std::vector<at::Tensor> leaves;
  for (const Leaf& leaf : impl_->model->parameters().leaves()) leaves.push_back(leaf.tensor);
  auto gradients = torch::autograd::grad({impl_->objective(Impl::cross_entropy(logits, ids), logits)}, leaves);
  for (auto& gradient : gradients) gradient = gradient.cpu();
  // A leaf holds one or more views, at increasing addresses of the host's memory.
  std::map<const float*, const float*> gradient_of;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradient_of[impl_->model->parameters().on_host()[i].const_data_ptr<float>()] = gradients[i].const_data_ptr<float>();
  }
  std::vector<float> all;
  for (const TensorView& view : parameters()) {
    const auto values = view.data.floats();
    const auto leaf = std::prev(gradient_of.upper_bound(values.data()));
    const float* from = leaf->second + (values.data() - leaf->first);
    all.insert(all.end(), from, from + values.size());
  }
  return all;
}

std::vector<Token> Learner::write(const Writing& writing) const {
  PRIME_ASSERT(!writing.prompt.empty(), "a text goes on from something");
  const at::InferenceMode no_graph;
  std::vector<Token> text(writing.prompt.begin(), writing.prompt.end());
  std::uint64_t counter = mix(writing.seed);
  for (std::size_t i = 0; i < writing.tokens; ++i) {
    const std::size_t length = std::min<std::size_t>(text.size(), impl_->shape.context);
    const at::Tensor logits =
        impl_->model->logits(to_ids(std::span<const Token>(text).last(length), static_cast<std::int64_t>(length))).cpu();
    const float* last = logits.const_data_ptr<float>() + (length - 1) * impl_->shape.vocab;
    text.push_back(draw_token({last, std::min(writing.choices, impl_->shape.vocab)}, writing.temperature, counter));
  }
  return text;
}

}  // namespace prime::trainer
