// Owns the examination of the way between this machine and a run, with its coordinator's help (net/probe.hpp).
#pragma once

#include "messages/result.hpp"
#include "runtime/doctor/finding.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::doctor {

/// Each address of the coordinator from here; whether it reaches a peer that would listen here as `network` says; the clocks; packets of
/// full size. Below 5 s where all is well. Errors: those of making credentials.
Result<Findings> examine_run(const net::Invite& invite, const manifest::Network& network);

}  // namespace prime::doctor
