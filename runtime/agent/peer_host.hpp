// Owns what stands behind a peer's ports: the trainer, the outer state, checkpoints and state fetches. Decides nothing: when the trainer is
// started, told and killed is a machine's (actors/peer/trainer_machine). Each call comes from an actor or from the trainer's thread, and
// one mutex orders them. It is held for bookkeeping alone: copies, kernels and digests are the store's (outer_state), which needs no lock
// for them, so that who sends heartbeats never waits for memory.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/peer/trainer_machine.hpp"
#include "actors/ports.hpp"
#include "actors/supervisor/restart_machine.hpp"
#include "runtime/agent/outer_state.hpp"
#include "runtime/agent/record_store.hpp"
#include "runtime/agent/saved_records.hpp"
#include "runtime/agent/trainer_host.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/store/kept_place.hpp"

namespace prime {

struct PeerHostOptions {
  std::string run;
  PeerId self;
  std::string name;
  std::uint32_t shard = 0;              ///< which it holds
  std::string replica;                  ///< of what; empty where the run is not sharded
  std::uint32_t shards = 0;             ///< that the run must have; 0: any number
  std::filesystem::path directory;      ///< of this peer: trainer.log
  std::filesystem::path checkpoints;    ///< where checkpoint directories are put
  std::filesystem::path origin;         ///< the checkpoint to begin with; empty: what the trainer brings
  std::filesystem::path private_state;  ///< what a trainer had for itself then, which this one goes on with; empty: nothing
  manifest::Local local;
  std::string default_trainer;                          ///< program that trains when the manifest names none
  std::optional<PacketSocket> external;                 ///< the socket of a trainer that started this agent
  std::function<void(peer::Event)> report;              ///< to the peer actor, from any thread
  std::function<void(peer::SaveState)> save;            ///< to the supervisor: the state of that revision is there to be written
  std::function<void(Error, bool began)> trainer_died;  ///< to the supervisor, from any thread; began: it had bound its tensors
  std::function<Result<net::ChannelPtr>(const FetchState&, const manifest::Shared&)> dial_donor;
  std::function<void(const manifest::Shared&)> configured;  ///< the run's manifest is known
  std::function<void(const View&)> members;                 ///< those of a step that begins
  std::function<void(OuterStep, bool done)> saving;         ///< what the trainer kept for itself: before and after it is written
  std::function<void(const JournalEvent&)> journal;         ///< from any thread
  std::function<void(const std::string&)> log;              ///< why the trainer's machine moved; may be empty
};

class PeerHost final : public TrainerPort, public StatePort, public RecoveryPort {
 public:
  explicit PeerHost(PeerHostOptions options);
  ~PeerHost() override;

  // TrainerPort
  void start(const Welcome& welcome) override;
  void restart() override;
  void ask(const PublishNow& asked) override;
  void start_over() override;
  void begin(const BeginStep& begin) override;
  void finish(const RunDone& done) override;
  void stop(const std::optional<Error>& cause) override;

  // StatePort
  [[nodiscard]] std::span<const float> contribution(std::uint32_t fragment) const override;
  [[nodiscard]] std::span<float> result(std::uint32_t fragment) override;
  Result<Digest> prepare(const StartReduce& reduce, bool brings) override;
  [[nodiscard]] Feedback feedback(std::uint32_t fragment) override { return outer().feedback(fragment); }
  void commit(const Commit& commit) override;
  void discard(OperationId op) override;

  // RecoveryPort
  Result<std::vector<Digest>> fetch(const FetchState& fetch) override;
  void stop_fetch(const std::optional<FetchState>& fetch) override;
  Result<std::string> write_checkpoint(Revision of) override;
  Result<std::optional<std::string>> write_private_state(Revision of) override;

  /// For joiners; null while there is no state.
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot();
  [[nodiscard]] supervisor::Options trainer_intensity();
  /// Once that revision is applied its state is kept for `write_checkpoint`, which `PeerHostOptions::save` is asked for then.
  void save(const peer::SaveState& order);
  /// Time has passed.
  void watch();
  /// Of the state, so far.
  [[nodiscard]] std::uint64_t fetched_bytes() const { return fetched_bytes_.load(std::memory_order_relaxed); }
  /// Of the running trainer; 0 when there is none.
  [[nodiscard]] std::uint32_t trainer_pid() const;
  /// Whether a trainer that this agent has started has not ended.
  [[nodiscard]] bool trainer_lives() const;
  /// Ends the trainer and its thread; nothing is reported afterwards.
  void end();

 private:
  using Lock = std::lock_guard<std::mutex>;
  /// What takes memory traffic or waits for a thread; done on the thread of the caller, without the lock.
  using Work = std::variant<trainer_life::Launch, trainer_life::OpenState, trainer_life::FoundState, trainer_life::TakeContribution>;
  using Works = std::vector<Work>;
  void handle(const trainer_life::Event& event);
  [[nodiscard]] Works step(const trainer_life::Event& event);
  void carry_out(const trainer_life::Effect& effect, Works& works);
  void tell_begin(const trainer_life::TellBegin& order);
  void write(const trainer_life::Write& order);
  std::optional<trainer_life::Event> work(const Work& order);
  void tell(std::function<void(TrainerHost&)> say);
  Result<std::vector<Lengths>> take_contribution(const Fragments& fragments);
  [[nodiscard]] float own_share() const;
  void on_trainer(TrainerEvent event);
  void on_bound(const prime::TrainerBound& bound);
  void keep_export(TrainerExported& exported);
  Result<void> launch(bool fresh);
  Result<void> open_state();
  Result<void> open_records(const std::vector<BoundTensor>& bound);
  void on_recorded(const prime::TrainerRecorded& recorded);
  [[nodiscard]] CopiedValues copied_in_record() const;
  void offer_copied();
  [[nodiscard]] std::shared_ptr<const trainer_life::RecordContent> keep_record(const wire::Totals& totals);
  [[nodiscard]] std::uint32_t record_every() const;
  Result<trainer_life::Held> found_state();
  Result<void> initialize();
  Result<std::optional<trainer_life::Record>> saved_record();
  [[nodiscard]] OuterState& outer() const;
  [[nodiscard]] manifest::Shared shared() const;
  /// What is held for the disk.
  struct StateToSave {
    std::shared_ptr<const Snapshot> state;
    SharedList<Member> members;  ///< of the run then, by rank
    std::vector<std::uint64_t> given_back;
  };
  /// What the trainer's machine hears once an operation is committed, and who is in it.
  struct Prepared {
    trainer_life::Applied applied;
    SharedList<Member> members;
  };
  void hold(const trainer_life::Write& order);
  [[nodiscard]] bool keeps_private() const;
  [[nodiscard]] SharedList<Member> members_at(const peer::SaveState& order) const;
  [[nodiscard]] Result<void> check_place() const;
  Result<std::string> write_checkpoint(const StateToSave& held, const std::filesystem::path& directory);
  void keep_contribution(const StartReduce& reduce);
  Result<void> keep_start(Revision base);

  PeerHostOptions options_;
  store::KeptPlace place_;
  mutable std::mutex mutex_;
  std::optional<manifest::Manifest> manifest_;
  Welcome welcome_;
  std::unique_ptr<TrainerHost> trainer_;
  trainer_life::State life_;
  DataIdentity data_;                                       ///< that the trainer has told
  std::vector<BoundTensor> bound_;                          ///< by this life of the trainer
  std::shared_ptr<const Descriptor> shared_;                ///< its own memory, where it publishes; empty: in a segment
  bool taking_ = false;                                     ///< its contribution: it must not write to its tensors meanwhile
  std::vector<std::function<void(TrainerHost&)>> to_tell_;  ///< then
  std::unique_ptr<OuterState> state_;
  std::map<OperationId, Prepared> prepared_;
  SharedList<Member> members_;             ///< of the last step that is committed
  std::optional<BeginStep> begun_;         ///< the last one that was heard of
  std::vector<std::uint64_t> given_back_;  ///< as the last step that is committed has them
  RecordLayout record_layout_;
  std::unique_ptr<RecordStore> records_;  ///< where there is something to record
  CopiedValues contributed_copied_;       ///< with what was contributed last
  bool copied_told_ = false;              ///< this life of the trainer has the copied tensors of the state
  std::map<std::string, std::string> export_files_;
  std::optional<std::pair<Revision, std::string>> written_;  ///< the newest checkpoint's path
  std::map<Revision, StateToSave> saving_;                   ///< at most one that waits for the disk: each is a copy of the state
  std::map<Revision, RecordToSave> saving_record_;           ///< likewise
  std::optional<Revision> written_record_;                   ///< the newest
  std::optional<Revision> founded_;  ///< the revision that the run began with, as long as it is to be kept beside contributions
  bool record_read_ = false;         ///< what was saved for the trainer
  net::Channel* fetching_ = nullptr;
  std::optional<std::pair<PeerId, Revision>> under_way_;  ///< the fetch, until it is stopped
  bool cancelled_ = false;
  std::atomic<std::uint64_t> fetched_bytes_ = 0;
};

}  // namespace prime
