// Owns the transport under CAF's BASP: our channels carry it, because CAF's own TLS module drops healthy peers (spec/caf.md §7).
#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/detail/type_list.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/net/address_race.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/credentials.hpp"
#include "runtime/net/dial.hpp"

namespace prime::net {

/// Loads the middleman and sets what every process of a run must set alike: shared work queue with 4 threads (work stealing burns a
/// tenth of a core when idle), heartbeats every second and a 30 s connection time-out as a backstop (the protocol's own heartbeats
/// judge earlier), no background workers, no connections that nobody asked for.
void configure(caf::actor_system_config& config);

/// Joins one actor system to others, which cannot spawn actors in it. Order of ends: exit every published actor, stop the acceptor, destroy
/// this, then the system.
class BaspTransport {
 public:
  explicit BaspTransport(caf::actor_system& system);
  /// Shuts all connections down and lets go of everything that belongs to the system; what its clock was to send is not sent.
  ~BaspTransport();
  BaspTransport(const BaspTransport&) = delete;
  BaspTransport& operator=(const BaspTransport&) = delete;

  /// Makes `actor` what connecting processes get a handle to. Call once, before the acceptor opens.
  template <class Handle>
  void publish(const Handle& actor) {
    publish_as(caf::actor_cast<caf::strong_actor_ptr>(actor), system_.message_types(actor));
  }
  /// Takes a control channel from the acceptor's handler. Any thread.
  void accept(ChannelPtr channel);

  /// A handle to what the coordinator at `addresses` publishes; errors are those of `dial`, and ProtocolViolation when its interface
  /// lacks messages of `Handle`. Blocks the caller for at most `limit`.
  template <class Handle>
  Result<Handle> remote_actor(const Credentials& credentials, const Addresses& addresses, DialLimit limit,
                              AddressMemory* memory = nullptr) {
    PRIME_TRY(auto actor, connect(credentials, addresses, limit, memory, system_.message_types(caf::detail::type_list<Handle>{})));
    return caf::actor_cast<Handle>(actor);
  }

  /// Cuts every connection, so that a frozen peer with unsent data cannot hold up the end of the system. Any thread.
  void shutdown_connections();

 private:
  class Wiring;
  void publish_as(caf::strong_actor_ptr actor, std::set<std::string> messages);
  Result<caf::strong_actor_ptr> connect(const Credentials& credentials, const Addresses& addresses, DialLimit limit, AddressMemory* memory,
                                        const std::set<std::string>& wanted);

  caf::actor_system& system_;
  std::unique_ptr<Wiring> wiring_;
};

}  // namespace prime::net
