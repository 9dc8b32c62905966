// Inlined, the library shows its constants.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/digest/digest_lane.hpp"

namespace prime::kernels {

std::array<std::byte, DIGEST_SECRET_BYTES> digest_secret() {
  static_assert(sizeof(XXH3_kSecret) == DIGEST_SECRET_BYTES);
  std::array<std::byte, DIGEST_SECRET_BYTES> secret;
  std::memcpy(secret.data(), XXH3_kSecret, DIGEST_SECRET_BYTES);
  return secret;
}

}  // namespace prime::kernels
