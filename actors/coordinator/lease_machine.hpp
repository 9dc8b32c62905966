// Owns the judgement of one coordinator of several: when its lease is renewed and when that has failed for good, when it asks whether
// it may lead, and what becomes of a decision that the store did not answer. Pure.
//
// Safety rests on none of it, since the store takes decisions from the leader alone, whatever any clock says. This machine sees to it that
// nobody is told what the store has not taken, that a short outage ends nothing, and that who leads no more knows it soon.
//
// Its shell carries out the effects on the thread that fed the event, and feeds what the store answers: renewals, candidacy and decisions
// are asked side by side. Of the effects of one event the last alone is a question. When it was asked is by this process's clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "messages/phases.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::lease {

/// How long one call of the store may take: several of them fit into a lease one after another.
[[nodiscard]] Duration call_limit(Duration lease);
/// How long a call may take before this process leads or knows who does: none is repeated then, and what it is late for has not begun.
[[nodiscard]] Duration first_call_limit(Duration lease);

struct Options {
  Duration length{};    ///< of the lease
  std::string address;  ///< where this process serves the run when it leads
};

enum class Phase : std::uint8_t {
  StandingBy,  ///< somebody else leads, or nobody has said yet who does
  Leading,
  Lost,  ///< it takes no part any more, see State::cause
};

struct Leader {
  std::string address;
  std::int64_t lease = 0;  ///< by the store's number
};

struct State {
  Options options;
  Phase phase = Phase::StandingBy;
  std::optional<Error> cause;    ///< in Lost alone
  Instant renewed{};             ///< the last time, counted from before the store was asked
  std::optional<Leader> leader;  ///< somebody else, as the store said last
  bool deposing = false;         ///< whoever led from this address before
  Instant again_until{};         ///< the decision under way is tried again
};

// Events --------------------------------------------------------------------------------------------------------------------

/// The lease is granted, and this process is known to the others.
struct Entered {};
/// False when the lease has run out.
struct RenewalAnswered {
  Instant asked{};
  Result<bool> alive;
};
/// Comes again and again while this process stands by.
struct Tick {};
/// Who else leads; nobody when this process does from now on.
struct CampaignAnswered {
  Result<std::optional<Leader>> leader;
};
/// There is something to be kept before it is told. One at a time.
struct Decided {};
/// StandbyStoreFailed says that nobody knows whether it is kept; any other error that it is not, and never will be.
struct DecisionAnswered {
  Instant asked{};
  Result<void> kept;
};
using Event = std::variant<Entered, RenewalAnswered, Tick, CampaignAnswered, Decided, DecisionAnswered>;

// Effects -------------------------------------------------------------------------------------------------------------------

struct Renew {
  Duration after{};
};
/// Who else is there may have changed.
struct LookAround {};
/// To ask for the lead.
struct Campaign {};
/// To take the lead from that lease, whose owner is dead; the answer is that of a campaign.
struct Depose {
  std::int64_t lease = 0;
};
/// To have the store keep what was decided.
struct Keep {
  Duration after{};
};
/// What was decided is kept, and may be told.
struct Tell {};
/// This process takes no part any more.
struct End {
  Error cause;
};
/// The same on the spot: what was decided is not kept, and nobody may hear of it.
struct EndUntold {
  Error cause;
};
using Effect = std::variant<Renew, LookAround, Campaign, Depose, Keep, Tell, End, EndUntold>;

/// What the machine makes of an event.
enum class Judgement : std::uint8_t {
  TakesNoPart,
  OutlastsOutage,  ///< the lease lasts longer than the store was away
  StoodStill,      ///< and asks once more
  NotRenewed,
  LeaseEnded,
  Renewed,
  NotStandingBy,
  NobodyMayLead,
  StoreAway,  ///< for how long that may go on, the lease says
  CannotStandBy,
  Leads,
  LeaderDead,  ///< who led from this address
  AnotherLeads,
  DecisionWaits,
  DecisionKept,
  DecisionNotKept,
  Granted,
  Keeps,  ///< before it is told
};

struct Transition {
  State state;
  std::vector<Effect> effects;
  Judgement judgement{};
};

/// Of a process that asked for its lease at that time.
[[nodiscard]] State initial(Options options, Instant asked);
[[nodiscard]] Transition step(State state, const Event& event, Instant now);
/// Whether it leads under a lease that is still one by the clock of this process. A process that has just thawed knows so that it leads
/// no more, a moment before the store tells it.
[[nodiscard]] bool holds_lead(const State& state, Instant now);

}  // namespace prime::lease

/// As logs and probes name them.
template <>
inline constexpr std::array<std::string_view, 18> prime::WORDS<prime::lease::Judgement>{
    "takes_no_part",   "outlasts_outage", "stood_still",   "lease_not_renewed", "lease_ended",   "lease_renewed",
    "not_standing_by", "nobody_may_lead", "store_away",    "cannot_stand_by",   "leads",         "leader_dead",
    "another_leads",   "decision_waits",  "decision_kept", "decision_not_kept", "lease_granted", "keeps_decision"};
