// Owns what options of several commands share: what a word must be, and the options that every command has.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/arguments.hpp"

namespace prime::cli {

inline constexpr const char* RUN_HELP = "run id or the beginning of one; absent: the only run that is active";
inline constexpr const char* SET_HELP = "override a manifest key, such as train.outer_steps=20; may be given several times";

/// An empty word, as an unset variable of a shell leaves it, would be a prefix of everything.
CLI::Validator named();
/// Of a peer, as everybody will read it; `logs coordinator` means the coordinator.
CLI::Validator peer_name();
/// A part of the names of its peers.
CLI::Validator replica_name();
/// CLI11 reads `-1`, `010` and what no number of 64 bits holds as some other number. Leading zeros are dropped: it would take them for
/// octal.
CLI::Validator whole(std::uint64_t least, std::uint64_t most);
/// Finite, and in plain digits.
CLI::Validator real(double least, double most);

/// An option whose words stand for the values of an enumeration, in its order.
template <class Enumeration>
CLI::Option* add_choice(CLI::App& command, const char* names, Enumeration& value, const char* help, const std::vector<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : "|") + word;
  return command
      .add_option_function<std::string>(
          names,
          [&value, words, list, names](const std::string& word) {
            const auto found = std::find(words.begin(), words.end(), word);
            if (found == words.end()) throw CLI::ValidationError(names, "`" + word + "` is none of " + list);
            value = static_cast<Enumeration>(found - words.begin());
          },
          help)
      ->type_name(list);
}

void add_common(CLI::App& command, CommonArguments& common);
/// Of commands that start processes.
void add_log_level(CLI::App& command, CommonArguments& common);
/// Of models that are run here.
void add_device(CLI::App& command, std::string& device);

}  // namespace prime::cli
