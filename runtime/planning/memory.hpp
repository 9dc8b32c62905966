// Owns how much memory the two processes of a peer need, from sizes alone.
#pragma once

#include <cstdint>

#include "runtime/manifest/manifest.hpp"

namespace prime::planning {

/// Of an agent whose rounds are blocking: parameters, momentum, what its trainer contributed, and of each fragment in flight the mean and
/// the next parameters (docs/ARCHITECTURE.md). A mean is as large as the largest fragment. Checkpoints and joiners hold more for a while.
std::uint64_t agent_bytes(std::uint64_t parameters, std::uint64_t largest_fragment, std::uint32_t in_flight);

/// Values that the optimizer keeps: two of a parameter that AdamW steps, one of a matrix that is Muon's, one or none with SGD.
std::uint64_t moments(const manifest::Shared& shared);

/// Of the two records that an agent keeps of prime-trainer: the optimizer's moments, and with `local.record_every` the parameters.
std::uint64_t record_bytes(const manifest::Manifest& manifest, std::uint64_t parameters);

/// Of prime-trainer: parameters, gradients and the optimizer's moments, and about what the backward pass needs of the samples that go
/// through the model at once. Of the process and of libtorch nothing is counted (60 MB on the CPU).
std::uint64_t trainer_bytes(const manifest::Manifest& manifest, std::uint64_t parameters);

}  // namespace prime::planning
