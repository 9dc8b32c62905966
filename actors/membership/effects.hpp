// Owns what a coordinator's machines want done: who is told what, who is cut off or looked for, and what the journal has of it.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "actors/probes.hpp"
#include "messages/events.hpp"
#include "messages/membership.hpp"
#include "messages/outer_step.hpp"
#include "messages/result.hpp"

namespace prime::membership {

using ToPeer = std::variant<Welcome, Dismissed, FetchState, BeginStep, StartReduce, Abort, Commit, RunDone, HeartbeatSeen, MeasureLink,
                            Coordinators, ReplicaLacks, PublishNow>;

struct Send {
  PeerId to;
  ToPeer message;
};
/// Cuts all connections of a peer; both ends see it at once.
struct Fence {
  PeerId peer;
};
/// Whether its process is there still, or can be reached at all; ends in a ProcessGone, or in nothing.
struct LookFor {
  PeerId peer;
  Addresses lanes;
};
/// The run is over; empty when it ended well.
struct Finish {
  std::optional<Error> cause;
};
using Effect = std::variant<JournalEvent, Send, Fence, LookFor, Finish, Probe>;
using Effects = std::vector<Effect>;

}  // namespace prime::membership
