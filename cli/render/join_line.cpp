#include "cli/render/join_line.hpp"

#include "cli/render/shell_word.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::cli {
namespace {

constexpr std::string_view TRAINER_KEY = "local.trainer_command";

}  // namespace

bool lacks_trainer(const manifest::Manifest& manifest) {
  return manifest.shared.membership.shards > 1 && manifest.local.trainer_command.empty();
}

bool joins_again(const Error& error) {
  return error.name == ErrorName::Evicted || error.name == ErrorName::RolledBack || error.name == ErrorName::ParityBroken;
}

std::string join_again_hint(std::string_view program, const std::vector<std::string>& options) {
  auto line = std::string{program} + " join INVITE";
  for (const auto& word : options) line += " " + shell_word(word);
  return "`" + line +
         "`, with the invite that it had (`primectl invite` prints it where the run was started), takes part again, as a new peer";
}

std::string join_line(std::string_view program, std::string_view invite, const manifest::Manifest& manifest) {
  auto line = std::string{program} + " join " + shell_word(invite);
  const auto shards = manifest.shared.membership.shards;
  if (shards == 1) return line;
  auto named = manifest;
  if (lacks_trainer(manifest)) named.local.trainer_command = {std::string{OWN_TRAINER}};
  const auto trainer = manifest::print(*manifest::find_field(TRAINER_KEY), named).value_or("[]");
  return line + " --shards " + std::to_string(shards) + " --detach --set " + shell_word(std::string{TRAINER_KEY} + "=" + trainer);
}

}  // namespace prime::cli
