// Owns the life of a trainer beside its agent: when it is started, what it is told and when, what of its words counts, when it is killed.
// Pure. The host of the trainer turns its packets and the outcomes of memory work into events of this machine, and carries out the effects
// in order. Tensors never pass through here.
//
//   Absent → Starting → Bound → Ready → Absent, by its end; and again, if the supervisor says so.
//
// What is told of a revision waits until the state is of it: the step's begin, the end, a checkpoint. The commit that leads there is
// carried out by the reduce worker, in its own time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "actors/peer/peer_machine.hpp"
#include "actors/peer/publications.hpp"
#include "actors/peer/trainer_records.hpp"

namespace prime::trainer_life {

struct Options {
  std::uint32_t fragments = 1;   ///< of the state; each is committed by itself
  Duration stall_limit = 10min;  ///< `local.trainer.stall_limit`: without a sign of life, while it has work
  bool external = false;         ///< it started this agent, which cannot start it again
  bool streams = false;          ///< a trainer takes over each commit by itself, before it publishes that fragment again
  /// And waits for none: what it publishes names the version that it is for, and is void once that is committed without it.
  bool decoupled = false;
};

enum class Phase : std::uint8_t {
  Absent,    ///< none was started, or it has ended
  Starting,  ///< its tensors are not bound yet
  Bound,     ///< is given the memory; brings its initial values
  Ready,     ///< may be told to work
};

struct Launch {
  bool fresh = false;  ///< the first of this peer
};
// What takes memory traffic is a worker's; nothing waits for it but the trainer.
struct OpenState {};
struct FoundState {};

/// For what this agent has not: descriptors, memory, processes. It is tried again.
struct Wait {
  std::variant<Launch, OpenState, FoundState> for_what;
  Error cause;
  Instant since;
  Duration pause{};
  std::optional<Instant> again;  ///< empty while it is being tried
};

/// What a trainer was told to work on: the step, its first sample, and which attempt of its replica at that it is.
using Place = std::tuple<OuterStep, std::uint64_t, std::uint32_t>;

struct State {
  Options options;
  Phase phase = Phase::Absent;
  bool started_before = false;
  bool fresh = false;               ///< this life is the first of its peer
  std::optional<Wait> wait;         ///< of this life
  std::string waits_for;            ///< as it said last
  bool over = false;                ///< its end is expected: it has answered, or the agent ends
  std::optional<Error> stop_cause;  ///< why it was stopped, when the fault was its own
  std::optional<Instant> progress;  ///< last sign of life while it has work; empty while it waits
  DataIdentity data;                ///< that this life told
  std::string device;               ///< where this life computes, if it told
  std::optional<Revision> held;     ///< of the state; empty before there is one
  Revision base;                    ///< from which it began the step
  Place step;                       ///< that it was told last
  bool at_work = false;             ///< on that step, as far as this life was told and has not published all
  std::optional<BeginStep> begin;   ///< to be told
  std::optional<RunDone> finish;    ///< to be told
  Published published;
  Records records;
  bool resumed = false;                  ///< this life was told what it goes on from
  std::vector<peer::SaveState> to_save;  ///< of the revision that is being applied; two at most
};

// Events --------------------------------------------------------------------------------------------------------------------

/// For the first time, or again after its end.
struct Start {};
/// The trainer has bound its tensors.
struct TensorsBound {
  std::string device = {};  ///< where it computes, if it tells
};
/// Each OpenState ends in one: whether there is memory for them.
struct StateOpened {
  Result<void> opened;
};
/// What it says of its data, before it has bound.
struct Described {
  DataIdentity data;
};
/// Its own values are where the agent can read them.
struct Initial {};
struct Held {
  Digest layout;
  std::uint64_t elements = 0;
  Digest state;
  Revision revision;
  std::uint32_t pid = 0;              ///< of the trainer
  std::vector<Digest> parts = {};     ///< of the state; empty: it has one fragment
  std::optional<Record> record = {};  ///< that was saved with this state: this peer's first trainer goes on from it
};
/// Each FoundState ends in one.
struct StateFound {
  Result<Held> held;
};
/// Inner steps since its process began; without: a sign of life in other work, or while it waits for something, in its words.
struct Worked {
  std::optional<std::uint64_t> inner_steps;
  std::string waits_for = {};
};
/// Its parameters lie where the agent can read them. `base` is not its to say.
using Contributed = Publication;
/// It has made a record within the outer step. `base` is not its to say.
struct Recorded {
  Record record;
};
/// Each TakeContribution ends in one.
struct ContributionTaken {
  Result<std::vector<Lengths>> taken;  ///< with `sync.merge: radial` of what was taken, as Ready has them
};
/// It has made all inner steps that it was given samples for.
struct UsedLease {};
struct Answered {
  peer::TrainerFinal answer;
};
/// It broke a rule.
struct Misbehaved {
  Error error;
};
/// Its process has ended; without a cause it left by itself, or because it was stopped. Or it could not be started.
struct Gone {
  std::optional<Error> cause;
};
/// Its connection has ended without a word.
struct Lost {
  Error cause;
};
/// Its process has ended, or never began, for want of what this agent has not (MemoryUnavailable): no fault of the trainer.
struct Unserved {
  Error cause;
};
struct Applied {
  Commit commit;
  bool own_work = false;  ///< it contains the own contribution
  std::uint32_t contributors = 0;
};
/// The state was fetched.
struct Adopted {
  Revision revision;
};
struct Begin {
  BeginStep begin;
};
struct Ask {
  PublishNow asked;
};
struct Finish {
  RunDone done;
};
struct StartOver {};
struct Save {
  peer::SaveState order;
};
struct Stop {
  std::optional<Error> cause;
};
/// The agent ends: nothing of its trainer counts any more.
struct AgentEnds {};
struct Tick {};
using Event = std::variant<Start, TensorsBound, StateOpened, Described, Initial, StateFound, Worked, Recorded, Contributed,
                           ContributionTaken, UsedLease, Answered, Misbehaved, Gone, Lost, Unserved, Applied, Adopted, Begin, Ask, Finish,
                           StartOver, Save, Stop, AgentEnds, Tick>;

// Effects -------------------------------------------------------------------------------------------------------------------

// Launch, OpenState and FoundState, which Unserved names, are declared above.

/// Its process ends at once; ends in Gone.
struct Kill {};
/// It is told to end, and why; ends in Gone.
struct TellStop {
  std::optional<Error> cause;
};
struct TakeContribution {
  Fragments fragments;
};
struct MapTensors {};
/// The state of revision `base` is the current one, and is kept for the contribution to be compared with.
struct TellBegin {
  BeginStep begin;
  Revision base;
  std::optional<Record> resume = {};  ///< with the first of a life
  Fragments in_flight = {};           ///< of which this life has published work that is reduced meanwhile; here empty means none
  Fragments published = {};           ///< by an earlier life, or they have made the step; likewise
  bool is_void = false;               ///< what was published towards this step or a later one: what is expected of that, too
};
struct TellCommitted {
  /// Of what the trainer compares its next work with.
  enum class Rebase : std::uint8_t {
    None,      ///< it is at a step that it began from an older state
    Fragment,  ///< it takes over the fragment that is committed, and goes on
    All,       ///< it begins its next step from there
  };
  Commit commit;
  std::uint32_t contributors = 0;
  Rebase rebase = Rebase::All;
};
struct TellAsked {
  PublishNow asked;
};
struct TellFinish {
  RunDone done;
};
/// To the peer machine.
struct Report {
  peer::Event event;
};
/// To the supervisor: it died; `began`: it had been ready.
struct Died {
  Error cause;
  bool began = false;
};
/// To the checkpoint server; `hold`: of the current state, which is kept for it. Otherwise it was overtaken before the disk had time.
struct Write {
  peer::SaveState order;
  bool hold = false;
  std::optional<Record> record = {};  ///< then: the last one that this state has; none where the trainer had none by then
};
using Effect = std::variant<Launch, Kill, TellStop, OpenState, FoundState, TakeContribution, MapTensors, TellBegin, TellCommitted,
                            TellAsked, TellFinish, Report, Died, Write>;

struct Transition {
  State state;
  std::vector<Effect> effects;
  std::string reason;
};

[[nodiscard]] Transition step(State state, const Event& event, Instant now);

}  // namespace prime::trainer_life
