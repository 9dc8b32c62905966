// Owns the folding of journals that tests of the folds write by hand.
#pragma once

#include "runtime/telemetry/run_observer.hpp"
#include "support.hpp"

namespace prime::telemetry::test {

using namespace prime::test;

inline RunJournal fold(const HandwrittenJournal& journal) {
  RunJournal run;
  journal.read(JournalWriter::Coordinator, [&](const JournalEvent& event, const std::string& time) { run.apply(event, time); });
  return run;
}

inline PeerJournal fold_peer(const HandwrittenJournal& journal) {
  PeerJournal peer;
  journal.read(JournalWriter::Agent, [&](const JournalEvent& event, const std::string& time) { peer.apply(event, time); });
  return peer;
}

inline bool everything_lives(const ProcessIdentity&) { return true; }
inline bool nothing_lives(const ProcessIdentity&) { return false; }

}  // namespace prime::telemetry::test
