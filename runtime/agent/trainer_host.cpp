#include "runtime/agent/trainer_host.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <deque>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "messages/assert.hpp"
#include "runtime/agent/last_words.hpp"
#include "runtime/agent/trainer_dialogue.hpp"
#include "runtime/agent/trainer_process.hpp"
#include "runtime/clock.hpp"
#include "runtime/shortage.hpp"
#include "runtime/telemetry/memory_kills.hpp"

namespace prime {

namespace {

/// A trainer reads within one outer step what the agent says in it; so many unread messages mean that it does not read.
constexpr std::size_t MAX_QUEUED_PACKETS = 64;
/// Packets taken in one go, so that a talkative trainer cannot keep its host from seeing a stop.
constexpr int MAX_PACKETS_AT_ONCE = 64;
/// More than a socket's buffer holds of our smallest message; a bound because a stray descendant may still write.
constexpr int MAX_PACKETS_AFTER_END = 4096;

struct QueuedPacket {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};

}  // namespace

struct TrainerHost::Impl {
  Impl(TrainerHostOptions host_options, TrainerEventHandler event_handler) : options(host_options), handler(std::move(event_handler)) {}

  // Called from any thread.
  void post(const wire::ToTrainer& message, std::span<const int> descriptors, const std::function<void()>& note);
  void wake() const;

  // The host's own thread.
  void run();
  void poll_once();
  void take_requests();
  void let_in();
  void take_packets();
  bool take_packet_if_any();
  void take_packet(Packet packet);
  void flush();
  void keep_deadlines();
  void conclude(TrainerEvent verdict_event, bool kill_now);
  void close_socket();
  void end_softly();
  void finish_life();
  TrainerEvent last_event();
  [[nodiscard]] std::string last_words() const;
  [[nodiscard]] std::string memory_was_short() const;
  void emit(TrainerEvent event);

  const TrainerHostOptions options;
  const TrainerEventHandler handler;
  Descriptor wake_descriptor{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<std::uint32_t> pid = 0;
  std::atomic<bool> child_lives = false;

  // What callers and the thread share. The socket is sent on under the mutex and received from by the thread alone.
  std::mutex mutex;
  PacketSocket socket;
  bool socket_open = true;  ///< or yet to be opened by the trainer
  bool connected = false;   ///< until then what is said to the trainer waits
  std::deque<QueuedPacket> queue;
  TrainerDialogue dialogue;
  bool stop_requested = false;
  bool kill_requested = false;
  bool does_not_read = false;
  int cannot_give = 0;     ///< why there is no descriptor for what is to be sent, an errno
  bool abandoned = false;  ///< the destructor runs: no more events

  // The thread's own.
  std::optional<PacketListener> door;  ///< until the trainer has come
  std::optional<ChildProcess> child;
  std::optional<TrainerEvent> verdict;  ///< the last event, when it is known before the process has ended
  std::optional<Instant> terminate_at;
  std::optional<Instant> kill_at;
  std::optional<ProcessEnd> process_end;
  std::string log_path;
  std::uint64_t log_begin = 0;                       ///< of this life
  std::optional<telemetry::MemoryKillWatch> memory;  ///< of a child; a program that is adopted is somebody else's
  bool answered = false;                             ///< the run is done, and it has said its last
  bool stopped = false;                              ///< before it had ended by itself
  bool ended_by_us = false;
  bool over = false;
  std::jthread thread;
};

void TrainerHost::Impl::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_descriptor.number(), &one, sizeof one);  // a full counter wakes as well
}

/// Sent at once wherever possible: what the agent does after it said something then really happens after it.
void TrainerHost::Impl::post(const wire::ToTrainer& message, std::span<const int> descriptors, const std::function<void()>& note) {
  const auto packet = wire::encode(message);
  PRIME_ASSERT(packet.has_value(), "an agent's own messages are well-formed");
  const std::lock_guard lock(mutex);
  if (!socket_open) return;
  note();
  if (connected && queue.empty() && socket.send(*packet, descriptors) != SendOutcome::WouldBlock)
    return;  // if it closed, the thread sees that too
  if (queue.size() == MAX_QUEUED_PACKETS) {
    does_not_read = true;
  } else {
    QueuedPacket queued{*packet, {}};
    for (const int number : descriptors) {
      queued.descriptors.emplace_back(::fcntl(number, F_DUPFD_CLOEXEC, 0));
      if (!queued.descriptors.back()) cannot_give = errno;
    }
    queue.push_back(std::move(queued));
  }
  wake();
}

void TrainerHost::Impl::run() {
  while (!over) poll_once();
  emit(last_event());
}

void TrainerHost::Impl::poll_once() {
  std::array<pollfd, 3> watched{{{wake_descriptor.number(), POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}}};
  {
    const std::lock_guard lock(mutex);
    if (door) watched[1].fd = door->number();
    else if (socket_open) watched[1].fd = socket.number();
    if (!queue.empty() && connected) watched[1].events = POLLIN | POLLOUT;
  }
  if (child) watched[2].fd = child->pid_descriptor();
  int timeout_ms = memory ? static_cast<int>(telemetry::MemoryKillWatch::LOOK_EVERY / 1ms) : -1;
  if (const auto next = kill_at ? kill_at : terminate_at) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - monotonic_now()).count();
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, memory ? timeout_ms : 60'000));
  }
  if (::poll(watched.data(), watched.size(), timeout_ms) < 0 && errno != EINTR) PRIME_ASSERT(false, "poll takes these descriptors");
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(wake_descriptor.number(), &count, sizeof count);
  take_requests();
  if (door && watched[1].revents != 0) let_in();
  else if (watched[1].revents != 0) take_packets();
  flush();
  if (watched[2].revents != 0) finish_life();
  else if (memory) memory->look(monotonic_now());
  keep_deadlines();
}

void TrainerHost::Impl::take_requests() {
  bool stop = false;
  bool kill = false;
  bool overflow = false;
  int lacks = 0;
  {
    const std::lock_guard lock(mutex);
    stop = std::exchange(stop_requested, false);
    kill = std::exchange(kill_requested, false);
    overflow = std::exchange(does_not_read, false);
    lacks = std::exchange(cannot_give, 0);
  }
  if (stop) {
    stopped = !verdict;
    if (!verdict) verdict = TrainerLeft{};
    end_softly();
  }
  if (overflow) conclude(TrainerFailed{Error(ErrorName::TrainerProtocol, "the trainer does not read its socket")}, true);
  if (lacks != 0) conclude(TrainerUnserved{refused(ErrorName::ProcessFailed, "the trainer cannot be given its memory", lacks)}, true);
  if (kill) {
    ended_by_us = true;
    // Before the socket closes: a trainer that sees that would end by itself, and another way.
    if (child) child->signal(SIGKILL);
    close_socket();
  }
}

void TrainerHost::Impl::let_in() {
  auto trainer = door->accept();
  if (!trainer) return;
  door.reset();
  ucred owner{};
  socklen_t size = sizeof owner;
  // The trainer may be a child of what was started; one of another PID namespace has no number here.
  if (::getsockopt(trainer->number(), SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0 && owner.pid > 0)
    pid = static_cast<std::uint32_t>(owner.pid);
  const std::lock_guard lock(mutex);
  socket = std::move(*trainer);
  connected = true;
}

void TrainerHost::Impl::take_packets() {
  for (int taken = 0; taken < MAX_PACKETS_AT_ONCE && take_packet_if_any(); ++taken) {
  }
}

bool TrainerHost::Impl::take_packet_if_any() {
  if (!socket_open || !connected) return false;
  Packet packet;
  switch (socket.receive(packet)) {
    case ReceiveOutcome::Received: take_packet(std::move(packet)); return true;
    case ReceiveOutcome::WouldBlock: return false;
    case ReceiveOutcome::Malformed:
      conclude(TrainerFailed{Error(ErrorName::TrainerProtocol, "a packet is too long or has too many descriptors")}, true);
      return false;
    case ReceiveOutcome::NoDescriptors:
      conclude(TrainerUnserved{refused(ErrorName::ProcessFailed, "what the trainer brings cannot be taken", EMFILE)}, true);
      return false;
    case ReceiveOutcome::Closed:
      close_socket();
      end_softly();
      return false;
  }
  return false;
}

void TrainerHost::Impl::take_packet(Packet packet) {
  auto message = wire::decode_to_agent(packet.bytes);
  if (!message) return conclude(TrainerFailed{message.error()}, true);
  auto outcome = [&] {
    const std::lock_guard lock(mutex);
    return dialogue.accept(std::move(*message), std::move(packet.descriptors), monotonic_now());
  }();
  if (!outcome) {
    post(wire::Stop{outcome.error()}, {}, [] {});  // a program that nobody kills is told why
    return conclude(TrainerFailed{outcome.error()}, true);
  }
  if (!*outcome) return;
  if (std::holds_alternative<TrainerLeft>(**outcome) || std::holds_alternative<TrainerFailed>(**outcome)) {
    return conclude(std::move(**outcome), false);
  }
  if (std::holds_alternative<TrainerFinal>(**outcome)) answered = true;
  emit(std::move(**outcome));
}

void TrainerHost::Impl::flush() {
  const std::lock_guard lock(mutex);
  while (socket_open && connected && !queue.empty()) {
    std::vector<int> numbers;
    for (const auto& descriptor : queue.front().descriptors) numbers.push_back(descriptor.number());
    if (socket.send(queue.front().bytes, numbers) == SendOutcome::WouldBlock) return;
    queue.pop_front();
  }
}

/// From here on nothing is heard or said; the trainer sees its socket closed.
void TrainerHost::Impl::conclude(TrainerEvent verdict_event, bool kill_now) {
  if (!verdict) verdict = std::move(verdict_event);
  if (kill_now && child) child->signal(SIGKILL);
  close_socket();
  end_softly();
}

void TrainerHost::Impl::close_socket() {
  const std::lock_guard lock(mutex);
  socket_open = false;
  socket.close();
  queue.clear();
  if (!child) over = true;
}

void TrainerHost::Impl::end_softly() {
  const bool parted = answered || (verdict && std::holds_alternative<TrainerLeft>(*verdict) && !stopped);
  if (!terminate_at && !kill_at) terminate_at = monotonic_now() + (parted ? options.farewell : options.grace);
}

void TrainerHost::Impl::keep_deadlines() {
  if (over) return;
  const auto now = monotonic_now();
  if (terminate_at && now >= *terminate_at) {
    terminate_at.reset();
    kill_at = now + options.grace;
    ended_by_us = true;
    if (child) child->signal(SIGTERM);
    else close_socket();
  } else if (kill_at && now >= *kill_at) {
    kill_at = now + options.grace;
    if (child) child->signal(SIGKILL);
  }
}

/// The process has ended, and with `reap` all that it left running.
void TrainerHost::Impl::finish_life() {
  process_end = child->reap();
  if (!process_end) return;
  if (door) let_in();
  pid = 0;
  // What it said before it ended still counts: an error or a farewell explains the end.
  for (int taken = 0; taken < MAX_PACKETS_AFTER_END && take_packet_if_any(); ++taken) {
  }
  child.reset();
  child_lives = false;
  close_socket();
}

TrainerEvent TrainerHost::Impl::last_event() {
  if (verdict) return std::move(*verdict);
  const bool answered = [&] {
    const std::lock_guard lock(mutex);
    return dialogue.final_received();
  }();
  if (answered && (!process_end || process_end->succeeded())) return TrainerLeft{};
  if (!process_end) {
    return TrainerLost{
        Error(ErrorName::TrainerFailed, ended_by_us ? "the agent closed its socket" : "it closed its socket without a word")};
  }
  auto how = (ended_by_us ? "ended by the agent, " : "") + to_string(*process_end);
  if (!ended_by_us) how += memory_was_short() + (door ? ", before it had connected to its agent" : "") + last_words();
  return TrainerLost{Error(ErrorName::TrainerFailed, std::move(how))};
}

/// What people would look for in the log: the end of a traceback, of a launcher's complaint.
std::string TrainerHost::Impl::last_words() const {
  auto lines = tail_of(log_path, log_begin);
  return lines.empty() ? std::string{} : "; the last lines of its log: " + lines;
}

/// The kernel kills with SIGKILL whom memory is taken from, and says so nowhere else. A launcher tells it as 128 + 9.
std::string TrainerHost::Impl::memory_was_short() const {
  if (!process_end->killed_by(SIGKILL)) return {};
  const auto why = memory->want_of_memory();
  return why.empty() ? "" : ", " + why;
}

void TrainerHost::Impl::emit(TrainerEvent event) {
  {
    const std::lock_guard lock(mutex);
    if (abandoned) return;
  }
  handler(std::move(event));
}

TrainerHost::TrainerHost(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TrainerHost::~TrainerHost() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->abandoned = true;
  }
  kill();
  impl_->thread.join();
}

Result<std::unique_ptr<TrainerHost>> TrainerHost::start(const TrainerCommand& command, const TrainerHostOptions& options,
                                                        TrainerEventHandler handler) {
  std::error_code ignored;
  const auto parent = std::filesystem::temp_directory_path(ignored);
  PRIME_TRY(auto door, PacketListener::open(ignored ? "/tmp" : parent));
  ProcessCommand process{command.arguments, command.environment, command.log_path};
  process.environment.push_back(std::string(AGENT_SOCKET_VARIABLE) + "=" + door.path());
  process.environment.push_back(std::string(AGENT_SECRET_VARIABLE) + "=" + door.secret());
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  if (!impl->wake_descriptor) return fail(refused(ErrorName::ProcessFailed, "the trainer", errno));
  impl->door.emplace(std::move(door));
  impl->log_path = command.log_path;
  if (const auto size = std::filesystem::file_size(command.log_path, ignored); !ignored) impl->log_begin = size;
  impl->memory.emplace(monotonic_now());
  std::promise<Result<void>> started;
  // The child dies with the thread that made it, so that thread must be the one which watches it to its end.
  const auto live = [life = impl.get(), &process, &started] {
    auto child = ChildProcess::start(process);
    if (!child) return started.set_value(fail(child.error()));
    life->child.emplace(std::move(*child));
    life->pid = static_cast<std::uint32_t>(life->child->pid());
    life->child_lives = true;
    started.set_value({});
    life->run();
  };
  try {
    impl->thread = std::jthread(live);
  } catch (const std::system_error& thrown) {
    return fail(refused(ErrorName::ProcessFailed, "a thread for the trainer", thrown.code().value()));
  }
  PRIME_CHECK(started.get_future().get());
  return std::unique_ptr<TrainerHost>(new TrainerHost(std::move(impl)));
}

Result<std::unique_ptr<TrainerHost>> TrainerHost::adopt(PacketSocket socket, const TrainerHostOptions& options,
                                                        TrainerEventHandler handler) {
  ucred owner{};
  socklen_t size = sizeof owner;
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  if (::getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0) impl->pid = static_cast<std::uint32_t>(owner.pid);
  impl->socket = std::move(socket);
  impl->connected = true;
  try {
    impl->thread = std::jthread([life = impl.get()] { life->run(); });
  } catch (const std::system_error& thrown) {
    return fail(refused(ErrorName::ProcessFailed, "a thread for the trainer", thrown.code().value()));
  }
  return std::unique_ptr<TrainerHost>(new TrainerHost(std::move(impl)));
}

Result<void> TrainerHost::welcome(const wire::Welcome& welcome) {
  PRIME_CHECK(wire::encode(welcome));
  impl_->post(welcome, {}, [] {});
  return {};
}

void TrainerHost::segments(const wire::Segments& segments, std::span<const int> descriptors) {
  impl_->post(segments, descriptors, [&] { impl_->dialogue.segments_sent(segments.division.count, segments.decoupled); });
}

void TrainerHost::begin(const wire::Begin& begin) {
  impl_->post(begin, {}, [&] { impl_->dialogue.begun(begin.plan.step, begin.published); });
}

void TrainerHost::recorded(const wire::Recorded& recorded) {
  impl_->post(recorded, {}, [] {});
}

void TrainerHost::publish(const wire::Publish& asked) {
  impl_->post(asked, {}, [] {});
}

void TrainerHost::committed(const wire::StepCommitted& committed) {
  impl_->post(committed, {}, [] {});
}

void TrainerHost::finish(const wire::Finish& finish) {
  impl_->post(finish, {}, [this] { impl_->dialogue.finish_sent(); });
}

void TrainerHost::stop(const std::optional<Error>& error) {
  impl_->post(wire::Stop{error}, {}, [this] { impl_->stop_requested = true; });
  impl_->wake();
}

void TrainerHost::kill() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->kill_requested = true;
  }
  impl_->wake();
}

std::uint32_t TrainerHost::pid() const { return impl_->pid; }

bool TrainerHost::has_child() const { return impl_->child_lives; }

}  // namespace prime
