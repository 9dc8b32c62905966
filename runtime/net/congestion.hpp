// Owns which congestion control a connection has, and whether its other end is near.
#pragma once

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <utility>

namespace prime::net {

/// A congestion control that every Linux has and that does not pace.
inline constexpr const char* UNPACED = "reno";

/// Before `connect` or `listen`. Linux begins to pace a connection with the first congestion control that wants it, and never ends that: a
/// connection that was BBR's for a moment, the system's default on many machines, is paced under reno, too, at a third of its rate on
/// loopback. Does nothing where the default is another one, or this process may not choose between the two.
void begin_unpaced(int fd);
/// Of one that is connected: who is far gets the default back that `begin_unpaced` took.
void end_unpaced_if_far(int fd);
/// Whether it may be chosen here. If not, what was there stays: no error.
bool set_congestion_control(int fd, const std::string& name);
/// In force; empty when the socket is not TCP.
std::string congestion_control(int fd);

/// Whether the other end of a connection has this one's address, or both are loopback's. It may be a proxy to who is far.
bool is_here(int fd);
/// The ports of this end and of the other one; 0 where there is none.
std::pair<std::uint16_t, std::uint16_t> ports_of(int fd);
/// Whether it is here or on the same segment.
bool is_near(int fd);
/// Whether both addresses are of one network: equal under the mask. Families must be equal.
bool same_network(const sockaddr_storage& a, const sockaddr_storage& b, const sockaddr_storage& mask);

}  // namespace prime::net
