#include "runtime/agent/state_transfer.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <stop_token>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "actors/checkpoint_server/recovery_machine.hpp"
#include "kernels/digest/digest.hpp"
#include "runtime/agent/reason_log.hpp"
#include "runtime/net/socket.hpp"

namespace prime {
namespace {

namespace recovery = checkpoint_server;

constexpr std::uint32_t MAGIC = 0x54535250;  // "PRST"
enum class OfferStatus : std::uint32_t { Here = 0, Moved = 1, Busy = 2 };

struct RequestFrame {
  std::uint32_t magic = MAGIC;
  std::uint32_t version = PROTOCOL_VERSION;
  std::uint64_t revision = 0;
  std::uint64_t fragments = 0;
};
static_assert(MAX_FRAGMENTS <= 64, "a bit for each");
struct OfferFrame {
  std::uint32_t status = 0;
  std::uint32_t pad = 0;
  std::uint64_t revision = 0, total_bytes = 0;
};
struct ChunkFrame {
  std::uint64_t index = 0;
  std::uint64_t length = 0;
  Digest digest;
};
static_assert(sizeof(ChunkFrame) == 32);

/// Waits until the channel can go on; every wait has a deadline (law 6).
Result<void> wait_for(net::Channel& channel, short events) {
  pollfd entry{channel.fd(), events, 0};
  constexpr int LIMIT_MS = std::chrono::duration_cast<std::chrono::milliseconds>(STATE_SILENCE_LIMIT).count();
  for (;;) {
    const int ready = ::poll(&entry, 1, LIMIT_MS);
    if (ready > 0) return {};
    if (ready == 0) return fail(ErrorName::DeadlineExceeded, "no byte of the state for " + format_duration(STATE_SILENCE_LIMIT));
    if (errno != EINTR) return fail(ErrorName::LaneBroken, std::strerror(errno));
  }
}

/// Turns what a channel said into "go on" (after waiting) or an error.
Result<void> after(net::Channel& channel, net::Channel::State state) {
  switch (state) {
    case net::Channel::State::Ok: return {};
    case net::Channel::State::WantRead: return wait_for(channel, POLLIN);
    case net::Channel::State::WantWrite: return wait_for(channel, POLLOUT);
    case net::Channel::State::Capped:
      if (net::wait_ready(channel.fd(), 0, channel.capped_until())) break;  // of no event asked for, poll tells its end alone
      return {};
    case net::Channel::State::Closed: return fail(ErrorName::LaneBroken, "the other side closed the state channel");
    case net::Channel::State::Failed: break;
  }
  return fail(ErrorName::LaneBroken, "the state channel broke");
}

Result<void> read_all(net::Channel& channel, std::span<std::byte> into, std::atomic<std::uint64_t>* moved = nullptr) {
  while (!into.empty()) {
    const auto io = channel.read(into);
    if (io.state != net::Channel::State::Ok) {
      PRIME_CHECK(after(channel, io.state));
      continue;
    }
    into = into.subspan(io.bytes);
    if (moved != nullptr) moved->fetch_add(io.bytes, std::memory_order_relaxed);
  }
  return {};
}

Result<void> write_all(net::Channel& channel, std::span<const std::byte> from) {
  while (!from.empty()) {
    const auto io = channel.write(from);
    if (io.state == net::Channel::State::Ok) from = from.subspan(io.bytes);
    else PRIME_CHECK(after(channel, io.state));
  }
  return {};
}

template <class T>
Result<void> write_value(net::Channel& channel, const T& value) {
  return write_all(channel, std::as_bytes(std::span{&value, 1}));
}
template <class T>
Result<T> read_value(net::Channel& channel) {
  T value{};
  PRIME_CHECK(read_all(channel, std::as_writable_bytes(std::span{&value, 1})));
  return value;
}

/// What is moved, in chunks: the parameters and then the momentum of one fragment after the other.
template <class Byte>
class Chunks {
 public:
  template <class Values>
  void add(Values values) {
    std::span<Byte> rest;
    if constexpr (std::is_const_v<Byte>) rest = std::as_bytes(values);
    else rest = std::as_writable_bytes(values);
    total_bytes_ += rest.size();
    for (; !rest.empty(); rest = rest.subspan(chunks_.back().size()))
      chunks_.push_back(rest.first(std::min(kernels::DIGEST_CHUNK_BYTES, rest.size())));
  }
  [[nodiscard]] std::span<Byte> operator[](std::size_t index) const { return chunks_[index]; }
  [[nodiscard]] std::size_t size() const { return chunks_.size(); }
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }

 private:
  std::vector<std::span<Byte>> chunks_;
  std::uint64_t total_bytes_ = 0;
};

Result<void> serve_session(net::Channel& channel, const std::function<std::shared_ptr<const Snapshot>()>& state, bool busy) {
  PRIME_TRY(const auto request, read_value<RequestFrame>(channel));
  if (request.magic != MAGIC || request.version != PROTOCOL_VERSION) return fail(ErrorName::ProtocolViolation, "not a request for a state");
  const auto snapshot = busy ? nullptr : state();
  OfferFrame offer;
  if (!snapshot || snapshot->counters.revision.value != request.revision) {
    offer.status = static_cast<std::uint32_t>(snapshot ? OfferStatus::Moved : OfferStatus::Busy);
    offer.revision = snapshot ? snapshot->counters.revision.value : 0;
    return write_value(channel, offer);
  }
  Chunks<const std::byte> chunks;
  std::vector<std::uint64_t> versions;
  for (std::size_t fragment = 0; fragment < snapshot->fragments.size(); ++fragment) {
    if ((request.fragments >> fragment & 1U) == 0) continue;
    const auto& of = snapshot->fragments[fragment];
    versions.push_back(of.version.value);
    chunks.add(of.parameters);
    chunks.add(of.momentum);
  }
  if (snapshot->copied) chunks.add(std::span{*snapshot->copied});
  if (versions.size() != static_cast<std::size_t>(std::popcount(request.fragments)))
    return fail(ErrorName::ProtocolViolation, "a request for fragments that the state does not have");
  offer = OfferFrame{0, 0, request.revision, chunks.total_bytes()};
  PRIME_CHECK(write_value(channel, offer));
  PRIME_CHECK(write_all(channel, std::as_bytes(std::span{versions})));
  PRIME_TRY(const auto first, read_value<std::uint64_t>(channel));
  for (std::size_t index = first; index < chunks.size(); ++index) {
    PRIME_CHECK(write_value(channel, ChunkFrame{index, chunks[index].size(), kernels::digest_bytes(chunks[index])}));
    PRIME_CHECK(write_all(channel, chunks[index]));
  }
  // The joiner closes when it has everything; closing first could cut off what is still in flight.
  std::byte rest{};
  return read_all(channel, std::span{&rest, 1});
}

/// One connection's worth of a fetch: from the offer until it is complete, broken, or hopeless.
class Fetcher {
 public:
  Fetcher(Revision revision, std::vector<OuterState::Incoming>& into, std::span<std::byte> copied, std::atomic<std::uint64_t>& moved)
      : into_(into), moved_(moved) {
    for (const auto& each : into) {
      chunks_.add(each.parameters);
      chunks_.add(each.momentum);
    }
    chunks_.add(copied);
    state_.revision = revision;
    state_.expected_bytes = chunks_.total_bytes();
    state_.chunks = chunks_.size();
  }

  /// The effect that ends this connection: Done, Fail or Reconnect.
  recovery::Effect run(net::Channel& channel) {
    auto effect = step_or_broken(offered(channel));
    while (std::holds_alternative<recovery::Ask>(effect) || std::holds_alternative<recovery::Continue>(effect)) {
      if (const auto* ask = std::get_if<recovery::Ask>(&effect)) {
        make_pages();
        if (auto sent = write_value(channel, std::uint64_t{ask->first}); !sent) return decide(recovery::Broken{sent.error()});
      }
      effect = step_or_broken(chunk(channel));
    }
    return effect;
  }
  recovery::Effect broken(const Error& error) { return decide(recovery::Broken{error}); }

 private:
  /// The kernel makes a page, all zero, when it is written for the first time, which may take longer than to receive it: a thread that does
  /// nothing else goes ahead of the bytes. Without it, as with a kernel before 5.14, they are made as they are written.
  void make_pages() {
    if (ahead_.joinable()) return;
    try {
      ahead_ = std::jthread([this](const std::stop_token& stop) {
        const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        for (std::size_t index = 0; index < chunks_.size() && !stop.stop_requested(); ++index) {
          const auto before = reinterpret_cast<std::uintptr_t>(chunks_[index].data()) % page;
          if (::madvise(chunks_[index].data() - before, chunks_[index].size() + before, MADV_POPULATE_WRITE) != 0) return;
        }
      });
    } catch (const std::system_error&) {  // this agent may have no more threads
    }
  }

  recovery::Effect decide(const recovery::Event& event) {
    auto transition = recovery::step(std::move(state_), event);
    state_ = std::move(transition.state);
    if (log_ && !transition.reason.empty()) log_(transition.reason);
    return std::move(transition.effect);
  }
  template <class Event>
  recovery::Effect step_or_broken(Result<Event> event) {
    return event ? decide(recovery::Event{std::move(*event)}) : decide(recovery::Broken{event.error()});
  }

  Result<recovery::Offered> offered(net::Channel& channel) {
    RequestFrame request{MAGIC, PROTOCOL_VERSION, state_.revision.value, 0};
    for (const auto& each : into_) request.fragments |= std::uint64_t{1} << each.fragment;
    PRIME_CHECK(write_value(channel, request));
    PRIME_TRY(const auto offer, read_value<OfferFrame>(channel));
    if (offer.status == static_cast<std::uint32_t>(OfferStatus::Busy)) return fail(ErrorName::FetchFailed, "the donor serves others");
    if (offer.status != 0) return recovery::Offered{Revision{offer.revision}, 0};
    for (auto& each : into_) {
      PRIME_TRY(each.version.value, read_value<std::uint64_t>(channel));
    }
    return recovery::Offered{Revision{offer.revision}, offer.total_bytes};
  }

  Result<recovery::ChunkArrived> chunk(net::Channel& channel) {
    PRIME_TRY(const auto frame, read_value<ChunkFrame>(channel));
    const auto bytes = chunks_[state_.next];
    if (frame.index != state_.next || frame.length != bytes.size())
      return recovery::ChunkArrived{frame.index == state_.next ? ~std::size_t{0} : frame.index};
    PRIME_CHECK(read_all(channel, bytes, &moved_));
    return recovery::ChunkArrived{frame.index, kernels::digest_bytes(bytes) == frame.digest};
  }

  recovery::State state_;
  std::function<void(const std::string&)> log_ = reason_log("state fetch");
  std::vector<OuterState::Incoming>& into_;
  Chunks<std::byte> chunks_;
  std::atomic<std::uint64_t>& moved_;
  std::jthread ahead_;  ///< the last: it reads the chunks
};

}  // namespace

void StateServer::serve(net::ChannelPtr channel) {
  const bool busy = sessions_.running() >= MAX_STATE_SESSIONS;
  // A session that fails concerns its joiner alone, which sees the channel close.
  (void)sessions_.serve(channel, [this, busy](net::Channel& joiner) { (void)serve_session(joiner, snapshot_, busy); });
}

Result<void> fetch_state(Revision revision, std::vector<OuterState::Incoming>& into, std::span<std::byte> copied,
                         const std::function<Result<net::ChannelPtr>()>& dial, const std::function<void(net::Channel*)>& channel_opened,
                         std::atomic<std::uint64_t>& moved) {
  Fetcher fetcher{revision, into, copied, moved};
  for (;;) {
    auto channel = dial();
    recovery::Effect effect;
    if (channel) {
      channel_opened(channel->get());
      effect = fetcher.run(**channel);
      channel_opened(nullptr);
    } else {
      effect = fetcher.broken(channel.error());
    }
    if (std::holds_alternative<recovery::Done>(effect)) return {};
    if (auto* failed = std::get_if<recovery::Fail>(&effect)) return fail(std::move(failed->error));
  }
}

}  // namespace prime
