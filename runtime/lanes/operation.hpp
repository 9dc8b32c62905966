// Owns Operation: the state of one running reduce. It says which frame comes next to each rank, where the bytes of each frame lie,
// and combines what is complete. It knows no sockets.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/ports.hpp"
#include "actors/reduce_worker/overdue.hpp"
#include "actors/reduce_worker/schedule.hpp"
#include "actors/reduce_worker/vote_machine.hpp"
#include "runtime/lanes/arithmetic.hpp"
#include "runtime/lanes/chunk_pool.hpp"
#include "runtime/lanes/frame.hpp"
#include "runtime/lanes/staging.hpp"

namespace prime::lanes {

/// A frame on its way to a lane. The payload lives in the request's spans or in `buffer`; in `buffer` where the tensors are a device's.
struct Frame {
  FrameHeader header;
  std::span<const std::byte> payload;
  ChunkPool::Buffer buffer;
};

/// A frame on its way from a lane.
struct Reception {
  FrameHeader header;
  std::span<std::byte> into;  ///< empty at first when it is lent
  ChunkPool::Buffer buffer;
  bool lent = false;     ///< the payload is not moved, but used where it lies
  bool vouched = false;  ///< the channel vouches for it: an input needs no checksum; that of a result is what the vote compares
  bool gone = false;     ///< its sender has given it up: there is no payload any more
  bool parked = false;   ///< read before its operation was started here
};

class Operation {
 public:
  /// So many windows of results are kept for members that are slow to take them, where they are not kept in the output.
  static constexpr std::uint32_t RESULT_WINDOWS = 2;

  using Observer = std::function<void(std::uint64_t done, std::uint64_t total)>;
  using Clock = std::function<Instant()>;
  struct Limits {
    std::uint32_t window_chunks = 8;  ///< own chunks of one segment whose results are not here yet
    ChunkPool* pool = nullptr;        ///< must outlive the operation
    ChunkPool* staging = nullptr;     ///< of the request's device, as long
    Staging::Tell tell = {};          ///< hears of its copies
  };

  /// Fails when the request contradicts itself.
  static Result<std::unique_ptr<Operation>> make(ReduceRequest request, Limits limits, Observer observer, Clock clock);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] OperationId id() const { return request_.op; }
  [[nodiscard]] const ReducePlan& plan() const { return plan_; }
  [[nodiscard]] const Member& member(std::uint32_t rank) const { return *members_[rank]; }
  [[nodiscard]] std::optional<std::uint32_t> rank_of(PeerId peer) const;
  /// Part of a frame has come from this rank, or gone there.
  void moved(std::uint32_t rank, bool came, Instant now);
  /// Of lack of progress, later with every byte that moves; with a vote, of all.
  [[nodiscard]] Instant deadline() const { return deadline_; }
  /// Gives up. With a vote all are told and answer how it ends for them: who does not is named a while later, and counts as lost. Without,
  /// who holds this rank up is named; in a ring only one that has not begun, since those behind one that stands still wait as it seems to.
  void deadline_passed(Instant now);

  /// Whether something is still to be sent to or received from this rank.
  [[nodiscard]] bool needs(std::uint32_t rank) const;
  /// Empty while it runs.
  [[nodiscard]] std::optional<Result<ReduceStats>> outcome(Instant now) const;

  /// Where the payload of this frame goes. Fails with ReduceMismatch when the sender means another reduce by the same name, with
  /// ProtocolViolation when the frame is not one that can come now. What its lane can lend is summed where it lies, if it is an input. A
  /// writer that changes it after it has come might as well have given another input: one rank sums it, once; all get that sum, and with it
  /// a checksum that the vote compares.
  Result<Reception> expect(std::uint32_t from, const FrameHeader& header, bool lendable = false);
  /// The payload of the expected frame is there. Fails with LaneBroken when it was damaged on its way, but for an input that is
  /// vouched for.
  Result<void> received(std::uint32_t from, Reception reception, Instant now);
  /// The payload of this input, which was lent and is not combined yet, is about to be overwritten: copies it.
  void keep(std::uint32_t from, const FrameHeader& header);
  /// Whether the chunk of this input, which has come, still lacks that of another rank.
  [[nodiscard]] bool lacks(const FrameHeader& header, std::uint32_t rank) const;

  /// Whether every other member has begun it, too.
  [[nodiscard]] bool begun_by_all() const;
  /// The next frame to this rank, if there is one by now; from here on it counts as being sent. `most` narrows the window while others
  /// share the pool; with 0 no input is sent. `vouched`: by the channel, so an input needs no checksum.
  [[nodiscard]] std::optional<Frame> next(std::uint32_t to, std::uint32_t most = std::numeric_limits<std::uint32_t>::max(),
                                          bool vouched = false);
  void sent(std::uint32_t to, const FrameHeader& header);

  /// Where the tensors are a device's: fetches inputs ahead, of each segment no more than the window, which `most` narrows.
  void stage(std::uint32_t most) {
    if (staging_) fetch_ahead(most);
  }
  /// Whether a frame must wait for copies to the device that are under way.
  [[nodiscard]] bool holds(const FrameHeader& header) const {
    return staging_ && header.kind == PieceKind::Result && staging_->stores() >= std::max(staged_window_, 1U);
  }
  void copied(const CopyEnd& end);
  /// What still copies must be waited for after the operation has ended.
  [[nodiscard]] std::unique_ptr<Staging> take_staging() { return std::move(staging_); }

  /// Combines one chunk if all that goes into it is there.
  bool combine_one();

  /// Ends it. With a vote it goes on until it is known whether anybody committed. `lost`: the suspect is gone for good.
  void give_up(Error error, std::optional<std::uint32_t> suspect, bool lost);
  /// As above, and waits for nobody's answer.
  void cancel(Error error);
  /// Frames of the vote that must be sent even if the operation ends now.
  [[nodiscard]] std::deque<Frame> take_control(std::uint32_t to) { return std::exchange(exchanges_[to].control, {}); }
  [[nodiscard]] bool votes() const { return request_.vote; }
  [[nodiscard]] PeerId suspect() const { return suspect_; }

  /// Begins anew with a rank over another lane, once, if nothing has come from it yet: then neither end has lost anything.
  bool restart(std::uint32_t rank);
  /// The latest moment at which a lane to this rank must be there again.
  void reconnect_by(std::uint32_t rank, std::optional<Instant> moment) { exchanges_[rank].reconnect_by = moment; }
  [[nodiscard]] std::optional<Instant> reconnect_by(std::uint32_t rank) const { return exchanges_[rank].reconnect_by; }

 private:
  /// What has been exchanged with one rank.
  struct Exchange {
    bool begin_claimed = false;  ///< our Begin is sent or being sent, or not needed
    bool begin_sent = false;
    bool begun = false;       ///< something of this operation has come from it
    bool begin_came = false;  ///< its Begin, which other frames may overtake
    std::size_t giving = 0;   ///< index into the segments whose input goes there
    std::vector<std::uint32_t> give;
    std::vector<std::uint32_t> given;  ///< chunks, by index into `give`
    std::deque<Frame> control;         ///< words of the vote
    std::deque<Frame> ready;           ///< results and sums that wait for their turn
    std::uint64_t to_send = 0;         ///< frames, the beginning among them
    std::uint64_t sending = 0;         ///< of these, on their way to the lane
    std::uint64_t inputs_missing = 0;
    std::uint64_t results_missing = 0;
    Instant last_heard{};
    std::optional<Instant> reconnect_by;
    bool restarted = false;
  };
  /// A chunk that is being combined.
  struct Gathering {
    std::vector<ChunkPool::Buffer> inputs;  ///< by index into the route's `take`
    std::size_t missing = 0;
  };
  /// Where a chunk of the result is made.
  struct Landing {
    std::span<std::byte> bytes;
    ChunkPool::Buffer buffer;  ///< on its way to a device; null in the host's memory
  };
  /// How far the fetching of one segment's own input is.
  struct Fetching {
    std::size_t uses = 0;  ///< of each chunk
    bool combined_here = false;
    std::uint32_t begun = 0;
    std::uint32_t used = 0;
  };

  Operation(ReduceRequest request, std::vector<const Member*> members, ReducePlan plan, Arithmetic arithmetic, Limits limits,
            Observer observer, Clock clock);
  void count_chunks();
  [[nodiscard]] FrameHeader header_of(const Piece& piece, std::size_t payload_bytes) const;
  [[nodiscard]] Landing output_of(const Piece& piece);
  [[nodiscard]] std::span<const std::byte> input_of(const Piece& piece) const;
  [[nodiscard]] std::uint64_t number_of(const Piece& piece) const { return plan_.chunk_number(piece.segment, piece.chunk); }
  void plan_fetches();
  void fetch_ahead(std::uint32_t most);
  [[nodiscard]] bool waits_for_room() const { return staging_ && staging_->results() >= RESULT_WINDOWS * limits_.window_chunks; }
  void input_used(const Piece& piece);
  [[nodiscard]] Staging::Chunk staged(const Piece& piece) const;
  void write_back(Piece piece, const ChunkPool::Buffer& buffer);
  [[nodiscard]] const float* own_residual(const Piece& piece);
  /// Where in the lists of what has come a frame is noted.
  struct Place {
    std::size_t index = 0;
  };
  /// Where `taken_` knows of a chunk from the rank at this index of the route's `take`.
  [[nodiscard]] std::size_t taken_index(std::uint32_t segment, std::uint32_t chunk, std::size_t at) const {
    return first_taken_[segment] + chunk * plan_.route(segment).take.size() + at;
  }
  /// What came from this rank of a chunk that is not combined yet.
  [[nodiscard]] ChunkPool::Buffer& gathered(std::uint32_t from, const Piece& piece);
  [[nodiscard]] Gathering& gathering_of(const Piece& piece);
  void note_gathered(Gathering& gathering, const Piece& piece);
  [[nodiscard]] Result<Place> place_of(std::uint32_t from, const FrameHeader& header) const;
  [[nodiscard]] std::optional<Frame> next_frame(std::uint32_t to, std::uint32_t most);
  [[nodiscard]] std::optional<Frame> next_input(std::uint32_t to, std::uint32_t window);
  Result<void> encode_input(const Piece& piece, std::span<std::byte> wire);
  [[nodiscard]] std::size_t payload_of(const Piece& piece) const;
  void take_input(std::uint32_t from, const Piece& piece, ChunkPool::Buffer buffer);
  void take_result(const Piece& piece, std::uint64_t checksum, const Reception& reception);
  [[nodiscard]] std::optional<Piece> next_combinable();
  void finish_chunk(const Piece& piece, const Landing& out);
  /// A chunk of the result is here: notes it, and sends it on where it must go.
  void queue_result(Piece piece, std::uint64_t checksum, std::span<const std::byte> payload, const ChunkPool::Buffer& buffer);
  void obey_completion();
  /// Why the vote looks for answers now, if it has not yet and the deadline has passed.
  [[nodiscard]] std::optional<Error> late();
  [[nodiscard]] Error stands_still() const;
  void looked(Instant now);
  [[nodiscard]] Error waited_for(std::optional<std::uint32_t> rank) const;
  void blame(std::optional<std::uint32_t> rank);
  void obey(vote::Transition transition);
  [[nodiscard]] Frame frame_of(vote::Word word) const;
  [[nodiscard]] bool moved_everything() const;
  /// Whether the next chunk that is to be combined here lacks its input.
  [[nodiscard]] bool holds_up(std::uint32_t rank) const;
  [[nodiscard]] std::vector<Awaited> awaited() const;
  [[nodiscard]] Digest digest() const;
  void step() { observer_(++steps_done_, plan_.steps()); }

  ReduceRequest request_;
  std::vector<const Member*> members_;  ///< by rank; they lie in the request's view
  ReducePlan plan_;
  Arithmetic arithmetic_;
  Limits limits_;
  Observer observer_;
  Clock clock_;
  Instant started_;
  Instant deadline_;     ///< `request_.deadline` after the last byte, with a vote after the start; later: of the next look
  Instant last_look_{};  ///< for answers, from the deadline on
  std::uint64_t agreement_ = 0;
  std::unordered_map<PeerId, std::uint32_t> ranks_;
  std::vector<Exchange> exchanges_;                          ///< by rank; the own one stays unused
  std::unordered_map<std::uint64_t, Gathering> gatherings_;  ///< by chunk number
  std::deque<Piece> combinable_;
  std::vector<bool> taken_;                      ///< by chunk number and index into `take`: inputs that have come
  std::vector<std::uint64_t> first_taken_;       ///< where a segment begins in `taken_`
  std::vector<std::uint64_t> result_checksums_;  ///< by chunk number
  std::vector<bool> have_result_;                ///< by chunk number
  std::vector<std::uint32_t> results_;           ///< by segment: how many are here
  std::uint64_t results_missing_ = 0;
  std::uint32_t alone_ = 0;                    ///< chunks of the own segment that were combined without anybody's input
  std::vector<Arithmetic::Operand> operands_;  ///< of the chunk that is being combined
  vote::State vote_;
  std::optional<Error> error_;
  PeerId suspect_;
  std::uint64_t steps_done_ = 0;
  ReduceStats stats_;
  std::unique_ptr<Staging> staging_;  ///< null where the tensors are the host's
  std::vector<Fetching> fetching_;    ///< by segment
  std::uint32_t staged_window_ = 0;
};

}  // namespace prime::lanes
