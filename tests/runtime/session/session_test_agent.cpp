// Stands in for `primectl join INVITE --trainer-fd N`: an agent of one peer. The invite says what it does.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>

#include "tests/runtime/session/test_agent.hpp"

int main(int count, char** arguments) {
  using namespace prime;
  if (count < 5 || std::string_view(arguments[1]) != "join" || std::string_view(arguments[3]) != "--trainer-fd") return 2;
  const std::string_view invite = arguments[2];
  auto socket = PacketSocket::inherit(std::atoi(arguments[4]));
  if (!socket) return 2;
  if (invite == "broken") {
    std::fputs("error: no such thing\n", stderr);
    return 5;
  }
  if (invite == "silent") ::pause();
  test::TestAgent agent;
  if (invite == "refuse" || invite == "tell") {
    std::string options;
    for (int i = 5; i < count; ++i) options += (i > 5 ? " " : "") + std::string{arguments[i]};
    agent.host = TrainerHost::adopt(std::move(*socket), {}, agent.handler()).value();
    agent.host->stop(Error(ErrorName::KeyRefused, invite == "tell" ? options : "wrong key"));
    agent.expect<TrainerLeft>();
    return 4;
  }
  agent.adopt(std::move(*socket));
  agent.seat();
  if (invite == "leave") {
    agent.begin();
    agent.expect<TrainerLeft>();
    return 0;
  }
  for (std::uint32_t step = 0; step < test::TestAgent::TOTAL_STEPS; ++step) agent.step();
  agent.finish();
  agent.expect<TrainerFinal>();
  agent.host->stop(std::nullopt);
  agent.expect<TrainerLeft>();
}
