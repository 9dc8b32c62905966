// Owns the invariants of a run, judged from outside: it sees every event and effect, and trusts no machine.
// The numbers (LAW-n, SIM-n) are those of docs/INVARIANTS.md.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/peer/peer_machine.hpp"
#include "runtime/simulation/model.hpp"

namespace prime::sim {

/// What the world holds for one peer beside its machine.
struct Holding {
  PeerId id;
  const peer::State* machine = nullptr;
  Model model;
  std::vector<OperationId> prepared;  ///< heard of by the machine and neither applied nor discarded
};

class Oracle {
 public:
  /// What a peer's work of a step weighs.
  using Weigh = std::function<std::uint64_t(PeerId, OuterStep)>;
  explicit Oracle(const coordinator::Options& options, Weigh weigh = weight_of)
      : options_(options), weigh_(std::move(weigh)), slack_(std::min(options.heartbeat_limit / 2, options.deadline / 4)) {}

  /// Another one goes on from what was kept: who is no member is forgotten, not gone.
  void coordinator_restarted(const coordinator::State& state, Instant now);
  /// `now`: when it was decided. `told`: when the peers heard of it, once it was written.
  void coordinator_stepped(const coordinator::Event& event, const coordinator::State& state,
                           const std::vector<coordinator::Effect>& effects, Instant now, Instant told);
  void peer_stepped(const Holding& holding, const std::vector<peer::Effect>& effects);
  /// Judges what a peer holds: after each of its events, and all of them after each commit. Nothing else changes the verdict.
  void check_holding(const Holding& holding);
  void check_end(const coordinator::State& state, bool coordinator_alive, const std::vector<Holding>& survivors);

  [[nodiscard]] const std::optional<std::string>& violation() const { return violation_; }
  /// As the coordinator's last event left them.
  struct SeatSeen {
    PeerId id;
    coordinator::Seat seat;
    bool overtaken;  ///< by a commit, while it fetched
  };
  [[nodiscard]] const std::vector<SeatSeen>& seats() const { return seats_; }
  /// Whether it has a seat, or lost it just now.
  [[nodiscard]] bool is_member_until_now(PeerId id) const { return ids_of_members_.contains(id) || members_before_.contains(id); }
  [[nodiscard]] bool seats_changed() const { return seats_changed_; }
  [[nodiscard]] std::size_t commits() const { return journal_.size(); }
  void violate(const std::string& what);
  /// A fault was injected for which an innocent peer may be sent away.
  void expect_parity_to_break() { parity_may_break_ = true; }
  /// A trainer was born with this state; it may found the run.
  void born(const Model& model) { founders_.emplace(digest_of(model), model); }
  /// What it saved may be void by now: until it has fetched, such a state is nobody's.
  void brings(PeerId peer, const Model& model) {
    if (!is_committed(model)) void_.insert(peer);
  }
  void fetched(PeerId peer, const Model& model) {
    if (is_committed(model)) void_.erase(peer);
  }

 private:
  /// Where nobody waits the quorum counts contributors; all, where there are fewer members or none is named.
  [[nodiscard]] std::size_t least_contributors(std::size_t members) const {
    if (!options_.decoupled) return options_.min_peers;
    return options_.quorum == 0 ? members : std::min<std::size_t>(options_.quorum, members);
  }
  [[nodiscard]] bool is_committed(const Model& model) const {
    const auto committed = journal_.find(model.revision);
    return committed != journal_.end() && committed->second == digest_of(model);
  }
  void sent(const coordinator::Send& send, const coordinator::State& state);
  void dismissed(PeerId to, const Error& cause);
  void begun(PeerId to, const BeginStep& message, const coordinator::State& state);
  void handed_out(PeerId to, std::uint64_t first, const coordinator::State& state);
  void reduce_started(StartReduce message, const coordinator::State& state);
  void overdue(OperationId op);
  void committed(const events::RoundCommitted& done, const coordinator::State& state);
  void completed(const events::OuterStepCommitted& done);
  void rolled_back(const events::RolledBack& back, const coordinator::State& state);
  void check_radii(const StartReduce& message);
  void check_mean(const StartReduce& reduce, const std::vector<PeerId>& contributors, std::uint64_t weight, const Digest& digest);
  void check_membership(const coordinator::State& state, bool all_seats);
  void note_losses(const coordinator::State& state, const std::vector<coordinator::Effect>& effects);
  void check_seats(const coordinator::State& state);
  /// The parts of the text are joined only when it does not hold.
  template <class... Parts>
  void expect(bool holds, const char* number, const Parts&... what);

  coordinator::Options options_;
  Weigh weigh_;
  Duration slack_;  ///< for so long a coordinator may be slow itself before it counts that against nobody
  std::optional<std::string> violation_;
  std::vector<SeatSeen> seats_;
  bool seats_changed_ = false;
  std::unordered_set<PeerId> gone_;
  Epoch epoch_{1};
  SharedList<Member> members_;
  std::unordered_set<PeerId> ids_of_members_;
  std::unordered_set<PeerId> members_before_;  ///< this event, if it changed them
  std::unordered_map<PeerId, Instant> heard_;
  Instant losing_since_{};
  std::size_t members_before_losses_ = 0;
  std::size_t losses_ = 0;
  std::optional<std::pair<std::size_t, Instant>> pause_;  ///< for so many members, since
  bool paused_by_owner_ = false;
  OuterStep begun_step_;  ///< the newest that anybody was told to begin
  bool reported_ = false;
  std::unordered_map<PeerId, Epoch> peer_epochs_;
  std::map<OperationId, StartReduce> reduces_;
  std::optional<OperationId> judged_now_;  ///< started by this event: the same words to its other members are not judged again
  std::map<OperationId, std::map<PeerId, Digest>> votes_;
  std::set<OperationId> aborted_;
  std::set<OperationId> undecided_;
  std::map<OperationId, Commit> committed_;
  events::RoundCommitted last_round_;
  std::map<Revision, Model> reference_;  ///< recomputed from the journal, never taken from a peer
  std::map<Revision, Digest> journal_;
  std::map<Digest, Model> founders_;        ///< initial states that peers brought along
  std::map<std::uint64_t, PeerId> handed_;  ///< first samples of ranges of which no fragment has the work, and whose they are
  std::map<std::pair<std::uint64_t, std::uint32_t>, Revision>
      consumed_;  ///< first samples of the work that each fragment has, and since which revision
  /// Work that a peer was told to do, and from which revision it says to have trained.
  struct Told {
    BeginStep begin;
    std::set<std::uint32_t> owes;             ///< fragments that lack it
    std::map<std::uint32_t, Revision> bases;  ///< by fragment: from which it was trained, as its readiness said
  };
  /// What it brings to a reduce of this fragment: of two steps the earlier one that it lacks.
  [[nodiscard]] Told* brings(PeerId peer, std::uint32_t fragment);
  /// With Plan::decoupled: what is brought to the next reduce of a fragment.
  struct Pending {
    Ready ready;
    bool sure = true;  ///< false: this peer or the coordinator was away, and it may have to be told again
  };
  std::map<std::pair<PeerId, std::uint32_t>, Pending> pending_;
  void note_pending(PeerId from, const Ready& ready);
  void note_unsure(std::optional<PeerId> of = {});
  [[nodiscard]] std::uint64_t pending_weight(PeerId peer, std::uint32_t fragment) const;
  /// Whether what was published of a range may still be reduced.
  [[nodiscard]] bool is_pending(PeerId peer, std::uint64_t first_sample) const;
  std::unordered_map<PeerId, Told> told_work_;  ///< last
  std::unordered_map<PeerId, Told> published_;  ///< before that, where that is reduced meanwhile
  std::unordered_set<PeerId> void_;             ///< who was there when the run was rolled back: what they hold is nobody's
  std::unordered_map<PeerId, Instant> begun_at_;
  std::unordered_map<PeerId, Instant> begun_told_;
  std::map<OperationId, Instant> reduce_told_;
  Instant now_{};
  Instant told_{};
  bool parity_may_break_ = false;
  bool over_ = false;
  bool reduce_overdue_ = false;  ///< by this event
};

}  // namespace prime::sim
