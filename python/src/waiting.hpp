// Owns what waits have in common: the GIL is let go, signals are handled meanwhile, and what they raise ends the wait.
#pragma once

#include <atomic>
#include <nanobind/nanobind.h>
#include <optional>
#include <string>
#include <sys/types.h>
#include <unistd.h>

#include "python/src/errors.hpp"

namespace prime::python {

/// Runs what Python has pending for this thread: handlers of signals, and exceptions that another thread has sent to it. Throws what they
/// raise, and SystemExit when the interpreter ends. Needs the GIL.
void run_pending();

/// While one is there, its thread is in C++ and wants to come back. The end of the interpreter waits for them: a thread that asks for the
/// GIL afterwards, in whatever Python it calls from there, is ended in the middle of C++. SystemExit where that end has begun.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

/// Likewise, and it has let the GIL go.
class Away {
 public:
  Away() = default;
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  Inside inside_;
  nanobind::gil_scoped_release free_;
};

/// What was raised while there was nobody to raise it to.
class Raised {
 public:
  /// Keeps the exception that is being handled; the first one counts.
  void keep(nanobind::python_error& error) {
    if (!error_) error_.emplace(std::move(error));
  }
  void rethrow() {
    if (!error_) return;
    auto error = std::move(*error_);
    error_.reset();
    throw error;
  }

 private:
  std::optional<nanobind::python_error> error_;
};

/// Asks, without the GIL, whether a wait goes on; what is raised is kept.
bool goes_on(Raised& raised);

/// The process that made an object. Threads and sockets are not inherited, so that a child of fork can do nothing with it.
class Owner {
 public:
  [[nodiscard]] bool here() const { return ::getpid() == pid_; }
  void check(const char* what) const {
    if (!here())
      raise_usage(std::string{"a "} + what + " cannot be used after fork: this is process " + std::to_string(::getpid()) +
                  ", it belongs to process " + std::to_string(pid_) + "; start processes with `spawn`");
  }

 private:
  pid_t pid_ = ::getpid();
};

/// One call at a time: `Turn turn(busy)` refuses the second thread by name.
class Turn {
 public:
  Turn(std::atomic<bool>& busy, const char* what) : busy_(busy) {
    if (busy.exchange(true)) raise_usage(std::string{"another thread is in a call of this "} + what);
  }
  ~Turn() { busy_ = false; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<bool>& busy_;
};

void bind_waiting(nanobind::module_& module);

}  // namespace prime::python
