// Owns where a command finds the invite that it was given.
#pragma once

#include <string>

#include "runtime/net/run_key.hpp"

namespace prime::cli {

struct GivenInvite {
  std::string text;
  net::Invite invite;
};

/// What was typed, else $PRIMECTL_INVITE: in the environment an invite is not seen in the process list. Usage, InviteMalformed.
Result<GivenInvite> given_invite(const std::string& typed);

}  // namespace prime::cli
