// Owns LaneThread: the one thread that owns all lanes and the running operations, its mailbox, and how a caller takes its place.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/lanes/dialing.hpp"
#include "runtime/lanes/engine.hpp"
#include "runtime/lanes/lane.hpp"
#include "runtime/lanes/link_probe.hpp"
#include "runtime/lanes/operation.hpp"
#include "runtime/lanes/staging_pools.hpp"
#include "runtime/net/shared_region.hpp"

namespace prime::lanes {

struct StartCommand {
  ReduceRequest request;
  std::function<void(ReduceOutcome)> done;
};
struct AbortCommand {
  OperationId op;
  std::string reason;
};
struct AdoptCommand {
  net::ChannelPtr channel;
};
struct ForgetCommand {
  PeerId peer;
};
struct DialedCommand {
  Dialed dialed;
};
struct MeasureCommand {
  Member member;
  MeasureDone done;
};
struct ShareCommand {
  std::span<const std::byte> bytes;
  std::weak_ptr<const net::SharedRegion> region;
};
struct StopCommand {};
using Command = std::variant<StartCommand, AbortCommand, AdoptCommand, ForgetCommand, DialedCommand, MeasureCommand, CopyEnd, ShareCommand,
                             StopCommand>;

/// Ends a poll from another thread.
class WakeFd {
 public:
  WakeFd();
  ~WakeFd();
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;
  void wake() const;
  void drain() const;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

class LaneThread {
 public:
  explicit LaneThread(EngineOptions options);
  ~LaneThread();
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  void post(Command command);
  /// Takes the lane thread's place until the operation is over, unless another caller has taken it. What is thrown meanwhile ends the
  /// process, as on the lane thread: a caller that is gone would leave its place to nobody.
  void post_and_drive(StartCommand command) noexcept;
  [[nodiscard]] KnownMembers& known() { return known_; }
  [[nodiscard]] std::size_t peak_bytes() { return pool_.peak_bytes() + staging_.peak_bytes(); }
  [[nodiscard]] std::uint64_t bytes_moved() const { return bytes_moved_.load(std::memory_order_relaxed); }

 private:
  void run();
  void turn();
  void obey_commands();
  void obey(StartCommand command);
  void obey(const AbortCommand& command);
  void obey(AdoptCommand command);
  void obey(ForgetCommand command);
  void obey(DialedCommand command);
  void obey(MeasureCommand command);
  void obey(const CopyEnd& end);
  void obey(ShareCommand command);
  void obey(StopCommand command);

  struct Running {
    std::unique_ptr<Operation> operation;
    std::function<void(ReduceOutcome)> done;
    std::uint32_t window = 0;  ///< in this turn
  };
  using RunningAt = std::map<OperationId, Running>::iterator;

  [[nodiscard]] Operation* find(OperationId op);
  /// Over here, or followed by another one of its tag.
  [[nodiscard]] bool is_past(OperationId op) const;
  /// Opens the lane to a member of an operation, or waits for it to be opened.
  void connect(const Member& member);
  [[nodiscard]] std::unique_ptr<Stream> set_up(net::ChannelPtr channel) const;
  void note_begin(const Stream& stream);
  /// Makes a lane of its first stream, or adds a further one to it. False when there is no such lane.
  bool join(std::unique_ptr<Stream>& stream, std::uint64_t bundle, std::uint32_t index);
  void greet_arrivals();
  /// Whether a stream that was accepted needs no more looking after: it has joined its lane, or is closed.
  bool greet(std::unique_ptr<Stream>& stream);
  [[nodiscard]] Error other_streams(std::uint32_t theirs) const;
  /// There will be no lane to this peer for those who wait for one.
  void give_up_on(PeerId peer, const Error& error);
  void note_way(PeerId peer, PeerId through);
  /// Says where it came about.
  [[nodiscard]] Error of_lane(Error error, PeerId peer) const;
  /// Closes a lane. An operation that needs it fails, or begins anew with that peer when nothing is lost yet.
  void drop(PeerId peer, const Error& error);
  /// Whether an operation goes on and needs another lane to this peer.
  bool close_lane(PeerId peer, const Error& error);
  void forget_parked(PeerId peer);

  void share_windows();
  void move_bytes();
  /// Why a lane is no more, if it is not.
  std::optional<Error> loss_of(Lane& lane);
  void read_from(Stream& stream);
  void keep_lent(const Stream& stream);
  void keep_what_blocks();
  void decide_on_header(Stream& stream);
  void take_probe(Stream& stream);
  void park_or_drop(Stream& stream);
  void answer_for_past(const Stream& stream);
  void deliver(Stream& stream, Reception reception);
  void replay(Operation& operation);
  /// In which the other end of a stream may read this payload, if it lies in one.
  [[nodiscard]] std::shared_ptr<const net::SharedRegion> region_of(const Operation& operation, const Frame& frame) const;
  bool next_frame(Lane& lane, Stream& stream);
  void write_to(Lane& lane, Stream& stream);
  void note_moved(Stream& stream);

  void combine();
  void check_deadlines();
  [[nodiscard]] bool still_arrives(Operation& operation, Instant now);
  void send_votes(Operation& operation);
  void finish_what_is_done();
  [[nodiscard]] std::uint32_t window() const;
  void end_operations_before(OperationId op);
  void end_operation(RunningAt at, Result<ReduceStats> stats);
  void end_when_copied(std::unique_ptr<Staging> staging, std::function<void(ReduceOutcome)> done, ReduceOutcome outcome);
  void await_copies();
  /// Those of a failed operation that lead nowhere any more: a network that is cut closes no connection.
  [[nodiscard]] std::vector<PeerId> silent_lanes(const Operation& operation) const;
  [[nodiscard]] int poll_timeout_ms() const;
  /// What may end a wait: the mailbox, and what streams wait for.
  [[nodiscard]] int prepare_wait(const WakeFd& wake, std::vector<pollfd>& polled);
  void note_polled(const std::vector<pollfd>& polled);
  void each_stream(const auto& act) {
    for (auto& [peer, lane] : lanes_)
      for (const auto& stream : lane.streams) act(*stream);
    for (const auto& stream : arriving_) act(*stream);
  }
  void stand_aside();
  [[nodiscard]] bool is_idle() const;

  EngineOptions options_;
  KnownMembers known_;
  WakeFd wake_;
  WakeFd caller_wake_;  ///< of a caller that drives
  std::mutex mutex_;
  std::vector<Command> mailbox_;  ///< guarded by mutex_
  bool driven_ = false;           ///< by a caller; guarded by mutex_
  bool aside_ = false;            ///< the lane thread waits for `aside_ends_`; guarded by mutex_
  Instant aside_until_{};         ///< guarded by mutex_
  std::condition_variable aside_ends_;
  std::atomic<std::uint64_t> bytes_moved_ = 0;

  std::mutex turns_;
  // Guarded by turns_:
  bool stopped_ = false;
  bool busy_ = false;  ///< this turn did something after which there may be more to do at once
  ChunkPool pool_;
  StagingPools staging_;
  std::vector<std::byte> bin_;
  std::map<PeerId, Lane> lanes_;
  std::vector<std::unique_ptr<Stream>> arriving_;  ///< accepted; their first frame tells to which lane they belong
  std::map<PeerId, PeerId> relayed_;               ///< by whom the last lane to a peer was passed on, of those that were opened here
  std::set<PeerId> dialing_now_;
  std::set<PeerId> met_;  ///< there was a lane to them, and they were not forgotten
  /// Whose last lane had another number of streams: an operation that starts after it was closed is told so, too.
  std::map<PeerId, Error> unlike_;
  std::map<Tag, OperationId> newest_;  ///< that was started here
  std::map<OperationId, Running> operations_;
  std::vector<ShareCommand> regions_;
  /// What has ended while a device still copies from or to its tensors.
  struct Copying {
    std::unique_ptr<Staging> staging;
    std::function<void(ReduceOutcome)> done;
    ReduceOutcome outcome;
  };
  std::map<OperationId, Copying> copying_;
  LinkProbes probes_;
  /// Small frames of operations that are not started here yet.
  std::map<OperationId, std::vector<std::pair<PeerId, Reception>>> parked_;
  std::size_t parked_frames_ = 0;
  std::deque<std::pair<OperationId, bool>> ended_;  ///< the last ones, and whether they were committed: who doubts may ask later
  Instant spin_until_{};
  Instant looked_{};  ///< before the last poll
  std::uint64_t drives_ = 0;
  std::vector<pollfd> caller_polls_;

  Dialing dialing_;
  std::jthread thread_;
};

}  // namespace prime::lanes
