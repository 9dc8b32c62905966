// Owns the other process of the BASP tests: `basp_process peer INVITE NUMBER` or `basp_process coordinator INVITE NUMBER`.
// Says one line when it is there, and ends when its standard input does.
#include <caf/node_id.hpp>
#include <iostream>
#include <string>

#include "tests/runtime/net/basp_support.hpp"

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

constexpr Duration PATIENCE = 60s;

void wait_for_the_end() {
  for (std::string line; std::getline(std::cin, line);) continue;
}

int be_coordinator(const Invite& invite, std::uint64_t number) {
  const Coordinator coordinator(invite, number);
  if (!coordinator.acceptor) return 1;
  std::cout << "ready " << coordinator.acceptor->address().port << std::endl;
  wait_for_the_end();
  return 0;
}

int be_peer(const Invite& invite, std::uint64_t number) {
  Config config;
  caf::actor_system system(config);
  BaspTransport transport(system);
  const auto own = Credentials::make(invite.key, invite.run, {Role::Peer, PeerId{number}});
  const auto server = transport.remote_actor<ServerActor>(*own, invite.addresses, PATIENCE);
  if (!server) {
    std::cout << to_string(server.error()) << std::endl;
    return 1;
  }
  std::uint64_t incarnation = 0;
  caf::scoped_actor self(system);
  self->request(*server, PATIENCE, number).receive([&](std::uint64_t answer) { incarnation = answer; }, [](const caf::error&) {});
  std::cout << "ready " << incarnation << " " << to_string(system.node()) << std::endl;
  wait_for_the_end();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  const auto invite = parse_invite(words[2]);
  if (!invite) return 2;
  const std::uint64_t number = std::stoull(words[3]);
  return words[1] == std::string("peer") ? be_peer(*invite, number) : be_coordinator(*invite, number);
}
