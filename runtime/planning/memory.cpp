#include "runtime/planning/memory.hpp"

#include <algorithm>

#include "messages/result.hpp"
#include "runtime/models/architecture.hpp"

namespace prime::planning {
namespace {

constexpr std::uint64_t F32 = sizeof(float);

/// At the end of the forward pass: the last block's output, normed, and logits, their logarithms and the gradient of these, which are f32.
std::uint64_t bytes_of_head(const manifest::Model& model, std::uint64_t value) {
  const std::uint64_t rounded = value == F32 ? 0 : value;  // logits of 16 bits are made f32 anew
  return 2 * model.dim * value + model.vocab * (3 * F32 + rounded);
}

}  // namespace

std::uint64_t agent_bytes(std::uint64_t parameters, std::uint64_t largest_fragment, std::uint32_t in_flight) {
  return (3 * parameters + 2 * in_flight * largest_fragment) * F32;
}

std::uint64_t moments(const manifest::Shared& shared) {
  std::uint64_t all = 0, in_blocks = 0;
  for (const auto& tensor : models::architecture_of(shared.model.arch).tensors(shared.model)) {
    std::uint64_t elements = 1;
    for (const auto size : tensor.as.shape) elements *= static_cast<std::uint64_t>(size);
    all += elements;
    if (!tensor.matrices.empty()) in_blocks += elements;
  }
  return std::visit(
      overloaded{[&](const manifest::AdamW&) { return 2 * all; }, [&](const manifest::Sgd& sgd) { return sgd.momentum > 0 ? all : 0; },
                 [&](const manifest::Muon&) { return 2 * all - in_blocks; }},
      shared.train.optimizer);
}

std::uint64_t record_bytes(const manifest::Manifest& manifest, std::uint64_t parameters) {
  const bool within_steps = manifest.local.record_every > 0;
  const std::uint64_t records = within_steps ? 3 : 2;  // the one within a step, and that of the last one which is committed
  return records * (moments(manifest.shared) + (within_steps ? parameters : 0)) * F32;
}

std::uint64_t trainer_bytes(const manifest::Manifest& manifest, std::uint64_t parameters) {
  const auto& [shared, local] = manifest;
  const auto& model = shared.model;
  const bool f32 = shared.train.precision == manifest::Precision::F32;
  const std::uint64_t value = f32 ? F32 : 2;
  const std::uint64_t samples = local.micro_batch == 0 ? shared.train.batch : std::min(local.micro_batch, shared.train.batch);
  const std::uint64_t tokens = samples * model.context;
  const std::uint64_t block = models::architecture_of(model.arch).values_of_block(model);
  const std::uint64_t kept = local.activation_checkpointing ? std::uint64_t{model.layers} * model.dim + block : model.layers * block;
  const std::uint64_t blocks = kept + block;  // on the way back, gradients of what one block has kept
  const std::uint64_t rounded = f32 ? 0 : parameters * value;
  return (2 * parameters + moments(shared)) * F32 + rounded + tokens * (blocks * value + bytes_of_head(model, value));
}

}  // namespace prime::planning
