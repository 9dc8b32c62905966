// Owns the supervisor's shell: one-for-one over the checkpoint server and the trainer, each with its restart intensity. What no restart
// cures ends the agent, and the run goes on without it: see root.hpp.
#pragma once

#include <caf/typed_event_based_actor.hpp>
#include <functional>

#include "actors/checkpoint_server/checkpoint_server_actor.hpp"
#include "actors/local_messages.hpp"
#include "actors/reduce_worker/reduce_worker_actor.hpp"
#include "actors/supervisor/restart_machine.hpp"

namespace prime {

using SupervisorActor = caf::typed_actor<caf::reacts_to<TrainerDied>, caf::reacts_to<FetchOrder>, caf::reacts_to<SaveOrder>,
                                         caf::reacts_to<StopFetching>, caf::reacts_to<EndOrder>>;

struct SupervisorPorts {
  CheckpointServerPorts checkpoint_server;
  TrainerPort* trainer = nullptr;
  std::function<Instant()> now;
  std::function<supervisor::Options()> trainer_intensity;  ///< from the manifest, known once welcome
  std::function<void(const std::string&)> log = {};        ///< hears the reason of each transition; may be empty
};

class SupervisorImpl : public SupervisorActor::base {
 public:
  SupervisorImpl(caf::actor_config& config, SupervisorPorts ports);
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void spawn_server();
  void child_down(const caf::down_msg& down);
  void trainer_died(const TrainerDied& died);

  SupervisorPorts ports_;
  supervisor::State trainer_;
  supervisor::State server_state_;
  CheckpointServerActor server_;
  std::optional<FetchState> fetching_;
  std::optional<SaveOrder> saving_;  ///< not a periodic one; the machine knows whether it waits for that
};

}  // namespace prime
