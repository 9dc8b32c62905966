// Owns the file in which a coordinator's decisions survive it: RUN/coordinator/decisions.json.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "actors/coordinator/coordinator_state.hpp"
#include "runtime/agent/ledger_writer.hpp"

namespace prime {

/// The text of the file, and back; nothing when it is damaged.
std::string format_snapshot(const coordinator::Snapshot& snapshot);
std::optional<coordinator::Snapshot> parse_snapshot(const std::string& text);

class DecisionFile final : public DecisionStore {
 public:
  /// `patience`: for how long it is tried again when this process can open no file.
  explicit DecisionFile(std::filesystem::path path, Duration patience = {}) : path_(std::move(path)), patience_(patience) {}
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void keep(const coordinator::Snapshot& snapshot) override;
  [[nodiscard]] std::string place() const override;
  /// What was kept last; nothing when the run has decided nothing yet. StorageFailed when it cannot be read, or is no such file.
  [[nodiscard]] Result<std::optional<coordinator::Snapshot>> read() const;

 private:
  std::filesystem::path path_;
  Duration patience_;
  mutable std::mutex mutex_;
  std::string lack_;  ///< why it cannot be opened just now; guarded by mutex_
};

}  // namespace prime
