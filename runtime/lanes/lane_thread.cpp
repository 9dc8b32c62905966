// Owns the loop of the lane thread: obey, sum, move bytes, wait.
#include "runtime/lanes/lane_thread.hpp"

#include <algorithm>
#include <limits>
#include <sched.h>
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
constexpr Duration SPIN = std::chrono::microseconds(50);
constexpr std::size_t MAX_TAGS = 65'536;
/// Frames of operations that have not begun here, of at most WHOLE_BYTES each. Beyond it lanes are not read.
constexpr std::size_t MAX_PARKED_FRAMES = 1024;
constexpr std::size_t MAX_REMEMBERED = 1024;

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
      pool_(options_.chunk_bytes),
      bin_(BIN_BYTES),
      dialing_(options_,
               [this](PeerId peer, Result<net::ChannelPtr> channel) {
                 post(DialedCommand{peer, std::move(channel)});
               }),
      thread_([this] { run(); }) {
  PRIME_ASSERT(options_.window_chunks > 0, "a window holds a chunk");
  PRIME_ASSERT(options_.chunk_bytes >= sizeof(double) && options_.chunk_bytes <= MAX_PAYLOAD_BYTES, "a chunk fits into a frame");
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
    combine();
    move_bytes();
    finish_what_is_done();
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
  const auto refuse = [&](Error error) { command.done(ReduceOutcome{op, fail(std::move(error)), {}}); };
  if (stopped_) return refuse(aborted("the engine ends"));
  if (is_past(op)) return refuse(Error{ErrorName::InternalError, "operation " + to_string(op) + " is not newer than those before it"});
  if (newest_.size() == MAX_TAGS && !newest_.contains(op.tag) && op.epoch == epoch_)
    return refuse(Error{ErrorName::ReduceMismatch, "more than " + std::to_string(MAX_TAGS) + " tags in one epoch"});
  end_operations_before(op);
  newest_[op.tag] = op.sequence;
  const auto observe = [this, op](std::uint64_t done, std::uint64_t total) {
    chunks_done_.fetch_add(1, std::memory_order_relaxed);
    if (options_.on_chunk) options_.on_chunk(op, done, total);
  };
  auto operation = Operation::make(std::move(command.request), {options_.window_chunks, &pool_}, observe, options_.now());
  if (!operation) return refuse(std::move(operation).error());
  const auto at = operations_.emplace(op, Running{std::move(*operation), std::move(command.done)}).first;
  for (const auto rank : at->second.operation->plan().peers()) connect(at->second.operation->member(rank));
  replay(*at->second.operation);
  busy_ = true;
}

/// A new epoch ends what older ones have in flight, an operation those of its tag.
void LaneThread::end_operations_before(OperationId op) {
  const Error error = aborted("operation " + to_string(op) + " starts");
  const bool new_epoch = op.epoch > epoch_;
  for (auto at = operations_.begin(); at != operations_.end();) {
    const auto each = at++;
    if (new_epoch || each->first.tag == op.tag) end_operation(each, fail(error));
  }
  std::erase_if(parked_, [&](const auto& parked) {
    const bool useless = parked.first.epoch < op.epoch || (parked.first.tag == op.tag && parked.first < op);
    if (useless) parked_frames_ -= parked.second.size();
    return useless;
  });
  if (!new_epoch) return;
  epoch_ = op.epoch;
  newest_.clear();
}

void LaneThread::obey(AbortCommand command) {
  const auto at = operations_.find(command.op);
  if (at == operations_.end()) return;
  at->second.operation->give_up(aborted(command.reason), std::nullopt, false);
}

void LaneThread::obey(AdoptCommand command) { take(std::move(command.channel)); }

void LaneThread::obey(ForgetCommand command) {
  dialing_now_.erase(command.peer);
  drop(command.peer, Error{ErrorName::PeerLost, to_string(command.peer)});
}

void LaneThread::obey(DialedCommand command) {
  if (dialing_now_.erase(command.peer) == 0) return;  // forgotten meanwhile
  if (command.channel) return take(std::move(*command.channel));
  if (lanes_.contains(command.peer)) return;
  const Error error = std::move(command.channel).error();
  for (auto& [op, running] : operations_)
    if (const auto rank = running.operation->rank_of(command.peer); rank && running.operation->needs(*rank))
      running.operation->give_up(error, rank, true);
}

void LaneThread::obey(StopCommand) {
  while (!operations_.empty()) end_operation(operations_.begin(), fail(aborted("the engine ends")));
  stopped_ = true;
}

Operation* LaneThread::find(OperationId op) {
  const auto at = operations_.find(op);
  return at == operations_.end() ? nullptr : at->second.operation.get();
}

bool LaneThread::is_past(OperationId op) const {
  if (op.epoch != epoch_) return op.epoch < epoch_;
  const auto newest = newest_.find(op.tag);
  return newest != newest_.end() && op.sequence <= newest->second;
}

void LaneThread::connect(const Member& member) {
  if (lanes_.contains(member.id)) return;
  if (options_.self < member.id && dialing_now_.insert(member.id).second) dialing_.dial(member);
}

void LaneThread::take(net::ChannelPtr channel) {
  const PeerId peer = channel->peer();
  if (lanes_.contains(peer)) (void)close_lane(peer, Error{ErrorName::LaneBroken, "the peer opened another one"});
  (void)apply_link_options(channel->fd());
  lanes_.try_emplace(peer, std::move(channel));
  for (auto& [op, running] : operations_)
    if (const auto rank = running.operation->rank_of(peer)) running.operation->reconnect_by(*rank, std::nullopt);
  busy_ = true;
}

void LaneThread::drop(PeerId peer, const Error& error) {
  if (!close_lane(peer, error)) return;
  for (auto& [op, running] : operations_) {
    const auto rank = running.operation->rank_of(peer);
    if (!rank || !running.operation->needs(*rank)) continue;
    running.operation->reconnect_by(*rank, options_.now() + options_.reconnect_grace);
    connect(running.operation->member(*rank));
  }
}

bool LaneThread::close_lane(PeerId peer, const Error& error) {
  lanes_.erase(peer);
  bool wanted = false;
  for (auto& [op, running] : operations_) {
    const auto rank = running.operation->rank_of(peer);
    if (!rank || !running.operation->needs(*rank)) continue;
    if (error.name == ErrorName::LaneBroken && running.operation->restart(*rank)) wanted = true;
    else running.operation->give_up(Error(error).with_context("on the lane to peer " + to_string(peer)), rank, true);
  }
  busy_ = true;
  return wanted;
}

void LaneThread::move_bytes() {
  // Each peer begins with another one, so that not all serve the same peer first.
  const auto middle = lanes_.upper_bound(options_.self);
  const auto serve = [&](Lane& lane) {
    if (!lane.error()) write_to(lane);
    if (!lane.error()) read_from(lane);
    if (lane.may_read() || lane.may_write()) busy_ = true;
  };
  for (auto at = middle; at != lanes_.end(); ++at) serve(at->second);
  for (auto at = lanes_.begin(); at != middle; ++at) serve(at->second);
  std::vector<std::pair<PeerId, Error>> lost;
  for (const auto& [peer, lane] : lanes_)
    if (lane.error()) lost.emplace_back(peer, *lane.error());
  for (const auto& [peer, error] : lost) drop(peer, error);
}

void LaneThread::read_from(Lane& lane) {
  if (lane.held) decide_on_header(lane);
  for (int step = 0; step < STEPS_PER_TURN && lane.may_read() && !lane.error(); ++step) {
    switch (lane.read(bin_)) {
      case Lane::ReadStep::Header: decide_on_header(lane); break;
      case Lane::ReadStep::Payload:
        deliver(lane, lane.received());
        busy_ = true;
        break;
      case Lane::ReadStep::Dropped: break;
      case Lane::ReadStep::Blocked:
      case Lane::ReadStep::Lost: return;
    }
  }
}

void LaneThread::decide_on_header(Lane& lane) {
  const FrameHeader& header = lane.header();
  Operation* const operation = find(header.op);
  if (operation == nullptr) return park_or_drop(lane);
  const auto from = operation->rank_of(lane.peer());
  if (!from) return lane.lose(Error{ErrorName::ProtocolViolation, "a frame from a peer that is not a member"});
  auto reception = operation->expect(*from, header);
  if (reception) return lane.receive(std::move(*reception));
  // A peer that means another reduce still speaks the protocol: its lane stays.
  if (reception.error().name != ErrorName::ReduceMismatch) return lane.lose(std::move(reception).error());
  operation->give_up(std::move(reception).error(), from, false);
  lane.discard();
}

void LaneThread::park_or_drop(Lane& lane) {
  const FrameHeader& header = lane.header();
  if (is_past(header.op)) {
    const auto known = std::find_if(ended_.begin(), ended_.end(), [&](const auto& each) { return each.first == header.op; });
    if (header.kind == PieceKind::Doubt && known != ended_.end()) {
      Frame answer{header, {}, nullptr};
      answer.header.kind = known->second ? PieceKind::Committed : PieceKind::Aborted;
      answer.header.payload_bytes = 0;
      answer.header.payload_checksum = checksum({});
      lane.control.push_back(std::move(answer));
      busy_ = true;
    }
    return lane.discard();
  }
  if (header.payload_bytes > WHOLE_BYTES)
    return lane.lose(Error{ErrorName::ProtocolViolation, "a chunk of operation " + to_string(header.op) + ", which has not begun here"});
  lane.held = parked_frames_ >= MAX_PARKED_FRAMES;
  if (lane.held) return;
  Reception reception{header, {}, ChunkPool::Buffer(new std::byte[header.payload_bytes]), true};
  reception.into = {reception.buffer.get(), header.payload_bytes};
  lane.receive(std::move(reception));
}

void LaneThread::deliver(Lane& lane, Reception reception) {
  Operation* const operation = find(reception.header.op);
  if (reception.parked) {
    if (operation == nullptr && is_past(reception.header.op)) return;
    ++parked_frames_;
    parked_[reception.header.op].emplace_back(lane.peer(), std::move(reception));
    if (operation != nullptr) replay(*operation);  // started since its header came
    return;
  }
  const auto from = operation->rank_of(lane.peer());
  if (auto good = operation->received(*from, std::move(reception), options_.now()); !good) lane.lose(std::move(good).error());
}

/// Gives an operation what came before it was started.
void LaneThread::replay(Operation& operation) {
  const auto parked = parked_.extract(operation.id());
  if (!parked) return;
  parked_frames_ -= parked.mapped().size();
  for (const auto& [peer, early] : parked.mapped()) {
    const auto from = operation.rank_of(peer);
    if (!from) continue;
    auto reception = operation.expect(*from, early.header);
    if (!reception) {
      operation.give_up(std::move(reception).error(), from, false);
      continue;
    }
    std::copy(early.into.begin(), early.into.end(), reception->into.begin());
    if (auto good = operation.received(*from, std::move(*reception), options_.now()); !good) drop(peer, good.error());
  }
}

/// Operations take turns, a frame each.
bool LaneThread::next_frame(Lane& lane) {
  if (!lane.control.empty()) {
    lane.send(std::move(lane.control.front()));
    lane.control.pop_front();
    return true;
  }
  const std::size_t count = operations_.size();
  if (count == 0) return false;
  auto at = std::next(operations_.begin(), static_cast<std::ptrdiff_t>(lane.turn % count));
  for (std::size_t tried = 0; tried < count; ++tried) {
    Operation& operation = *at->second.operation;
    if (++at == operations_.end()) at = operations_.begin();
    const auto to = operation.rank_of(lane.peer());
    auto frame = to ? operation.next(*to) : std::nullopt;
    if (!frame) continue;
    lane.turn = static_cast<std::size_t>(std::distance(operations_.begin(), at));
    lane.send(std::move(*frame));
    return true;
  }
  return false;
}

void LaneThread::write_to(Lane& lane) {
  for (int step = 0; step < STEPS_PER_TURN; ++step) {
    if (!lane.sending() && !next_frame(lane)) return;
    if (!lane.may_write()) return;
    const FrameHeader header = lane.sending_header();
    if (lane.write() != Lane::WriteStep::Written) return;
    busy_ = true;
    Operation* const operation = find(header.op);
    const bool control = header.kind >= PieceKind::Vote;
    if (operation == nullptr || control) continue;
    if (const auto to = operation->rank_of(lane.peer())) operation->sent(*to, header, options_.now());
  }
}

/// A chunk of each operation in a turn: bytes move in between.
void LaneThread::combine() {
  for (auto& [op, running] : operations_)
    if (running.operation->combine_one()) busy_ = true;
}

void LaneThread::check_deadlines() {
  if (operations_.empty()) return;
  const auto now = options_.now();
  for (auto& [op, running] : operations_) {
    Operation& operation = *running.operation;
    for (const auto rank : operation.plan().peers()) {
      const auto moment = operation.reconnect_by(rank);
      if (!moment || now < *moment) continue;
      operation.reconnect_by(rank, std::nullopt);
      operation.give_up(Error{ErrorName::LaneBroken, "peer " + to_string(operation.member(rank).id) + " did not connect again"}, rank,
                        true);
    }
    if (now >= operation.deadline()) operation.deadline_passed(now);
  }
}

/// Where there is no lane yet they wait with their operation.
void LaneThread::send_votes(Operation& operation) {
  for (const auto rank : operation.plan().peers()) {
    const auto lane = lanes_.find(operation.member(rank).id);
    if (lane == lanes_.end()) continue;
    for (auto& frame : operation.take_control(rank)) {
      lane->second.control.push_back(std::move(frame));
      busy_ = true;
    }
  }
}

void LaneThread::finish_what_is_done() {
  for (auto at = operations_.begin(); at != operations_.end();) {
    const auto each = at++;
    send_votes(*each->second.operation);
    auto outcome = each->second.operation->outcome(options_.now());
    if (outcome) end_operation(each, std::move(*outcome));
  }
}

void LaneThread::end_operation(RunningAt at, Result<ReduceStats> stats) {
  const auto op = at->first;
  for (auto& [peer, lane] : lanes_) {
    lane.release_input(op);
    if (lane.sending() && lane.sending_header().op == op) lane.release_output();
  }
  if (at->second.operation->votes()) {
    ended_.emplace_back(op, stats.has_value());
    if (ended_.size() > MAX_REMEMBERED) ended_.pop_front();
  }
  const PeerId suspect = at->second.operation->suspect();
  const auto done = std::move(at->second.done);
  operations_.erase(at);
  if (operations_.empty()) chunks_done_.store(0, std::memory_order_relaxed);
  busy_ = true;
  done(ReduceOutcome{op, std::move(stats), suspect});
}

int LaneThread::poll_timeout_ms() const {
  if (busy_) return 0;
  if (operations_.empty()) return -1;
  const auto now = options_.now();
  if (now < spin_until_) return 0;
  auto until = Instant::max();
  for (const auto& [op, running] : operations_) {
    until = std::min(until, running.operation->deadline());
    for (const auto rank : running.operation->plan().peers())
      until = std::min(until, running.operation->reconnect_by(rank).value_or(until));
  }
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(rest, 0, std::numeric_limits<int>::max()));
}

/// What comes next often comes within microseconds: the lane asks a few times before it sleeps, and lets others run meanwhile.
void LaneThread::wait() {
  polled_.assign(1, pollfd{wake_.fd(), POLLIN, 0});
  for (const auto& [peer, lane] : lanes_) polled_.push_back(pollfd{lane.fd(), lane.poll_events(), 0});
  const int timeout = poll_timeout_ms();
  if (busy_) spin_until_ = options_.now() + SPIN;
  else if (timeout == 0) ::sched_yield();
  if (::poll(polled_.data(), polled_.size(), timeout) <= 0) return;
  if (polled_[0].revents != 0) wake_.drain();
  auto at = polled_.begin() + 1;
  for (auto& [peer, lane] : lanes_) lane.polled((at++)->revents);
}

}  // namespace prime::lanes
