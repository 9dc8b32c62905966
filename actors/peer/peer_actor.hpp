// Owns the peer's shell: messages and happenings become events of the peer machine, effects become sends, orders and port calls.
#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <functional>

#include "actors/local_messages.hpp"
#include "actors/ports.hpp"
#include "actors/reduce_worker/reduce_worker_actor.hpp"
#include "actors/supervisor/supervisor_actor.hpp"
#include "messages/caf_seam.hpp"

namespace prime {

/// The coordinator was found again, perhaps another process than before.
struct CoordinatorFound {
  CoordinatorActor coordinator;
};

/// The public interface and what happens in this process.
using PeerShell = PeerActor::extend<caf::reacts_to<PeerHappening>, caf::reacts_to<CoordinatorFound>, caf::reacts_to<TickNow>>;

struct PeerPorts {
  CoordinatorActor coordinator;
  ReduceWorkerActor reduce_worker;
  SupervisorActor supervisor;
  TrainerPort* trainer = nullptr;
  JournalPort* journal = nullptr;
  std::function<Instant()> now;
  std::function<std::uint64_t()> moved_bytes;  ///< by lanes and state fetches, for heartbeats
  std::function<void(const Member&)> measure;  ///< ends in a MeasureEnded
  /// Finds the coordinator again, where it was or at one of these; ends in a CoordinatorFound or a RedialFailed.
  std::function<void(const std::vector<Addresses>&)> redial;
  /// Ends in a SaveEnded, once that revision is applied and written.
  std::function<void(const peer::SaveState&)> save;
  std::function<void()> settled;                     ///< coordinator and peer have nothing more to tell each other: the process may end
  std::function<void(const peer::State&)> observe;   ///< after each event; tests hang their fault points here
  std::function<void(const std::string&)> log = {};  ///< hears the reason of each transition; may be empty
};

class PeerActorImpl : public PeerShell::base {
 public:
  PeerActorImpl(caf::actor_config& config, peer::Options options, PeerPorts ports);
  behavior_type make_behavior() override;
  /// Lets go of the actors it knew.
  void on_exit() override;

 private:
  void handle(const peer::Event& event);
  void apply(peer::Transition transition);
  void carry_out(const peer::Effect& effect);

  peer::State state_;
  PeerPorts ports_;
  peer::Options options_;
};

}  // namespace prime

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(prime::CoordinatorFound)
