#include "actors/peer/peer_actor.hpp"

namespace prime {

PeerActorImpl::PeerActorImpl(caf::actor_config& config, peer::Options options, PeerPorts ports)
    : PeerShell::base(config), ports_(std::move(ports)), options_(std::move(options)) {
  set_down_handler([this](caf::down_msg& down) {
    if (down.source != caf::actor_cast<caf::actor_addr>(ports_.coordinator)) return;  // of one before
    handle(peer::CoordinatorLost{"its connection closed"});
    ports_.settled();
  });
}

PeerActorImpl::behavior_type PeerActorImpl::make_behavior() {
  monitor(ports_.coordinator);
  delayed_send(this, TICK_EVERY, TickNow{});
  apply(peer::start(options_, ports_.now()));
  return {
      [this](const Welcome& m) { handle(peer::FromCoordinator{m}); },
      [this](const Dismissed& m) {
        handle(peer::FromCoordinator{m});
        ports_.settled();  // it has the last word; what this peer said before has arrived
      },
      [this](const FetchState& m) { handle(peer::FromCoordinator{m}); },
      [this](const BeginStep& m) { handle(peer::FromCoordinator{m}); },
      [this](const StartReduce& m) { handle(peer::FromCoordinator{m}); },
      [this](const Abort& m) { handle(peer::FromCoordinator{m}); },
      [this](const Commit& m) { handle(peer::FromCoordinator{m}); },
      [this](const RunDone& m) { handle(peer::FromCoordinator{m}); },
      [this](const HeartbeatSeen& m) { handle(peer::FromCoordinator{m}); },
      [this](const MeasureLink& m) { handle(peer::FromCoordinator{m}); },
      [this](const Coordinators& m) { handle(peer::FromCoordinator{m}); },
      [this](const ReplicaLacks& m) { handle(peer::FromCoordinator{m}); },
      [this](const PublishNow& m) { handle(peer::FromCoordinator{m}); },
      [this](const PeerHappening& happening) { handle(happening.event); },
      [this](const CoordinatorFound& found) {
        demonitor(ports_.coordinator.address());
        ports_.coordinator = found.coordinator;
        monitor(ports_.coordinator);
        handle(peer::CoordinatorBack{});
      },
      [this](TickNow) {
        delayed_send(this, TICK_EVERY, TickNow{});
        handle(peer::Tick{});
      },
  };
}

// The system's end waits until its detached actors are destroyed, and the notice of this actor's death may lie unread in the BASP
// broker's mailbox (which CAF 0.17.6 never closes) until after that. So nothing may stay alive through an ended peer.
void PeerActorImpl::on_exit() {
  ports_.coordinator = CoordinatorActor{};
  ports_.reduce_worker = ReduceWorkerActor{};
  ports_.supervisor = SupervisorActor{};
}

void PeerActorImpl::handle(const peer::Event& event) {
  state_.moved_bytes = ports_.moved_bytes();
  apply(peer::step(std::move(state_), event, ports_.now()));
}

void PeerActorImpl::apply(peer::Transition transition) {
  state_ = std::move(transition.state);
  if (ports_.log && !transition.reason.empty()) ports_.log(transition.reason);
  for (const auto& effect : transition.effects) carry_out(effect);
  ports_.observe(state_);
}

void PeerActorImpl::carry_out(const peer::Effect& effect) {
  std::visit(overloaded{
                 [&](const JournalEvent& event) { ports_.journal->append(event); },
                 [&](const peer::Tell& e) { std::visit([&](const auto& message) { send(ports_.coordinator, message); }, e.message); },
                 [&](const peer::Redial& e) { ports_.redial(e.others); },
                 [&](const peer::StartTrainer& e) { ports_.trainer->start(e.welcome); },
                 [&](const peer::BeginTraining& e) { ports_.trainer->begin(e.begin); },
                 [&](const peer::AskPublication& e) { ports_.trainer->ask(e.asked); },
                 [&](const peer::StartTrainerOver&) { ports_.trainer->start_over(); },
                 [&](const peer::StartFetch& e) { send(ports_.supervisor, FetchOrder{e.fetch}); },
                 [&](const peer::StopFetch& e) { send(ports_.supervisor, StopFetching{e.fetch}); },
                 [&](const peer::RunReduce& e) {
                   send(ports_.reduce_worker, ReduceHappening{reduce_worker::Run{e.reduce, e.brings}});
                 },
                 [&](const peer::AbortReduce& e) {
                   send(ports_.reduce_worker, ReduceHappening{reduce_worker::Cancel{e.op, e.reason}});
                 },
                 [&](const peer::ApplyCommit& e) { send(ports_.reduce_worker, ReduceHappening{reduce_worker::Apply{e.commit}}); },
                 [&](const peer::Discard& e) { send(ports_.reduce_worker, ReduceHappening{reduce_worker::Drop{e.op}}); },
                 [&](const peer::StartMeasure& e) { ports_.measure(e.to); },
                 [&](const peer::FinishTraining& e) { ports_.trainer->finish(e.done); },
                 [&](const peer::SaveState& e) { ports_.save(e); },
                 [&](const peer::StopWork& e) {
                   ports_.trainer->stop(e.cause);
                   send(ports_.supervisor, StopFetching{std::nullopt});
                 },
                 [&](const peer::End& e) { send(ports_.supervisor, EndOrder{e.cause}); },
                 [](Probe) {},
             },
             effect);
}

}  // namespace prime
