#include "cli/saving_watch.hpp"

#include <algorithm>
#include <utility>

#include "cli/patience.hpp"
#include "cli/render/figures.hpp"
#include "cli/render/style.hpp"
#include "runtime/launch/run_directory.hpp"

namespace prime::cli {
namespace {

std::string because_of(const telemetry::PeerJournal& peer) {
  if (!peer.saving)
    return ", which lives, says nothing, and has not saved outer step " + std::to_string(peer.status.outer_step.value_or(0));
  return ", which saves what it holds" +
         (peer.problem ? ", and could not yet: " + *peer.problem + "; it tries on (`checkpoint.retry`)" : std::string{});
}

}  // namespace

SavingWatch::SavingWatch(telemetry::RunObserver& observer, Terminal& terminal, std::string at_once)
    : observer_(&observer), terminal_(&terminal), at_once_(std::move(at_once)) {
  const auto manifest = launch::read_manifest(observer.directory());
  const auto limit = manifest ? manifest->checkpoint.retry : manifest::Shared{}.checkpoint.retry;
  until_ = std::chrono::steady_clock::now() + limit;
}

bool SavingWatch::operator()(const telemetry::ProcessIdentity& agent) {
  observer_->update();
  const auto peers = observer_->local_peers();
  const auto peer = std::ranges::find_if(peers, [&](const telemetry::PeerJournal& p) { return p.agent == agent; });
  if (peer == peers.end()) return false;
  const bool may_save_yet = std::chrono::steady_clock::now() < until_ && telemetry::holds_only_copy(*peer, peers);
  if (!peer->saving && !may_save_yet) return false;
  const auto what = peer->status.name + because_of(*peer);
  const auto now = std::chrono::steady_clock::now();
  if (what == said_ && now - said_at_ < QUIET_LIMIT) return true;
  const std::chrono::duration<double> waited = now - since_;
  terminal_->say("Waiting", "for " + harmless(what) + (what == said_ ? " (for " + elapsed_figure(waited.count()) + ")" : "") + at_once_,
                 Role::Degraded);
  said_ = what;
  said_at_ = now;
  return true;
}

}  // namespace prime::cli
