// Owns a trainer as seen by its agent: the process, the socket, and one thread that turns what happens into events.
// Decides nothing: whether a trainer is started again is a machine's business.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/session/packet_socket.hpp"
#include "runtime/session/trainer_wire.hpp"

namespace prime {

struct TrainerCommand {
  std::vector<std::string> arguments;    ///< the program first; looked up in PATH
  std::vector<std::string> environment;  ///< "NAME=value", added to the agent's own
  std::string log_path;                  ///< stdout and stderr are appended here
};

struct TrainerHostOptions {
  Duration grace{2s};      ///< after a stop: until SIGTERM, and from there until SIGKILL
  Duration farewell{60s};  ///< instead, until SIGTERM, for a trainer whose run is done, or who left: it may have something to save
};

/// All inner steps are made that it was given samples for.
struct TrainerUsedLease {};
/// All tensors are named; answer with `segments`, or with `stop` if the layout is not the run's.
struct TrainerBound {
  Layout layout;
  std::string device = {};                        ///< where it computes, if it tells
  std::vector<BoundTensor> tensors = {};          ///< all, in order, the private ones among them
  std::shared_ptr<const Descriptor> shared = {};  ///< as wire::Bind::shared
};
struct TrainerExported {
  std::string name;
  std::string content;
};
/// Before TrainerBound, if it tells.
struct TrainerDescribed {
  DataIdentity data;
};
/// The local region holds the trainer's initial values. Comes after `segments`, on restarts too.
struct TrainerInitial {};
/// Progress in the step that was begun last; a sign of life. Thinned out: totals may skip, `TrainerContributed` has the last word.
struct TrainerInner {
  wire::Inner totals;
};
/// A sign of life in work that is no inner step, or while it waits.
struct TrainerAlive {
  std::string waits_for = {};  ///< in its words
};
/// It has written a record, unless that is of a step which is over; answer with `recorded`.
struct TrainerRecorded {
  std::optional<wire::Record> record;
};
/// The local region holds what the inner steps led to, and stays so until `committed` or `begin`.
struct TrainerContributed {
  wire::Contribute contribution;
};
struct TrainerFinal {
  FinalAnswer answer;
};
// The last event of a trainer is one of these four; its process, if it was ours, has ended by then.
/// It left by itself, or ended after `finish` and its answer, or after `stop`.
struct TrainerLeft {};
/// It reported an error of its own, broke the protocol (TrainerProtocol), or did not read its socket (TrainerProtocol).
struct TrainerFailed {
  Error cause;
};
/// It ended without a word (TrainerFailed); the detail names the exit status or the signal.
struct TrainerLost {
  Error cause;
};
/// What it brought could not be taken for want of what this agent has not (MemoryUnavailable).
struct TrainerUnserved {
  Error cause;
};
using TrainerEvent =
    std::variant<TrainerBound, TrainerExported, TrainerDescribed, TrainerInitial, TrainerInner, TrainerAlive, TrainerRecorded,
                 TrainerContributed, TrainerUsedLease, TrainerFinal, TrainerLeft, TrainerFailed, TrainerLost, TrainerUnserved>;

/// Called on the host's own thread, one event at a time; must not block and must not destroy the host. Commands are allowed.
/// The destructor waits for a call in progress: do not destroy a host while holding a lock that its handler takes.
using TrainerEventHandler = std::function<void(TrainerEvent)>;

/// One life of one trainer. All members may be called from any thread; none blocks (the destructor kills and reaps).
/// Commands to a trainer that has ended do nothing: its last event tells.
class TrainerHost {
 public:
  /// Starts `command` in a process group of its own that dies with this agent, and waits for whoever says the secret that its environment
  /// tells: the program may start the trainer, as a launcher does. Fails with ProcessFailed, StorageFailed (its log), or MemoryUnavailable
  /// where this process or its machine has no more descriptors, memory, processes or threads.
  static Result<std::unique_ptr<TrainerHost>> start(const TrainerCommand& command, const TrainerHostOptions& options,
                                                    TrainerEventHandler handler);
  /// Serves a trainer that started this agent (prime::Session::join): its process is not ours to kill.
  static Result<std::unique_ptr<TrainerHost>> adopt(PacketSocket socket, const TrainerHostOptions& options, TrainerEventHandler handler);
  ~TrainerHost();
  TrainerHost(const TrainerHost&) = delete;
  TrainerHost& operator=(const TrainerHost&) = delete;

  /// First command. Fails (TrainerProtocol) when a manifest is too long.
  Result<void> welcome(const wire::Welcome& welcome);
  /// Answers TrainerBound. The descriptors are those of OuterState::descriptors, then that of the records if there are any, and are
  /// duplicated before this returns.
  void segments(const wire::Segments& segments, std::span<const int> descriptors);
  void begin(const wire::Begin& begin);
  /// Answers TrainerRecorded.
  void recorded(const wire::Recorded& recorded);
  void publish(const wire::Publish& asked);
  void committed(const wire::StepCommitted& committed);
  void finish(const wire::Finish& finish);
  /// Ends it: the message, after `grace` SIGTERM, after another `grace` SIGKILL. Without an error: the run is done.
  void stop(const std::optional<Error>& error);
  /// SIGKILL now; for an adopted trainer the socket closes. Ends with TrainerLost, unless a stop came before.
  void kill();

  /// Of the trainer's process; 0 when unknown or ended.
  [[nodiscard]] std::uint32_t pid() const;
  /// Whether a process that this host has started has not ended.
  [[nodiscard]] bool has_child() const;

 private:
  struct Impl;
  explicit TrainerHost(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace prime
