// Owns the group: acceptor, engine, and the operation ids that all members give to the same reduce.
#include "prime/group.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/lanes/engine.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/crypto.hpp"
#include "runtime/net/dial.hpp"
#include "runtime/net/run_key.hpp"

namespace prime {
namespace {

constexpr std::size_t MIN_KEY_CHARACTERS = 16;
constexpr std::uint32_t MAX_STREAMS = 64;

PeerId id_of(std::uint32_t rank) { return PeerId{std::uint64_t{rank} + 1}; }

}  // namespace

struct Reduction::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<ReduceInfo>> outcome;
  lanes::LaneEngine* engine = nullptr;
  OperationId op;
  std::span<std::byte> copy_to;  ///< in place: where the result goes
  std::vector<std::byte> result;
  std::span<float> residual;
  std::vector<float> next_residual;

  void end(ReduceOutcome reduced) {
    std::optional<Result<ReduceInfo>> end;
    if (reduced.stats) {
      end = ReduceInfo{reduced.stats->wire_bytes_sent, reduced.stats->wire_bytes_received, reduced.stats->elapsed, reduced.stats->digest};
      if (!copy_to.empty()) std::memcpy(copy_to.data(), result.data(), result.size());
      std::ranges::copy(next_residual, residual.begin());
    } else {
      end = fail(std::move(reduced.stats).error());
    }
    const std::lock_guard lock(mutex);
    outcome = std::move(end);
    changed.notify_all();
  }
};

Reduction::Reduction(Reduction&&) noexcept = default;
Reduction& Reduction::operator=(Reduction&&) noexcept = default;

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

void Reduction::cancel() {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->outcome) return;
  }
  impl_->engine->abort(impl_->op, "cancelled");
}

struct Group::Impl {
  GroupOptions options;
  View view;
  std::optional<net::Credentials> credentials;
  std::unique_ptr<lanes::LaneEngine> engine;
  std::unique_ptr<net::Acceptor> acceptor;
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> sequences;  ///< by tag; guarded by mutex

  ~Impl() {
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
  engine.dial_timeout = options.timeout;
  engine.redial_pause = std::chrono::milliseconds(20);
  engine.dial_attempts = static_cast<std::uint32_t>(options.timeout / engine.redial_pause) + 1;
  engine.dial = [owner = impl.get()](const Member& member, Duration limit) {
    if (owner->options.memory)
      if (auto local = net::dial_memory(*owner->credentials, member.id, limit)) return local;
    return net::dial(member.lanes, net::Protocol::Lane, *owner->credentials, net::Expectation::peer(member.id), limit,
                     owner->options.plain ? net::Transport::Plain : net::Transport::Tls);
  };
  impl->engine = std::make_unique<lanes::LaneEngine>(std::move(engine));
  net::AcceptorOptions listening;
  listening.listen = impl->view.members[options.rank].lanes;
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
std::size_t Group::peak_bytes() const { return impl_->engine->peak_bytes(); }

Reduction Group::begin(std::span<const std::byte> input, std::span<std::byte> output, const ReduceOptions& options, bool drive) {
  auto reduction = std::make_shared<Reduction::Impl>();
  reduction->engine = impl_->engine.get();
  ReduceRequest request;
  {
    const std::lock_guard lock(impl_->mutex);
    request.op = OperationId{impl_->view.epoch, Sequence{++impl_->sequences[options.tag]}, Tag{options.tag}};
  }
  reduction->op = request.op;
  request.view = impl_->view;
  request.self = id_of(impl_->options.rank);
  for (std::uint32_t rank = 0; rank < size(); ++rank)
    request.contributions.push_back({id_of(rank), options.weights.size() == size() ? options.weights[rank] : 1});
  request.input = input;
  request.output = output;
  if (!output.empty() && input.data() == output.data()) {
    reduction->result.resize(output.size());
    reduction->copy_to = output;
    request.output = reduction->result;
  }
  request.deadline = options.timeout.count() > 0 ? options.timeout : impl_->options.timeout;
  request.type = options.type;
  request.combine = options.combine;
  request.codec = options.codec;
  request.schedule = options.schedule;
  request.stochastic = options.stochastic;
  request.seed = options.seed;
  request.version = options.version;
  request.vote = true;
  reduction->residual = options.residual;
  reduction->next_residual.resize(options.residual.size());
  request.residual = reduction->residual;
  request.next_residual = reduction->next_residual;
  if (!options.weights.empty() && options.weights.size() != size()) {
    reduction->end({request.op,
                    fail(ErrorName::Usage, std::to_string(options.weights.size()) + " weights for " + std::to_string(size()) + " members"),
                    {}});
  } else {
    auto done = [reduction](ReduceOutcome outcome) { reduction->end(std::move(outcome)); };
    if (drive) impl_->engine->start_and_drive(std::move(request), std::move(done));
    else impl_->engine->start(std::move(request), std::move(done));
  }
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
