// Owns the messages between an agent and its trainer: JSON objects {"v", "type", …}, fully checked before they are believed.
// None of them crosses nodes; both sides include this header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "messages/data_identity.hpp"
#include "messages/errors.hpp"
#include "messages/ids.hpp"
#include "messages/outer_step.hpp"
#include "messages/result.hpp"
#include "prime/session.hpp"
#include "runtime/session/layout.hpp"
#include "runtime/session/packet_socket.hpp"
#include "runtime/session/record_layout.hpp"

namespace prime::wire {

/// Of these messages: both sides have to speak the same. Rises with every change of one of them. (Up to 16 it was the peers' own.)
inline constexpr std::uint32_t VERSION = 25;

inline constexpr std::size_t MAX_BIND_TENSORS = 256;
inline constexpr std::size_t MAX_SAMPLE_BYTES = 4096;
inline constexpr std::size_t MAX_MANIFEST_BYTES = 48 * 1024;
inline constexpr std::size_t MAX_TEXT_BYTES = 4096;  ///< names of runs and peers, details of errors
inline constexpr std::size_t MAX_CONTEXT_LINES = 16;

/// Versions of each fragment that the agent's file has room for: the current one and the next one, a trainer's base while the run goes on,
/// three that a checkpoint or joiners still read, and one that only this peer has (`sync.eager`). What is not in use takes no memory.
inline constexpr std::uint32_t OUTER_REVISIONS = 7;
/// Records that the agent's file has room for: the newest, the one before it while that is not committed, the one that is being written,
/// and those that go to the disk. What was never in use takes no memory.
inline constexpr std::uint32_t RECORDS = 6;
/// The file of the outer state is divided into blocks of this many values, each of which holds any fragment.
std::uint64_t block_size(const Layout& layout);
std::uint32_t block_count(const Layout& layout);
std::uint64_t outer_elements(const Layout& layout);

// Agent → trainer.

struct Welcome {
  std::string run;
  PeerId peer;
  std::string name;
  std::string manifest;  ///< shared half, YAML
  std::string local;     ///< local half, YAML
  bool fresh = true;     ///< false: a restart of the trainer
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  std::string replica = {};  ///< empty where `shards` is 1
};
/// With descriptors of the outer state's file (which can only be mapped for reading), of the local region, and, where there are any, of the
/// records.
struct Segments {
  std::uint64_t elements = 0;
  Division division = {};
  Offsets offsets = Offsets::End;  ///< of its fragments
  std::uint32_t overlap = 0;       ///< inner steps from the publication of a fragment until its result is taken over
  double mix = 0;                  ///< of the trainer's own parameters in that
  bool eager = false;              ///< nothing is taken over: what it goes on from comes with the next step
  bool decoupled = false;          ///< a trainer waits for no result, and what it publishes names the version that it is for
  bool by_throughput = false;      ///< a contribution weighs tokens² by inner steps, and not tokens
  std::uint64_t record_bytes = 0;  ///< of each record; 0: nothing is recorded
  std::uint32_t record_every = 0;  ///< inner steps; 0: at publications alone
  std::uint32_t record_place = 0;  ///< where the copied tensors go, before `Initial`
  bool in_place = false;           ///< the agent reads what is published where `Bind::shared` lies, and not in the local region
};
/// What was reported of an outer step until a boundary.
struct Totals {
  std::uint32_t made = 0;  ///< inner steps
  double loss_sum = 0;
  std::uint64_t tokens = 0;
  std::uint64_t samples = 0;
  std::optional<HeldOut> held_out = {};
  double seconds = 0;                      ///< since the step began
  std::optional<double> data_wait_s = {};  ///< of them, for samples; empty: nobody measured
};
/// What a new life of a trainer goes on from.
struct Resume {
  std::uint32_t place = 0;       ///< of the record
  std::optional<Totals> within;  ///< of the outer step that begins, whose local parameters are in the record; empty: it begins anew
};
/// Where each fragment lies.
struct Place {
  std::uint32_t block = 0;
  OuterStep version;
};
using Places = std::vector<Place>;
/// One outer step, as a trainer has to know it.
struct StepPlan {
  OuterStep step;
  Revision base;
  std::uint32_t rank = 0;
  std::uint32_t peers = 1;
  std::uint64_t first_sample = 0;  ///< this peer's samples are `inner_steps` · `batch` from here on
  std::uint32_t batch = 1;
  std::uint32_t inner_steps = 1;
  std::uint32_t total_steps = 1;  ///< outer steps of the whole run
  EvaluationShare evaluate = {};  ///< of `base`, before the inner steps
};
struct Begin {
  StepPlan plan;
  Digest state;                       ///< of `plan.base`
  Places places;                      ///< of the parameters of `plan.base`
  std::uint32_t record_place = 0;     ///< where the next record goes
  std::optional<Resume> resume = {};  ///< with the first of a life
  bool copied = false;                ///< likewise: the copied tensors of the state lie at `record_place`
  Fragments in_flight = {};           ///< what this trainer has published of them is reduced meanwhile; here empty means none
  Fragments published = {};           ///< of these nothing is published in this step; likewise
};
/// Answers each Record: where the next one goes.
struct Recorded {
  std::uint32_t place = 0;
};
/// Where nobody waits: another peer has published this fragment towards that version. Whoever has trained on the version before publishes
/// at its next boundary; who has made nothing of it yet, at the one after.
struct Publish {
  std::uint32_t fragment = 0;
  OuterStep version;
};
/// After each commit with this trainer's work, where fragments are taken over one by one; else once all fragments have it.
struct StepCommitted {
  Committed committed;
  Places places;
};
/// The last step is committed; `revision` and `state` are final.
struct Finish {
  FinalPlan plan;
  OuterStep step;
  Revision revision;
  Digest state;
  Places places;
};
struct Stop {
  std::optional<Error> error;
};
using ToTrainer = std::variant<Welcome, Segments, Begin, Recorded, Publish, StepCommitted, Finish, Stop>;

// Trainer → agent. A loss is NaN when the trainer's was not finite or none was reported; JSON carries it as null.

inline constexpr std::size_t MAX_DEVICE_BYTES = 400;
struct Bind {
  std::vector<BoundTensor> tensors;
  bool last = false;
  std::string device = {};  ///< with the last: where it computes, for people; at most MAX_DEVICE_BYTES
  /// With the last, and then with one descriptor: a memory file that begins with the values of the averaged tensors, which are all of f32,
  /// in their order.
  bool shared = false;
};
/// With one descriptor: a memory file with the content.
struct Export {
  std::string name;
};
/// Before the last `Bind`.
struct Data {
  DataIdentity data;
};
struct Initial {};
/// Totals of the step in progress.
struct Inner {
  OuterStep step;
  std::uint32_t inner_steps = 0;
  double loss = 0;  ///< of the latest inner step
  std::uint64_t tokens = 0;
  std::uint64_t samples = 0;
};
/// A sign of life in work that is no inner step, as an evaluation, or while it waits for something.
struct Alive {
  std::string waits_for = {};  ///< in words; empty: for nothing (more)
};
struct Contribute {
  OuterStep step;            ///< with Segments::decoupled: the version of the one fragment that is named
  std::uint64_t weight = 0;  ///< `tokens`; with Segments::by_throughput their square by inner steps
  std::uint64_t samples = 0;
  double loss = 0;  ///< mean over the inner steps
  std::optional<HeldOut> held_out;
  double seconds = 0;             ///< since the step began
  std::uint32_t diverged_at = 0;  ///< the first inner step, from 1 on, whose loss was not finite; 0: none was
  bool recorded = false;          ///< the private tensors are in the record
  Fragments fragments = {};
  std::uint64_t tokens = 0;                ///< since these fragments were published last
  std::optional<double> data_wait_s = {};  ///< as Totals have it
};
/// With Segments::decoupled: the inner steps of this plan are made.
struct LeaseUsed {
  OuterStep step;
};
/// Private and local tensors are in the record, as they are after so many inner steps.
struct Record {
  OuterStep step;
  Totals totals;
};
struct Final {
  FinalAnswer answer;
};
struct Leave {};
struct Failure {
  Error error;
};
using ToAgent = std::variant<Bind, Export, Data, Initial, Inner, Alive, Record, Contribute, LeaseUsed, Final, Leave, Failure>;

/// Fails with TrainerProtocol when the message would be refused by the other side.
Result<std::string> encode(const ToTrainer& message);
Result<std::string> encode(const ToAgent& message);
Result<ToTrainer> decode_to_trainer(std::string_view packet);
Result<ToAgent> decode_to_agent(std::string_view packet);

/// How many descriptors must lie beside a message.
std::size_t descriptor_count(const ToTrainer& message);
std::size_t descriptor_count(const ToAgent& message);

}  // namespace prime::wire
