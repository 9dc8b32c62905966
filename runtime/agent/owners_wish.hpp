// Owns the way by which a run's owner has its coordinator pause or go on: a signal between two processes of one machine, like that of
// `down`. Whether it was heard is told by the journal (run_paused, run_resumed).
#pragma once

#include <optional>

#include "runtime/store/file_io.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime {

enum class Wish { Pause, Resume };

/// The coordinator's end. Make it before any thread starts, and before the journal names this process: from then on somebody may ask.
class OwnersWish {
 public:
  OwnersWish();
  /// The newest since this was called last.
  std::optional<Wish> take();

 private:
  store::Descriptor signals_;
};

/// The owner's end; false when that process is gone, or does not listen for it (yet): such a signal would end it.
bool ask(const telemetry::ProcessIdentity& coordinator, Wish wish);

}  // namespace prime
