// Owns Operation: the state of one running reduce. It says which frame comes next in each direction, where its bytes lie, and sums
// what is complete. It knows no sockets.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/ports.hpp"
#include "actors/reduce_worker/schedule.hpp"
#include "runtime/lanes/frame.hpp"

namespace prime::lanes {

/// Buffers of one chunk each, kept between operations so that their pages are mapped once.
class ChunkPool {
 public:
  using Buffer = std::unique_ptr<float[]>;
  explicit ChunkPool(std::size_t chunk_elements) : chunk_elements_(chunk_elements) {}
  Buffer take();
  void give_back(Buffer buffer) { free_.push_back(std::move(buffer)); }
  [[nodiscard]] std::size_t chunk_elements() const { return chunk_elements_; }

 private:
  std::size_t chunk_elements_;
  std::vector<Buffer> free_;
};

class Operation {
 public:
  using Observer = std::function<void(std::uint64_t done, std::uint64_t total)>;

  /// Fails when the request contradicts itself. `pool` must outlive the operation.
  static Result<std::unique_ptr<Operation>> make(ReduceRequest request, std::uint32_t window_chunks, ChunkPool& pool, Observer observer,
                                                 Instant now);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] OperationId id() const { return request_.op; }
  [[nodiscard]] const ReducePlan& plan() const { return plan_; }
  [[nodiscard]] const Member& member(std::uint32_t rank) const { return request_.view.members[rank]; }
  [[nodiscard]] std::optional<std::uint32_t> rank_of(PeerId peer) const;
  [[nodiscard]] Instant deadline() const { return started_ + request_.deadline; }

  /// Whether something is still to be sent to or received from this rank.
  [[nodiscard]] bool needs(std::uint32_t rank) const;
  [[nodiscard]] bool finished() const;

  struct Reception {
    bool early = false;  ///< the window is full: ask again after a sum
    std::span<std::byte> into;
  };
  /// Where the payload of this frame goes. Fails with ReduceMismatch when the sender means another reduce by the same name, with
  /// ProtocolViolation when the frame is not the next one of the plan.
  Result<Reception> expect(std::uint32_t from, const FrameHeader& header);
  /// The payload of the expected frame is there. Fails with LaneBroken when it was damaged on its way.
  Result<void> received(std::uint32_t from, Instant now);

  struct Frame {
    FrameHeader header;
    std::span<const std::byte> payload;
  };
  /// The next frame to this rank, if it can be sent by now.
  [[nodiscard]] std::optional<Frame> next(std::uint32_t to) const;
  void sent(std::uint32_t to, Instant now);

  /// Sums one chunk of the own segment if all of its inputs are there.
  bool sum_one();

  /// Begins anew with a rank over another channel, once, if nothing has come from it yet: then neither end has lost anything.
  bool restart(std::uint32_t rank);
  /// The latest moment at which a channel to this rank must be there again.
  void reconnect_by(std::uint32_t rank, std::optional<Instant> moment) { exchanges_[rank].reconnect_by = moment; }
  [[nodiscard]] std::optional<Instant> reconnect_by(std::uint32_t rank) const { return exchanges_[rank].reconnect_by; }

  /// Who is to blame when the deadline passes: of the ranks that keep us waiting the one that has been silent for longest.
  [[nodiscard]] PeerId most_overdue(const std::function<bool(PeerId)>& we_make_it_wait) const;
  [[nodiscard]] ReduceStats stats(Instant now) const;

 private:
  /// What has been exchanged with one rank.
  struct Exchange {
    std::uint64_t sent = 0;      ///< frames
    std::uint64_t received = 0;  ///< frames
    FrameHeader expected;
    std::span<std::byte> into;
    ChunkPool::Buffer receiving;
    std::deque<ChunkPool::Buffer> inputs;  ///< complete, not yet summed
    Instant last_progress{};
    std::optional<Instant> reconnect_by;
    bool restarted = false;
  };

  Operation(ReduceRequest request, ReducePlan plan, MeanFactors factors, std::uint32_t window_chunks, ChunkPool& pool, Observer observer,
            Instant now);
  [[nodiscard]] FrameHeader header_of(const Piece& piece) const;
  void step() { observer_(++steps_done_, plan_.steps()); }

  ReduceRequest request_;
  ReducePlan plan_;
  MeanFactors factors_;
  std::uint32_t window_chunks_;
  ChunkPool* pool_;
  Observer observer_;
  Instant started_;
  std::uint64_t agreement_ = 0;
  std::unordered_map<PeerId, std::uint32_t> ranks_;
  std::vector<Exchange> exchanges_;              ///< by rank; the own one stays unused
  std::vector<std::uint32_t> arrived_;           ///< input chunks of the own segment, by rank
  std::vector<std::uint64_t> result_checksums_;  ///< of the own chunks summed so far: computed once, sent to all
  std::uint64_t steps_done_ = 0;
  ReduceStats stats_;
};

}  // namespace prime::lanes
