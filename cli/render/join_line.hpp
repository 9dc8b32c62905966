// Owns the line by which somebody joins a run, which is the same wherever it is shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "messages/errors.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::cli {

/// What stands for the trainer where none is known: whoever joins has to name an own one.
inline constexpr std::string_view OWN_TRAINER = "TRAINER";

/// Of a sharded run: a whole replica, which goes on in the background, with the trainer that the local half names, else OWN_TRAINER.
std::string join_line(std::string_view program, std::string_view invite, const manifest::Manifest& manifest);
/// For who was sent away: joins again as before, with the invite that they have. `options` are the words after that.
std::string join_again_hint(std::string_view program, const std::vector<std::string>& options);
/// Whether an error is one after which that helps, and no way is taken by itself any more.
bool joins_again(const Error& error);
/// Whether that line is one to be completed.
bool lacks_trainer(const manifest::Manifest& manifest);

}  // namespace prime::cli
