// Owns the shared state of one peer in memory: parameters, momentum, counters, this peer's input and the reduced result. The state is
// divided into fragments, each of which has versions of its own. Pure memory: no sockets, no threads of its own besides the digest's.
//
// A version is written once and then only read. A snapshot is a reference to it: neither a checkpoint nor a joiner costs a copy. The next
// version is made in memory that nobody holds.
//
// Law 2: peers vote on the digest of a fragment's next version; a commit swaps references; until then, whatever fails, nothing has changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/ports.hpp"
#include "kernels/outer_rule/outer_rule.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/session/layout.hpp"
#include "runtime/session/trainer_wire.hpp"

namespace prime {

/// The numbers of the shared state that the run's ledger holds, and no digest.
struct StateCounters {
  Revision revision;
  std::uint64_t tokens = 0;       ///< that all contributors trained on
  std::uint64_t next_sample = 0;  ///< the data cursor
  friend bool operator==(const StateCounters&, const StateCounters&) = default;
};

/// The values of the copied tensors, as they lie in a record; null where there are none.
using CopiedValues = std::shared_ptr<const std::vector<std::byte>>;

/// One version of one fragment.
struct Fragment {
  OuterStep version;  ///< steps that are in it; 0 before the first
  Digest digest;
  std::span<const float> parameters;
  std::span<const float> momentum;
};

/// One revision of the shared state, for joiners and checkpoints: held where it lies, and not copied. Its memory is not written to
/// while anybody holds this.
struct Snapshot {
  Layout layout;
  StateCounters counters;
  std::vector<Fragment> fragments;
  Digest state;  ///< of the whole
  CopiedValues copied;
  std::shared_ptr<const void> memory;  ///< what the spans lie in

  /// The last step that all fragments have made.
  [[nodiscard]] OuterStep step() const;
};

/// What codecs have lost of the own contributions, by fragment; empty where nothing was fed back yet.
struct Residuals {
  std::vector<std::span<const float>> values = {};
  std::shared_ptr<const void> memory = {};  ///< what the spans lie in; not written to while it is held
};

/// What an outer step adds to the counters; equal on every peer.
struct StepGain {
  std::uint64_t next_sample = 0;  ///< the data cursor after the step
  std::uint32_t contributors = 0;
  std::span<const Real> radii = {};  ///< with Merge::Radial: mean lengths of the contributions, as StartReduce has them
};

struct OuterStateOptions {
  kernels::NesterovOptions rule;
  unsigned threads = 1;         ///< of the digest
  std::uint32_t in_flight = 1;  ///< fragments that are reduced at once, at most
  bool feedback = false;        ///< of errors: what a codec loses of a contribution is added to the next one
  Merge merge = Merge::Mean;
};

/// Who asks for a snapshot: joiners leave the last place for the disk.
enum class Holder : std::uint8_t { Joiner, Disk };

/// Old revisions that snapshots may keep from being overwritten, at most.
inline constexpr std::uint32_t PINNED_MAX = 3;
static_assert(wire::OUTER_REVISIONS == PINNED_MAX + 4,
              "the current one, the next one, a late trainer's base, what it is given next where that is its own, and those that are held");

/// Safe from any thread. Bookkeeping is done under a lock of its own; copies, kernels and digests without one, so that no call waits for
/// another one's memory traffic. Each of reduce (result, prepare, commit, discard; of each fragment by itself), contribution and fetch
/// (reserve, adopt) is one caller's at a time.
class OuterState {
 public:
  static Result<OuterState> create(Layout layout, const OuterStateOptions& options);
  OuterState(OuterState&&) noexcept;
  OuterState& operator=(OuterState&&) noexcept;
  ~OuterState();

  /// The initial state: parameters from the trainer's local region, zero momentum and counters. Refuses NaN and infinity by name.
  Result<void> initialize();
  [[nodiscard]] bool initialized() const;

  /// Where a fragment that comes in pieces is put before it is adopted.
  struct Incoming {
    std::uint32_t fragment = 0;
    OuterStep version;  ///< as whoever brings it says
    std::span<float> parameters;
    std::span<float> momentum;
  };
  /// Memory for these fragments; replaces what was reserved before.
  std::vector<Incoming> reserve(const std::vector<std::uint32_t>& fragments);
  /// What lies there becomes the state, beside the fragments that were not reserved. Where `expected` is told, refuses what has another
  /// digest (FetchFailed) and changes nothing.
  Result<void> adopt(const std::vector<Incoming>& incoming, const StateCounters& counters, const std::optional<Digest>& expected);

  /// The trainer starts from `places`: that stays readable, and is what `take_contribution` compares with, however many commits come
  /// before.
  void pin_base();
  /// The same of one fragment.
  void pin_base(std::uint32_t fragment);
  /// A trainer is about to map the segments; `types` are those that it has bound the tensors in, f32 where there are none. What another one
  /// has contributed stays, out of its reach.
  /// `shared`: memory of the trainer's own that begins with what it publishes, in the order of fragments; used in the place of a segment.
  /// TrainerProtocol for a file that it could make shorter.
  Result<void> begin_life(std::vector<DataType> types = {}, const Descriptor* shared = nullptr);
  /// Of these fragments: input = parameters of the base − local, where the trainer wrote them. The base is what the trainer was given: of
  /// tensors that it has in bf16 it is rounded to that, so that who trained nothing contributes nothing. Refuses NaN and infinity by tensor
  /// name and index (NonFiniteValue); then there is no contribution.
  /// `share` above 0: until the next commit of such a fragment the trainer is given, instead of the current version G, what this peer
  /// expects of its own contribution Δ, of which `share` is in the mean (Eager Updates, arXiv:2502.12996, algorithm 1, split into the
  /// shared state and a private rest):  w ← μ w + share Δ;  G − η (share Δ + μ w). w is 0 for who was given the fragment by others.
  /// With Merge::Radial tensors that are merged so become unit vectors, or stay 0; their lengths are returned, by fragment, ascending. Else
  /// none.
  Result<std::vector<Lengths>> take_contribution(const Fragments& fragments = {}, float share = 0);
  /// The contribution; unchanged by prepare, discard and commit, so that it can be reduced again. Empty before the first.
  [[nodiscard]] std::span<const float> input(std::uint32_t fragment) const;
  /// Where a reduce leaves the mean of a fragment. Only between a discard or commit and the next prepare.
  [[nodiscard]] std::span<float> result(std::uint32_t fragment);
  /// Where a reduce finds and leaves what its codec loses; likewise. 0 for who was given the fragment by others.
  [[nodiscard]] StatePort::Feedback feedback(std::uint32_t fragment);
  [[nodiscard]] Residuals residuals() const;
  /// Where a residual that was saved is put, before the first reduce.
  [[nodiscard]] std::span<float> bring_residual(std::uint32_t fragment);

  /// Computes the fragment's next version from the mean in `result`, beside the current one, and digests it: that is what a peer votes on.
  /// Refuses a mean that is not finite (NonFiniteValue), and radii of other tensors (ReduceMismatch); every peer refuses them alike.
  Result<Digest> prepare(const OperationId& operation, std::uint32_t fragment, const StepGain& gain);
  /// The prepared version becomes the current one: references change places. The gain counts once all fragments have made the step. Fails
  /// (InternalError) if `operation` is not the prepared one.
  /// `tokens`: that all contributors trained on until then.
  Result<void> commit(const OperationId& operation, std::uint64_t tokens);
  /// Forgets what was prepared for it; the current state and the input are as they were.
  void discard(const OperationId& operation);
  /// What this peer expects of what it has contributed: the trainer is given the current versions, as one that joins is.
  void forget_expected();
  /// Beside the current state, and of its model: neither reduced nor digested.
  void set_copied(CopiedValues copied);
  [[nodiscard]] CopiedValues copied() const;
  /// Operations that are prepared, each of another fragment.
  [[nodiscard]] std::size_t prepared() const;

  [[nodiscard]] const Layout& layout() const;
  [[nodiscard]] StateCounters counters() const;
  [[nodiscard]] Digest digest() const;
  [[nodiscard]] std::vector<Fragment> fragments() const;
  /// Where what the trainer is given of each fragment lies in its file.
  [[nodiscard]] wire::Places places() const;
  /// The current state, held; null when too many other revisions are held already.
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot(Holder holder);
  /// Descriptors for the trainer of this life: the outer state's file, then local.
  [[nodiscard]] std::array<int, 2> descriptors() const;

 private:
  struct Impl;
  explicit OuterState(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace prime
