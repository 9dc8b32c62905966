// Owns the view of one run from outside: all its journals on this machine, followed as they grow, and whether its processes live.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/combine.hpp"
#include "runtime/telemetry/peer_journal.hpp"
#include "runtime/telemetry/run_journal.hpp"
#include "runtime/telemetry/run_lock.hpp"

namespace prime::telemetry {

/// One line of one process's journal.
struct ObservedLine {
  std::string source;  ///< "coordinator", or the peer's name
  std::string peer;    ///< the peer's id; empty for the coordinator
  store::JournalLine line;
  std::optional<JournalEvent> event = {};  ///< what it tells; nothing where this version does not know it, or it is damaged
};

/// What of a journal is not in the picture.
struct Damage {
  std::filesystem::path journal;
  std::uint64_t lines = 0;       ///< that are no journal lines, tell what is not of its form, or lack: their numbers have no gaps
  std::optional<Error> problem;  ///< why the rest cannot be read at all
};

/// A process of the run that lives, or may, where it can be neither looked up nor signalled from here.
struct Foreign {
  bool coordinator = false;  ///< or its guard
  std::string peer;          ///< else: its id; empty where its journal does not tell
  std::string what;          ///< "the coordinator", or the peer's name
  ProcessIdentity process;   ///< pid 0: not known
  Presence presence;         ///< Elsewhere, Unsettled or Unknown
};

class RunObserver {
 public:
  /// `alive`: of a process of this place; of all others the locks of their directories tell.
  explicit RunObserver(std::filesystem::path run_directory, std::function<bool(const ProcessIdentity&)> alive = is_alive,
                       LockTerms terms = {})
      : directory_(std::move(run_directory)), alive_(std::move(alive)), terms_(terms) {}

  /// Reads what is new in all journals. Returns those lines, each journal's in order.
  /// Who is dead afterwards was so before the last look, so that the picture holds its last words.
  std::vector<ObservedLine> update();
  /// Whether all is known that can be; as long as it is not, who may live elsewhere counts as alive.
  [[nodiscard]] bool settled() const;
  /// Updates until it is, which takes LockTerms::silence_limit at most. `waits` is called once, if it has to wait.
  void settle(const std::function<void()>& waits = {});
  [[nodiscard]] std::vector<Foreign> foreign() const;
  [[nodiscard]] RunStatus status() const;
  [[nodiscard]] const RunJournal& run() const { return run_; }
  /// What a coordinator of this place that lives, or whose guard does, waits for to write its ledger, or what keeps it from going on;
  /// empty: nothing that it shows.
  [[nodiscard]] std::string held_up() const;
  [[nodiscard]] std::vector<PeerJournal> local_peers() const;
  /// With those in whose place another one takes part: they have the same process.
  [[nodiscard]] std::vector<PeerJournal> local_lives() const;
  /// Of all journals read so far, those with damage.
  [[nodiscard]] std::vector<Damage> damage() const;
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

 private:
  struct Followed {
    explicit Followed(std::filesystem::path path) : reader(path), path(std::move(path)) {}
    std::vector<store::JournalLine> read();
    store::JournalReader reader;
    std::filesystem::path path;
    PeerJournal fold;
    std::uint64_t next_seq = 1;
    std::uint64_t missing = 0;
    std::uint64_t ill_formed = 0;
    std::optional<Error> problem;
  };

  void read_new(std::vector<ObservedLine>& observed);
  void name_writers();
  bool find_dead();
  LockWatch& lock_of(const std::filesystem::path& journal);
  void tell_foreign(RunStatus& status) const;
  [[nodiscard]] bool seems_alive(const ProcessIdentity& process) const;
  [[nodiscard]] std::string where_it_is_now(const std::string& checkpoint) const;
  void read_notices(RunJournal& run, const std::function<bool(const ProcessIdentity&)>& alive) const;

  std::filesystem::path directory_;
  std::function<bool(const ProcessIdentity&)> alive_;
  LockTerms terms_;
  std::vector<ProcessIdentity> dead_;
  std::map<std::filesystem::path, LockWatch> locks_;    ///< by journal
  std::map<std::filesystem::path, Presence> presence_;  ///< of who writes it
  RunJournal run_;
  std::map<std::filesystem::path, Followed> followed_;  ///< by journal; the coordinator's has no use for its fold
};

/// RunElsewhere where a process of the run lives, or may, that only its files tell of: where it does, and what to do.
std::optional<Error> lives_elsewhere(const RunObserver& observer);

}  // namespace prime::telemetry
