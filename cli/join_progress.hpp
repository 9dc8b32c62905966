// Owns what `join` in the foreground tells while the agent works in the main thread: it reads the peer's own journal.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cli/terminal.hpp"

namespace prime::cli {

class JoinProgress {
 public:
  /// Starts to tell at once, from a thread of its own. `coordinator`: where it is, for people.
  JoinProgress(Terminal& terminal, const std::filesystem::path& peer_directory, const std::string& name, std::string coordinator);
  /// Tells what is left in the journal and ends the thread.
  ~JoinProgress();

 private:
  struct Teller;
  std::unique_ptr<Teller> teller_;
};

}  // namespace prime::cli
