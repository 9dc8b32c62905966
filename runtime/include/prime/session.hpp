// Owns the embedding API: a trainer of your own takes part in a run through prime::Session. Neither CAF nor torch comes with it.
//
// A session is the client of an agent, a process beside yours that holds the outer state and speaks with the other peers.
// `Session::attach` finds the agent that started this process; `Session::join` starts one. A trainer's loop knows no algorithm:
//
//     while (auto step = session.next())            // Result<std::optional<InnerStep>>; empty when the run is done
//       session.report(train((*step)->samples));    // the boundary: publishes, waits and applies when the algorithm does
//
// No thread touches your tensors outside `next`, `report`, `contribute` and `finish`; no signal handler is installed; nothing is printed.
//
// Source of the method: DiLoCo (arXiv:2311.08105), algorithm 1: the trainer does the inner steps, the session the outer one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "messages/data_identity.hpp"
#include "messages/data_types.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime {

/// What becomes of a tensor.
enum class Role : std::uint8_t {
  Averaged,  ///< the model: of f32 or bf16. The run's own state is f32, whatever the trainers' types are
  Private,   ///< this trainer's own, as moments: of f32, bf16, f16, i64, i32 or u8. It is neither reduced nor digested; the agent keeps it
             ///< with each record, saves it with each checkpoint, and gives it back when the trainer was started again, or the run goes on
             ///< from that checkpoint with as many peers
  Copied,    ///< this trainer's own, as statistics of a model: of the types of private ones, neither reduced nor digested, and kept in the
           ///< same way. Besides it is a part of the model: alike in names, shapes and types on every peer, saved in each checkpoint of it,
           ///< and a peer that takes the run's state takes them with it, as its donor or the checkpoint has them
};

/// Values of one type in host memory, read and written in place.
class TensorMemory {
 public:
  TensorMemory(DataType type, std::span<std::byte> bytes) : type_(type), bytes_(bytes) {}
  /// A vector or span of float, std::int64_t, std::int32_t or std::uint8_t; 16-bit floats name their type above.
  template <std::ranges::contiguous_range Values>
  requires std::ranges::borrowed_range<Values> TensorMemory(Values&& values)  // NOLINT: a tensor's memory is written as what it is
      : type_(type_of<std::ranges::range_value_t<Values>>()), bytes_(std::as_writable_bytes(std::span{values})) {}

  [[nodiscard]] DataType type() const { return type_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / element_bytes(type_); }  ///< in values
  /// Of memory of f32.
  [[nodiscard]] std::span<float> floats() const { return {reinterpret_cast<float*>(bytes_.data()), bytes_.size() / sizeof(float)}; }

 private:
  template <class Value>
  static constexpr DataType type_of() {
    static_assert(std::is_same_v<Value, float> || std::is_same_v<Value, std::int64_t> || std::is_same_v<Value, std::int32_t> ||
                      std::is_same_v<Value, std::uint8_t>,
                  "name the type of other values: TensorMemory{DataType, bytes}");
    if constexpr (std::is_same_v<Value, float>) return DataType::F32;
    else if constexpr (std::is_same_v<Value, std::int64_t>) return DataType::I64;
    else if constexpr (std::is_same_v<Value, std::int32_t>) return DataType::I32;
    else return DataType::U8;
  }
  DataType type_;
  std::span<std::byte> bytes_;
};

/// One contiguous tensor in host memory. Shape in elements, row-major.
struct TensorView {
  std::string name;  ///< 1 … 256 printable ASCII characters, unique in its role; not `__metadata__`
  std::vector<std::int64_t> shape;
  TensorMemory data;  ///< as many values as the product of `shape`
};

/// Private state that is no tensor, as that of a random generator or a data loader.
struct PrivateBlob {
  std::string name;                                          ///< as of a tensor
  std::uint64_t capacity = 4096;                             ///< bytes at most
  std::function<std::string()> save;                         ///< called when a record is made
  std::function<Result<void>(std::string_view saved)> load;  ///< called by `next` when this process goes on from a record
};

/// Asked on the thread that waits, every 50 ms at least and at once after a signal that this thread has handled: false ends the wait.
/// The call fails with Interrupted then, and so does each later one but `leave` and `fail`. It must be quick, and call nothing of the
/// session.
using GoesOn = std::function<bool()>;

struct JoinOptions {
  std::string invite;                         ///< as `primectl up` prints it
  std::string primectl = {};                  ///< program to start as agent; empty: $PRIME_PRIMECTL, then beside this program, then PATH
  std::string name = {};                      ///< readable peer name; empty: drawn from the peer's id
  std::string state_dir = {};                 ///< where the agent keeps its files; empty: primectl's default
  std::chrono::milliseconds timeout{60'000};  ///< until the agent is welcome in the run
  std::string replica = {};                   ///< of a sharded run: which model this process holds a shard of; else empty
  std::uint32_t shard = 0;                    ///< and which one; `shards` of the run's manifest are one replica
  GoesOn goes_on = {};                        ///< asked while this call waits, and any later one of the session
};

/// Which part of the held-out data to evaluate: of `of` equal parts the `index`-th; `of` = 0: none. All peers evaluate the same state at
/// the same time, each its part, and the run sums the parts by tokens.
struct EvaluationShare {
  std::uint32_t index = 0;
  std::uint32_t of = 0;
};

/// What a part of the held-out data came to.
struct HeldOut {
  double loss = 0;           ///< mean, in nats per token (or your own objective)
  std::uint64_t tokens = 0;  ///< that the mean is over: its weight in the run's held-out loss; at least 1
};

/// What of an inner step the run has to know.
struct InnerReport {
  double loss = 0;                            ///< in nats per token (or your own objective)
  std::uint64_t tokens = 0;                   ///< trained on in this inner step; their sum over an outer step is its weight in the mean
  std::optional<std::uint64_t> samples = {};  ///< taken from the step's samples, from the first on; empty: all that it was given
  std::optional<HeldOut> held_out = {};       ///< where the step asked for it
  std::optional<double> data_wait_s = {};     ///< that it waited for its samples; empty: nobody measured
};

/// A range in the run's global order of samples, which is this peer's alone (of a replica, one for all its shards).
struct Samples {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// One step of the optimizer. The bound tensors are as the run's algorithm wants them when it begins.
struct InnerStep {
  OuterStep outer_step;  ///< that it works towards
  Revision base;         ///< of the shared parameters that it works from
  std::uint32_t rank = 0;
  std::uint32_t peers = 1;        ///< of a sharded run: replicas, as `rank` is the replica's
  std::uint32_t index = 0;        ///< in its outer step, from 0 on
  std::uint32_t inner_steps = 1;  ///< of one outer step, as the manifest says
  std::uint64_t clock = 0;        ///< inner steps that the run makes before this one; learning rates follow it
  std::uint64_t total = 1;        ///< inner steps of the whole run
  Samples samples;                ///< `train.batch` of them, or what is left of this peer's
  EvaluationShare evaluate;       ///< before it: the held-out loss of the bound tensors on this part goes into the report
  bool loaded = false;    ///< the session has written the averaged tensors since the step before, with a peer's first step the copied
                          ///< ones, too
  bool restored = false;  ///< and the private ones: this process goes on where an earlier one was
  bool stored = false;    ///< the report of this step reads the bound tensors: who computes elsewhere, as on a GPU, brings them here before
};

struct Committed {
  OuterStep step;
  Revision revision;
  Digest state;             ///< equal on every peer (that holds the same shard)
  std::uint32_t peers = 0;  ///< that the mean is over; 0: the run went on to `revision` without this peer's contribution
};

/// What `finish` may ask of the trainer at the end of the run. The final state is saved by then, or being saved by another peer.
struct FinalPlan {
  EvaluationShare evaluate;  ///< of the final state, which the bound tensors hold
  bool sample = false;       ///< a text, of one peer only
};
struct FinalAnswer {
  std::optional<HeldOut> held_out;
  std::string sample;  ///< at most 4 KiB
};

class Session {
 public:
  /// Starts an agent for `options.invite` and waits until the run welcomes it.
  static Result<Session> join(const JoinOptions& options);
  /// For programs that an agent started: connects to that agent. Fails with AgentLost when there is none.
  static Result<Session> attach(GoesOn goes_on = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// The shared half of the run's manifest, and this peer's local half, as YAML.
  [[nodiscard]] const std::string& manifest() const;
  [[nodiscard]] const std::string& local_manifest() const;
  [[nodiscard]] PeerId peer() const;
  /// True when this process takes part for the first time; false when the agent restarted its trainer.
  [[nodiscard]] bool fresh() const;
  /// Where one model is held by several peers: which part of it this one has, 0 … shards() − 1, of how many, and the name that all
  /// peers of this model share. In a run that is not sharded: 0, 1 and the empty name.
  [[nodiscard]] std::uint32_t shard() const;
  [[nodiscard]] std::uint32_t shards() const;
  [[nodiscard]] const std::string& replica() const;

  /// Binds tensors; all calls come before the first `next`, in the same order on every peer (that holds the same shard).
  /// What is private may differ between peers, but not between the lives of one. All memory must stay where it is. A name is used once in
  /// each role; a copied tensor has one that no other tensor has.
  /// LayoutUnusable for what no checkpoint could hold (docs/EMBEDDING.md, "Limits of a model"); the rest of it `next` refuses.
  Result<void> bind(const TensorView& tensor, Role role = Role::Averaged);
  Result<void> bind(PrivateBlob blob);
  /// Memory for f32 values, zeros, before the first `next`. Where all averaged tensors lie in such memory, in the order in which they are
  /// bound and one right behind the other (and the algorithm is `diloco`, and fragments are `sequential` or one), the agent reads what is
  /// published where it lies: no copy is made, in time or in memory. Elsewhere it is memory like any other. It holds no parameters while a
  /// `report` publishes, nor after one that has failed then. What is bound is kept until the session ends, and given back after that:
  /// LayoutUnusable for a tensor in memory that was given back, or where another one lies.
  Result<std::shared_ptr<float[]>> allocate(std::uint64_t values);
  /// Small files to be put into each checkpoint directory (`config.json`, tokenizer), by name: plain names of at most 100
  /// characters that a checkpoint does not have itself, at most 64 files of 16 MiB. What is refused ends the session; the next call that
  /// can fail tells.
  void export_file(std::string name, std::string content);

  /// Tells what this process trains on, before the first `next` and once; optional. The first peer that tells founds the run's
  /// data: who tells another digest is refused (DataMismatch), who tells nothing is not checked. `digest` is over all that must be equal on
  /// peers for their numbers of samples to mean the same samples (names and sizes of files, say), and not 0; `summary` is shown to the
  /// people who started this peer and the run. What is longer than MAX_DATA_SUMMARY_BYTES is cut. `listing`
  /// (messages/data_listing.hpp; may be empty) lets a refusal say in which files the data differs.
  Result<void> describe_data(const DataIdentity& data);
  /// Tells where this process computes ("cuda:0, NVIDIA H100"), before the first `next`; optional, and for people: `status`
  /// shows it. The last call counts; what is longer than 400 bytes is cut.
  Result<void> describe_device(std::string device);

  /// The next inner step; waits for it where the run does. Empty when the run is done. A step that was not reported hands its samples back:
  /// it is given once more.
  Result<std::optional<InnerStep>> next();
  /// The boundary after an inner step. When the outer step's inner steps are made it publishes the bound tensors, waits for the outer step
  /// and leaves the new shared parameters in them: wholly or not at all; lost peers never surface here. Returns what was applied, nothing
  /// within an outer step. Errors are final: the session is over. Should the run begin another step or end while this one waits (this peer
  /// was too late, say), that is no error: the tensors follow the run, `Committed::peers` is 0, and `next` goes on from there.
  ///
  /// With `sync.algorithm: delayed` (PCCL's asynchronous DiLoCo) it waits, before it publishes, for the outer step before this one, which
  /// was reduced meanwhile, and returns that. The next step begins from it: what this one has made shows in the tensors one outer step
  /// later. With `eager` (arXiv:2502.12996) `next` adds to it what this peer expects of its own contribution.
  Result<std::vector<Committed>> report(const InnerReport& inner);
  /// Publishes now what was reported of this outer step, however many inner steps that are, and does what `report` does then: for programs
  /// that keep the control and data of their own. Something must have been reported; a step that was not hands its samples back.
  Result<std::vector<Committed>> contribute();
  /// The samples of up to `count` steps after the one that `next` has given (or gives next), for who reads ahead. They end with what this
  /// peer has been given so far.
  [[nodiscard]] std::vector<Samples> upcoming(std::size_t count) const;
  /// After the last step: answers what the run asks of this peer (evaluation, a sample of text), if anything.
  Result<void> finish(const std::function<FinalAnswer(const FinalPlan&)>& answer);
  /// A sign of life for long work that is no inner step, as an evaluation: whoever reports neither for `local.trainer.stall_limit` is
  /// started again. Cheap: what comes within 50 ms of the last one is not sent. Fails with AgentLost when the agent is gone.
  /// `waits_for`, in words, is what it stands still for (a file that is away), which `status` shows until the next call without it or the
  /// next inner step.
  Result<void> alive(std::string_view waits_for = {});
  /// Leaves gracefully: the others see `left`, not `lost`.
  Result<void> leave();
  /// Ends the session with a cause that the journal and the other peers see.
  void fail(const Error& cause);

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace prime
