#include "actors/checkpoint_server/checkpoint_server_actor.hpp"

namespace prime {

CheckpointServerImpl::behavior_type CheckpointServerImpl::make_behavior() {
  return {
      [this](const FetchOrder& order) {
        auto parts = ports_.recovery->fetch(order.fetch);
        if (parts) ports_.report(peer::FetchEnded{order.fetch.revision, order.fetch.state, std::move(*parts)});
        else ports_.report(peer::FetchEnded{order.fetch.revision, fail(std::move(parts.error()))});
      },
      [this](const SaveOrder& order) { save(order.order); },
      [this](const EndOrder& order) { ports_.ended(order.cause); },
  };
}

/// What its trainer keeps for itself goes first: where the state is whole, what its writer has for itself is there, too. Without it a run
/// can go on, so that nobody tries again.
void CheckpointServerImpl::save(const peer::SaveState& order) {
  if (const auto kept = ports_.recovery->write_private_state(order.of); !kept)
    ports_.journal->append(events::PrivateStateFailed{kept.error()});
  else if (*kept) ports_.journal->append(events::PrivateStateWritten{**kept, order.reason});
  if (!order.shared) return ports_.report(peer::SaveEnded{order.periodic, std::string{}});
  const auto path = ports_.recovery->write_checkpoint(order.of);
  if (path) ports_.journal->append(events::CheckpointWritten{*path, order.reason});
  else ports_.journal->append(events::CheckpointFailed{path.error()});
  ports_.report(peer::SaveEnded{order.periodic, path});
}

}  // namespace prime
