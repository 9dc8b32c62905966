// Owns where a test's trainer looks for its agent.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <poll.h>
#include <utility>

#include "runtime/session/packet_socket.hpp"

namespace prime::test {

/// Where `Session::attach` will find its agent.
struct Door {
  PacketListener listener = PacketListener::open("/tmp").value();

  Door() {
    ::setenv(AGENT_SOCKET_VARIABLE, listener.path().c_str(), 1);
    ::setenv(AGENT_SECRET_VARIABLE, listener.secret().c_str(), 1);
  }
  /// Waits for the session, which attaches on another thread.
  PacketSocket let_in() {
    for (;;) {
      pollfd watched{listener.number(), POLLIN, 0};
      BOOST_REQUIRE(::poll(&watched, 1, 100'000) == 1);
      if (auto session = listener.accept()) return std::move(*session);
    }
  }
};

}  // namespace prime::test
