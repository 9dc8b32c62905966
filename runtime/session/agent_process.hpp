// Owns the agent that a joining program starts: its command line, its end, and what it complained about.
#pragma once

#include <string>
#include <sys/types.h>
#include <utility>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "prime/session.hpp"
#include "runtime/session/shared_memory.hpp"

namespace prime {

class AgentProcess {
 public:
  /// `primectl join INVITE --trainer-fd 3 …` with `socket` as its descriptor 3. Prints nothing on our streams.
  static Result<AgentProcess> start(const JoinOptions& options, int socket);
  AgentProcess() = default;
  AgentProcess(AgentProcess&& other) noexcept;
  AgentProcess& operator=(AgentProcess&& other) noexcept;
  /// Reaps it if it ends soon. It is never killed here: an agent without a trainer leaves the run by itself.
  ~AgentProcess();

  /// For an agent that did not come up: ends it and says how it ended and what it wrote to stderr.
  std::string end_and_explain();

 private:
  AgentProcess(pid_t pid, Descriptor complaints) : pid_(pid), complaints_(std::move(complaints)) {}
  void swap(AgentProcess& other) noexcept;
  bool wait(Duration limit);

  pid_t pid_ = 0;  ///< 0: none, or reaped
  int status_ = 0;
  Descriptor complaints_;  ///< what it wrote to stderr, up to a limit
};

}  // namespace prime
