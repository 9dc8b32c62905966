// Owns the loop of the lane thread: obey, sum, move bytes, wait.
#include "runtime/lanes/lane_thread.hpp"

#include <algorithm>
#include <limits>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "messages/assert.hpp"
#include "runtime/lanes/link_options.hpp"

namespace prime::lanes {
namespace {

constexpr std::size_t BIN_BYTES = 64 * 1024;
/// Steps of one lane in one turn: enough for a frame and the next header, few enough to be fair to the other lanes.
constexpr int STEPS_PER_TURN = 4;

Error aborted(const std::string& reason) { return Error{ErrorName::LaneBroken, "aborted: " + reason}; }

}  // namespace

WakeFd::WakeFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { PRIME_ASSERT(fd_ >= 0, "a lane thread can be woken"); }

WakeFd::~WakeFd() { ::close(fd_); }

void WakeFd::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);  // it can only fail when a wake is pending anyway
}

void WakeFd::drain() const {
  std::uint64_t wakes = 0;
  (void)!::read(fd_, &wakes, sizeof wakes);
}

LaneThread::LaneThread(EngineOptions options)
    : options_(std::move(options)),
      pool_(options_.chunk_elements),
      bin_(BIN_BYTES),
      dialing_(options_,
               [this](PeerId peer, Result<net::ChannelPtr> channel) {
                 post(DialedCommand{peer, std::move(channel)});
               }),
      thread_([this] { run(); }) {
  PRIME_ASSERT(options_.window_chunks > 0, "a window holds a chunk");
  PRIME_ASSERT(options_.chunk_elements > 0 && options_.chunk_elements * sizeof(float) <= MAX_PAYLOAD_BYTES, "a chunk fits into a frame");
}

LaneThread::~LaneThread() {
  post(StopCommand{});
  thread_.join();
}

void LaneThread::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(command));
  }
  wake_.wake();
}

void LaneThread::run() {
  while (!stopped_) {
    busy_ = false;
    obey_commands();
    check_deadlines();
    if (operation_ && operation_->sum_one()) busy_ = true;
    move_bytes();
    finish_if_done();
    if (!stopped_) wait();
  }
  obey_commands();  // what was started from the last outcome ends here, too
  lanes_.clear();
}

void LaneThread::obey_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(mailbox_);
  }
  for (auto& command : commands) std::visit([this](auto& c) { obey(std::move(c)); }, command);
}

void LaneThread::obey(StartCommand command) {
  const auto op = command.request.op;
  if (newest_ && op <= *newest_) {
    command.done(
        ReduceOutcome{op, fail(ErrorName::InternalError, "operation " + to_string(op) + " is not newer than " + to_string(*newest_)), {}});
    return;
  }
  if (operation_) end_operation(fail(aborted("operation " + to_string(op) + " starts")), PeerId{});
  newest_ = op;
  const auto observe = [this, op](std::uint64_t done, std::uint64_t total) {
    chunks_done_.store(done, std::memory_order_relaxed);
    if (options_.on_chunk) options_.on_chunk(op, done, total);
  };
  auto operation = stopped_ ? fail(aborted("the engine ends"))
                            : Operation::make(std::move(command.request), options_.window_chunks, pool_, observe, options_.now());
  if (!operation) {
    command.done(ReduceOutcome{op, fail(std::move(operation).error()), {}});
    return;
  }
  operation_ = std::move(*operation);
  done_ = std::move(command.done);
  for (const auto rank : operation_->plan().peers())
    if (!lanes_.contains(operation_->member(rank).id)) connect(rank);
}

void LaneThread::obey(AbortCommand command) {
  if (operation_ && operation_->id() == command.op) end_operation(fail(aborted(command.reason)), PeerId{});
}

void LaneThread::obey(AdoptCommand command) { take(std::move(command.channel)); }

void LaneThread::obey(ForgetCommand command) {
  dialing_now_.erase(command.peer);
  const auto rank = rank_of(command.peer);
  if (rank && operation_->needs(*rank)) end_operation(fail(ErrorName::PeerLost, to_string(command.peer)), command.peer);
  drop(command.peer, Error{ErrorName::PeerLost});
}

void LaneThread::obey(DialedCommand command) {
  if (dialing_now_.erase(command.peer) == 0) return;  // forgotten meanwhile
  if (command.channel) return take(std::move(*command.channel));
  const auto rank = rank_of(command.peer);
  if (rank && operation_->needs(*rank) && !lanes_.contains(command.peer))
    end_operation(fail(std::move(command.channel).error()), command.peer);
}

void LaneThread::obey(StopCommand) {
  if (operation_) end_operation(fail(aborted("the engine ends")), PeerId{});
  stopped_ = true;
}

std::optional<std::uint32_t> LaneThread::rank_of(PeerId peer) const {
  if (operation_ == nullptr) return std::nullopt;
  return operation_->rank_of(peer);
}

void LaneThread::connect(std::uint32_t rank) {
  const Member& member = operation_->member(rank);
  if (options_.self < member.id && dialing_now_.insert(member.id).second) dialing_.dial(member);
}

void LaneThread::take(net::ChannelPtr channel) {
  const PeerId peer = channel->peer();
  if (lanes_.contains(peer)) (void)close_lane(peer, Error{ErrorName::LaneBroken, "the peer opened another one"});
  (void)apply_link_options(channel->fd());
  lanes_.try_emplace(peer, std::move(channel));
  if (const auto rank = rank_of(peer)) operation_->reconnect_by(*rank, std::nullopt);
  busy_ = true;
}

void LaneThread::drop(PeerId peer, const Error& error) {
  if (!close_lane(peer, error)) return;
  const auto rank = *operation_->rank_of(peer);
  operation_->reconnect_by(rank, options_.now() + options_.reconnect_grace);
  connect(rank);
}

bool LaneThread::close_lane(PeerId peer, const Error& error) {
  lanes_.erase(peer);
  const auto rank = rank_of(peer);
  if (!rank || !operation_->needs(*rank)) return false;
  if (error.name == ErrorName::LaneBroken && operation_->restart(*rank)) return true;
  end_operation(fail(Error(error).with_context("on the lane to peer " + to_string(peer))), peer);
  return false;
}

void LaneThread::move_bytes() {
  // Each peer begins with another one, so that not all serve the same peer first.
  const auto middle = lanes_.upper_bound(options_.self);
  for (auto at = middle; at != lanes_.end(); ++at) serve(at->second);
  for (auto at = lanes_.begin(); at != middle; ++at) serve(at->second);
  std::vector<std::pair<PeerId, Error>> lost;
  for (const auto& [peer, lane] : lanes_)
    if (lane.error()) lost.emplace_back(peer, *lane.error());
  for (const auto& [peer, error] : lost) drop(peer, error);
}

void LaneThread::serve(Lane& lane) {
  if (!lane.error()) write_to(lane);
  if (!lane.error()) read_from(lane);
}

void LaneThread::read_from(Lane& lane) {
  if (lane.held) decide_on_header(lane);
  for (int step = 0; step < STEPS_PER_TURN && lane.may_read() && !lane.error(); ++step) {
    switch (lane.read(bin_)) {
      case Lane::ReadStep::Header: decide_on_header(lane); break;
      case Lane::ReadStep::Payload: {
        const auto from = operation_->rank_of(lane.peer());
        if (auto good = operation_->received(*from, options_.now()); !good) lane.lose(std::move(good).error());
        busy_ = true;
        break;
      }
      case Lane::ReadStep::Dropped: break;
      case Lane::ReadStep::Blocked:
      case Lane::ReadStep::Lost: return;
    }
  }
  if (lane.may_read()) busy_ = true;
}

void LaneThread::decide_on_header(Lane& lane) {
  const FrameHeader& header = lane.header();
  if (!newest_ || header.op > *newest_) {
    lane.held = true;
    return;
  }
  if (!operation_ || header.op != operation_->id()) return lane.discard();
  const auto from = operation_->rank_of(lane.peer());
  if (!from) return lane.lose(Error{ErrorName::ProtocolViolation, "a frame from a peer that is not a member"});
  auto reception = operation_->expect(*from, header);
  if (!reception) {
    // A peer that means another reduce still speaks the protocol: its lane stays.
    if (reception.error().name != ErrorName::ReduceMismatch) return lane.lose(std::move(reception).error());
    end_operation(fail(std::move(reception).error()), lane.peer());
    return lane.discard();
  }
  if (reception->early) lane.held = true;
  else lane.receive(reception->into);
}

void LaneThread::write_to(Lane& lane) {
  for (int step = 0; step < STEPS_PER_TURN; ++step) {
    const auto to = rank_of(lane.peer());
    if (!lane.sending()) {
      const auto frame = to ? operation_->next(*to) : std::nullopt;
      if (!frame) return;
      lane.send(frame->header, frame->payload);
    }
    if (!lane.may_write()) return;
    const auto op = lane.sending_op();
    if (lane.write() != Lane::WriteStep::Written) return;
    if (to && op == operation_->id()) operation_->sent(*to, options_.now());
    busy_ = true;
  }
}

void LaneThread::check_deadlines() {
  if (!operation_) return;
  const auto now = options_.now();
  for (const auto rank : operation_->plan().peers()) {
    const auto moment = operation_->reconnect_by(rank);
    if (!moment || now < *moment) continue;
    const PeerId peer = operation_->member(rank).id;
    return end_operation(fail(ErrorName::LaneBroken, "peer " + to_string(peer) + " did not connect again"), peer);
  }
  if (now < operation_->deadline()) return;
  const PeerId suspect = operation_->most_overdue([&](PeerId peer) {
    const auto lane = lanes_.find(peer);
    return lane != lanes_.end() && lane->second.held && lane->second.header().op == operation_->id();
  });
  end_operation(fail(ErrorName::DeadlineExceeded, "the reduce waited for peer " + to_string(suspect)), suspect);
}

void LaneThread::finish_if_done() {
  if (operation_ && operation_->finished()) end_operation(operation_->stats(options_.now()), PeerId{});
}

void LaneThread::end_operation(Result<ReduceStats> stats, PeerId suspect) {
  const auto op = operation_->id();
  for (auto& [peer, lane] : lanes_) {
    lane.release_input(op);
    if (lane.sending() && lane.sending_op() == op) lane.release_output();
  }
  operation_.reset();
  chunks_done_.store(0, std::memory_order_relaxed);
  busy_ = true;  // frames of it that are held can be dropped now
  std::exchange(done_, nullptr)(ReduceOutcome{op, std::move(stats), suspect});
}

int LaneThread::poll_timeout_ms() const {
  if (busy_) return 0;
  if (!operation_) return -1;
  auto until = operation_->deadline();
  for (const auto rank : operation_->plan().peers()) until = std::min(until, operation_->reconnect_by(rank).value_or(until));
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - options_.now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(rest, 0, std::numeric_limits<int>::max()));
}

void LaneThread::wait() {
  std::vector<pollfd> fds{pollfd{wake_.fd(), POLLIN, 0}};
  for (const auto& [peer, lane] : lanes_) fds.push_back(pollfd{lane.fd(), lane.poll_events(), 0});
  if (::poll(fds.data(), fds.size(), poll_timeout_ms()) <= 0) return;
  if (fds[0].revents != 0) wake_.drain();
  auto at = fds.begin() + 1;
  for (auto& [peer, lane] : lanes_) lane.polled((at++)->revents);
}

}  // namespace prime::lanes
