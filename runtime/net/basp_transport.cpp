// Owns the pieces by which CAF's multiplexer drives our channels, and the direct way to the BASP broker.
//
// Not through the middleman's actor: it caches handles, and after a restart of the coordinator hands out those of the dead one.
#include "runtime/net/basp_transport.hpp"

#include <algorithm>
#include <caf/actor_registry.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/stream_impl.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <fcntl.h>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/net/dial.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

namespace {

namespace network = caf::io::network;
using SharedChannel = std::shared_ptr<Channel>;

/// CAF's heartbeat tick closes a connection as silent that has not had its first message yet, at either end (spec/caf.md §7, G5). Ticks
/// are a second apart, so it does not happen to one connect again and again.
constexpr int MAX_ATTEMPTS = 4;
/// For an answer of a broker that has next to nothing to do.
constexpr Duration BROKER_LIMIT = 5s;

bool closed_by_a_tick(const caf::error& why) { return why == caf::sec::connection_timeout || why == caf::sec::disconnect_during_handshake; }

/// What CAF's loop calls to move bytes. Multiplexer's thread only.
class ChannelPolicy {
 public:
  explicit ChannelPolicy(SharedChannel channel) : channel_(std::move(channel)) {}

  network::rw_state read_some(std::size_t& moved, network::native_socket, void* into, std::size_t size) {
    moved = 0;
    if (size == 0) return network::rw_state::indeterminate;
    return result(channel_->read({static_cast<std::byte*>(into), size}), moved);
  }
  network::rw_state write_some(std::size_t& moved, network::native_socket, const void* from, std::size_t size) {
    moved = 0;
    if (size == 0) return network::rw_state::indeterminate;
    return result(channel_->write({static_cast<const std::byte*>(from), size}), moved);
  }
  bool must_read_more(network::native_socket, std::size_t) { return channel_->buffered() > 0; }

 private:
  /// Success without a byte means to CAF: poll and try again.
  static network::rw_state result(const Channel::Io& io, std::size_t& moved) {
    moved = io.bytes;
    switch (io.state) {
      case Channel::State::Ok:
      case Channel::State::WantRead:
      case Channel::State::WantWrite:
      case Channel::State::Capped: return network::rw_state::success;
      case Channel::State::Closed:
      case Channel::State::Failed: break;
    }
    return network::rw_state::failure;
  }

  SharedChannel channel_;
};

/// CAF's connection object. CAF closes the descriptor that it polls, so it gets a duplicate of the channel's.
class ChannelScribe final : public caf::io::scribe {
 public:
  ChannelScribe(network::default_multiplexer& multiplexer, int fd, SharedChannel channel, std::uint16_t port)
      : scribe(network::conn_hdl_from_socket(fd)), port_(port), stream_(multiplexer, fd, std::move(channel)) {}

  void configure_read(caf::io::receive_policy::config config) override {
    stream_.configure_read(config);
    if (std::exchange(launched_, true)) return;
    stream_.start(this);
  }
  void ack_writes(bool enable) override { stream_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  void flush() override { stream_.flush(this); }
  void add_to_loop() override { stream_.activate(this); }
  /// The loop lets go of a scribe, which refers to itself until then, when it takes it out. One that a tick closes in the very round in
  /// which it was to be put in never was in, and would be lost with its descriptors: it is let go of after that round.
  void remove_from_loop() override {
    stream_.passivate();
    if (stream_.eventbf() != 0) return;
    const std::shared_ptr<void> after(
        nullptr, [self = caf::intrusive_ptr<ChannelScribe>(this)](void*) { self->stream_.removed_from_loop(network::operation::read); });
    stream_.backend().post([after] {});  // dropped unread when the loop has ended: that does it too
  }
  void graceful_shutdown() override {
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }
  std::string addr() const override {
    const auto host = network::remote_addr_of_fd(stream_.fd());
    return host ? *host : std::string();
  }
  std::uint16_t port() const override { return port_; }

 private:
  std::uint16_t port_;
  bool launched_ = false;
  network::stream_impl<ChannelPolicy> stream_;
};

/// Null when descriptors have run out.
caf::io::scribe_ptr make_scribe(network::default_multiplexer& multiplexer, SharedChannel channel, std::uint16_t port) {
  const int fd = ::fcntl(channel->fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  return caf::make_counted<ChannelScribe>(multiplexer, fd, std::move(channel), port);
}

/// Tells the BASP broker of connections that our acceptor accepted; CAF itself listens nowhere.
class SocketlessDoorman final : public caf::io::doorman {
 public:
  explicit SocketlessDoorman(network::default_multiplexer& multiplexer)
      : doorman(caf::io::accept_handle::from_int(PORT)), multiplexer_(multiplexer) {}

  /// BASP knows published actors by port; ours never reaches a socket, so any number does.
  static constexpr std::uint16_t PORT = 1;

  void launch() override {}
  void add_to_loop() override {}
  void remove_from_loop() override {}
  bool new_connection() override { return false; }
  void graceful_shutdown() override { detach(&multiplexer_, false); }
  std::string addr() const override { return {}; }
  std::uint16_t port() const override { return PORT; }

  /// Multiplexer's thread only. From here on BASP speaks: its handshake names the published actor.
  void announce(const SharedChannel& channel) {
    if (detached()) return;
    auto scribe = make_scribe(multiplexer_, channel, PORT);
    if (!scribe) return;
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    doorman::new_connection(&multiplexer_, handle);
  }

 private:
  network::default_multiplexer& multiplexer_;
};

caf::actor basp_broker(caf::actor_system& system) { return system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP")); }

/// No run spawns actors on other machines, so nobody may ask for it. Besides, every connected node monitors CAF's spawn server, whose end
/// inside ~actor_system then sends a last message to a broker that nobody drives any more.
void end_spawn_server(caf::actor_system& system) {
  const auto server = system.registry().get(caf::atom("SpawnServ"));
  system.registry().erase(caf::atom("SpawnServ"));
  caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
}

/// CAF's clock does what it is asked in order, on a thread of its own: when this returns, all that was asked before is done.
void wait_for_clock(caf::scoped_actor& self) {
  self->delayed_send(self, caf::timespan{}, caf::get_atom_v);
  self->receive([](caf::get_atom) {});
}

/// The broker sends itself a message at each heartbeat. One that comes when nobody drives the broker any more stays in its mailbox, and
/// owns it as the sender: neither would be freed. Each answer of the broker proves that it has dealt with the beat before it, and asked
/// for the next one. A beat that was under way at the beginning may have read the clock before, so what it asks for can come at once: it is
/// cancelled, or is dealt with before the second answer. Whatever was asked for later comes an interval after the beginning at the
/// earliest, and is cancelled by then, unless all this took so long.
void end_heartbeats(caf::actor_system& system) {
  const auto interval = caf::get_or(system.config(), "middleman.heartbeat-interval", caf::timespan{});
  caf::scoped_actor self(system);
  const auto cancel = [&] {
    system.clock().cancel_all();
    wait_for_clock(self);
  };
  for (const auto patience = monotonic_now() + BROKER_LIMIT; monotonic_now() < patience;) {
    const auto begun = monotonic_now();
    cancel();
    for (int proof = 0; proof < 2; ++proof) {
      self->request(basp_broker(system), BROKER_LIMIT, caf::get_atom_v, system.node())
          .receive([](const caf::node_id&, const std::string&, std::uint16_t) {}, [](const caf::error&) {});
      cancel();
    }
    if (monotonic_now() - begun < interval || interval == caf::timespan{}) return;
  }
}

tl::unexpected<Error> handshake_error(const caf::error& why, const std::string& where) {
  if (why == caf::sec::no_actor_published_at_port) return fail(ErrorName::RunUnreachable, where + ": nothing is published there yet");
  if (why == caf::sec::request_timeout) return fail(ErrorName::RunUnreachable, where + ": connected, but no answer in time");
  if (why == caf::sec::incompatible_versions || why == caf::sec::incompatible_application_ids)
    return fail(ErrorName::VersionMismatch, where + ": it runs another version of CAF");
  return fail(ErrorName::RunUnreachable, where + ": the connection ended before it was introduced");
}

}  // namespace

void configure(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", 4);
  config.set("middleman.heartbeat-interval", caf::timespan(1s));
  config.set("middleman.connection-timeout", caf::timespan(30s));
  config.set("middleman.workers", 0);
  config.set("middleman.enable-automatic-connections", false);
}

class BaspTransport::Wiring {
 public:
  explicit Wiring(caf::actor_system& system)
      : multiplexer(dynamic_cast<network::default_multiplexer&>(system.middleman().backend())),
        doorman(caf::make_counted<SocketlessDoorman>(multiplexer)) {}

  SharedChannel remember(ChannelPtr channel) {
    SharedChannel shared = std::move(channel);
    const std::lock_guard lock(mutex_);
    std::erase_if(channels_, [](const auto& known) { return known.expired(); });
    channels_.push_back(shared);
    return shared;
  }
  /// A process that connects anew has given up its older connection, whose end this one may not have heard of. CAF would go on answering
  /// there, and take the end of that one for the end of both.
  void end_those_of(PeerId peer) {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : channels_)
      if (const SharedChannel channel = weak.lock(); channel && channel->peer() == peer) channel->shutdown();
  }
  void shutdown_all() {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : channels_)
      if (const SharedChannel channel = weak.lock()) channel->shutdown();
  }

  network::default_multiplexer& multiplexer;
  const caf::intrusive_ptr<SocketlessDoorman> doorman;

 private:
  std::mutex mutex_;  ///< guards channels_: the acceptor's thread and callers of remote_actor add, the owner's thread cuts
  std::vector<std::weak_ptr<Channel>> channels_;
};

BaspTransport::BaspTransport(caf::actor_system& system) : system_(system), wiring_(std::make_unique<Wiring>(system)) {
  end_spawn_server(system);
}

BaspTransport::~BaspTransport() {
  shutdown_connections();
  end_heartbeats(system_);
}

void BaspTransport::publish_as(caf::strong_actor_ptr actor, std::set<std::string> messages) {
  caf::anon_send(basp_broker(system_), caf::publish_atom_v, caf::io::doorman_ptr(wiring_->doorman), SocketlessDoorman::PORT,
                 std::move(actor), std::move(messages));
}

void BaspTransport::accept(ChannelPtr channel) {
  wiring_->end_those_of(channel->peer());
  wiring_->multiplexer.post([doorman = wiring_->doorman, shared = wiring_->remember(std::move(channel))] { doorman->announce(shared); });
}

void BaspTransport::shutdown_connections() { wiring_->shutdown_all(); }

Result<caf::strong_actor_ptr> BaspTransport::connect(const Credentials& credentials, const Addresses& addresses, DialLimit limit,
                                                     AddressMemory* memory, const std::set<std::string>& wanted) {
  const Instant until = monotonic_now() + limit.timeout;
  const std::string where = format_addresses(addresses);
  caf::error why;
  for (int attempt = 0; attempt < MAX_ATTEMPTS; ++attempt) {
    PRIME_TRY(auto channel, dial(addresses, Protocol::Control, credentials, Expectation::coordinator(),
                                 {until - monotonic_now(), limit.stop}, Transport::Tls, memory));
    const SharedChannel shared = wiring_->remember(std::move(channel));
    auto scribe = make_scribe(wiring_->multiplexer, shared, addresses.list.front().port);
    if (!scribe) return fail(ErrorName::RunUnreachable, where + ": no free descriptor");

    caf::strong_actor_ptr actor;
    std::set<std::string> offered;
    why = caf::error();
    caf::scoped_actor self(system_);
    self->request(basp_broker(system_), std::max<Duration>(until - monotonic_now(), 1ms), caf::connect_atom_v, std::move(scribe),
                  addresses.list.front().port)
        .receive(
            [&](caf::node_id&, caf::strong_actor_ptr& published, std::set<std::string>& messages) {
              actor = std::move(published);
              offered = std::move(messages);
            },
            [&](caf::error& error) { why = std::move(error); });
    if (actor && system_.assignable(offered, wanted)) return actor;
    if (actor) return fail(ErrorName::ProtocolViolation, where + ": what is published there does not take our messages");
    shared->shutdown();
    if (!why) why = caf::sec::no_actor_published_at_port;
    if (!closed_by_a_tick(why)) break;
  }
  return handshake_error(why, where);
}

}  // namespace prime::net
