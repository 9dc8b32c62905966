// Owns the shared state of one peer in memory: parameters, momentum, counters, this peer's input and the reduced result.
// Pure memory: no sockets, no threads of its own besides the digest's.
//
// A revision is written once and then only read. A snapshot is a reference to it: neither a checkpoint nor a joiner costs a copy. The next
// revision is made in memory that nobody holds.
//
// Law 2: peers vote on the digest of the next state; a commit swaps references; until then, whatever fails, nothing has changed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/outer_rule/outer_rule.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/lanes/huge_pages.hpp"
#include "runtime/session/layout.hpp"
#include "runtime/session/shared_memory.hpp"
#include "runtime/session/trainer_wire.hpp"

namespace prime {

/// The numbers of the shared state; part of its digest.
struct StateCounters {
  Revision revision;
  OuterStep step;                 ///< the last committed one; 0 before the first
  std::uint64_t tokens = 0;       ///< that all contributors trained on
  std::uint64_t next_sample = 0;  ///< the data cursor
  friend bool operator==(const StateCounters&, const StateCounters&) = default;
};

/// One revision of the shared state, for joiners and checkpoints: held where it lies, and not copied. Its memory is not written to
/// while anybody holds this.
struct Snapshot {
  Layout layout;
  StateCounters counters;
  std::span<const float> parameters;
  std::span<const float> momentum;
  Digest state;
  std::shared_ptr<const void> memory;  ///< what the spans lie in
};

/// What an outer step adds to the counters; equal on every peer.
struct StepGain {
  std::uint64_t tokens = 0;       ///< sum of the contributors' weights
  std::uint64_t next_sample = 0;  ///< the data cursor after the step
};

struct OuterStateOptions {
  kernels::NesterovOptions rule;
  unsigned threads = 1;  ///< of the digest
};

/// The digest of a shared state from its parts; the same law for peers, joiners and checkpoints.
Digest state_digest(std::span<const float> parameters, std::span<const float> momentum, const StateCounters& counters,
                    unsigned threads = 1);

/// Who asks for a snapshot: joiners leave the last place for the disk.
enum class Holder : std::uint8_t { Joiner, Disk };

/// Old revisions that snapshots may keep from being overwritten, at most.
inline constexpr std::uint32_t PINNED_MAX = 3;
static_assert(wire::OUTER_SLOTS == PINNED_MAX + 3, "the current revision, the next one, a late trainer's base, and those that are held");

/// Safe from any thread. Bookkeeping is done under a lock of its own; copies, kernels and digests without one, so that no call waits for
/// another one's memory traffic. Each of reduce (result, prepare, commit, discard), contribution and fetch (reserve, adopt) is one
/// caller's at a time.
class OuterState {
 public:
  static Result<OuterState> create(Layout layout, const OuterStateOptions& options);
  OuterState(OuterState&&) noexcept;
  OuterState& operator=(OuterState&&) noexcept;
  ~OuterState();

  /// The initial state: parameters from the trainer's local region, zero momentum and counters. Refuses NaN and infinity by name.
  Result<void> initialize();
  /// Replaces the whole state by a copy. Refuses another layout (LayoutMismatch) and a digest that does not fit (FetchFailed).
  Result<void> load(const Snapshot& snapshot);
  [[nodiscard]] bool initialized() const;

  /// Where a state that comes in pieces is put before it is adopted.
  struct Incoming {
    std::span<float> parameters;
    std::span<float> momentum;
  };
  /// Replaces what was reserved before.
  Incoming reserve();
  /// What lies there becomes the state. Refuses a digest that does not fit (FetchFailed).
  Result<void> adopt(const StateCounters& counters, const Digest& expected);

  /// The trainer starts from the current state: that stays readable, and is what `take_contribution` compares with, however many
  /// commits come before.
  void pin_base();
  /// A trainer is about to map the segments. What another one has contributed stays, out of its reach.
  Result<void> begin_life();
  /// input = parameters of the base − local, where the trainer wrote them. Refuses NaN and infinity by tensor name and index
  /// (NonFiniteValue); then there is no contribution.
  Result<void> take_contribution();
  /// The contribution; unchanged by prepare, discard and commit, so that it can be reduced again. Empty before the first.
  [[nodiscard]] std::span<const float> input() const;
  /// Where a reduce leaves the mean. Only between a discard or commit and the next prepare.
  [[nodiscard]] std::span<float> result();

  /// Computes the next state from the mean in `result()`, beside the current one, and digests it: that is what a peer votes on.
  /// Refuses a mean that is not finite; every peer refuses it alike.
  Result<Digest> prepare(const OperationId& operation, const StepGain& gain);
  /// The prepared state becomes the current one: references change places. Fails (InternalError) if `operation` is not the prepared one.
  Result<void> commit(const OperationId& operation);
  /// Forgets what was prepared; the current state and the input are as they were.
  void discard();
  [[nodiscard]] std::optional<OperationId> prepared() const;

  [[nodiscard]] const Layout& layout() const;
  [[nodiscard]] StateCounters counters() const;
  [[nodiscard]] Digest digest() const;
  /// Which outer slot holds the current parameters.
  [[nodiscard]] std::uint32_t slot() const;
  [[nodiscard]] std::span<const float> parameters() const;
  [[nodiscard]] std::span<const float> momentum() const;
  /// The current state, held; null when too many other revisions are held already.
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot(Holder holder);
  /// Descriptors for the trainer of this life: the outer slots, then local.
  [[nodiscard]] std::array<int, wire::OUTER_SLOTS + 1> descriptors() const;

 private:
  struct Impl;
  explicit OuterState(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  ///< snapshots hold it, too: what they read may outlast this object
};

}  // namespace prime
