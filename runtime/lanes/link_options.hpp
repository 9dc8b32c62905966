// Owns the socket options of a lane: what a link needs for bulk data, chosen by where the other end is.
#pragma once

#include <string>

#include "messages/units.hpp"

namespace prime::lanes {

struct LinkOptions {
  bool near = false;       ///< the other end is this machine or on the same segment
  std::string congestion;  ///< the congestion control in force; empty when the socket is not TCP
};

/// Sets what can be set; a refusal is no error, the lane is only slower. Near links get reno: BBR paces on loopback and costs half
/// the rate and twice the CPU time, while it stays right for long links (net/congestion.hpp says what more that takes).
/// One of several streams takes no more than it can soon send: the kernel's buffer of one would swallow the frames that keep all busy.
LinkOptions apply_link_options(int fd, bool one_of_several = false);

/// How long the other end has acknowledged nothing, although something was sent to it; 0 also where that is not known.
Duration unacknowledged_for(int fd);

}  // namespace prime::lanes
