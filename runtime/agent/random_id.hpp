// Owns where identities come from: the kernel's random source.
#pragma once

#include <sys/random.h>

#include "messages/assert.hpp"
#include "messages/ids.hpp"

namespace prime {

/// A new peer id, never 0.
inline PeerId random_peer_id() {
  PeerId id;
  while (id.value == 0) PRIME_ASSERT(::getrandom(&id.value, sizeof id.value, 0) == sizeof id.value, "the kernel's random source works");
  return id;
}

}  // namespace prime
