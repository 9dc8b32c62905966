// Owns the loop of the lane thread: obey, sum, move bytes, wait.
#include "runtime/lanes/lane_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <sched.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "messages/assert.hpp"

namespace prime::lanes {
namespace {

constexpr std::size_t BIN_BYTES = 64 * 1024;
constexpr Duration SPIN = std::chrono::microseconds(50);
constexpr Duration ASIDE = 1ms;
constexpr std::size_t MAX_TAGS = 65'536;
constexpr std::size_t MAX_REMEMBERED = 1024;

void poll_all(const WakeFd& wake, std::vector<pollfd>& polled, int timeout_ms) {
  if (::poll(polled.data(), polled.size(), timeout_ms) > 0 && polled[0].revents != 0) wake.drain();
}

Error aborted(const std::string& reason) { return Error{ErrorName::LaneBroken, "aborted: " + reason}; }

}  // namespace

WakeFd::WakeFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

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
      staging_(options_.chunk_bytes),
      bin_(BIN_BYTES),
      dialing_(options_, known_, [this](Dialed dialed) { post(DialedCommand{std::move(dialed)}); }),
      thread_([this] { run(); }) {
  PRIME_ASSERT(options_.window_chunks > 0, "a window holds a chunk");
  PRIME_ASSERT(options_.chunk_bytes >= sizeof(double) && options_.chunk_bytes <= MAX_PAYLOAD_BYTES, "a chunk fits into a frame");
}

LaneThread::~LaneThread() {
  post(StopCommand{});
  thread_.join();
}

/// It wakes before it unlocks: once the lane thread has heard of the last copy of a device, it may end, and all that is here with it.
void LaneThread::post(Command command) {
  const std::lock_guard lock(mutex_);
  mailbox_.push_back(std::move(command));
  if (driven_) return caller_wake_.wake();
  wake_.wake();
  aside_ends_.notify_one();
}

void LaneThread::run() {
  std::vector<pollfd> polled;
  std::unique_lock turns(turns_);
  while (!stopped_) {
    turn();
    if (stopped_) break;
    const int timeout = prepare_wait(wake_, polled);
    const auto drives = drives_;
    turns.unlock();
    poll_all(wake_, polled, timeout);
    stand_aside();
    turns.lock();
    if (drives_ == drives) note_polled(polled);
  }
  await_copies();
  obey_commands();  // what was started from the last outcome ends here, too
  lanes_.clear();
  arriving_.clear();
}

void LaneThread::turn() {
  busy_ = false;
  obey_commands();
  combine();
  greet_arrivals();
  move_bytes();
  check_deadlines();
  keep_what_blocks();
  finish_what_is_done();
}

/// A small reduce takes less time than handing it to another thread and its outcome back.
void LaneThread::post_and_drive(StartCommand command) noexcept {
  const OperationId op = command.request.op;
  bool another_drives = false;
  bool thread_is_there = false;
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(command));
    another_drives = std::exchange(driven_, true);
    thread_is_there = !aside_;
  }
  // It stands aside rather than be woken by each byte that a caller reads.
  if (another_drives) return caller_wake_.wake();
  if (thread_is_there) wake_.wake();
  bool work_is_left = false;
  {
    const std::lock_guard turns(turns_);
    ++drives_;
    turn();
    while (find(op) != nullptr) {
      const int timeout = prepare_wait(caller_wake_, caller_polls_);
      poll_all(caller_wake_, caller_polls_, timeout);
      note_polled(caller_polls_);
      turn();
    }
    turn();  // the own vote may not be on its way yet
    const std::lock_guard lock(mutex_);
    driven_ = false;
    thread_is_there = !aside_;
    work_is_left = !mailbox_.empty() || !is_idle();
    aside_until_ = work_is_left ? Instant{} : monotonic_now() + ASIDE;
  }
  if (thread_is_there) wake_.wake();  // what it polls for may be of another time
  else if (work_is_left) aside_ends_.notify_one();
}

bool LaneThread::is_idle() const {
  const auto is_quiet = [](const auto& of_peer) {
    return of_peer.second.control.empty() && std::ranges::none_of(of_peer.second.streams, [](const auto& each) { return each->sending(); });
  };
  return operations_.empty() && std::ranges::all_of(lanes_, is_quiet);
}

/// While a caller moves the bytes, and a little longer: another reduce often follows, and two threads would be in each other's way. It
/// looks by itself, since to be told would cost the caller as much as it saves.
void LaneThread::stand_aside() {
  std::unique_lock lock(mutex_);
  aside_ = true;
  while (driven_ || (mailbox_.empty() && monotonic_now() < aside_until_)) aside_ends_.wait_for(lock, ASIDE);
  aside_ = false;
}

void LaneThread::obey_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(mailbox_);
    if (!commands.empty()) aside_until_ = Instant{};  // what they begin, the lane thread may have to go on with
  }
  for (auto& command : commands) std::visit([this](auto& c) { obey(std::move(c)); }, command);
}

void LaneThread::obey(StartCommand command) {
  const auto op = command.request.op;
  const auto refuse = [&](Error error) { command.done(ReduceOutcome{op, fail(std::move(error)), {}}); };
  if (stopped_) return refuse(aborted("the engine ends"));
  if (is_past(op)) return refuse(Error{ErrorName::InternalError, "operation " + to_string(op) + " is not newer than those before it"});
  if (newest_.size() == MAX_TAGS && !newest_.contains(op.tag))
    return refuse(Error{ErrorName::ReduceMismatch, "more than " + std::to_string(MAX_TAGS) + " tags"});
  // What is measured beside a reduce is no measure, and costs the reduce.
  probes_.interrupt(Error{ErrorName::Interrupted, "operation " + to_string(op) + " starts"}, options_.now());
  end_operations_before(op);
  newest_[op.tag] = op;
  const auto observe = [this, op](std::uint64_t done, std::uint64_t total) {
    if (options_.on_chunk) options_.on_chunk(op, done, total);
  };
  Operation::Limits limits{window(), &pool_};
  if (command.request.memory) {
    limits.staging = staging_.of(command.request.memory);
    limits.tell = [this](CopyEnd end) { post(std::move(end)); };
  }
  auto operation = Operation::make(std::move(command.request), std::move(limits), observe, options_.now);
  if (!operation) return refuse(std::move(operation).error());
  const auto at = operations_.emplace(op, Running{std::move(*operation), std::move(command.done)}).first;
  for (const auto rank : at->second.operation->plan().peers()) {
    if (!at->second.operation->needs(rank)) continue;
    const Member& member = at->second.operation->member(rank);
    connect(member);
    if (const auto unlike = unlike_.find(member.id); unlike != unlike_.end() && !lanes_.contains(member.id))
      at->second.operation->give_up(unlike->second, rank, true);
    // Who has yet to come for the first time may take its time; who has gone is expected back soon, or not at all.
    if (!lanes_.contains(member.id) && met_.contains(member.id))
      at->second.operation->reconnect_by(rank, options_.now() + options_.reconnect_grace);
  }
  replay(*at->second.operation);
  busy_ = true;
}

/// Each stream has a chunk on its way there, another one on its way back, and one to go on with.
std::uint32_t LaneThread::window() const { return std::max(options_.window_chunks, 3 * options_.streams()); }

/// An operation ends those of its tag, and no other: each lives, or is void, by itself (law 1).
void LaneThread::end_operations_before(OperationId op) {
  const Error error = aborted("operation " + to_string(op) + " starts");
  for (auto at = operations_.begin(); at != operations_.end();) {
    const auto each = at++;
    if (each->first.tag == op.tag) end_operation(each, fail(error));
  }
  std::erase_if(parked_, [&](const auto& parked) {
    const bool useless = parked.first.tag == op.tag && parked.first < op;
    if (useless) parked_frames_ -= parked.second.size();
    return useless;
  });
}

void LaneThread::obey(const AbortCommand& command) {
  const auto at = operations_.find(command.op);
  if (at == operations_.end()) return;
  at->second.operation->cancel(aborted(command.reason));
}

void LaneThread::obey(ForgetCommand command) {
  dialing_now_.erase(command.peer);
  met_.erase(command.peer);
  unlike_.erase(command.peer);
  relayed_.erase(command.peer);
  probes_.fail(command.peer, Error{ErrorName::Interrupted, "the peer is no member any more"});
  std::erase_if(arriving_, [&](const auto& stream) { return stream->peer() == command.peer; });
  drop(command.peer, Error{ErrorName::PeerLost, known_.text_of(command.peer)});
}

void LaneThread::obey(MeasureCommand command) {
  if (stopped_ || !operations_.empty()) return command.done(fail(ErrorName::Interrupted, stopped_ ? "the engine ends" : "a reduce runs"));
  probes_.begin(command.member.id, std::move(command.done), options_.now());
  connect(command.member);
  busy_ = true;
}

void LaneThread::obey(ShareCommand command) {
  std::erase_if(regions_, [](const auto& each) { return each.region.expired(); });
  regions_.push_back(std::move(command));
}

void LaneThread::obey(StopCommand) {
  while (!operations_.empty()) end_operation(operations_.begin(), fail(aborted("the engine ends")));
  probes_.interrupt(Error{ErrorName::Interrupted, "the engine ends"}, options_.now());
  stopped_ = true;
}

Operation* LaneThread::find(OperationId op) {
  const auto at = operations_.find(op);
  return at == operations_.end() ? nullptr : at->second.operation.get();
}

bool LaneThread::is_past(OperationId op) const {
  const auto newest = newest_.find(op.tag);
  return newest != newest_.end() && op <= newest->second;
}

/// A chunk of each operation in a turn: bytes move in between.
void LaneThread::combine() {
  for (auto& [op, running] : operations_)
    if (running.operation->combine_one()) busy_ = true;
}

/// This process may have stood still at any point, while answers came: a deadline has passed if it had when was looked last for what there
/// is to read, which has been read since.
void LaneThread::check_deadlines() {
  if (operations_.empty() && !probes_.next_deadline()) return;
  const auto now = looked_;
  probes_.expire(now, [this](PeerId peer) { return lanes_.contains(peer); });
  for (auto& [op, running] : operations_) {
    Operation& operation = *running.operation;
    for (const auto rank : operation.plan().peers()) {
      const auto moment = operation.reconnect_by(rank);
      if (!moment || now < *moment) continue;
      operation.reconnect_by(rank, std::nullopt);
      operation.give_up(Error{ErrorName::LaneBroken, peer_text(operation.member(rank)) + " did not connect again"}, rank, true);
    }
    if (now >= operation.deadline() && !still_arrives(operation, now)) operation.deadline_passed(now);
  }
}

/// Whether what was written earlier moves yet: the kernel takes much at once, and a slow link may carry it for longer than the deadline.
bool LaneThread::still_arrives(Operation& operation, Instant now) {
  if (operation.votes()) return false;
  bool moves = false;
  for (const auto rank : operation.plan().peers()) {
    const auto lane = lanes_.find(operation.member(rank).id);
    if (lane == lanes_.end()) continue;
    for (const auto& stream : lane->second.streams) {
      if (!stream->take_confirmed()) continue;
      operation.moved(rank, false, now);
      moves = true;
    }
  }
  return moves;
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
  if (at->second.operation->votes()) {
    ended_.emplace_back(op, stats.has_value());
    if (ended_.size() > MAX_REMEMBERED) ended_.pop_front();
  }
  for (auto& [peer, lane] : lanes_)
    for (const auto& stream : lane.streams) {
      if (stream->release_input(op)) answer_for_past(*stream);  // half a question is one
      if (stream->sending() && stream->sending_header().op == op) stream->release_output();
    }
  const PeerId suspect = at->second.operation->suspect();
  const auto silent = stats ? std::vector<PeerId>{} : silent_lanes(*at->second.operation);
  auto done = std::move(at->second.done);
  auto staging = at->second.operation->take_staging();
  operations_.erase(at);
  for (const PeerId peer : silent) (void)close_lane(peer, Error{ErrorName::LaneBroken, "nothing that was sent on it has arrived"});
  busy_ = true;
  ReduceOutcome outcome{op, std::move(stats), suspect};
  if (staging && staging->copying()) return end_when_copied(std::move(staging), std::move(done), std::move(outcome));
  done(std::move(outcome));
}

int LaneThread::poll_timeout_ms() const {
  if (busy_) return 0;
  const auto measured_by = probes_.next_deadline();
  auto until = measured_by.value_or(Instant::max());
  for (const auto& [peer, lane] : lanes_)
    for (const auto& stream : lane.streams) until = std::min(until, stream->capped_until().value_or(until));
  if (operations_.empty() && until == Instant::max()) return -1;
  const auto now = options_.now();
  if (now < spin_until_) return 0;
  for (const auto& [op, running] : operations_) {
    until = std::min(until, running.operation->deadline());
    for (const auto rank : running.operation->plan().peers())
      until = std::min(until, running.operation->reconnect_by(rank).value_or(until));
  }
  for (const auto& [peer, lane] : lanes_)
    for (const auto& stream : lane.streams)
      if (stream->lends()) until = std::min(until, stream->lent_until);
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(rest, 0, std::numeric_limits<int>::max()));
}

/// What comes next often comes within microseconds: the lane asks a few times before it sleeps, and lets others run meanwhile.
int LaneThread::prepare_wait(const WakeFd& wake, std::vector<pollfd>& polled) {
  looked_ = options_.now();
  polled.assign(1, pollfd{wake.fd(), POLLIN, 0});
  each_stream([&](Stream& stream) { polled.push_back(pollfd{stream.fd(), stream.poll_events(), 0}); });
  const int timeout = poll_timeout_ms();
  if (busy_) spin_until_ = options_.now() + SPIN;
  else if (timeout == 0) ::sched_yield();
  return timeout;
}

void LaneThread::note_polled(const std::vector<pollfd>& polled) {
  auto at = polled.begin() + 1;
  const auto now = options_.now();
  each_stream([&](Stream& stream) {
    stream.polled((at++)->revents);
    stream.go_on_at(now);
  });
}

}  // namespace prime::lanes
