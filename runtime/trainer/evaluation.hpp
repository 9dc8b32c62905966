// Owns the held-out loss: the mean over the first so many held-out bytes, in nats per byte.
#pragma once

#include <cstdint>
#include <optional>

#include "messages/result.hpp"
#include "runtime/trainer/corpus.hpp"
#include "runtime/trainer/learner.hpp"

namespace prime::trainer {

/// At least one window and at most limit_bytes / context of them; nothing when the corpus holds nothing out.
Result<std::optional<double>> held_out_loss(const Learner& learner, const Corpus& corpus, std::uint64_t limit_bytes);

}  // namespace prime::trainer
