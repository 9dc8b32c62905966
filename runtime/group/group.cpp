// Owns the group: acceptor, engine, and the operation ids that all members give to the same reduce.
#include "prime/group.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "kernels/device_memory.hpp"
#include "runtime/group/spare_memory.hpp"
#include "runtime/lanes/engine.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/crypto.hpp"
#include "runtime/net/dial.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/net/shared_region.hpp"

namespace prime {
namespace {

constexpr std::size_t MIN_KEY_CHARACTERS = 16;
constexpr std::uint32_t MAX_STREAMS = 64;

PeerId id_of(std::uint32_t rank) { return PeerId{std::uint64_t{rank} + 1}; }

/// Beyond it an instant could not be told any more.
Duration bounded(std::chrono::milliseconds timeout) { return std::min<std::chrono::milliseconds>(timeout, std::chrono::years(100)); }

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  const std::less<const std::byte*> before;
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) && before(other.data(), one.data() + one.size());
}

/// Reduces of one tag start one after the other: the number that all members give to each is that of its place.
struct Turns {
  struct Turn {
    ReduceRequest request;
    std::function<void(ReduceOutcome)> done;
    std::function<bool()> cancelled;
  };
  struct Line {
    std::uint64_t sequence = 0;
    bool busy = false;
    std::deque<Turn> waiting;
  };

  /// What of the tag has to start now.
  void next(Tag tag) {
    const std::lock_guard lock(mutex);
    Line& line = lines[tag.value];
    line.busy = engine != nullptr && !line.waiting.empty();
    if (!line.busy) return;
    Turn turn = std::move(line.waiting.front());
    line.waiting.pop_front();
    const auto op = turn.request.op;
    engine->start(std::move(turn.request), std::move(turn.done));
    if (turn.cancelled()) engine->abort(op, "cancelled");  // the others hear of it
  }
  void end() {
    std::deque<Turn> rest;
    {
      const std::lock_guard lock(mutex);
      engine = nullptr;
      for (auto& [tag, line] : lines) std::ranges::move(std::exchange(line.waiting, {}), std::back_inserter(rest));
    }
    for (auto& turn : rest) turn.done({turn.request.op, fail(ErrorName::LaneBroken, "the group ends"), {}});
  }

  std::mutex mutex;
  lanes::LaneEngine* engine = nullptr;  ///< none once the group ends; guarded by mutex, like all here
  std::map<std::uint64_t, Line> lines;  ///< by tag
};

}  // namespace

struct Reduction::Impl : std::enable_shared_from_this<Reduction::Impl> {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<ReduceInfo>> outcome;
  lanes::LaneEngine* engine = nullptr;
  OperationId op;
  std::atomic<bool> cancelled = false;
  std::shared_ptr<Turns> turns;  ///< if it takes one
  std::span<std::byte> copy_to;  ///< in place: where the result goes
  std::shared_ptr<kernels::DeviceMemory> memory;
  std::shared_ptr<std::byte> result;  ///< in place: where it is made, on the device if there is `memory`
  std::function<void()> told;         ///< who wants to hear of the end; guarded by mutex
  bool reduced = false;               ///< the engine has done its part, and may be gone; guarded by mutex
  std::span<float> residual;
  std::shared_ptr<std::byte> feedback;
  std::span<float> next_residual;  ///< in `feedback`

  /// Where the result of a reduce in place is made; empty when the device has no room.
  std::span<std::byte> make_room(SpareMemory& spare) {
    if (!memory) result = spare.take(copy_to.size());
    else if (std::byte* const room = memory->allocate(copy_to.size()))
      result = {room, [device = memory](std::byte* each) { device->release(each); }};
    return {result.get(), result ? copy_to.size() : 0};
  }

  void end(ReduceOutcome ended) {
    {
      const std::lock_guard lock(mutex);
      reduced = true;
    }
    if (!ended.stats) return tell(fail(std::move(ended.stats).error()));
    const ReduceInfo info{ended.stats->wire_bytes_sent, ended.stats->wire_bytes_received, ended.stats->elapsed, ended.stats->digest};
    std::ranges::copy(next_residual, residual.begin());
    if (memory && result) return put_in_place(info);
    if (result) std::memcpy(copy_to.data(), result.get(), copy_to.size());
    tell(info);
  }

  void put_in_place(const ReduceInfo& info) {
    memory->move({result.get(), copy_to.size()}, copy_to.data(), [self = shared_from_this(), info](std::optional<std::string> fault) {
      if (!fault) return self->tell(info);
      self->tell(fail(ErrorName::DeviceUnusable, "putting the result of a committed reduce in its place on " + self->memory->name() +
                                                     " failed: " + *fault + "; the other members have it"));
    });
  }

  /// Whoever waits may end the tensors and the group at once.
  void tell(Result<ReduceInfo> end) {
    result.reset();
    feedback.reset();
    memory.reset();
    if (const auto mine = std::exchange(turns, nullptr)) mine->next(op.tag);
    std::function<void()> hears;
    {
      const std::lock_guard lock(mutex);
      outcome = std::move(end);
      changed.notify_all();
      hears = std::exchange(told, nullptr);
    }
    if (hears) hears();
  }
};

Reduction::Reduction(Reduction&&) noexcept = default;
Reduction& Reduction::operator=(Reduction&& other) noexcept {
  const Reduction replaced(std::exchange(impl_, std::move(other.impl_)));
  return *this;
}

Reduction::~Reduction() {
  if (!impl_) return;
  cancel();
  (void)wait().has_value();
}

Result<ReduceInfo> Reduction::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return impl_->outcome.has_value(); });
  return *impl_->outcome;
}

std::optional<Result<ReduceInfo>> Reduction::wait_for(std::chrono::nanoseconds limit) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, limit, [&] { return impl_->outcome.has_value(); });
  return impl_->outcome;
}

void Reduction::when_done(std::function<void()> told) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->outcome) {
      impl_->told = std::move(told);
      return;
    }
  }
  told();
}

void Reduction::cancel() {
  impl_->cancelled = true;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->reduced) return;
  }
  impl_->engine->abort(impl_->op, "cancelled");
}

struct Group::Impl {
  GroupOptions options;
  View view;
  std::optional<net::Credentials> credentials;
  std::unique_ptr<lanes::LaneEngine> engine;
  std::unique_ptr<net::Acceptor> acceptor;
  const std::shared_ptr<SpareMemory> spare = std::make_shared<SpareMemory>();
  const std::shared_ptr<Turns> turns = std::make_shared<Turns>();

  ~Impl() {
    turns->end();
    // Accepted channels go to the engine, which must be there until the last one.
    if (acceptor) acceptor->stop();
  }
};

Group::Group(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;
Group::~Group() = default;

Result<Group> Group::form(const GroupOptions& options) {
  if (options.rank >= options.members.size())
    return fail(ErrorName::Usage, "rank " + std::to_string(options.rank) + " of a group of " + std::to_string(options.members.size()));
  if (options.members.size() > MAX_PEERS) return fail(ErrorName::Usage, std::to_string(options.members.size()) + " members are too many");
  if (options.key.size() < MIN_KEY_CHARACTERS)
    return fail(ErrorName::Usage, "a key of fewer than " + std::to_string(MIN_KEY_CHARACTERS) + " characters");
  if (options.streams == 0 || options.streams > MAX_STREAMS)
    return fail(ErrorName::Usage, std::to_string(options.streams) + " streams, possible are 1 to " + std::to_string(MAX_STREAMS));
  if (options.timeout.count() <= 0) return fail(ErrorName::Usage, "a timeout of " + std::to_string(options.timeout.count()) + " ms");
  auto addresses = options.members;
  std::ranges::sort(addresses);
  if (const auto twice = std::ranges::adjacent_find(addresses); twice != addresses.end())
    return fail(ErrorName::Usage, *twice + " is the address of two members");
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->view.epoch = Epoch{1};
  for (std::uint32_t rank = 0; rank < options.members.size(); ++rank) {
    PRIME_TRY(auto endpoint, net::parse_endpoint(options.members[rank]));
    impl->view.members.push_back(Member{id_of(rank), "", std::move(endpoint), rank});
  }
  // The members belong to the key: two groups of one secret never meet.
  std::string secret = options.key;
  for (const auto& member : options.members) secret += '\n' + member;
  const net::RunKey key{net::sha256(secret)};
  PRIME_TRY(auto credentials, net::Credentials::make(key, "group", net::Identity{net::Role::Peer, id_of(options.rank)}));
  impl->credentials.emplace(std::move(credentials));
  lanes::EngineOptions engine;
  engine.self = id_of(options.rank);
  engine.streams = [streams = options.streams] { return streams; };
  if (options.on_chunk)
    engine.on_chunk = [tell = options.on_chunk](OperationId op, std::uint64_t done, std::uint64_t total) {
      tell(op.tag.value, done, total);
    };
  // Members start at their own pace: who is dialed too early is dialed again until the timeout.
  engine.dial_timeout = bounded(options.timeout);
  engine.redial_pause = std::chrono::milliseconds(20);
  engine.dial_attempts =
      static_cast<std::uint32_t>(std::min<std::int64_t>(engine.dial_timeout / engine.redial_pause, std::numeric_limits<int>::max())) + 1;
  engine.dial = [owner = impl.get()](const Member& member, net::DialLimit limit) {
    if (owner->options.memory)
      if (auto local = net::dial_memory(*owner->credentials, member.id, limit)) return local;
    return net::dial(member.lanes, net::Protocol::Lane, *owner->credentials, net::Expectation::peer(member.id), limit,
                     owner->options.plain ? net::Transport::Plain : net::Transport::Tls);
  };
  try {
    impl->engine = std::make_unique<lanes::LaneEngine>(std::move(engine));
  } catch (const std::system_error& error) {
    return fail(ErrorName::MemoryUnavailable, std::string("the lanes of the group cannot begin: ") + error.what());
  }
  impl->turns->engine = impl->engine.get();
  net::AcceptorOptions listening;
  listening.listen = impl->view.members[options.rank].lanes.list.front();
  listening.allow_plain = options.plain;
  listening.memory = options.memory;
  PRIME_TRY(impl->acceptor, net::Acceptor::open(listening, *impl->credentials,
                                                [owner = impl.get()](net::Protocol protocol, net::ChannelPtr channel, const std::string&) {
                                                  if (protocol == net::Protocol::Lane) owner->engine->adopt(std::move(channel));
                                                }));
  return Group(std::move(impl));
}

std::uint32_t Group::rank() const { return impl_->options.rank; }
std::uint32_t Group::size() const { return static_cast<std::uint32_t>(impl_->view.members.size()); }
std::size_t Group::peak_bytes() const { return impl_->engine->peak_bytes() + impl_->spare->peak_bytes(); }

Result<std::shared_ptr<std::byte[]>> Group::allocate(std::size_t bytes) {
  if (bytes == 0) return std::shared_ptr<std::byte[]>{};
  PRIME_TRY(auto region, net::SharedRegion::make(bytes));
  impl_->engine->share(region);
  std::byte* const first = region->bytes().data();
  return std::shared_ptr<std::byte[]>{std::move(region), first};
}

/// What no member could carry out.
std::optional<Error> Group::problem_of(const ReduceOptions& options, std::span<const std::byte> input, std::span<std::byte> output) const {
  const auto usage = [](std::string why) { return Error{ErrorName::Usage, std::move(why)}; };
  const auto unknown = [&](const char* what, auto value) {
    return usage(std::to_string(static_cast<unsigned>(value)) + " names no " + what);
  };
  if (static_cast<unsigned>(options.type) >= DATA_TYPES) return unknown("element type", options.type);
  if (static_cast<unsigned>(options.combine) >= REDUCE_OPERATORS) return unknown("operator", options.combine);
  if (static_cast<unsigned>(options.codec) >= CODECS) return unknown("codec", options.codec);
  if (options.result_codec && static_cast<unsigned>(*options.result_codec) >= CODECS) return unknown("codec", *options.result_codec);
  if (static_cast<unsigned>(options.schedule) >= SCHEDULES) return unknown("schedule", options.schedule);
  if (!options.weights.empty() && options.weights.size() != size())
    return usage(std::to_string(options.weights.size()) + " weights for " + std::to_string(size()) + " members");
  if (input.data() != output.data() && overlap(input, output))
    return usage("the input overlaps the output without beginning where it does: a reduce in place has one span for both");
  if (const auto residual = std::as_bytes(options.residual); overlap(residual, input) || overlap(residual, output))
    return usage("the residual overlaps the input or the output");
  return std::nullopt;
}

Reduction Group::begin(std::span<const std::byte> input, std::span<std::byte> output, const ReduceOptions& options, bool drive) {
  auto reduction = std::make_shared<Reduction::Impl>();
  reduction->engine = impl_->engine.get();
  ReduceRequest request;
  request.view = impl_->view;
  request.self = id_of(impl_->options.rank);
  for (std::uint32_t rank = 0; rank < size(); ++rank)
    request.contributions.push_back({id_of(rank), options.weights.size() == size() ? options.weights[rank] : 1});
  request.input = input;
  request.output = output;
  request.memory = options.memory;
  reduction->memory = options.memory;
  const bool in_place = !output.empty() && input.data() == output.data();
  if (in_place) {
    reduction->copy_to = output;
    request.output = reduction->make_room(*impl_->spare);
  }
  request.deadline = bounded(options.timeout.count() > 0 ? options.timeout : impl_->options.timeout);
  request.type = options.type;
  request.combine = options.combine;
  request.codec = options.codec;
  request.result_codec = options.result_codec;
  request.schedule = options.schedule;
  request.stochastic = options.stochastic;
  request.seed = options.seed;
  request.version = options.version;
  request.vote = true;
  reduction->residual = options.residual;
  reduction->feedback = impl_->spare->take(options.residual.size_bytes());
  reduction->next_residual = {reinterpret_cast<float*>(reduction->feedback.get()), options.residual.size()};
  request.residual = reduction->residual;
  request.next_residual = reduction->next_residual;
  auto done = [reduction](ReduceOutcome outcome) { reduction->end(std::move(outcome)); };
  auto wrong = problem_of(options, input, output);
  if (!wrong && in_place && request.output.empty())
    wrong = Error{ErrorName::DeviceUnusable,
                  options.memory->name() + " has no room for the result of a reduce in place, " + std::to_string(output.size()) + " bytes"};
  {
    const std::lock_guard lock(impl_->turns->mutex);
    Turns::Line& line = impl_->turns->lines[options.tag];
    request.op = reduction->op = OperationId{impl_->view.epoch, Sequence{++line.sequence}, Tag{options.tag}};
    if (!wrong) reduction->turns = impl_->turns;
    if (!wrong && std::exchange(line.busy, true)) {
      line.waiting.push_back({std::move(request), std::move(done), [reduction] { return reduction->cancelled.load(); }});
      return Reduction(std::move(reduction));
    }
  }
  if (wrong) done({reduction->op, fail(*std::move(wrong)), {}});
  else if (drive) impl_->engine->start_and_drive(std::move(request), std::move(done));
  else impl_->engine->start(std::move(request), std::move(done));
  return Reduction(std::move(reduction));
}

Reduction Group::reduce_async(std::span<const std::byte> input, std::span<std::byte> output, const ReduceOptions& options) {
  return begin(input, output, options, false);
}

Result<ReduceInfo> Group::reduce(std::span<const std::byte> input, std::span<std::byte> output, const ReduceOptions& options) {
  return begin(input, output, options, true).wait();
}

Result<ReduceInfo> Group::reduce(std::span<const float> input, std::span<float> output, const ReduceOptions& options) {
  return reduce(std::as_bytes(input), std::as_writable_bytes(output), options);
}

}  // namespace prime
