// Owns the shared state of one peer in memory: parameters, momentum, counters, this peer's input and the reduced result.
// Pure memory: no sockets, no threads of its own besides the digest's. One caller at a time; snapshots may travel.
//
// Law 2: peers vote on the digest of the next state; a commit swaps buffers; until then, whatever fails, nothing has changed.
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

/// A copy of the shared state, for joiners and checkpoints.
struct Snapshot {
  Layout layout;
  StateCounters counters;
  std::vector<float> parameters;
  std::vector<float> momentum;
  Digest state;
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

class OuterState {
 public:
  static Result<OuterState> create(Layout layout, const OuterStateOptions& options);

  /// The initial state: parameters from the trainer's local region, zero momentum and counters. Refuses NaN and infinity by name.
  Result<void> initialize();
  /// Replaces the whole state. Refuses another layout (LayoutMismatch) and a digest that does not fit (FetchFailed).
  Result<void> load(const Snapshot& snapshot);
  [[nodiscard]] bool initialized() const { return initialized_; }

  /// The trainer starts from the current state: that stays readable, and is what `take_contribution` compares with, however many
  /// commits come before.
  void pin_base() { base_ = slot_; }
  /// input = parameters of the base − local. Refuses NaN and infinity by tensor name and index (NonFiniteValue); then there is no
  /// contribution.
  Result<void> take_contribution();
  /// The contribution; unchanged by prepare, discard and commit, so that it can be reduced again.
  [[nodiscard]] std::span<const float> input() const { return input_; }
  /// Where a reduce leaves the mean. Only between a discard or commit and the next prepare.
  [[nodiscard]] std::span<float> result() { return result_; }

  /// Computes the next state from the mean in `result()`, beside the current one, and digests it: that is what a peer votes on.
  /// Refuses a mean that is not finite; every peer refuses it alike.
  Result<Digest> prepare(const OperationId& operation, const StepGain& gain);
  /// The prepared state becomes the current one: a swap. Fails (InternalError) if `operation` is not the prepared one.
  Result<void> commit(const OperationId& operation);
  /// Forgets what was prepared; the current state and the input are as they were.
  void discard();
  [[nodiscard]] std::optional<OperationId> prepared() const;

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const StateCounters& counters() const { return counters_; }
  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// Which outer slot holds the current parameters. There are three: the current one, the next one, and that of a late trainer's base.
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  [[nodiscard]] std::span<const float> parameters() const { return slots_[slot_].memory.values(); }
  [[nodiscard]] std::span<const float> momentum() const { return momentum_; }
  /// A copy of the current state; callers at the same revision share one while any of them holds it.
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot();
  /// Descriptors for the trainer: the outer slots, then local.
  [[nodiscard]] std::array<int, wire::OUTER_SLOTS + 1> descriptors() const;

 private:
  struct Segment {
    Descriptor file;
    SharedFloats memory;
  };
  struct Prepared {
    OperationId operation;
    std::uint32_t slot = 0;
    StateCounters counters;
    Digest digest;
  };
  OuterState() = default;
  static Result<Segment> make_segment(const char* name, std::uint64_t elements);
  /// Neither the current one nor the base of a trainer at work. The third one takes no memory before a trainer is late.
  [[nodiscard]] std::uint32_t free_slot() const;
  Result<void> require_finite(std::span<const float> values, const char* what) const;
  void adopt(std::uint32_t slot, const StateCounters& counters, const Digest& digest);

  Layout layout_;
  OuterStateOptions options_;
  std::array<Segment, wire::OUTER_SLOTS> slots_;
  Segment local_;
  Floats momentum_;
  Floats input_;
  Floats result_;
  StateCounters counters_;
  Digest digest_;
  std::uint32_t slot_ = 0;
  std::optional<std::uint32_t> base_;  ///< slot from which the trainer started, until its contribution is taken
  bool initialized_ = false;
  std::optional<Prepared> prepared_;
  std::weak_ptr<const Snapshot> snapshot_;
};

}  // namespace prime
