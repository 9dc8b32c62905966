// Owns what is said of the addresses that a process tells others.
#pragma once

#include <string>
#include <vector>

#include "messages/membership.hpp"

namespace prime::cli {

struct ToldAddress {
  std::string address;       ///< host:port
  std::string reached_from;  ///< net::reach_text
  bool looks_local = false;  ///< other machines hardly get here by it
};

/// By how they look from here, and by the interfaces that have them.
std::vector<ToldAddress> told(const Addresses& addresses);

}  // namespace prime::cli
