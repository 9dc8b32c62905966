// Owns what peers and the coordinator say about one outer step: begin, ready, reduce, vote, commit or abort.
// No float rides these messages (CAF packs them wrongly, spec/caf.md): they travel as the bits of a double.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "messages/ids.hpp"
#include "messages/membership.hpp"

namespace prime {

/// A double as its bits.
struct Real {
  std::uint64_t bits = 0;
  Real() = default;
  explicit Real(double value) : bits(std::bit_cast<std::uint64_t>(value)) {}
  [[nodiscard]] double value() const { return std::bit_cast<double>(bits); }
  friend bool operator==(const Real&, const Real&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, Real& x) {
  return f(x.bits);
}

inline constexpr double NOT_MEASURED = std::numeric_limits<double>::quiet_NaN();

/// Some of the state's fragments, ascending; none named: all of them.
using Fragments = std::vector<std::uint32_t>;
[[nodiscard]] inline bool covers(const Fragments& fragments, std::uint32_t fragment) {
  return fragments.empty() || std::ranges::binary_search(fragments, fragment);
}

/// With `sync.merge: radial`, of one fragment: a length of each tensor that is merged so, in the layout's order.
using Lengths = std::vector<Real>;

/// One of `of` equal parts of the held-out data, the `index`-th; `of` = 0: none. What all evaluate together is one pass over it.
struct HeldOutShare {
  std::uint32_t index = 0;
  std::uint32_t of = 0;
  friend bool operator==(const HeldOutShare&, const HeldOutShare&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, HeldOutShare& x) {
  return f(x.index, x.of);
}

/// What a part of the held-out data came to; parts are added by their tokens.
struct HeldOutLoss {
  Real mean;                 ///< nats per token
  std::uint64_t tokens = 0;  ///< that the mean is over; 0: nothing was evaluated
};
template <class Inspector>
auto inspect(Inspector& f, HeldOutLoss& x) {
  return f(x.mean, x.tokens);
}

/// Coordinator → every member: train from `base` towards `step`.
struct BeginStep {
  View view;
  OuterStep step;
  Revision base;
  bool contribute = true;  ///< false: entered too late for this one, weighs nothing and adopts the result (law 4)
  std::uint32_t rank = 0;
  std::uint64_t first_sample = 0;  ///< data cursor: this peer's first sample of this step in the run's global order
  /// Of a replica of several peers: grows when a trainer of it is started again, and then all of them begin the step anew together.
  std::uint32_t attempt = 0;
  HeldOutShare evaluate = {};  ///< of `base`, before the inner steps
  bool overlaps = false;       ///< what the peer has made of the step before is reduced meanwhile
  Fragments fragments = {};    ///< that lack this step: of the others nothing is published
};
template <class Inspector>
auto inspect(Inspector& f, BeginStep& x) {
  return f(x.view, x.step, x.base, x.contribute, x.rank, x.first_sample, x.attempt, x.evaluate, x.overlaps, x.fragments);
}

/// Member → coordinator: what I have made of these fragments is there, or I have nothing to contribute (weight 0). With
/// `sync.algorithm: decoupled` it is of one fragment.
struct Ready {
  OuterStep step;  ///< with `decoupled`: the version of the fragment that it is for
  Revision base;
  std::uint64_t weight = 0;   ///< tokens trained on, since the fragments were published last
  std::uint64_t samples = 0;  ///< samples taken from the data cursor
  Real loss;                  ///< mean over the inner steps; nats per token
  HeldOutLoss held_out;       ///< of the state `base`
  Real tokens_per_s;
  std::uint32_t trainer_pid = 0;
  std::uint32_t attempt = 0;  ///< as BeginStep had it
  Fragments fragments = {};
  std::vector<Lengths> lengths = {};    ///< Euclidean, of what was made, of each of the fragments; empty: plain means are wanted
  std::uint64_t tokens = 0;             ///< with `decoupled`, whose weight is not the tokens
  std::uint64_t first_sample = 0;       ///< likewise: of the samples it was trained on, as BeginStep had it
  Real data_wait = Real{NOT_MEASURED};  ///< share of the time that the trainer waited for samples

  [[nodiscard]] bool covers(std::uint32_t fragment) const { return prime::covers(fragments, fragment); }
  /// Of a fragment that it covers.
  [[nodiscard]] Lengths lengths_of(std::uint32_t fragment) const {
    const auto place =
        fragments.empty() ? fragment : static_cast<std::uint64_t>(std::ranges::lower_bound(fragments, fragment) - fragments.begin());
    return place < lengths.size() ? lengths[place] : Lengths{};
  }
};
[[nodiscard]] inline std::optional<double> data_wait_of(const Ready& ready) {
  return std::isnan(ready.data_wait.value()) ? std::nullopt : std::optional{ready.data_wait.value()};
}
template <class Inspector>
auto inspect(Inspector& f, Ready& x) {
  return f(x.step, x.base, x.weight, x.samples, x.loss, x.held_out, x.tokens_per_s, x.trainer_pid, x.attempt, x.fragments, x.lengths,
           x.tokens, x.first_sample, x.data_wait);
}

/// Coordinator → member, with `sync.algorithm: decoupled`: another one has published the fragment towards this version; whoever has trained
/// since it has the version before does the same, now.
struct PublishNow {
  std::uint32_t fragment = 0;
  OuterStep version;
};
template <class Inspector>
auto inspect(Inspector& f, PublishNow& x) {
  return f(x.fragment, x.version);
}

/// Member → coordinator, likewise: the inner steps that BeginStep gave samples for are made.
struct LeaseUsed {
  OuterStep step;  ///< as BeginStep had it
};
template <class Inspector>
auto inspect(Inspector& f, LeaseUsed& x) {
  return f(x.step);
}

/// Member → coordinator, of a replica of several peers: my trainer was started again before it had contributed to this attempt. The
/// others may have exchanged all that they needed with the one that died, and would never meet the new one.
struct TrainerRestarted {
  OuterStep step;
  std::uint32_t attempt = 0;
};
template <class Inspector>
auto inspect(Inspector& f, TrainerRestarted& x) {
  return f(x.step, x.attempt);
}

struct Contribution {
  PeerId peer;
  std::uint64_t weight = 0;
  friend bool operator==(const Contribution&, const Contribution&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, Contribution& x) {
  return f(x.peer, x.weight);
}

/// By rank of the member to be reached: the ranks of those that may pass its lane on, best first.
using RelayOrder = std::vector<std::vector<std::uint32_t>>;

/// Coordinator → every member: reduce now. Contributions are in rank order, one for each member of the view.
struct StartReduce {
  OperationId op;
  OuterStep step;
  Revision base;
  View view;
  SharedList<Contribution> contributions;
  std::uint64_t elements = 0;     ///< agreed count; a peer that holds another refuses by name
  std::uint64_t next_sample = 0;  ///< the data cursor after this step, part of the state that is voted on
  std::uint32_t fragment = 0;     ///< of the state
  bool ring = false;       ///< a ring may be taken: the manifest wants one, or leaves the choice and the links are such that it is faster
  RelayOrder relays = {};  ///< of this member, where links are measured
  SharedList<Real> radii = {};  ///< with `sync.merge: radial`: the mean of the contributions' lengths, as Ready has them
  friend bool operator==(const StartReduce&, const StartReduce&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, StartReduce& x) {
  return f(x.op, x.step, x.base, x.view, on_wire<Inspector>(x.contributions), x.elements, x.next_sample, x.fragment, x.ring, x.relays,
           on_wire<Inspector>(x.radii));
}

/// Member → coordinator: I hold the whole result; the part of the state that it leads to has this digest.
struct Vote {
  OperationId op;
  Digest state;
  std::uint64_t wire_bytes = 0;  ///< sent by this peer for the operation, headers included
  std::uint64_t reduce_ns = 0;
};
template <class Inspector>
auto inspect(Inspector& f, Vote& x) {
  return f(x.op, x.state, x.wire_bytes, x.reduce_ns);
}

/// Member → coordinator: my part of the reduce failed; `suspect` is whom I could not exchange with (0: nobody).
struct ReduceFailed {
  OperationId op;
  PeerId suspect;
  Error error;
};
template <class Inspector>
auto inspect(Inspector& f, ReduceFailed& x) {
  return f(x.op, x.suspect, x.error);
}

/// Member → coordinator: I voted and heard nothing; what was decided? Answered by Commit, Abort, or silence while undecided.
struct InDoubt {
  OperationId op;
};
template <class Inspector>
auto inspect(Inspector& f, InDoubt& x) {
  return f(x.op);
}

/// Coordinator → every member: decided and journaled; the state of revision `revision` is the shared state now.
struct Commit {
  OperationId op;
  OuterStep step;  ///< the version that the fragment has now
  Revision revision;
  Digest state;  ///< of the whole
  std::uint32_t fragment = 0;
  Digest part;            ///< what was voted for: the fragment at its new version
  bool completes = true;  ///< all fragments are of this step now
  /// Where it completes a step: first samples of the ranges before the data cursor that no fragment has, lowest first; at most MAX_PEERS.
  std::vector<std::uint64_t> given_back = {};
  std::uint64_t tokens = 0;  ///< that all contributors trained on, in what is committed by now
};
template <class Inspector>
auto inspect(Inspector& f, Commit& x) {
  return f(x.op, x.step, x.revision, x.state, x.fragment, x.part, x.completes, x.given_back, x.tokens);
}

/// Coordinator → every member: the operation is void; inputs stay as they were and will be reduced again.
struct Abort {
  OperationId op;
  std::string reason;
};
template <class Inspector>
auto inspect(Inspector& f, Abort& x) {
  return f(x.op, x.reason);
}

/// Coordinator → every member: the last outer step is committed. Each evaluates its part and answers FinalReport. Said again to a member
/// that is to write the checkpoint after all.
struct RunDone {
  OuterStep step;
  Revision revision;
  Digest state;
  bool finalist = false;       ///< true for the one that writes the final checkpoint, answers StateSaved, and samples a text
  HeldOutShare evaluate = {};  ///< of the final state; the finalist begins when its checkpoint is written
};
template <class Inspector>
auto inspect(Inspector& f, RunDone& x) {
  return f(x.step, x.revision, x.state, x.finalist, x.evaluate);
}

/// Finalist → coordinator: the final state is on a disk, or why it is not.
struct StateSaved {
  std::string checkpoint;  ///< path on the finalist's machine; empty when it could not be written
  std::string problem;     ///< then: why
};
template <class Inspector>
auto inspect(Inspector& f, StateSaved& x) {
  return f(x.checkpoint, x.problem);
}

/// Member → coordinator: its part of the evaluation of the final state.
struct FinalReport {
  HeldOutLoss held_out;
  std::string sample;   ///< at most 4 KiB
  std::string problem;  ///< why there is no answer
};
template <class Inspector>
auto inspect(Inspector& f, FinalReport& x) {
  return f(x.held_out, x.sample, x.problem);
}

}  // namespace prime
