// Owns the coordinator's shell: messages become events of the machine, effects become sends and port calls. Decides nothing.
#pragma once

#include <caf/typed_event_based_actor.hpp>
#include <functional>
#include <map>
#include <optional>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/coordinator/ledger.hpp"
#include "actors/local_messages.hpp"
#include "actors/ports.hpp"
#include "messages/caf_seam.hpp"

namespace prime {

/// The public interface and the clock.
using CoordinatorShell =
    CoordinatorActor::extend<caf::reacts_to<TickNow>, caf::reacts_to<FenceNow>, caf::reacts_to<PeerGoneNow>, caf::reacts_to<StopNow>,
                             caf::reacts_to<PauseNow>, caf::reacts_to<CoordinatorsNow>, caf::reacts_to<WrittenNow>>;

/// Between the last message to a peer and the cut of its connections: time for the message to leave this machine.
inline constexpr Duration FAREWELL_TIME = 100ms;

/// What the shell acts through; all outlive the actor.
struct CoordinatorPorts {
  LedgerPort* ledger = nullptr;
  FencePort* fence = nullptr;
  LookoutPort* lookout = nullptr;
  std::function<Instant()> now;
  /// The run is over; empty when it ended well. Called once, on the actor's thread.
  std::function<void(std::optional<Error>)> finished;
  /// Called when the run is over and the last connection of a peer has closed: everybody has heard the last word.
  std::function<void()> deserted;
  /// What was decided is not written down in time: the process ends on the spot.
  std::function<void(const Error&)> stuck;
  std::function<void(const std::string&)> log = {};  ///< hears the reason of each transition; may be empty
};

class CoordinatorActorImpl : public CoordinatorShell::base {
 public:
  CoordinatorActorImpl(caf::actor_config& config, coordinator::State state, CoordinatorPorts ports);
  behavior_type make_behavior() override;

 private:
  void greet(const Hello& hello);
  template <class Message>
  void receive(const Message& message);
  void handle(const coordinator::Event& event);
  void carry_out(std::vector<coordinator::Action> actions);
  void lost(const caf::down_msg& down);
  void release();

  coordinator::State state_;
  coordinator::Ledger ledger_;
  CoordinatorPorts ports_;
  std::map<PeerId, PeerActor> handles_;
  std::map<caf::actor_addr, PeerId> ids_;
  bool finished_ = false;
};

}  // namespace prime
