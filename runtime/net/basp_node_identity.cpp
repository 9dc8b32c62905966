// Owns the identity of this process's node in CAF's network: 160 random bits for every actor system.
// Replaces the function of libcaf_core that hashes network cards and root disk and adds the process id: two containers on one machine
// get the same there, and then cannot connect. The dynamic linker prefers the executable's definition, so link this into executables.
#include <caf/make_counted.hpp>
#include <caf/node_id.hpp>
#include <sys/random.h>
#include <unistd.h>

#include "messages/assert.hpp"

namespace caf {

node_id node_id::default_data::local(const actor_system_config&) {
  host_id_type bits;
  PRIME_ASSERT(::getrandom(bits.data(), bits.size(), 0) == static_cast<ssize_t>(bits.size()), "law 11");
  return node_id{make_counted<default_data>(static_cast<std::uint32_t>(::getpid()), bits)};
}

}  // namespace caf
