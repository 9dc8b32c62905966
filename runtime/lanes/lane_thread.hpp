// Owns LaneThread: the one thread that owns all lanes and the running operation, and its mailbox.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/lanes/dialing.hpp"
#include "runtime/lanes/engine.hpp"
#include "runtime/lanes/lane.hpp"
#include "runtime/lanes/operation.hpp"

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
  PeerId peer;
  Result<net::ChannelPtr> channel;
};
struct StopCommand {};
using Command = std::variant<StartCommand, AbortCommand, AdoptCommand, ForgetCommand, DialedCommand, StopCommand>;

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
  [[nodiscard]] std::uint64_t chunks_done() const { return chunks_done_.load(std::memory_order_relaxed); }

 private:
  void run();
  void obey_commands();
  void obey(StartCommand command);
  void obey(AbortCommand command);
  void obey(AdoptCommand command);
  void obey(ForgetCommand command);
  void obey(DialedCommand command);
  void obey(StopCommand command);

  /// The other rank of the running operation that this peer has, if it has one.
  [[nodiscard]] std::optional<std::uint32_t> rank_of(PeerId peer) const;
  /// Opens the lane to a member of the operation, or waits for it to be opened.
  void connect(std::uint32_t rank);
  void take(net::ChannelPtr channel);
  /// Closes a lane. An operation that needs it fails, or begins anew with that peer when nothing is lost yet.
  void drop(PeerId peer, const Error& error);
  /// Whether the operation goes on and needs another lane to this peer.
  bool close_lane(PeerId peer, const Error& error);

  void move_bytes();
  void serve(Lane& lane);
  void read_from(Lane& lane);
  void decide_on_header(Lane& lane);
  void write_to(Lane& lane);

  void check_deadlines();
  void finish_if_done();
  void end_operation(Result<ReduceStats> stats, PeerId suspect);
  [[nodiscard]] int poll_timeout_ms() const;
  void wait();

  EngineOptions options_;
  WakeFd wake_;
  std::mutex mutex_;
  std::vector<Command> mailbox_;  ///< guarded by mutex_
  std::atomic<std::uint64_t> chunks_done_ = 0;

  // Of the lane thread alone:
  bool stopped_ = false;
  bool busy_ = false;  ///< this turn did something after which there may be more to do at once
  ChunkPool pool_;
  std::vector<std::byte> bin_;
  std::map<PeerId, Lane> lanes_;
  std::set<PeerId> dialing_now_;
  std::optional<OperationId> newest_;  ///< started here; frames of older ones are dropped, of newer ones held
  std::unique_ptr<Operation> operation_;
  std::function<void(ReduceOutcome)> done_;

  Dialing dialing_;
  std::jthread thread_;
};

}  // namespace prime::lanes
