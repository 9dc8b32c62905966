// Owns how a model's tensors begin, and how they get from and to a device.
#include "runtime/trainer/model/parameters.hpp"

#include <algorithm>

#include "messages/assert.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::trainer {
namespace {

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

Parameters::Parameters(std::vector<models::ModelTensor> tensors, std::uint64_t seed, at::Device device)
    : tensors_(std::move(tensors)), device_(device), draws_(mix(seed + 1)) {}

void Parameters::begin(const models::ModelTensor& tensor, std::span<float> values) {
  switch (tensor.start) {
    case models::ModelTensor::Start::Zero: std::ranges::fill(values, 0.0F); break;
    case models::ModelTensor::Start::One: std::ranges::fill(values, 1.0F); break;
    case models::ModelTensor::Start::Normal:
      for (float& value : values) value = draw_normal(draws_, tensor.deviation);
      break;
  }
}

at::Tensor Parameters::take(std::size_t count) {
  PRIME_ASSERT(taken_ + count <= tensors_.size(), "a model takes the tensors that its architecture has");
  const auto parts = std::span(tensors_).subspan(taken_, count);
  taken_ += count;
  std::vector<std::int64_t> shape = parts.front().as.shape, matrices;
  shape.front() = 0;
  for (const auto& part : parts) {
    PRIME_ASSERT(std::ranges::equal(part.as.shape.begin() + 1, part.as.shape.end(), shape.begin() + 1, shape.end()), "one leaf, one width");
    shape.front() += part.as.shape.front();
    matrices.insert(matrices.end(), part.matrices.begin(), part.matrices.end());
  }
  // Pinned where a device copies from and to it.
  const at::Tensor whole = at::empty(shape, at::dtype(at::kFloat).pinned_memory(!device_.is_cpu()));
  std::span<float> rest(whole.mutable_data_ptr<float>(), static_cast<std::size_t>(whole.numel()));
  const auto row = rest.size() / static_cast<std::size_t>(shape.front());
  for (const auto& part : parts) {
    const auto values = rest.first(row * static_cast<std::size_t>(part.as.shape.front()));
    rest = rest.subspan(values.size());
    begin(part, values);
    views_.push_back({part.as.name, part.as.shape, values});
  }
  on_host_.push_back(whole);
  leaves_.push_back({(device_.is_cpu() ? whole : whole.to(device_)).requires_grad_(), std::move(matrices), parts.front().transposed});
  return leaves_.back().tensor;
}

void Parameters::load() {
  if (device_.is_cpu()) return;
  const at::NoGradGuard no_graph;
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].tensor.copy_(on_host_[i], /*non_blocking=*/true);
}

void Parameters::store() {
  if (device_.is_cpu()) return;
  const at::NoGradGuard no_graph;
  for (std::size_t i = 0; i < leaves_.size(); ++i) on_host_[i].copy_(leaves_[i].tensor, /*non_blocking=*/true);
  torch::cuda::synchronize(device_.index());
}

}  // namespace prime::trainer
