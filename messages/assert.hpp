// Owns PRIME_ASSERT: a broken invariant ends the process; other peers treat that as a loss, never as bad data.
#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the process when `condition` is false. Stays on in release builds. `law` cites docs/INVARIANTS.md.
#define PRIME_ASSERT(condition, law)                                                                            \
  do {                                                                                                          \
    if (!(condition)) {                                                                                         \
      std::fprintf(stderr, "prime: broken invariant (%s): %s at %s:%d\n", law, #condition, __FILE__, __LINE__); \
      std::abort();                                                                                             \
    }                                                                                                           \
  } while (false)
