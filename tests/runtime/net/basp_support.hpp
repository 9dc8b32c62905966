// Owns what the two sides of the BASP tests share: an interface, its messages, and an actor that serves it.
#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "messages/units.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/basp_transport.hpp"

namespace prime::net::test {

using Blob = std::vector<std::uint8_t>;
/// A peer says its number and is answered with the incarnation of the server; bytes come back as they are.
using ServerActor = caf::typed_actor<caf::replies_to<std::uint64_t>::with<std::uint64_t>, caf::replies_to<Blob>::with<Blob>>;
using OtherActor = caf::typed_actor<caf::replies_to<std::string>::with<std::string>>;

struct Config : caf::actor_system_config {
  Config() {
    configure(*this);
    add_message_type<Blob>("blob");
  }
};

/// What the server's actor saw, for the test's thread.
class Board {
 public:
  void joined(std::uint64_t number, const caf::strong_actor_ptr& who) {
    const std::lock_guard lock(mutex_);
    if (!closed_) peers_[number] = who;
    changed_.notify_all();
  }
  void lost(const caf::actor_addr& who) {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, peer] : peers_)
      if (peer == who) lost_.insert(number);
    changed_.notify_all();
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return condition(lost_); });
  }
  std::set<std::uint64_t> lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  caf::actor peer(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    return caf::actor_cast<caf::actor>(peers_.at(number));
  }
  /// Lets go of all handles, for good: none may outlive its actor system.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    peers_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, caf::strong_actor_ptr> peers_;
  std::set<std::uint64_t> lost_;
  bool closed_ = false;
};

class Server : public ServerActor::base {
 public:
  Server(caf::actor_config& config, std::uint64_t incarnation, std::shared_ptr<Board> board)
      : ServerActor::base(config), incarnation_(incarnation), board_(std::move(board)) {
    set_down_handler([this](const caf::down_msg& down) { board_->lost(down.source); });
  }
  behavior_type make_behavior() override {
    return {[this](std::uint64_t number) {
              monitor(current_sender());
              board_->joined(number, current_sender());
              return incarnation_;
            },
            [](const Blob& blob) { return blob; }};
  }

 private:
  std::uint64_t incarnation_;
  std::shared_ptr<Board> board_;
};

/// A coordinator as executables will build one; its members end in the right order.
class Coordinator {
 public:
  Coordinator(const Invite& invite, std::uint64_t incarnation) : board(std::make_shared<Board>()), system_(config_), transport_(system_) {
    server_ = system_.spawn<Server>(incarnation, board);
    transport_.publish(server_);
    auto own = Credentials::make(invite.key, invite.run, {Role::Coordinator, PeerId{incarnation}});
    auto opened = Acceptor::open({.listen = invite.addresses.list.front()}, std::move(*own),
                                 [this](Protocol protocol, ChannelPtr channel, const std::string&) {
                                   if (protocol == Protocol::Control) transport_.accept(std::move(channel));
                                 });
    if (opened) acceptor = std::move(*opened);
  }
  ~Coordinator() {
    board->close();
    caf::anon_send_exit(server_, caf::exit_reason::user_shutdown);
    server_ = nullptr;
    acceptor.reset();
  }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  std::shared_ptr<Board> board;

 private:
  Config config_;
  caf::actor_system system_;
  BaspTransport transport_;
  ServerActor server_;

 public:
  std::unique_ptr<Acceptor> acceptor;  ///< null when the address was taken
};

}  // namespace prime::net::test
