// Owns the learning rate of each inner step: a function of the step's number alone, so that a restarted trainer continues it.
#pragma once

#include <cstdint>

#include "runtime/manifest/manifest.hpp"

namespace prime::trainer {

/// `inner_step` counts from 0 over the whole run of `total` inner steps. Steps past the end keep the last value.
double learning_rate(const manifest::Train& train, std::uint64_t inner_step, std::uint64_t total);

}  // namespace prime::trainer
