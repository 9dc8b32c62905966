// Owns the folding of journals that tests of the folds write by hand.
#pragma once

#include "runtime/telemetry/run_observer.hpp"
#include "support.hpp"

namespace prime::telemetry::test {

using namespace prime::test;

inline RunJournal fold(const HandwrittenJournal& journal) {
  RunJournal run;
  for (const auto& line : journal.lines()) run.apply(line);
  return run;
}

inline PeerJournal fold_peer(const HandwrittenJournal& journal) {
  PeerJournal peer;
  for (const auto& line : journal.lines()) peer.apply(line);
  return peer;
}

inline bool everything_lives(const ProcessIdentity&) { return true; }
inline bool nothing_lives(const ProcessIdentity&) { return false; }

}  // namespace prime::telemetry::test
