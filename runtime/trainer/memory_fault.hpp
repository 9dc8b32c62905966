// Owns the one exception of libtorch that somebody can do something about: it got no memory.
#pragma once

#include <exception>
#include <optional>

#include "messages/errors.hpp"

namespace prime::trainer {

/// What libtorch throws when it gets no memory is told from its other exceptions by the text alone.
std::optional<Error> want_of_memory(const std::exception& thrown);

}  // namespace prime::trainer
