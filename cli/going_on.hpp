// Owns how a run was started, which is kept in its directory, so that the line that goes on from it is printed whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "messages/result.hpp"

namespace prime::cli {

/// Keeps it in the directory of the run that was started so.
Result<void> keep_start(const std::filesystem::path& run_directory, const UpArguments& arguments);

struct WayOn {
  std::string lacking;  ///< of the newest outer step, what is not here; or why there is no way on
  std::string from;     ///< "there", or "outer step 6"
  std::string line;     ///< empty: there is no way on from what is here
};

/// A line for a shell that starts a run as that one was started, from where it ended. Where that is not known (it was started on another
/// machine), with the manifest that lies in the checkpoint at `saved`. `state_dir` is where this command was told to look for runs. Of a
/// sharded run every checkpoint here is read for that.
WayOn way_on(const std::filesystem::path& run_directory, const std::filesystem::path& saved, const std::string& state_dir);

/// Whether the hint of such an error is how to go on from what was saved, in general words: who knows the line says that instead.
bool hint_is_way_on(const Error& error);

/// What is to be done with the checkpoint of a run that is done: a line for a shell each.
struct NextStep {
  std::string verb;
  std::string line;
};
/// To load the model, to train it on (twice as long), and to hand it over without what only a run needs; of a sharded run, or one whose
/// trainer leaves no config.json, those that there are. `outer_step` is its last.
std::vector<NextStep> next_steps(const std::filesystem::path& run_directory, const std::filesystem::path& saved, std::uint64_t outer_step,
                                 const std::string& state_dir);

/// For who has ended a run or left it; empty: there is nothing to tell.
std::string text_of(const WayOn& way);

}  // namespace prime::cli
