// Owns the ports: the only ways by which actors reach sockets, files, clocks and trainers. runtime/ implements them; tests fake them.
// Calls return at once, except where a comment says "blocks": those are made by detached actors only. Completions are posted through
// the callback given, exactly once, from any thread; an actor turns them into messages to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/reduce_worker/schedule.hpp"
#include "kernels/device_memory.hpp"
#include "messages/data_types.hpp"
#include "messages/events.hpp"
#include "messages/membership.hpp"
#include "messages/outer_step.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::coordinator {
struct Entry;
}

namespace prime {

/// One reduce among some members of a view (DESIGN §5): out of place, so that an abort leaves the input as it was.
struct ReduceRequest {
  OperationId op;
  View view;                                ///< of which its members are
  PeerId self;                              ///< must be one of them
  std::vector<Contribution> contributions;  ///< one for each member of the operation, in its own rank order; weight 0 sends no input
  std::span<const std::byte> input;         ///< untouched and valid until the outcome; may be empty when own weight is 0
  std::span<std::byte> output;              ///< the agreed count of elements; undefined unless the outcome is good
  /// Where input and output lie, this rank's own affair; null: in the host's memory. Nothing of them is touched after the outcome.
  std::shared_ptr<kernels::DeviceMemory> memory;
  Duration deadline{};  ///< so long no byte of the operation moves; with a vote, of the whole operation. Judged on this process's clock
  DataType type = DataType::F32;
  ReduceOperator combine = ReduceOperator::Average;  ///< an average is weighted; the others only ask whether a weight is 0
  Codec codec = Codec::None;                         ///< of what members bring
  std::optional<Codec> result_codec;                 ///< of the result; absent: the same
  Schedule schedule = Schedule::Automatic;
  bool measured_ring = false;  ///< the members stand in the order of a ring whose links were measured
  RelayOrder relays;           ///< by whom a member that cannot be dialed is best reached; empty: by rank
  /// Stochastic rounding of a codec takes its random bits from these and the index of the element, so that a retry repeats them.
  bool stochastic = false;
  std::uint64_t seed = 0;
  std::uint64_t version = 0;
  /// Error feedback of a codec, both the count of elements, or both empty: what earlier encodings lost is added before this one, and
  /// what this one loses is left in `next_residual`, which is undefined unless the outcome is good: to commit, swap the two.
  std::span<const float> residual;
  std::span<float> next_residual;
  /// Succeed only when every rank's digest of the result is here and equal. Otherwise somebody else sees to that.
  bool vote = false;
};

struct ReduceStats {
  std::uint64_t wire_bytes_sent = 0;
  std::uint64_t wire_bytes_received = 0;
  Duration elapsed{};
  Digest digest;  ///< of the result; equal on all ranks
};

struct ReduceOutcome {
  OperationId op;
  Result<ReduceStats> stats;
  PeerId suspect;  ///< on failure: the peer with whom the exchange failed, 0 when none is to blame
};

/// The data plane as actors see it. Implemented by runtime/lanes.
class ReducePort {
 public:
  virtual ~ReducePort() = default;
  virtual void start(ReduceRequest request, std::function<void(ReduceOutcome)> done) = 0;
  /// The operation ends with an error within one chunk; unknown operations are ignored. Frames of it that still arrive are dropped.
  virtual void abort(OperationId op, const std::string& reason) = 0;
  /// Bytes that lanes have taken and given so far, of reduces and all else.
  [[nodiscard]] virtual std::uint64_t bytes_moved() const = 0;
  /// How many bytes per second reach a member over its lane. Takes a second on slow links, and is Interrupted by a reduce that starts. Only
  /// the one with the smaller id can open the lane, if there is none.
  virtual void measure(const Member& member, std::function<void(Result<std::uint64_t>)> done) = 0;
};

/// The journal of a peer.
class JournalPort {
 public:
  virtual ~JournalPort() = default;
  /// Blocks for the disk when the event is durable. A journal that cannot be written ends the process: law 8 leaves no other way.
  virtual void append(const JournalEvent& event) = 0;
};

/// Where the coordinator keeps what it decided, and its journal.
class LedgerPort {
 public:
  virtual ~LedgerPort() = default;
  /// `done` when the disk holds the decisions instead of those before (where there are standbys, etcd does, which may be away for as long
  /// as a lease), and the lines behind them. One entry at a time. What cannot be written ends the process (law 8).
  virtual void write(coordinator::Entry entry, std::function<void()> done) = 0;
};

/// Cuts a peer off: all its connections are shut down, which both ends see within a millisecond.
class FencePort {
 public:
  virtual ~FencePort() = default;
  virtual void fence(PeerId peer) = 0;
};

/// Looks for peers, which may have lost their connection or have died.
class LookoutPort {
 public:
  virtual ~LookoutPort() = default;
  /// Looks once at where a peer listens; of one that is looked for already it changes nothing. When its process is gone for certain a
  /// PeerGoneNow follows. Of who was never reached there that is never certain, so a peer that is here is looked for as well.
  virtual void look_for(PeerId peer, const Addresses& lanes) = 0;
};

/// The trainer process (or program) of this agent. What it says arrives as events of the peer machine; of a commit it hears when the state
/// has been swapped.
class TrainerPort {
 public:
  virtual ~TrainerPort() = default;
  /// Starts it for this run, or again after it died.
  virtual void start(const Welcome& welcome) = 0;
  virtual void restart() = 0;
  virtual void begin(const BeginStep& begin) = 0;
  /// It publishes a fragment at its next boundary, if it has made anything of it.
  virtual void ask(const PublishNow& asked) = 0;
  /// Ends it, as if it had died: it is started again. One that is a program's own stays as it is.
  virtual void start_over() = 0;
  virtual void finish(const RunDone& done) = 0;
  /// Ends it; an error is told to it first.
  virtual void stop(const std::optional<Error>& cause) = 0;
};

/// The outer state in host memory (DESIGN §6). Blocks for as long as memory traffic takes.
class StatePort {
 public:
  virtual ~StatePort() = default;
  /// The own contribution to a fragment; untouched by everything below except `commit`.
  [[nodiscard]] virtual std::span<const float> contribution(std::uint32_t fragment) const = 0;
  /// Where the mean of a fragment goes. Several fragments may be at it at once.
  [[nodiscard]] virtual std::span<float> result(std::uint32_t fragment) = 0;
  /// Makes the next version of the fragment beside the current one from the mean in `result`; the digest is what this peer votes for.
  /// `brings`: the own contribution is in the mean.
  virtual Result<Digest> prepare(const StartReduce& reduce, bool brings) = 0;
  /// Error feedback of a fragment's codec: what earlier encodings of the own contributions lost, and where what the next reduce loses goes.
  /// `commit` puts that in its place. Both empty where nothing is fed back.
  struct Feedback {
    std::span<const float> residual;
    std::span<float> next;
  };
  [[nodiscard]] virtual Feedback feedback(std::uint32_t fragment) = 0;
  virtual void commit(const Commit& commit) = 0;
  virtual void discard(OperationId op) = 0;
};

/// State that crosses the process: fetched from donors, written to disk. Blocks.
class RecoveryPort {
 public:
  virtual ~RecoveryPort() = default;
  /// The digests of what it holds then, by fragment.
  virtual Result<std::vector<Digest>> fetch(const FetchState& fetch) = 0;
  /// Ends a fetch that is under way, if it is this one; empty: any, and none begins any more. Callable from any thread.
  virtual void stop_fetch(const std::optional<FetchState>& fetch) = 0;
  /// Writes the state of this revision, which is held for that, and returns the checkpoint's path.
  virtual Result<std::string> write_checkpoint(Revision of) = 0;
  /// Writes what the trainer had for itself at this revision, and returns the path; nothing where the trainer binds nothing private.
  virtual Result<std::optional<std::string>> write_private_state(Revision of) = 0;
};

}  // namespace prime
