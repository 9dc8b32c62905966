// Owns the thread that writes a coordinator's ledger, so that its actor, which answers heartbeats, never waits for a disk or for etcd.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "actors/coordinator/ledger.hpp"
#include "actors/ports.hpp"

namespace prime {

/// What a disk or a store does that is waited for, as DecisionStore::place has it.
inline constexpr const char* TAKES_NO_ENTRY = ", which takes no entry of the coordinator's ledger";

/// Where decisions outlive the process.
class DecisionStore {
 public:
  virtual ~DecisionStore() = default;
  /// Blocks until they are kept instead of those before. What cannot be kept ends the process, before anybody is told.
  virtual void keep(const coordinator::Snapshot& snapshot) = 0;
  /// For people, what it waits for while it keeps something: "the disk of PATH, which takes no entry …", a store, a descriptor. Any thread.
  [[nodiscard]] virtual std::string place() const = 0;
};

/// Both outlive it.
class LedgerWriter final : public LedgerPort {
 public:
  /// `journal_place`: as DecisionStore::place.
  LedgerWriter(DecisionStore& decisions, JournalPort& journal, std::string journal_place);
  /// Waits for the entry that is being written.
  ~LedgerWriter() override;
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;
  void write(coordinator::Entry entry, std::function<void()> done) override;
  struct Unwritten {
    std::string where;
    Instant since;
    std::chrono::system_clock::time_point since_utc;  ///< for people
  };
  /// What is being written. Any thread.
  [[nodiscard]] std::optional<Unwritten> unwritten() const;

 private:
  void serve(const std::stop_token& ended);
  void begin(std::optional<Unwritten> unwritten, bool decisions = false);

  DecisionStore& decisions_;
  JournalPort& journal_;
  const std::string journal_place_;
  mutable std::mutex mutex_;
  std::condition_variable_any given_;
  std::optional<std::pair<coordinator::Entry, std::function<void()>>> order_;  ///< guarded by mutex_
  std::optional<Unwritten> unwritten_;                                         ///< guarded by mutex_
  bool keeping_ = false;                                                       ///< the decisions, of it; guarded by mutex_
  std::jthread thread_;
};

}  // namespace prime
