#include "runtime/telemetry/combine.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/memory_kills.hpp"

namespace prime::telemetry {
namespace {

constexpr const char* PEERS_LEFT = "the peers of this machine left; the run may go on elsewhere";
constexpr const char* TOLD_LAST = "so it was told last; it is kept elsewhere";
constexpr const char* COORDINATOR_GONE = "the coordinator, which is gone, and its guard with it: nothing on this machine starts it again";
constexpr const char* COORDINATOR_KEPT_AWAY = "the coordinator, which is kept from going on: ";
constexpr const char* COORDINATOR_COMES_BACK = "the coordinator, which its guard starts again";
constexpr const char* NO_ROOM = "its disk is full: its journal has no room, and what is told of this peer may be old";

/// Where nobody watched the process that is gone without a word, this is all that is left of why.
std::string kills_since(const std::optional<MemoryKills>& began) {
  const auto kills = began ? kills_since_it_began(*began) : std::string{};
  return kills.empty() ? "" : "; " + kills;
}

/// What a local agent knows better than the coordinator: its own processes, and what it holds.
void refine(PeerStatus& row, const PeerJournal& local, const std::vector<PeerJournal>& all, bool alive) {
  row.pid = local.status.pid;
  row.trainer_pid = local.status.trainer_pid;
  row.restarts = local.status.restarts;
  row.restart_reason = local.status.restart_reason;
  row.device = local.status.device;
  if (local.status.outer_step) row.outer_step = local.status.outer_step;
  if (local.status.digest) row.digest = local.status.digest;
  // Its part is over, and what it holds is nowhere else.
  if (alive && row.state == PeerState::Left && (local.saving || holds_only_copy(local, all))) {
    row.state = PeerState::Saving;
    row.reason = local.saving ? local.status.reason : "lives, and has not saved outer step " + std::to_string(*local.status.outer_step);
    return;
  }
  const auto kills = local.ended || alive ? std::string{} : kills_since(local.kills_before);
  if (is_gone(row.state)) {
    // Who left said goodbye, even where its last lines had no room.
    if (row.state == PeerState::Lost) row.reason += kills;
    return;
  }
  if (local.ended || !alive) {
    row.state = local.ended ? local.status.state : PeerState::Lost;
    row.reason = local.ended ? local.status.reason : "its agent is gone" + kills;
    row.tokens_per_s.reset();
    row.data_wait.reset();
  } else if (!local.status.reason.empty()) {
    row.reason = local.status.reason;
  } else if (local.absence) {
    row.reason = "waits for " + local.absence->what;
  } else if (!local.lacks.empty()) {
    row.reason = "waits for " + local.lacks + " of replica " + row.replica;
  }
  if (alive && !local.ended && !local.shortage.empty()) row.reason += (row.reason.empty() ? "" : "; ") + local.shortage;
  if (alive && !local.ended && local.no_room) row.reason += (row.reason.empty() ? "" : "; ") + std::string{NO_ROOM};
}

/// Peers of other machines, or of another state directory, outlive their coordinator.
std::string kept_elsewhere(std::size_t peers) {
  if (peers == 0) return {};
  return "; " + std::to_string(peers) + (peers == 1 ? " peer that is" : " peers that are") + " kept elsewhere may live";
}

bool all_look_for_the_coordinator(const std::vector<const PeerJournal*>& at_work) {
  return std::ranges::all_of(at_work, [](const PeerJournal* peer) { return peer->absence.has_value(); });
}

/// A coordinator that stands still, or that nobody here reaches, says nothing of it itself.
void judge_absence(RunStatus& status, const std::vector<const PeerJournal*>& at_work) {
  if (is_over(status.state) || at_work.empty() || !all_look_for_the_coordinator(at_work)) return;
  status.state = RunState::Waiting;
  status.wait = *at_work.front()->absence;
}

/// Who has a trainer and no other cause to wait waits for what the run waits for.
void give_joiners_a_reason(RunStatus& status) {
  for (auto& peer : status.peers)
    if (peer.state == PeerState::Joining && peer.trainer_pid && peer.reason.empty()) peer.reason = short_wait(status);
}

/// A run whose coordinator is on another machine is known only by the peers that run here.
/// A peer that it did not take says nothing of how it goes.
void judge_from_peers(RunStatus& status, const std::vector<PeerJournal>& local) {
  if (const auto refused = std::ranges::find_if(local, &PeerJournal::refused); refused != local.end()) {
    std::erase_if(status.peers, [&](const PeerStatus& row) {
      return std::ranges::any_of(local, [&](const PeerJournal& peer) { return peer.refused && peer.status.id == row.id; });
    });
    if (status.peers.empty()) status.reason = refused->status.name + " was not taken: " + refused->status.reason;
  }
  if (!local.empty()) status.id = local.front().run;
  status.name = run_name(status.id);
  const bool done = std::any_of(local.begin(), local.end(), [](const PeerJournal& peer) { return peer.run_done; });
  const bool over = std::all_of(status.peers.begin(), status.peers.end(), [](const PeerStatus& peer) { return is_gone(peer.state); });
  const bool lost =
      std::any_of(status.peers.begin(), status.peers.end(), [](const PeerStatus& peer) { return peer.state == PeerState::Lost; });
  const bool stopped = std::any_of(status.peers.begin(), status.peers.end(), [](const PeerStatus& peer) {
    const auto cause = parse_error_text(peer.reason);
    return cause && cause->name == ErrorName::RunStopped;
  });
  const bool begun = std::any_of(status.peers.begin(), status.peers.end(), [](const PeerStatus& peer) {
    return peer.state == PeerState::Training || peer.state == PeerState::Reducing;
  });
  for (const auto& journal : local) {
    const auto& peer = journal.status;
    if (peer.outer_step.value_or(0) < status.outer_step || !peer.outer_step) continue;
    status.outer_step = *peer.outer_step;
    status.revision = journal.revision;
    if (peer.replica.empty()) status.digest = peer.digest;  // else it is of a shard
  }
  if (done) status.state = RunState::Done;
  else if (over) status.state = lost ? RunState::Failed : stopped ? RunState::Stopped : RunState::Left;
  else status.state = begun ? RunState::Training : RunState::Waiting;
  if (over && !done && !status.peers.empty()) status.reason = status.state == RunState::Left ? PEERS_LEFT : status.peers.back().reason;
}

/// Who has its seat in a run that is held neither trains nor says why.
void give_the_held_a_reason(RunStatus& status) {
  if (status.state != RunState::Paused) return;
  for (auto& peer : status.peers)
    if (peer.state == PeerState::Training && peer.reason.empty())
      peer.reason = status.paused_since ? "waits for `primectl resume`" : "waits: the run is paused";
}

/// All fragments are due at once, each step's before the next one's.
void judge_fragments(RunStatus& status, const std::set<PeerId>& ready, const std::set<std::uint64_t>& reducing) {
  if (status.fragments.empty()) return;
  const bool works = status.state == RunState::Training;
  const auto next = std::ranges::min_element(status.fragments, {}, &FragmentStatus::version);
  std::vector<std::string> missing;
  for (const auto& peer : status.peers)
    if (peer.state == PeerState::Training && !ready.contains(parse_peer_id(peer.id).value_or(PeerId{}))) missing.push_back(peer.name);
  for (auto at = status.fragments.begin(); at != status.fragments.end(); ++at) {
    const bool open = works && at->version == next->version;
    const auto fragment = static_cast<std::uint64_t>(at - status.fragments.begin());
    at->state = !open ? FragmentState::Committed : reducing.contains(fragment) ? FragmentState::Reducing : FragmentState::Collecting;
    at->waiting_for = at->state == FragmentState::Collecting ? missing : std::vector<std::string>{};
  }
}

}  // namespace

RunStatus combine(const RunJournal& run, const std::vector<PeerJournal>& local, const std::function<bool(const ProcessIdentity&)>& alive) {
  // What keeps the coordinator away may go away: a disk that is full, a port that is taken.
  const bool comes_back = run.before_the_end && alive(run.guard);
  const bool gone = run.status.coordinator_here && !run.ended && !alive(run.coordinator) && !alive(run.guard);
  // No peer is ahead of the journal of its coordinator (SIM-3): one that is follows another one, which stood by for this one.
  const bool led_elsewhere = gone && std::any_of(local.begin(), local.end(), [&](const PeerJournal& peer) {
                               const bool counts = peer.ended || alive(peer.agent);
                               return counts && peer.status.outer_step.value_or(0) > run.status.outer_step;
                             });
  auto status = led_elsewhere ? RunStatus{} : comes_back ? *run.before_the_end : run.status;
  std::vector<const PeerJournal*> at_work;
  const bool coordinator_lost = gone && !led_elsewhere;
  for (const auto& peer : local) {
    if (peer.status.id.empty()) continue;  // it has not said who it is yet
    auto row = std::find_if(status.peers.begin(), status.peers.end(), [&](const PeerStatus& known) { return known.id == peer.status.id; });
    // Whom the coordinator never let in was no peer of the run.
    if (row == status.peers.end() && status.coordinator_here && (peer.ended || !alive(peer.agent))) continue;
    if (row == status.peers.end()) {
      auto fresh = peer.status;
      // The coordinator alone knows who trains; until it says so, this one is on its way.
      if (status.coordinator_here && !is_gone(fresh.state)) fresh.state = PeerState::Joining;
      row = status.peers.insert(status.peers.end(), std::move(fresh));
    }
    const bool works = !peer.ended && alive(peer.agent);
    refine(*row, peer, local, works);
    if (works) at_work.push_back(&peer);
    // What the last report of a run that is done says counts for its end.
    if (peer.problem && status.state != RunState::Done && status.checkpoint_problem.empty())
      status.checkpoint_problem = peer.status.name + ": " + *peer.problem;
    if (peer.checkpoint && (!status.checkpoint || step_of_checkpoint(*peer.checkpoint) > step_of_checkpoint(*status.checkpoint)))
      status.checkpoint = peer.checkpoint;
  }
  if (!status.coordinator_here) judge_from_peers(status, local);
  // A number that means nobody any more, and may mean a stranger soon.
  if (run.coordinator.pid > 0 && !alive(run.coordinator)) status.coordinator_pid.reset();
  if (coordinator_lost && !is_over(status.state) && at_work.empty()) {
    status.state = RunState::Failed;
    status.wait = {};
    std::size_t elsewhere = 0;
    for (auto& peer : status.peers) {
      peer.tokens_per_s.reset();
      peer.data_wait.reset();
      if (is_gone(peer.state)) continue;
      ++elsewhere;
      peer.reason = TOLD_LAST;
    }
    status.reason = std::string{COORDINATOR_LOST} + kills_since(run.kills_before) + kept_elsewhere(elsewhere);
  }
  judge_absence(status, at_work);
  if (coordinator_lost && !is_over(status.state)) {
    status.state = RunState::Waiting;
    // Peers on other machines, and those that stand by, are looked for by who works here: until when, they say themselves.
    status.wait.what = COORDINATOR_GONE + std::string{"; the peers save what they hold when they give up, or at once by `primectl down "} +
                       status.id + "`";
  }
  if (run.unwritten && !is_over(status.state)) {
    status.state = RunState::Waiting;
    status.wait = *run.unwritten;
  }
  const bool killed = status.coordinator_here && !run.ended && run.coordinator.pid > 0 && !alive(run.coordinator) && alive(run.guard);
  // One that tries to serve again meets the same obstacle, perhaps; whom others serve has peers that look for nobody.
  const bool tries = run.obstacle && alive(run.guard) && all_look_for_the_coordinator(at_work);
  if ((comes_back || tries || killed) && !is_over(status.state)) {
    status.state = RunState::Waiting;
    status.wait.what = run.obstacle ? COORDINATOR_KEPT_AWAY + *run.obstacle : COORDINATOR_COMES_BACK + kills_since(run.kills_before);
  }
  if (!is_over(status.state)) {
    if (!run.shortage.empty() && alive(run.coordinator)) status.problems.push_back("the coordinator: " + run.shortage);
    if (!run.data_differs.empty())
      status.problems.push_back("the data is not that of the run that this one goes on from: " + run.data_differs);
    for (const auto& peer : local)
      if (!peer.fresh.empty())
        status.problems.push_back("the trainer of " + peer.status.name + " began with fresh private state: " + peer.fresh);
    for (const auto& peer : local)
      if (peer.refused) status.problems.push_back(peer.status.name + " was started here, and not taken: " + peer.status.reason);
  }
  give_joiners_a_reason(status);
  give_the_held_a_reason(status);
  status.begun = run.begun;
  for (const auto& peer : local)
    if (peer.begun && (!status.begun || *peer.begun < *status.begun)) status.begun = peer.begun;
  judge_fragments(status, run.ready, run.reducing);
  return status;
}

}  // namespace prime::telemetry
