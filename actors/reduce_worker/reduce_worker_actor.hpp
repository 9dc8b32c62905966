// Owns the reduce worker's shell: drives lanes and the outer state as the commit machine says. Detached: preparing a state blocks.
#pragma once

#include <caf/typed_event_based_actor.hpp>
#include <functional>

#include "actors/local_messages.hpp"
#include "actors/ports.hpp"
#include "actors/reduce_worker/reduce_terms.hpp"
#include "messages/caf_seam.hpp"

namespace prime {

using ReduceWorkerActor = caf::typed_actor<caf::reacts_to<ReduceHappening>>;

struct ReduceWorkerPorts {
  ReducePort* lanes = nullptr;
  StatePort* state = nullptr;
  PeerId self;
  std::function<ReduceTerms()> terms;                ///< known once welcome
  std::function<void(peer::Event)> report;           ///< to the peer actor, from any thread
  std::function<void(const std::string&)> log = {};  ///< hears the reason of each transition; may be empty
};

class ReduceWorkerImpl : public ReduceWorkerActor::base {
 public:
  ReduceWorkerImpl(caf::actor_config& config, ReduceWorkerPorts ports) : ReduceWorkerActor::base(config), ports_(std::move(ports)) {}
  behavior_type make_behavior() override;

 private:
  void handle(const reduce_worker::Event& event);
  void carry_out(const reduce_worker::Effect& effect);
  void start(const reduce_worker::Run& run);

  reduce_worker::State state_;
  ReduceWorkerPorts ports_;
};

}  // namespace prime
