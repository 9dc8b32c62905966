#include "cli/given_invite.hpp"

#include <cstdlib>

namespace prime::cli {

Result<GivenInvite> given_invite(const std::string& typed) {
  const char* const named = std::getenv("PRIMECTL_INVITE");
  std::string text = !typed.empty() || named == nullptr ? typed : named;
  // What was pasted or read from a file may have blanks around it.
  constexpr const char* BLANKS = " \t\r\n";
  const auto begin = text.find_first_not_of(BLANKS);
  text = begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(BLANKS) + 1 - begin);
  if (text.empty()) return fail(ErrorName::Usage, "no invite: give the one that `primectl up` printed, or set PRIMECTL_INVITE");
  if (text.find("…") != std::string::npos)
    return fail(
        ErrorName::InviteMalformed,
        "`" + text + "` stands on the pages for an invite; `primectl invite` on the machine that started the run prints the whole one");
  PRIME_TRY(auto invite, net::parse_invite(text));
  return GivenInvite{std::move(text), std::move(invite)};
}

}  // namespace prime::cli
