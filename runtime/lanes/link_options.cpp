// Owns how a lane's socket is set up.
#include "runtime/lanes/link_options.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "runtime/net/congestion.hpp"

namespace prime::lanes {
namespace {

void set(int fd, int level, int name, int value) { (void)setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

LinkOptions apply_link_options(int fd, bool one_of_several) {
  LinkOptions options;
  options.near = net::is_near(fd);
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Outer steps may be hours apart: a link that dies in between shall be known before it is used.
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (one_of_several) set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 128 * 1024);
  // An end that takes nothing for so long is as good as gone, whatever its kernel still answers.
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
  // BBR paces, which costs half the rate where nothing is ever lost; where something is, loss is not its reason to slow down.
  (void)net::set_congestion_control(fd, options.near ? net::UNPACED : "bbr");
  options.congestion = net::congestion_control(fd);
  return options;
}

Duration unacknowledged_for(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_unacked == 0) return {};
  return std::chrono::milliseconds(info.tcpi_last_ack_recv);
}

}  // namespace prime::lanes
