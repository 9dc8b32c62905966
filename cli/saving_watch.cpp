#include "cli/saving_watch.hpp"

#include <algorithm>

#include "cli/render/style.hpp"

namespace prime::cli {

bool SavingWatch::operator()(const telemetry::ProcessIdentity& agent) {
  observer_->update();
  const auto peers = observer_->local_peers();
  const auto peer = std::ranges::find_if(peers, [&](const telemetry::PeerJournal& p) { return p.agent == agent; });
  if (peer == peers.end() || !peer->saving) return false;
  const auto what = peer->status.name + ", which saves what it holds" +
                    (peer->problem ? ", and could not yet: " + *peer->problem + "; it tries on (`checkpoint.retry`)" : "");
  if (what != said_) terminal_->say("Waiting", "for " + harmless(what), Role::Degraded);
  said_ = what;
  return true;
}

}  // namespace prime::cli
