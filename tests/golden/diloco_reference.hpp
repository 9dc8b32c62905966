// Owns a second opinion on DiLoCo: one process, replicas trained one after the other, the outer step written out. It shares the
// model with the product, but nothing that decides, sends, sums or steps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/include/prime/session.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/data/corpus.hpp"

namespace prime::golden {

struct ReferenceStep {
  std::uint32_t number;                       ///< from 1; 0: the initial parameters, before any step
  double loss;                                ///< mean over all inner steps of all replicas
  const std::vector<TensorView>& parameters;  ///< shared ones, after the step
};

/// `peers` replicas, each contributing to every step. At step k replica r takes the samples from ((k-1)·peers + r)·H·batch on.
/// The schedule is that of the whole run (train.outer_steps), of which the first `steps` are done.
Result<void> run_reference(const manifest::Shared& run, const data::Corpus& corpus, std::uint32_t peers, std::uint32_t steps,
                           const std::function<Result<void>(const ReferenceStep&)>& observe);

/// The largest absolute difference of two safetensors files with the same names and shapes; CheckpointCorrupt when they have others.
Result<double> largest_difference(const std::string& left, const std::string& right);

}  // namespace prime::golden
