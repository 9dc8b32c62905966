// Owns the wait of a process's main thread: for its actors to be done, or for SIGTERM, SIGINT or SIGQUIT.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime {

/// Make one before any thread starts: it blocks SIGTERM, SIGINT, SIGQUIT and SIGPIPE for this and all later threads.
class EndSignal {
 public:
  EndSignal();
  ~EndSignal();
  EndSignal(const EndSignal&) = delete;
  EndSignal& operator=(const EndSignal&) = delete;

  /// Any thread: the process's part is over. The first call counts.
  void end(std::optional<Error> cause);
  /// Any thread: nothing holds the process any more.
  void release();

  /// Waits so long for one of these signals, and leaves it to `wait`; true when one has come.
  [[nodiscard]] bool signalled_within(Duration limit) const;
  /// Waits for `end`. `on_signal` is called for each of these signals with their number so far; `on_idle` four times a second.
  std::optional<Error> wait(const std::function<void(int)>& on_signal, const std::function<void()>& on_idle);
  /// Waits for `release`, at most for `limit`; whether it came.
  bool wait_for_release(Duration limit);

 private:
  void wake();

  std::mutex mutex_;  ///< guards ended_, released_ and cause_: actors set them, the main thread waits
  bool ended_ = false;
  bool released_ = false;
  std::optional<Error> cause_;
  int wake_ = -1;
  int signals_ = -1;
};

}  // namespace prime
