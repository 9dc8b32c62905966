#include "runtime/telemetry/run_observer.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>

#include "runtime/telemetry/event_json.hpp"
#include "runtime/telemetry/notice_board.hpp"
#include "runtime/telemetry/run_files.hpp"

namespace prime::telemetry {
namespace fs = std::filesystem;
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
  status.reason.insert(COORDINATOR_LOST.size(), restarted ? ": its machine was started anew since" : ", " + place_text(place));
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
