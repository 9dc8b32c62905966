#include "runtime/telemetry/run_observer.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>

#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/event_json.hpp"
#include "runtime/telemetry/notice_board.hpp"
#include "runtime/telemetry/run_files.hpp"

namespace prime::telemetry {
namespace fs = std::filesystem;
namespace {

constexpr const char* COORDINATOR_LOST = "the coordinator was lost";
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
      if (is_gone(peer.state)) continue;
      ++elsewhere;
      peer.reason = TOLD_LAST;
    }
    status.reason = COORDINATOR_LOST + kills_since(run.kills_before) + kept_elsewhere(elsewhere);
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

std::vector<store::JournalLine> RunObserver::Followed::read() {
  std::error_code error;
  std::vector<store::JournalLine> all;
  // A journal is asked for its size first: most of the time nothing is new, and a read costs a large buffer.
  while (fs::file_size(path, error) > reader.offset_bytes() && !error) {
    const auto before = reader.offset_bytes();
    auto lines = reader.read_new();
    if (!lines) problem = lines.error();
    if (!lines || reader.offset_bytes() == before) break;
    for (const auto& line : *lines) {
      missing += line.seq - std::min(line.seq, next_seq);
      next_seq = line.seq + 1;
    }
    all.insert(all.end(), std::make_move_iterator(lines->begin()), std::make_move_iterator(lines->end()));
  }
  if (!error && fs::file_size(path, error) < reader.offset_bytes())
    problem = Error{ErrorName::StorageFailed, path.string() + " was cut short after it had been read"};
  if (error && error != std::errc::no_such_file_or_directory) problem = store::storage_error("read", path, error.value());
  return all;
}

std::vector<Damage> RunObserver::damage() const {
  std::vector<Damage> found;
  for (const auto& [path, followed] : followed_)
    if (const auto lines = std::max(followed.reader.skipped(), followed.missing) + followed.ill_formed; lines > 0 || followed.problem)
      found.push_back({path, lines, followed.problem});
  return found;
}

std::vector<ObservedLine> RunObserver::update() {
  std::vector<ObservedLine> observed;
  do {
    read_new(observed);
    name_writers();
  } while (find_dead());
  return observed;
}

/// The coordinator's journal last: what a peer did there, the coordinator has told it to do before.
void RunObserver::read_new(std::vector<ObservedLine>& observed) {
  const auto coordinator = coordinator_journal(directory_);
  auto paths = peer_journals(directory_);
  paths.push_back(coordinator);
  for (const auto& path : paths) {
    auto& followed = followed_.try_emplace(path, path).first->second;
    for (auto& line : followed.read()) {
      auto event = read_event(path == coordinator ? JournalWriter::Coordinator : JournalWriter::Agent, line);
      if (!event) ++followed.ill_formed;
      if (event && *event && path == coordinator) run_.apply(**event, time_of(line));
      else if (event && *event) followed.fold.apply(**event, time_of(line));
      const auto& peer = followed.fold.status;
      observed.push_back(
          ObservedLine{path == coordinator ? "coordinator" : peer.name, peer.id, std::move(line), std::move(event).value_or(std::nullopt)});
    }
  }
}

LockWatch& RunObserver::lock_of(const fs::path& journal) {
  return locks_.try_emplace(journal, journal.parent_path(), terms_).first->second;
}

/// Of a journal that has lost its first line, the lock still tells whose it is: who is at work is neither forgotten nor removed.
void RunObserver::name_writers() {
  for (auto& [path, followed] : followed_) {
    const bool coordinator = path == coordinator_journal(directory_);
    auto& writer = coordinator ? run_.guard : followed.fold.agent;
    if (writer.pid != 0 || (coordinator && run_.coordinator.pid != 0)) continue;
    auto& lock = lock_of(path);
    lock.look({}, true);
    writer = lock.holder().value_or(ProcessIdentity{});
  }
}

/// Whether somebody is dead who was not before.
bool RunObserver::find_dead() {
  std::vector<ProcessIdentity> dead;
  const auto judge = [&](const fs::path& journal, std::vector<ProcessIdentity> processes, bool ended) {
    const auto told = processes.front();
    const auto count = processes.size();
    std::erase_if(processes, alive_);
    const auto presence = processes.size() < count ? Presence::Here : lock_of(journal).look(told, ended);
    presence_[journal] = presence;
    const bool elsewhere = presence == Presence::Elsewhere || presence == Presence::Unsettled;
    for (const auto& process : processes)
      if (!elsewhere || is_here(process.place)) dead.push_back(process);
  };
  for (const auto& [path, followed] : followed_)
    if (path == coordinator_journal(directory_)) judge(path, {run_.coordinator, run_.guard}, run_.ended);
    else judge(path, {followed.fold.agent}, followed.fold.ended);
  const bool more = std::ranges::any_of(dead, [&](const auto& process) { return std::ranges::find(dead_, process) == dead_.end(); });
  dead_ = std::move(dead);
  return more;
}

bool RunObserver::settled() const {
  return std::ranges::none_of(presence_, [](const auto& one) { return one.second == Presence::Unsettled; });
}

void RunObserver::settle(const std::function<void()>& waits) {
  update();
  if (!settled() && waits) waits();
  while (!settled()) {
    std::this_thread::sleep_for(LOOK_EVERY);
    update();
  }
}

std::vector<Foreign> RunObserver::foreign() const {
  std::vector<Foreign> found;
  for (const auto& [path, presence] : presence_) {
    if (presence == Presence::Gone || presence == Presence::Here) continue;
    const bool coordinator = path == coordinator_journal(directory_);
    const auto& fold = followed_.at(path).fold;
    auto process = coordinator ? run_.coordinator : fold.agent;
    if (const auto lock = locks_.find(path); !process.place.known() && lock != locks_.end())
      process = lock->second.holder().value_or(process);
    const auto& name = fold.status.name;
    found.push_back({coordinator, fold.status.id,
                     coordinator    ? "the coordinator"
                     : name.empty() ? path.parent_path().filename().string()
                                    : name,
                     process, presence});
  }
  return found;
}

/// What is seen of a process by its files alone: never its number as if it were of this place, where a stranger may have it.
void RunObserver::tell_foreign(RunStatus& status) const {
  for (const auto& [coordinator, peer, what, process, presence] : foreign()) {
    const bool certain = presence != Presence::Unknown;
    const auto place = place_text(process.place);
    auto there =
        std::ranges::find_if(status.elsewhere, [&](const auto& known) { return known.place == place && known.certain == certain; });
    if (there == status.elsewhere.end()) there = status.elsewhere.insert(there, {place, {}, certain});
    there->processes.push_back(what + (process.pid > 0 ? " (pid " + std::to_string(process.pid) + " there)" : std::string{}));
    if (coordinator) status.coordinator_pid.reset();
    for (auto& row : status.peers)
      if (!coordinator && row.id == peer) row.pid = row.trainer_pid = std::nullopt;
  }
  const auto& place = run_.coordinator.place;
  if (!status.reason.starts_with(COORDINATOR_LOST) || !place.known() || is_here(place)) return;
  // Nothing outlives the kernel that had this file system before this one.
  const bool restarted = place.boot != here().boot && LockWatch{directory_, terms_}.proves();
  status.reason.insert(std::string_view{COORDINATOR_LOST}.size(),
                       restarted ? ": its machine was started anew since" : ", " + place_text(place));
}

std::vector<PeerJournal> RunObserver::local_peers() const {
  auto peers = local_lives();
  std::set<std::string> past;
  for (const auto& peer : peers) past.insert(peer.instead_of);
  std::erase_if(peers, [&](const PeerJournal& peer) { return !peer.status.id.empty() && past.contains(peer.status.id); });
  return peers;
}

std::vector<PeerJournal> RunObserver::local_lives() const {
  std::vector<PeerJournal> peers;
  for (const auto& [path, followed] : followed_)
    if (path != coordinator_journal(directory_)) {
      peers.push_back(followed.fold);
      peers.back().no_room = has_no_room(path.parent_path());
      // Its journal tells where it was written, and lies now beside it.
      auto& checkpoint = peers.back().checkpoint;
      if (const fs::path told{checkpoint.value_or("")}; told.parent_path().filename() == "checkpoints")
        checkpoint = (path.parent_path() / "checkpoints" / told.filename()).string();
    }
  return peers;
}

/// What no journal has: its disk has no room, or stands still. Only a process of this place is looked up by its number.
void RunObserver::read_notices(RunJournal& run, const std::function<bool(const ProcessIdentity&)>& alive) const {
  if (run.ended || run.coordinator.pid == 0) return;
  if (alive(run.coordinator)) {
    const auto notice = alive_(run.coordinator) ? read_notice(run.coordinator.pid) : std::nullopt;
    if (!notice || notice->unwritten.empty()) return;
    run.unwritten = {notice->unwritten, notice->since, notice->until};
  } else if (!run.obstacle && alive_(run.guard)) {
    if (const auto notice = read_notice(run.guard.pid); notice && !notice->obstacle.empty()) run.obstacle = notice->obstacle;
  }
}

bool RunObserver::seems_alive(const ProcessIdentity& process) const { return std::ranges::find(dead_, process) == dead_.end(); }

std::string RunObserver::held_up() const {
  auto run = run_;
  run.obstacle.reset();
  read_notices(run, [this](const ProcessIdentity& process) { return seems_alive(process); });
  return run.unwritten ? run.unwritten->what : run.obstacle.value_or("");
}

/// Of a checkpoint of this run, wherever its directory was when it was written; of one that is not here, as it was told.
std::string RunObserver::where_it_is_now(const std::string& checkpoint) const {
  const fs::path told{checkpoint};
  const auto peer = told.parent_path().parent_path();
  const auto here = directory_ / "peers" / peer.filename() / "checkpoints" / told.filename();
  std::error_code ignored;
  return peer.parent_path().filename() == "peers" && fs::is_directory(here, ignored) ? here.string() : checkpoint;
}

RunStatus RunObserver::status() const {
  const auto alive = [this](const ProcessIdentity& process) { return seems_alive(process); };
  auto run = run_;
  read_notices(run, alive);
  auto status = combine(run, local_peers(), alive);
  if (status.id.empty()) status.id = directory_.filename().string();
  if (status.name.empty()) status.name = run_name(status.id);
  tell_foreign(status);
  if (status.checkpoint) status.checkpoint = where_it_is_now(*status.checkpoint);
  return status;
}

std::optional<Error> lives_elsewhere(const RunObserver& observer) {
  const auto run = observer.directory().filename().string();
  std::string where;
  bool certain = false;
  for (const auto& there : observer.status().elsewhere) {
    where += where.empty() ? "" : "; ";
    where += there.place + ": ";
    for (const auto& process : there.processes) where += (&process == &there.processes.front() ? "" : ", ") + process;
    certain |= there.certain;
  }
  if (where.empty()) return std::nullopt;
  if (certain)
    return Error{ErrorName::RunElsewhere, run + " lives " + where + "; `primectl down " + run +
                                              "` there ends it; if that machine is gone for "
                                              "good, its lock goes with the file server's lease (NFS: some minutes)"};
  return Error{ErrorName::RunElsewhere, run + " may live " + where +
                                            ", which nothing that is seen from here tells; if none of the machines that share " +
                                            observer.directory().string() + " runs it, delete that directory yourself"};
}

}  // namespace prime::telemetry
