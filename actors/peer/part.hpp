// Owns what the parts of a peer's machine have in common. Each lasts for one event: it works on the state and appends effects, and its
// calls return their reason.
#pragma once

#include <utility>
#include <vector>

#include "actors/peer/peer_machine.hpp"

namespace prime::peer {

class Part {
 public:
  Part(State& state, Instant now, std::vector<Effect>& effects) : s_(state), now_(now), effects_(effects) {}

 protected:
  void beat() {
    s_.beat = now_;
    tell(Heartbeat{s_.inner_steps, s_.moved_bytes});
  }
  void tell(ToCoordinator message) { effects_.emplace_back(Tell{std::move(message)}); }
  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void record(JournalEvent event) { effects_.emplace_back(std::move(event)); }

  State& s_;
  Instant now_;
  std::vector<Effect>& effects_;
};

}  // namespace prime::peer
