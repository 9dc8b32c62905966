// Owns what a process shows of itself in memory, for when no disk takes a line: who looks from outside reads it by the process's number.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "runtime/store/file_io.hpp"

namespace prime::telemetry {

/// What keeps a coordinator from going on. Times are UTC, as journals have them.
struct Notice {
  std::string obstacle = {};   ///< of a guard: what ended the coordinator before, an error's text; empty: nothing
  std::string unwritten = {};  ///< of a coordinator: what does not take an entry of its ledger, a disk or a store; empty: nothing waits
  std::string since = {};      ///< it waits
  std::string until = {};      ///< then the coordinator ends
  friend bool operator==(const Notice&, const Notice&) = default;
};

/// With it a coordinator ends whose decisions cannot be written down any more. It says so by this alone: its log may lie on the disk that
/// stands still, and who writes there waits with it.
inline constexpr int STUCK_EXIT_CODE = 75;

/// A memory file that nobody else writes. Where there is none to be had, nothing is shown.
class NoticeBoard {
 public:
  NoticeBoard();
  /// Instead of what it showed before. One thread.
  void show(const Notice& notice);

 private:
  store::Descriptor file_;
  Notice shown_;
};

/// What a process of this PID namespace and this user shows; nothing of others.
std::optional<Notice> read_notice(pid_t pid);

}  // namespace prime::telemetry
