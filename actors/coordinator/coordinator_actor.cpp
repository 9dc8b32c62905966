#include "actors/coordinator/coordinator_actor.hpp"

#include "messages/result.hpp"

namespace prime {

CoordinatorActorImpl::CoordinatorActorImpl(caf::actor_config& config, coordinator::State state, CoordinatorPorts ports)
    : CoordinatorShell::base(config),
      state_(std::move(state)),
      ledger_(coordinator::open_ledger(state_.options)),
      ports_(std::move(ports)) {
  set_down_handler([this](caf::down_msg& down) { lost(down); });
}

CoordinatorActorImpl::behavior_type CoordinatorActorImpl::make_behavior() {
  delayed_send(this, TICK_EVERY, TickNow{});
  return {
      [this](const Hello& m) { greet(m); },
      [this](const Seated& m) { receive(m); },
      [this](const Fetched& m) { receive(m); },
      [this](const FetchFailed& m) { receive(m); },
      [this](const Ready& m) { receive(m); },
      [this](const Vote& m) { receive(m); },
      [this](const ReduceFailed& m) { receive(m); },
      [this](const InDoubt& m) { receive(m); },
      [this](const LinkMeasured& m) { receive(m); },
      [this](const LaneRelayed& m) { receive(m); },
      [this](const TrainerRestarted& m) { receive(m); },
      [this](const LeaseUsed& m) { receive(m); },
      [this](const Heartbeat& m) { receive(m); },
      [this](const Deathrattle& m) { receive(m); },
      [this](const StateSaved& m) { receive(m); },
      [this](const FinalReport& m) { receive(m); },
      [this](TickNow) {
        delayed_send(this, TICK_EVERY, TickNow{});
        const auto now = ports_.now();
        if (const auto stuck = coordinator::overdue(ledger_, now)) return ports_.stuck(*stuck);
        handle(coordinator::tick(ledger_, now));
      },
      [this](const FenceNow& m) { ports_.fence->fence(m.peer); },
      [this](const PeerGoneNow& m) {
        handle(coordinator::ProcessGone{m.peer, m.reason});
      },
      [this](StopNow) { handle(coordinator::StopRequested{}); },
      [this](PauseNow m) {
        if (m.pause) handle(coordinator::PauseRequested{});
        else handle(coordinator::ResumeRequested{});
      },
      [this](const CoordinatorsNow& m) { handle(m.coordinators); },
      [this](WrittenNow) { carry_out(coordinator::written(ledger_, ports_.now())); },
  };
}

void CoordinatorActorImpl::greet(const Hello& hello) {
  const auto sender = caf::actor_cast<PeerActor>(current_sender());
  if (!sender) return;
  if (const auto older = handles_.find(hello.peer); older != handles_.end()) {
    // The end of its first connection has yet to be heard; what that means the machine decides.
    demonitor(older->second.address());
    ids_.erase(older->second.address());
    handles_.erase(older);
  }
  coordinator::forget(ledger_, hello.peer);
  handles_.emplace(hello.peer, sender);
  ids_.emplace(sender.address(), hello.peer);
  monitor(sender);
  handle(coordinator::Received{hello.peer, hello});
}

template <class Message>
void CoordinatorActorImpl::receive(const Message& message) {
  const auto known = ids_.find(caf::actor_cast<caf::actor_addr>(current_sender()));
  if (known != ids_.end()) {
    handle(coordinator::Received{known->second, message});
  } else if (const auto sender = caf::actor_cast<PeerActor>(current_sender())) {
    send(sender, Dismissed{Error{ErrorName::Evicted, "it has no seat"}});
  }
}

void CoordinatorActorImpl::lost(const caf::down_msg& down) {
  const auto known = ids_.find(down.source);
  if (known == ids_.end()) return;
  const auto peer = known->second;
  ids_.erase(known);
  handles_.erase(peer);
  handle(coordinator::ConnectionLost{peer, "its connection closed"});
  release();
}

/// Peers may have come and gone long before the end: only after it does an empty house mean that nobody is left to be told.
void CoordinatorActorImpl::release() {
  if (finished_ && handles_.empty()) ports_.deserted();
}

void CoordinatorActorImpl::handle(const coordinator::Event& event) {
  const auto now = ports_.now();
  auto transition = coordinator::step(std::move(state_), event, now);
  state_ = std::move(transition.state);
  if (ports_.log && !transition.reason.empty()) ports_.log(transition.reason);
  carry_out(coordinator::record(ledger_, std::move(transition.decided), std::move(transition.effects), now));
}

void CoordinatorActorImpl::carry_out(std::vector<coordinator::Action> actions) {
  for (auto& action : actions)
    std::visit(overloaded{
                   [&](coordinator::WriteEntry& e) {
                     ports_.ledger->write(std::move(e.entry),
                                          [self = caf::actor_cast<CoordinatorShell>(this)] { caf::anon_send(self, WrittenNow{}); });
                   },
                   [&](const coordinator::Send& e) {
                     const auto handle = handles_.find(e.to);
                     if (handle == handles_.end()) return;  // gone; its DOWN is on the way or was handled
                     std::visit([&](const auto& message) { send(handle->second, message); }, e.message);
                   },
                   [&](const coordinator::Fence& e) { delayed_send(this, FAREWELL_TIME, FenceNow{e.peer}); },
                   [&](const coordinator::LookFor& e) { ports_.lookout->look_for(e.peer, e.lanes); },
                   [&](const coordinator::Finish& e) {
                     finished_ = true;
                     ports_.finished(e.cause);
                     release();
                   },
                   [](Probe) {},
               },
               action);
}

}  // namespace prime
