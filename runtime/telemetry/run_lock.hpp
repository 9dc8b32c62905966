// Owns DIRECTORY/lock: which living process writes a directory of a run, and whether it still does, as seen from whatever machine or
// container shares the files.
//
// The file says who holds it (its first line, a ProcessIdentity as JSON). Its holder has the kernel's lock on it, which goes with the
// process, however that ends. Where its holder finds that other machines may see the file, or cannot lock it, it has a second line, too:
// a count that grows while the holder lives. Then only whether it changes while somebody watches is a sign of life; no two clocks are
// compared.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/clock.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime::telemetry {

/// How often who watches a count reads it.
inline constexpr Duration LOOK_EVERY{100ms};
/// Of the time between two looks no more than this counts as watched: reads wait while a file server is away, and so do the holder's
/// writes.
inline constexpr Duration LOOK_SPAN_MAX{1s};

struct LockTerms {
  Duration beat_every{2s};
  /// A count that stood still for so long is of a process that is gone, or of a machine that stands still: that one ends when it goes on.
  Duration silence_limit{15s};
  /// Whether this kernel alone has the file system, so that a lock that is free here is free; absent: asked of the file system.
  std::optional<bool> own_file_system = {};
};

/// Held by the process that writes the directory, as long as this object lives.
class RunLock {
 public:
  /// Waits up to `silence_limit` where the last holder may live on another machine. RunElsewhere when it does; StorageFailed when another
  /// process of this place holds it.
  static Result<RunLock> take(const std::filesystem::path& directory, LockTerms terms = {});
  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) noexcept;
  ~RunLock();

 private:
  struct Impl;
  explicit RunLock(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

enum class Presence {
  Gone,
  Here,       ///< it can be looked up, and signalled
  Elsewhere,  ///< on another machine, or in another PID namespace
  Unsettled,  ///< its lock is no proof, and its count has not been watched for long enough
  Unknown,  ///< its lock would not be seen from here and it counts nothing, as an older version, or on a machine that shares its own files
};
inline bool may_live(Presence presence) { return presence != Presence::Gone; }

/// Looks at a lock without taking it, from outside.
class LockWatch {
 public:
  explicit LockWatch(std::filesystem::path directory, LockTerms terms = {});
  /// Who writes the directory now. `told`: the process that the journal there names. `ended`: it says that the process has ended.
  Presence look(const ProcessIdentity& told, bool ended, Instant now = monotonic_now());
  /// Whether a lock that is free here is free: this kernel alone has the file system.
  [[nodiscard]] bool proves() const;
  /// Who held it last, as the lock file says; empty when nobody does, or it is damaged.
  [[nodiscard]] const std::optional<ProcessIdentity>& holder() const { return holder_; }

 private:
  Presence without_lock(const ProcessIdentity& told, bool ended) const;
  Presence watched(const std::string& text, Instant now);

  std::filesystem::path directory_;
  LockTerms terms_;
  std::optional<ProcessIdentity> holder_;
  std::optional<std::string> seen_;
  Instant looked_at_;
  Duration stands_{};  ///< so long has the count been watched to stand still
  bool beats_ = false;
};

/// Looks until it is settled, which takes `silence_limit` at most.
Presence settled_look(LockWatch& watch, const ProcessIdentity& told, bool ended);

}  // namespace prime::telemetry
