// Owns what stands behind a peer's ports: the trainer, the outer state, checkpoints and state fetches. Decides nothing; each call
// comes from an actor or from the trainer's thread, and one mutex orders them. It is held for bookkeeping alone: copies, kernels and
// digests are the store's (outer_state), which needs no lock for them, so that who sends heartbeats never waits for memory.
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

#include "actors/peer/peer_machine.hpp"
#include "actors/ports.hpp"
#include "actors/supervisor/restart_machine.hpp"
#include "runtime/agent/outer_state.hpp"
#include "runtime/agent/trainer_host.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/net/channel.hpp"

namespace prime {

struct PeerHostOptions {
  std::string run;
  PeerId self;
  std::string name;
  std::uint32_t shard = 0;            ///< which it holds
  std::string replica;                ///< of what; empty where the run is not sharded
  std::uint32_t shards = 0;           ///< that the run must have; 0: any number
  std::filesystem::path directory;    ///< of this peer: trainer.log
  std::filesystem::path checkpoints;  ///< where checkpoint directories are put
  std::filesystem::path origin;       ///< the checkpoint to begin with; empty: what the trainer brings
  manifest::Local local;
  std::string default_trainer;                          ///< program that trains when the manifest names none
  std::optional<PacketSocket> external;                 ///< the socket of a trainer that started this agent
  std::function<void(peer::Event)> report;              ///< to the peer actor, from any thread
  std::function<void(peer::SaveState)> save;            ///< to the supervisor: the state of that revision is there to be written
  std::function<void(Error, bool began)> trainer_died;  ///< to the supervisor, from any thread; began: it had bound its tensors
  std::function<Result<net::ChannelPtr>(const FetchState&, const manifest::Shared&)> dial_donor;
  std::function<void(const manifest::Shared&)> configured;  ///< the run's manifest is known
  std::function<void(const View&)> members;                 ///< those of a step that begins
};

class PeerHost final : public TrainerPort, public StatePort, public RecoveryPort {
 public:
  explicit PeerHost(PeerHostOptions options);
  ~PeerHost() override;

  // TrainerPort
  void start(const Welcome& welcome) override;
  void restart() override;
  void start_over() override;
  void begin(const BeginStep& begin) override;
  void committed(const Commit& commit, std::uint32_t peers) override;
  void finish(const RunDone& done) override;
  void stop(const std::optional<Error>& cause) override;

  // StatePort
  [[nodiscard]] std::span<const float> contribution() const override;
  [[nodiscard]] std::span<float> result() override;
  Result<Digest> prepare(const StartReduce& reduce) override;
  void commit(const Commit& commit) override;
  void discard() override;

  // RecoveryPort
  Result<Digest> fetch(const FetchState& fetch) override;
  void cancel_fetch() override;
  Result<std::string> write_checkpoint(Revision of) override;

  /// For joiners; null while there is no state.
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot();
  [[nodiscard]] supervisor::Options trainer_intensity();
  /// Once that revision is applied its state is kept for `write_checkpoint`, which `save` is asked for then.
  void save(const peer::SaveState& order);
  /// Kills a trainer that made no progress for `local.trainer.stall_limit`; call now and then.
  void watch(Instant now);
  /// Of the state, so far.
  [[nodiscard]] std::uint64_t fetched_bytes() const { return fetched_bytes_.load(std::memory_order_relaxed); }
  /// Of the running trainer; 0 when there is none.
  [[nodiscard]] std::uint32_t trainer_pid() const;
  /// Ends the trainer and its thread; nothing is reported afterwards.
  void end();

 private:
  using Lock = std::lock_guard<std::mutex>;
  void launch();
  void on_trainer(TrainerEvent event);
  [[nodiscard]] OuterState& outer() const;
  Result<std::unique_ptr<OuterState>> make_outer(const Layout& layout);
  void note_progress();
  void on_bound(const prime::TrainerBound& bound);
  void on_initial();
  Result<void> initialize();
  void on_contributed(const prime::TrainerContributed& contributed);
  void on_final(const prime::TrainerFinal& final);
  void trainer_gone(std::optional<Error> cause);
  void refuse(const Error& cause);
  void send_pending();
  void keep_for_saving();
  Result<std::string> write_checkpoint(const Snapshot& state);

  PeerHostOptions options_;
  mutable std::mutex mutex_;
  std::optional<manifest::Manifest> manifest_;
  Welcome welcome_;
  std::unique_ptr<TrainerHost> trainer_;
  bool fresh_ = true;
  bool trainer_ready_ = false;       ///< bound and mapped
  bool awaits_commit_ = false;       ///< this life of the trainer has contributed what is not committed yet
  bool own_work_prepared_ = false;   ///< what is prepared contains the own contribution
  Revision base_;                    ///< from which the trainer started
  bool over_ = false;                ///< its end is expected: it has answered, or the agent ends
  std::optional<Error> stop_cause_;  ///< why we stopped it, when the fault was its own
  std::unique_ptr<OuterState> state_;
  std::map<std::string, std::string> export_files_;
  DataIdentity data_;  ///< that this life of the trainer told
  std::optional<BeginStep> pending_begin_;
  std::optional<RunDone> pending_finish_;
  std::uint32_t last_peers_ = 0;
  std::vector<peer::SaveState> to_save_;                        ///< of the revision that is being applied; two at most
  std::optional<std::pair<Revision, std::string>> written_;     ///< the newest checkpoint's path
  std::map<Revision, std::shared_ptr<const Snapshot>> saving_;  ///< at most one that waits for the disk: each is a copy of the state
  std::optional<Instant> progress_;                             ///< last sign of life while it has work; empty while it waits
  net::Channel* fetching_ = nullptr;
  bool cancelled_ = false;
  std::atomic<std::uint64_t> fetched_bytes_ = 0;
};

}  // namespace prime
