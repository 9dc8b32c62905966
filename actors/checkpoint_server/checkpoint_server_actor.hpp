// Owns the checkpoint server's shell: the blocking work of fetching and saving a state, one order after the other. Detached.
#pragma once

#include <caf/typed_event_based_actor.hpp>
#include <functional>

#include "actors/local_messages.hpp"
#include "actors/ports.hpp"
#include "messages/caf_seam.hpp"

namespace prime {

using CheckpointServerActor = caf::typed_actor<caf::reacts_to<FetchOrder>, caf::reacts_to<SaveOrder>, caf::reacts_to<EndOrder>>;

struct CheckpointServerPorts {
  RecoveryPort* recovery = nullptr;
  JournalPort* journal = nullptr;
  std::function<void(peer::Event)> report;
  std::function<void(std::optional<Error>)> ended;  ///< all is saved; the process may go
};

class CheckpointServerImpl : public CheckpointServerActor::base {
 public:
  CheckpointServerImpl(caf::actor_config& config, CheckpointServerPorts ports)
      : CheckpointServerActor::base(config), ports_(std::move(ports)) {}
  behavior_type make_behavior() override;

 private:
  void save(const peer::SaveState& order);

  CheckpointServerPorts ports_;
};

}  // namespace prime
