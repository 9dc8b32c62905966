#include "actors/supervisor/supervisor_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>

namespace prime {

SupervisorImpl::SupervisorImpl(caf::actor_config& config, SupervisorPorts ports) : SupervisorActor::base(config), ports_(std::move(ports)) {
  set_down_handler([this](caf::down_msg& down) { child_down(down); });
  spawn_server();
}

void SupervisorImpl::spawn_server() {
  server_ = system().spawn<CheckpointServerImpl, caf::detached>(ports_.checkpoint_server);
  monitor(server_);
}

SupervisorImpl::behavior_type SupervisorImpl::make_behavior() {
  return {
      [this](const TrainerDied& died) { trainer_died(died); },
      [this](const FetchOrder& order) {
        fetching_ = order.fetch;
        send(server_, order);
      },
      [this](const SaveOrder& order) {
        if (!order.order.periodic) saving_ = order;
        send(server_, order);
      },
      [this](const StopFetching& order) { ports_.checkpoint_server.recovery->stop_fetch(order.fetch); },
      [this](const EndOrder& order) { send(server_, order); },
  };
}

void SupervisorImpl::on_exit() {
  caf::anon_send_exit(server_, caf::exit_reason::user_shutdown);
  server_ = CheckpointServerActor{};
}

void SupervisorImpl::trainer_died(const TrainerDied& died) {
  const auto& cause = died.cause;
  trainer_.options = ports_.trainer_intensity();
  auto transition = supervisor::child_died(std::move(trainer_), cause, ports_.now(), died.began);
  trainer_ = std::move(transition.state);
  if (ports_.log) ports_.log("the trainer: " + transition.reason);
  std::visit(overloaded{
                 [&](const supervisor::Restart&) {
                   ports_.checkpoint_server.report(peer::TrainerRestarting{cause});
                   ports_.trainer->restart();
                 },
                 [&](const supervisor::GiveUp& e) { ports_.checkpoint_server.report(peer::TrainerGaveUp{e.cause}); },
             },
             transition.decision);
}

void SupervisorImpl::child_down(const caf::down_msg& down) {
  if (down.source != server_.address()) return;
  const Error cause{ErrorName::InternalError, "the checkpoint server crashed: " + system().render(down.reason)};
  auto transition = supervisor::child_died(std::move(server_state_), cause, ports_.now());
  server_state_ = std::move(transition.state);
  if (ports_.log) ports_.log("the checkpoint server: " + transition.reason);
  if (std::holds_alternative<supervisor::GiveUp>(transition.decision)) {
    ports_.checkpoint_server.ended(cause);
    return;
  }
  spawn_server();
  // What it was fetching or saving is lost with it: the peer hears of that, is sent to a donor again, and saves again.
  if (fetching_) ports_.checkpoint_server.report(peer::FetchEnded{fetching_->revision, fail(cause)});
  if (saving_) ports_.checkpoint_server.report(peer::SaveEnded{false, fail(cause)});
  fetching_.reset();
  saving_.reset();
}

}  // namespace prime
