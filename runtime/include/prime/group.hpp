// Owns the collectives alone: a fixed group of processes that reduce tensors together, without a coordinator or a run.
//
// The engine is the one of a run (DESIGN §5): many reduces at once, interleaved by chunk over the same lanes; each is committed by
// every member or by none, as far as the survivors can reach each other (docs/INVARIANTS.md, law 2).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "messages/data_types.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime {

namespace kernels {
class DeviceMemory;
}

struct GroupOptions {
  std::uint32_t rank = 0;
  std::vector<std::string> members;  ///< "host:port" by rank, no two alike, the same list everywhere; the own one is listened at
  std::string key;                   ///< a secret of at least 16 characters, the same everywhere
  bool memory = true;                ///< members of one machine use shared memory, where their key and network namespace are the same
  bool plain = false;                ///< no TLS: for networks that are private already; the key is proved either way
  /// Connections between two members, the same everywhere, 1 to 64. More than one pays where a network caps each connection.
  std::uint32_t streams = 1;
  std::chrono::milliseconds timeout{30'000};  ///< more than 0; of one connection attempt and of each reduce
  /// Progress: after each chunk that was received or combined, `done` of `total`. Called on the group's own thread,
  /// or on one that waits in `reduce`; must be quick, wait for no reduce, and throw nothing.
  std::function<void(std::uint64_t tag, std::uint64_t done, std::uint64_t total)> on_chunk;
};

struct ReduceOptions {
  /// Reduces of different tags run at once, in whatever order members start them; those of one tag one after the other, in the order in
  /// which they were asked for, each with its timeout from when its turn comes.
  std::uint64_t tag = 0;
  DataType type = DataType::F32;
  ReduceOperator combine = ReduceOperator::Average;
  Codec codec = Codec::None;          ///< of what members bring
  std::optional<Codec> result_codec;  ///< of the result; absent: the same. Where members bring something encoded alone
  Schedule schedule = Schedule::Automatic;
  /// Rounding of a codec: to the nearest, or up and down with the right mean; the random bits are those of (seed, version, index).
  bool stochastic = false;
  std::uint64_t seed = 0;
  std::uint64_t version = 0;
  /// Of an average, by rank, the same everywhere; empty: all 1. The other operators only ask whether a weight is 0: then that member
  /// brings nothing, and may have no input.
  std::vector<std::uint64_t> weights;
  /// Error feedback of a codec: one value for each element, 0 before the first reduce. What earlier encodings lost here is added before
  /// this one, and replaced by what this one loses when the reduce is committed; an aborted one leaves it as it was. In the host's memory.
  std::span<float> residual;
  /// Where input and output lie: null in the host's memory, else in a device's (`cuda_memory()` of prime/device_memory.hpp), and the spans
  /// are of its addresses. Each member has them where it likes. What writes the input must have finished before the reduce starts.
  std::shared_ptr<kernels::DeviceMemory> memory;
  std::chrono::milliseconds timeout{0};  ///< of this reduce; 0: the group's
};

struct ReduceInfo {
  std::uint64_t wire_bytes_sent = 0;
  std::uint64_t wire_bytes_received = 0;
  std::chrono::nanoseconds elapsed{};
  Digest digest;  ///< of the result; equal on all members
};

/// A reduce under way. It must end, and be waited for, before its buffers do; the destructor cancels and waits, and so does what puts
/// another one in its place.
class Reduction {
 public:
  Reduction(Reduction&&) noexcept;
  Reduction& operator=(Reduction&&) noexcept;
  ~Reduction();

  /// Blocks until it is committed or aborted. Aborted: the input is as it was, the output is undefined.
  ///   PeerLost, LaneBroken   a member went away, or gave the reduce up for one of the reasons below
  ///   DeadlineExceeded       a member did not take part in time; at one member at least it is named, if it does not answer either within
  ///                          five seconds more (frozen, or away), and at none if all answer, or are still heard of (slow)
  ///   ReduceMismatch         members disagree on sizes, types or weights, or the combination of options does not exist
  ///   NonFiniteValue         a value that the codec cannot carry, here or (as LaneBroken) at another member
  ///   DeviceUnusable         the device failed to copy, here or (as LaneBroken) at another member
  ///   Usage                  spans or weights that do not fit each other, values that name nothing
  Result<ReduceInfo> wait();
  /// Empty when it still runs after `limit`.
  std::optional<Result<ReduceInfo>> wait_for(std::chrono::nanoseconds limit);
  /// `told` is called once it has ended, once: on the group's own thread or one that waits in `reduce`, or here if it has ended already.
  /// Must be quick, wait for no reduce, and throw nothing. The last call counts.
  void when_done(std::function<void()> told);
  /// Asks for an end; it may have been committed already, or be by the others: `wait` tells, once these have said how they end, or after
  /// the deadline and the seconds above.
  void cancel();

 private:
  friend class Group;
  struct Impl;
  explicit Reduction(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

class Group {
 public:
  /// Listens at the own address. Lanes are opened by the first reduce that needs them, within its timeout. A member whose process ended
  /// does not get in again, since the others are at later reduces: they form a new group without it, or with it under another key.
  /// Usage: options that contradict themselves; AddressTaken; MemoryUnavailable: no more descriptors or threads.
  static Result<Group> form(const GroupOptions& options);
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  ~Group();

  [[nodiscard]] std::uint32_t rank() const;
  [[nodiscard]] std::uint32_t size() const;

  /// Starts a reduce; the spans hold the same count of elements on all members, and stay valid until it has ended.
  /// `output` may be `input`, but not overlap it otherwise (Usage). Then the result is written into a buffer and copied when it is
  /// committed. That buffer lies where the tensor lies. In the host's memory the group keeps it, like that of residuals, for the next
  /// reduces, never more than was in use at once; a device that fails to copy has DeviceUnusable for an end, while the others have the
  /// result.
  Reduction reduce_async(std::span<const std::byte> input, std::span<std::byte> output, const ReduceOptions& options);
  Result<ReduceInfo> reduce(std::span<const std::byte> input, std::span<std::byte> output, const ReduceOptions& options);
  Result<ReduceInfo> reduce(std::span<const float> input, std::span<float> output, const ReduceOptions& options = {});
  /// Memory for tensors, zeros, at the address of a page, that members on this machine map and read where it lies, through lanes of shared
  /// memory (GroupOptions::memory) and once they have said that they can: an owner sums inputs in their memory, and results are copied
  /// once, from output to output. Moved as from any memory are payloads of 32 KiB and less, encoded ones, sums under way in a ring, results
  /// in place, what does not begin at a multiple of eight bytes, and what lies in more than 64 pieces at once. Pages are taken when they
  /// are touched, and go back to the system with the last holder here, also after the group's end. A child of fork shares them for writing,
  /// unlike other memory. MemoryUnavailable: no more descriptors (each piece is one), or address space.
  Result<std::shared_ptr<std::byte[]>> allocate(std::size_t bytes);

  /// Memory of the host that the group has taken beyond what callers gave it, at most, in bytes.
  [[nodiscard]] std::size_t peak_bytes() const;

 private:
  friend class Reduction;
  struct Impl;
  explicit Group(std::unique_ptr<Impl> impl);
  [[nodiscard]] std::optional<Error> problem_of(const ReduceOptions& options, std::span<const std::byte> input,
                                                std::span<std::byte> output) const;
  Reduction begin(std::span<const std::byte> input, std::span<std::byte> output, const ReduceOptions& options, bool drive);
  std::unique_ptr<Impl> impl_;
};

}  // namespace prime
