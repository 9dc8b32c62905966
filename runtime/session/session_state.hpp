// Owns what a session holds: the socket to its agent, the shared memory, the bound tensors, and the step in progress.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "prime/session.hpp"
#include "runtime/session/agent_process.hpp"
#include "runtime/session/arena.hpp"
#include "runtime/session/packet_socket.hpp"
#include "runtime/session/shared_memory.hpp"
#include "runtime/session/trainer_wire.hpp"

namespace prime {

struct FromAgent {
  wire::ToTrainer message;
  std::vector<Descriptor> descriptors;
};

/// The conversation with an agent: whole messages in and out. Every error is final and is given again to whoever asks later.
class AgentLink {
 public:
  AgentLink(PacketSocket socket, GoesOn goes_on) : socket_(std::move(socket)), goes_on_(std::move(goes_on)) {}

  Result<void> send(const wire::ToAgent& message, std::span<const int> descriptors = {});
  /// For news that the next news replaces: dropped where it would block.
  Result<void> send_if_possible(const wire::ToAgent& message);
  /// The next message; waits until `deadline`, or as long as the agent lives.
  Result<FromAgent> receive(std::optional<Instant> deadline = std::nullopt);
  /// What has arrived, if anything has.
  Result<std::optional<FromAgent>> receive_if_any();
  /// The answer to a record, whatever else has arrived before it.
  Result<wire::Recorded> receive_recorded();
  /// Puts a message back for the next `receive`.
  void put_back(FromAgent message) { inbox_.push_front(std::move(message)); }
  /// True when what has arrived by now speaks of a later revision than `revision`.
  bool knows_later_than(Revision revision);
  /// True when what has arrived by now asks for another step, or for the end.
  bool knows_another_step();
  [[nodiscard]] bool hung_up() const;
  /// The error that has ended it, or that it was interrupted.
  [[nodiscard]] Result<void> intact() const;
  /// A wait was ended by who waited; nothing is said or heard until `go_on`.
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  void go_on() { interrupted_ = false; }
  /// Waits until the agent closes its end; true when it did before the deadline.
  bool wait_for_close(Instant deadline);
  /// Ends the conversation with an error that every later call gives; returns it.
  tl::unexpected<Error> end(Error error);
  /// The same for what this program has done: the agent hears why.
  tl::unexpected<Error> give_up(Error error);

 private:
  /// Takes one packet into the inbox, if one is there.
  ReceiveOutcome take();
  enum class Waited { Ready, TooLong, Interrupted };
  Waited wait_for(short what, std::optional<Instant> deadline);
  tl::unexpected<Error> lost();

  PacketSocket socket_;
  GoesOn goes_on_;  ///< may be empty
  std::deque<FromAgent> inbox_;
  std::optional<Error> ended_;
  bool interrupted_ = false;
};

/// A blob lies in a record as a tensor of u8: its length, in so many bytes, and then itself.
inline constexpr std::uint64_t BLOB_LENGTH_BYTES = 8;

struct BoundMemory {
  std::span<std::byte> bytes;                 ///< of a tensor
  std::optional<PrivateBlob> blob;            ///< in its place
  std::optional<std::uint64_t> lies_at = {};  ///< in the arena, if it does
};

/// The outer step in progress: what is asked of the trainer, and what it has reported.
struct OuterWork {
  wire::StepPlan plan;
  wire::Totals totals;            ///< but for the time
  std::uint32_t diverged_at = 0;  ///< as in wire::Contribute
  std::vector<bool> published;    ///< by fragment, or nothing of it is wanted
  Instant begun{};

  /// Of the peer's samples, those of the next inner step when so many are taken.
  [[nodiscard]] Samples samples_after(std::uint64_t taken) const;
};

struct Session::Impl {
  Impl(PacketSocket socket, GoesOn goes_on) : link(std::move(socket), std::move(goes_on)) {}

  /// Waits until `deadline` for the run's welcome.
  Result<void> await_welcome(Instant deadline);
  /// One more tensor, whose memory is added after this.
  Result<void> add(BoundTensor tensor);
  /// Where a tensor lies in the memory that the session has given, if it does. Refuses what was given back, and where another one lies.
  Result<std::optional<std::uint64_t>> place_in_arena(const std::string& name, std::span<const std::byte> bytes);
  /// The averaged tensors lie there as they do in the region that is published: in their order, without gaps.
  [[nodiscard]] bool arena_is_layout() const;
  /// Refuses to write to memory that nobody holds any more.
  Result<void> check_arena();
  /// Tells names and shapes, maps the agent's memory, and hands over the initial values.
  Result<void> offer_tensors();
  Result<void> tell_shapes();
  Result<std::optional<InnerStep>> next();
  Result<std::vector<Committed>> report(const InnerReport& inner);
  Result<std::vector<Committed>> contribute();
  [[nodiscard]] std::vector<Samples> upcoming(std::size_t count) const;
  Result<void> alive(std::string_view waits_for);
  /// Waits for the next outer step and loads what it begins from; false when the run is done.
  Result<bool> begin_work();
  Result<void> begin_work(const wire::Begin& begin);
  Result<void> tell_progress(double loss);

  // streaming.cpp: what is published when, and when its result is taken over.
  /// Publishes what is due, with `last` all that is left, and takes over the results that are due, which it waits for.
  Result<std::vector<Committed>> boundary(bool last);
  [[nodiscard]] bool is_boundary(std::uint32_t made) const;
  [[nodiscard]] std::uint32_t due_of(std::uint32_t fragment, std::uint32_t inner_steps) const;
  [[nodiscard]] bool takes_over(std::uint32_t fragment, bool last) const;
  /// What became of the last publication is known, and is taken over only after some inner steps of the step that begins.
  [[nodiscard]] bool comes_later(std::uint32_t fragment, const wire::Begin& begin) const;
  Result<void> publish(const std::vector<std::uint32_t>& fragments, bool last);
  /// Until the agent has told the results of what was published of these. False when another step is asked for, or the end.
  Result<bool> await(const std::vector<std::uint32_t>& fragments, std::vector<Committed>& committed);
  void note(const wire::StepCommitted& told, std::vector<Committed>& committed);
  /// The results, mixed with the own parameters.
  Result<void> take_over(const std::vector<std::uint32_t>& fragments);
  /// Decided without us: the tensors follow the run, and the next call finds the step that is on now.
  Result<bool> pass(FromAgent received, std::vector<Committed>& committed);

  // decoupled.cpp: where nobody waits. A boundary is after each inner step.
  /// Takes over what has arrived, publishes what is due or asked for, and with `last` tells that the samples are used up.
  Result<std::vector<Committed>> free_boundary(bool last, bool all);
  /// What has arrived by now. False when another step is asked for, or the end.
  Result<bool> hear();
  Result<bool> take_over_arrived();
  /// The samples that were given: from the state as it is told with them, or a newer one. False as above.
  Result<bool> take_up(const wire::Begin& begin);
  /// The own part is overwritten, and counts anew.
  void take_over(std::uint32_t fragment);
  Result<void> publish(std::uint32_t fragment);
  void note_inner_step(std::uint64_t tokens);

  [[nodiscard]] bool fits(const wire::Places& places) const;
  /// Copies a fragment into its tensors: α of what they have, and the rest of it.
  void load(std::uint32_t fragment, const wire::Place& place, float keep = 0);
  Result<void> load_all(const wire::Places& places);
  /// What the tensors have not been given yet. False when the agent has moved on, and so may have written to its blocks meanwhile.
  Result<bool> load(const wire::Begin& begin);
  /// To where the agent reads what is contributed, as f32.
  void store(std::uint32_t fragment) const;
  /// Copied and private tensors, or the averaged ones as they are, to a record and from one.
  Result<void> store_kept(const std::vector<RecordLayout::Place>& places, std::uint32_t number);
  Result<void> load_kept(const std::vector<RecordLayout::Place>& places, std::uint32_t number);
  void store_locals(std::uint32_t place) const;
  void load_locals(std::uint32_t place);
  /// Goes on within an outer step.
  void resume(const wire::Resume& from);
  [[nodiscard]] std::span<std::byte> part(std::uint32_t record, const RecordLayout::Place& place) const;
  template <class Visit>
  void for_each_averaged(const Visit& visit) const;
  Result<void> map_memory(const wire::Segments& segments, const std::vector<Descriptor>& descriptors);
  /// A record within an outer step, where one is due.
  Result<void> record_if_due();
  Result<void> record_now();
  /// Where the next record goes, once the agent has said so.
  Result<std::uint32_t> free_place();
  [[nodiscard]] bool record_is_due(std::uint32_t made) const;
  /// The end that a stop means to somebody who still waits for a step.
  tl::unexpected<Error> stopped(const wire::Stop& stop);
  tl::unexpected<Error> unexpected_message();

  AgentProcess process;  ///< ends after the link: it leaves when the socket closes
  AgentLink link;
  wire::Welcome welcome;
  std::vector<BoundTensor> bound;
  std::vector<BoundMemory> memory;      ///< of each of them
  std::array<std::size_t, 3> counts{};  ///< of each role
  std::set<std::pair<Role, std::string>> names;
  Layout layout;  ///< of the averaged ones, once the agent has told how it is divided
  RecordLayout record;
  std::uint32_t record_every = 0;
  std::optional<std::uint32_t> record_place;  ///< for the next record; empty until the agent has said where
  wire::Segments terms;                       ///< when fragments are published, and their results taken over
  struct Held {
    std::optional<OuterStep> version;    ///< that the tensors were given last
    std::optional<OuterStep> published;  ///< whose result they were not given yet
    bool heard = false;                  ///< of that result
    std::uint64_t tokens = 0;            ///< since it was published; with Segments::decoupled since it was taken over
    // With Segments::decoupled:
    std::uint64_t steps = 0;              ///< inner steps since it was taken over
    std::uint32_t since = 0;              ///< since it was published, or taken over without
    std::optional<OuterStep> asked = {};  ///< towards which version it is to be published, due or not
    Instant taken{};                      ///< over
  };
  std::vector<Held> held;                               ///< by fragment
  OuterStep loaded_for;                                 ///< the last step that was begun
  std::vector<Committed> arrived;                       ///< with Segments::decoupled: for the next report
  wire::Places told;                                    ///< as the agent said last
  std::optional<Arena> arena;                           ///< once memory was asked for
  std::map<std::uint64_t, std::size_t> bound_in_arena;  ///< the end of what lies there, and which tensor that is
  bool in_place = false;                                ///< what is published is read where it lies
  SharedFloats outer;
  SharedFloats local;
  SharedFloats records;
  bool offered = false;
  bool described = false;
  std::string device;  ///< where this process computes, if it tells
  std::optional<OuterWork> work;
  bool step_open = false;  ///< an inner step was given, and not reported
  bool loaded = false;     ///< the averaged tensors were written since a step was given last
  bool restored = false;   ///< and the private ones
  bool done = false;
  std::optional<FinalPlan> final_plan;
  std::optional<Instant> last_told;  ///< of progress
  std::optional<Instant> last_alive;
  std::string last_wait;  ///< that was told
};

}  // namespace prime
