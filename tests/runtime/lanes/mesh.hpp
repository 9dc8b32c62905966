// Owns a mesh of whole data planes in one process: engines, acceptors and relays over loopback, with pairs that cannot dial each other.
#pragma once

#include <boost/test/unit_test.hpp>

#include "runtime/lanes/link_options.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/dial.hpp"
#include "runtime/net/relay.hpp"
#include "tests/runtime/lanes/cluster.hpp"

namespace prime::lanes::test {

/// Ranks are in the order of ids, so that the lower one of a pair dials.
class Mesh {
 public:
  using Ways = std::map<std::pair<std::size_t, std::size_t>, PeerId>;

  explicit Mesh(std::size_t world, net::Transport transport = net::Transport::Tls, std::uint32_t streams = 1)
      : transport_(transport), peers_(world) {
    view_.epoch = Epoch{1};
    for (std::size_t rank = 0; rank < world; ++rank) add(rank, streams);
  }
  ~Mesh() {
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) end(rank);
  }

  [[nodiscard]] static PeerId id(std::size_t rank) { return PeerId{rank + 1}; }
  [[nodiscard]] View& view() { return view_; }
  [[nodiscard]] LaneEngine& engine(std::size_t rank) { return *peers_[rank].engine; }
  [[nodiscard]] std::size_t relayed_by(std::size_t rank) { return peers_[rank].relay->lanes(); }
  /// How the last lanes lead that were opened through others.
  [[nodiscard]] Ways ways() {
    const std::lock_guard lock(mutex_);
    return ways_;
  }

  /// How often a direct connection was tried.
  [[nodiscard]] std::size_t dials(std::size_t from, std::size_t to) {
    const std::lock_guard lock(mutex_);
    return dials_[{from, to}];
  }

  /// They cannot connect to each other any more, not even to pass something on; the connections that they have are reset.
  void cut(std::size_t a, std::size_t b) {
    forbid(a, b);
    (void)peers_[a].acceptor->fence(id(b));
    (void)peers_[b].acceptor->fence(id(a));
  }
  /// The same, but the connections stay.
  void forbid(std::size_t a, std::size_t b) {
    const std::lock_guard lock(mutex_);
    cut_.insert(std::minmax(a, b));
  }
  void heal() {
    const std::lock_guard lock(mutex_);
    cut_.clear();
  }
  /// All that this peer has to do with others ends.
  void end(std::size_t rank) {
    if (peers_[rank].acceptor) peers_[rank].acceptor->stop();
    peers_[rank].relay.reset();
    peers_[rank].engine.reset();
    peers_[rank].acceptor.reset();
  }
  /// What it passes on ends, and it goes on.
  void end_relays(std::size_t rank) {
    auto fresh = relay_of(rank);
    const std::lock_guard lock(mutex_);
    peers_[rank].relay.swap(fresh);
  }

  /// One reduce of the members of the view, with fresh inputs; as the coordinator does, all are aborted when one fails.
  Reduced reduce(std::size_t elements = 100'000, Duration deadline = PATIENCE) {
    const OperationId op{view_.epoch, Sequence{++sequence_}};
    const std::size_t world = view_.members.size();
    for (const auto& each : view_.members) peers_[each.id.value - 1].engine->know(view_);  // by the beginning of their step
    std::vector<Contribution> contributions;
    std::vector<std::vector<float>> inputs;
    std::vector<std::vector<float>> outputs;
    for (std::size_t r = 0; r < world; ++r) {
      contributions.push_back({view_.members[r].id, r + 1});
      inputs.push_back(random_values(elements, sequence_ * 100 + r));
      outputs.emplace_back(elements, -1.0F);
    }
    const Outcomes outcomes;
    for (std::size_t r = 0; r < world; ++r) {
      ReduceRequest request;
      request.op = op;
      request.view = view_;
      request.self = view_.members[r].id;
      request.contributions = contributions;
      request.input = std::as_bytes(std::span{inputs[r]});
      request.output = std::as_writable_bytes(std::span{outputs[r]});
      request.deadline = deadline;
      request.schedule = Schedule::Direct;
      request.relays = r == 0 ? relays_of_the_first : RelayOrder{};
      member(r).engine->start(std::move(request), [outcomes, r](ReduceOutcome outcome) { outcomes.put(r, std::move(outcome)); });
    }
    Reduced reduced;
    reduced.in_time = outcomes.wait(
        [&](const auto& all) { return all.size() == world || (waits_for_the_first ? all.contains(0) : must_abort(all, deadline)); },
        2 * PATIENCE);
    for (std::size_t r = 0; r < world; ++r)
      if (member(r).engine) member(r).engine->abort(op, "another peer failed");
    reduced.in_time = outcomes.wait_for_all(world) && reduced.in_time;
    reduced.outcomes = outcomes.all();
    for (const auto& [rank, outcome] : reduced.outcomes) {
      if (!outcome.stats) continue;
      ++reduced.succeeded;
      if (!same_bits(outputs[rank], expected_mean(inputs, contributions, elements))) reduced.right = false;
    }
    return reduced;
  }

  RelayOrder relays_of_the_first;
  bool waits_for_the_first = false;  ///< nobody is aborted before the first rank has ended by itself
  Cluster::Hook hook;                ///< changed only while no operation runs

 private:
  struct Peer {
    std::optional<net::Credentials> credentials;
    std::unique_ptr<LaneEngine> engine;
    std::shared_ptr<net::Relay> relay;  ///< guarded by mutex_ while the acceptor runs
    std::unique_ptr<net::Acceptor> acceptor;
  };

  /// Who can be reached is reached, however slow the machine is: else a lane would lead another way than the one that a test expects.
  static net::DialLimit patient(const net::DialLimit& limit) { return {PATIENCE, limit.stop}; }
  void count_dial(std::size_t from, std::size_t to) {
    const std::lock_guard lock(mutex_);
    ++dials_[{from, to}];
  }
  Peer& member(std::size_t rank) { return peers_[view_.members[rank].id.value - 1]; }
  bool reaches(std::size_t a, std::size_t b) {
    const std::lock_guard lock(mutex_);
    return !cut_.contains(std::minmax(a, b));
  }

  std::shared_ptr<net::Relay> relay_of(std::size_t rank) {
    return std::make_shared<net::Relay>(
        [this, rank](PeerId id) -> std::optional<Addresses> {
          const auto found = peers_[rank].engine->member(id);
          if (!found) return std::nullopt;
          return reaches(rank, id.value - 1) ? found->lanes : Addresses{Endpoint{"127.0.0.1", 1}};  // nobody listens there
        },
        [this, rank](PeerId id) { return peers_[rank].engine->is_gone(id); }, [](int fd) { (void)apply_link_options(fd); });
  }

  void add(std::size_t rank, std::uint32_t streams) {
    auto& peer = peers_[rank];
    peer.credentials.emplace(net::Credentials::make(key_, "run", {net::Role::Peer, id(rank)}).value());
    peer.engine = std::make_unique<LaneEngine>(engine_options(rank, streams));
    peer.relay = relay_of(rank);
    net::AcceptorOptions listening;
    listening.listen.host = "127.0.0.1";
    listening.allow_plain = transport_ == net::Transport::Plain;
    listening.handshake_deadline = PATIENCE;
    listening.relay = [this, rank](net::ChannelPtr asker, PeerId target) {
      const std::lock_guard lock(mutex_);
      peers_[rank].relay->serve(std::move(asker), target);
    };
    auto opened = net::Acceptor::open(
        listening, *peer.credentials,
        [this, rank](net::Protocol, net::ChannelPtr channel, const std::string&) { peers_[rank].engine->adopt(std::move(channel)); });
    BOOST_REQUIRE(opened);
    peer.acceptor = std::move(*opened);
    view_.members.push_back(Member{id(rank), "", peer.acceptor->address(), rank});
  }

  EngineOptions engine_options(std::size_t rank, std::uint32_t streams) {
    EngineOptions options;
    options.self = id(rank);
    options.chunk_bytes = 16 * 1024;
    options.streams = [streams] { return streams; };
    options.redial_pause = 1ms;
    options.reconnect_grace = 6s;
    options.dial = [this, rank](const Member& to, net::DialLimit limit) -> Result<net::ChannelPtr> {
      count_dial(rank, to.id.value - 1);
      if (!reaches(rank, to.id.value - 1)) return fail(ErrorName::RunUnreachable, "the test says so");
      return net::dial(to.lanes, net::Protocol::Lane, *peers_[rank].credentials, net::Expectation::peer(to.id), patient(limit), transport_);
    };
    options.dial_through = [this, rank](const Member& through, const Member& to, net::DialLimit limit) -> Result<net::ChannelPtr> {
      if (!reaches(rank, through.id.value - 1)) return fail(ErrorName::RunUnreachable, "the test says so");
      return net::dial_through(through.lanes, through.id, net::Protocol::Lane, *peers_[rank].credentials, to.id, patient(limit),
                               transport_);
    };
    options.on_way = [this, rank](PeerId to, PeerId through) {
      const std::lock_guard lock(mutex_);
      ways_[{rank, to.value - 1}] = through;
    };
    options.on_chunk = [this, rank](OperationId op, std::uint64_t done, std::uint64_t total) {
      if (hook) hook(rank, op, done, total);
    };
    return options;
  }

  const net::RunKey key_ = net::RunKey::generate();
  net::Transport transport_;
  View view_;
  std::mutex mutex_;
  std::set<std::pair<std::size_t, std::size_t>> cut_;
  Ways ways_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> dials_;
  std::vector<Peer> peers_;
  std::uint64_t sequence_ = 0;
};

}  // namespace prime::lanes::test
