// Owns the held-out loss: the mean over a part of the first so many held-out bytes, in nats per token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "messages/result.hpp"
#include "runtime/trainer/data/corpus.hpp"
#include "runtime/trainer/learner.hpp"

namespace prime::trainer {

/// Of the windows that `limit_bytes` allow (at least one, when the corpus holds any out) the `share.index`-th of `share.of` equal parts;
/// nothing when that part is empty. `alive` is called before each batch of windows, and what it fails with ends the evaluation.
Result<std::optional<HeldOut>> held_out_loss(const Learner& learner, const data::Corpus& corpus, std::uint64_t limit_bytes,
                                             const EvaluationShare& share, const std::function<Result<void>()>& alive);

}  // namespace prime::trainer
