#include "runtime/agent/peer_host.hpp"

#include <cmath>

#include "messages/assert.hpp"
#include "runtime/agent/state_transfer.hpp"
#include "runtime/clock.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/check.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/store/checkpoint.hpp"

namespace prime {
namespace {

HeldOutLoss held_out_of(const std::optional<HeldOut>& part) {
  return part ? HeldOutLoss{Real{part->loss}, part->tokens} : HeldOutLoss{Real{std::nan("")}, 0};
}

kernels::NesterovOptions outer_rule(const manifest::Shared& shared) {
  return {static_cast<float>(shared.sync.outer.learning_rate), static_cast<float>(shared.sync.outer.momentum)};
}

/// Before anybody trains: a model that no checkpoint can hold, or not at this place, would be lost at the end.
Result<void> rehearse_checkpoint(const std::filesystem::path& checkpoints, std::uint32_t last_step, const Layout& layout) {
  std::vector<store::NamedTensor> tensors;
  for (const auto& tensor : layout.tensors()) tensors.push_back({tensor.name, tensor.shape, {}});
  auto able = store::rehearse_checkpoint(checkpoints, OuterStep{last_step}, tensors);
  if (!able) able.error().detail = "a checkpoint, tried out before the first step: " + able.error().detail;
  return able;
}

}  // namespace

PeerHost::PeerHost(PeerHostOptions options) : options_(std::move(options)) {}

PeerHost::~PeerHost() { end(); }

void PeerHost::end() {
  std::unique_ptr<TrainerHost> trainer;
  {
    const Lock lock(mutex_);
    over_ = true;
    trainer_ready_ = false;
    trainer = std::move(trainer_);
  }
  trainer.reset();  // joins its thread, which may be waiting for the mutex: not under it
}

std::uint32_t PeerHost::trainer_pid() const {
  const Lock lock(mutex_);
  return trainer_ ? trainer_->pid() : 0;
}

// The trainer ------------------------------------------------------------------------------------------------------------------

void PeerHost::start(const Welcome& welcome) {
  {
    const Lock lock(mutex_);
    welcome_ = welcome;
    auto shared = manifest::parse_shared(welcome.manifest);
    if (!shared) {
      options_.report(peer::TrainerGaveUp{std::move(shared.error()).with_context("reading the run's manifest")});
      return;
    }
    // Before anybody hears that the run has welcomed it.
    if (auto able = manifest::check_shards(*shared, options_.local); !able && !options_.external) {
      options_.report(peer::TrainerGaveUp{std::move(able.error())});
      return;
    }
    if (const auto shards = shared->membership.shards; options_.shards != 0 && options_.shards != shards) {
      const auto of = [](std::uint32_t count) { return std::to_string(count) + (count == 1 ? " shard" : " shards"); };
      options_.report(peer::TrainerGaveUp{
          Error{ErrorName::Usage, "this run has " + of(shards) + ", and a whole replica of it as many peers, not " +
                                      std::to_string(options_.shards) + ": give `--shards " + std::to_string(shards) + "`"}});
      return;
    }
    manifest_ = manifest::Manifest{*shared, options_.local};
  }
  const auto& shared = manifest_->shared;
  options_.configured(shared);
  options_.report(peer::Configured{shared.membership.heartbeat.every, shared.membership.heartbeat.dead_after, shared.checkpoint.every,
                                   shared.membership.coordinator_grace,
                                   shared.membership.correlated_loss == manifest::CorrelatedLoss::Rollback, shared.checkpoint.retry});
  launch();
}

void PeerHost::restart() { launch(); }

void PeerHost::launch() {
  std::unique_ptr<TrainerHost> previous;
  {
    const Lock lock(mutex_);
    previous = std::move(trainer_);
  }
  previous.reset();  // joins its thread, which may be waiting for the mutex: not under it
  const auto handler = [this](TrainerEvent event) { on_trainer(std::move(event)); };
  TrainerCommand command;
  command.arguments = options_.local.trainer_command;
  if (command.arguments.empty()) command.arguments = {options_.default_trainer};
  command.log_path = (options_.directory / "trainer.log").string();
  const Lock lock(mutex_);
  auto host = options_.external ? TrainerHost::adopt(std::move(*options_.external), {}, handler) : TrainerHost::start(command, {}, handler);
  if (!host) {
    options_.trainer_died(host.error(), false);
    return;
  }
  trainer_ = std::move(*host);
  stop_cause_.reset();
  data_ = {};
  progress_ = monotonic_now();
  const wire::Welcome hello{options_.run,
                            options_.self,
                            options_.name,
                            welcome_.manifest,
                            manifest::local_yaml(*manifest_),
                            fresh_,
                            options_.shard,
                            manifest_->shared.membership.shards,
                            options_.replica};
  fresh_ = false;
  if (auto sent = trainer_->welcome(hello); !sent) trainer_->kill();
}

void PeerHost::on_trainer(TrainerEvent event) {
  std::visit(overloaded{
                 [&](const prime::TrainerBound& e) { on_bound(e); },
                 [&](TrainerExported& e) {
                   const Lock lock(mutex_);
                   // Of a trainer that was started again, too: a checkpoint with more would not be found again.
                   if (export_files_.size() == EXPORT_FILES_MAX && !export_files_.contains(e.name))
                     refuse(Error{ErrorName::TrainerProtocol, "too many exported files"});
                   else export_files_[e.name] = std::move(e.content);
                 },
                 [&](TrainerDescribed& e) {
                   const Lock lock(mutex_);
                   data_ = std::move(e.data);
                 },
                 [&](const TrainerInitial&) { on_initial(); },
                 [&](const TrainerInner& e) {
                   note_progress();
                   options_.report(peer::Progress{e.totals.inner_steps});
                 },
                 [&](const TrainerAlive&) { note_progress(); },
                 [&](const prime::TrainerContributed& e) { on_contributed(e); },
                 [&](const prime::TrainerFinal& e) { on_final(e); },
                 [&](const prime::TrainerLeft&) { trainer_gone(std::nullopt); },
                 [&](TrainerFailed& e) { trainer_gone(std::move(e.cause)); },
                 [&](TrainerLost& e) { trainer_gone(std::move(e.cause)); },
             },
             event);
}

void PeerHost::note_progress() {
  const Lock lock(mutex_);
  if (progress_) progress_ = monotonic_now();
}

void PeerHost::on_bound(const prime::TrainerBound& bound) {
  auto created = make_outer(bound.layout);
  const Lock lock(mutex_);
  if (!trainer_) return;  // the agent ends
  if (!created) return refuse(created.error());
  if (*created) state_ = std::move(*created);
  if (bound.layout.digest() != state_->layout().digest())
    return refuse(Error{ErrorName::LayoutMismatch, "the restarted trainer binds other tensors than before"});
  if (auto begun = state_->begin_life(); !begun) return refuse(begun.error());
  trainer_->segments(state_->layout().elements(), state_->descriptors());
}

/// Null when there is one.
Result<std::unique_ptr<OuterState>> PeerHost::make_outer(const Layout& layout) {
  manifest::Shared shared;
  {
    const Lock lock(mutex_);
    if (state_) return nullptr;
    shared = manifest_->shared;
  }
  PRIME_CHECK(rehearse_checkpoint(options_.checkpoints, shared.train.outer_steps, layout));
  PRIME_TRY(auto state, OuterState::create(layout, OuterStateOptions{outer_rule(shared), 1}));
  return std::make_unique<OuterState>(std::move(state));
}

void PeerHost::on_initial() {
  peer::TrainerBound event;
  auto initialized = outer().initialized() ? Result<void>{} : initialize();
  {
    const Lock lock(mutex_);
    if (!trainer_) return;
    if (!initialized) return refuse(initialized.error());
    trainer_ready_ = true;
    progress_.reset();
    event = peer::TrainerBound{
        state_->layout().digest(), state_->layout().elements(), state_->digest(), state_->counters().revision, trainer_->pid(), data_};
  }
  options_.report(event);
}

/// The state before the first step of this peer: a checkpoint's, or what the trainer brings.
Result<void> PeerHost::initialize() {
  if (options_.origin.empty()) return outer().initialize();
  const auto at = "reading " + options_.origin.string();
  auto loaded = store::load_checkpoint(options_.origin);
  if (!loaded) return fail(std::move(loaded.error()).with_context(at));
  const auto& of = loaded->state;
  const auto shards = manifest_->shared.membership.shards;
  if (of.shard != options_.shard || of.shards != shards)
    return fail(ErrorName::StateMismatch, options_.origin.string() + " is of shard " + std::to_string(of.shard) + " of " +
                                              std::to_string(of.shards) + ", this peer holds shard " + std::to_string(options_.shard) +
                                              " of " + std::to_string(shards));
  auto momentum = std::move(loaded->momentum);
  momentum.resize(loaded->parameters.size());  // a checkpoint leaves out one that is zero
  std::vector<TensorShape> tensors;
  for (auto& tensor : loaded->layout) tensors.push_back({std::move(tensor.name), std::move(tensor.shape)});
  PRIME_TRY(auto layout, make_layout(std::move(tensors)));
  const Snapshot snapshot{
      std::move(layout), {of.revision, of.outer_step, of.tokens, of.next_sample}, loaded->parameters, momentum, of.state, {}};
  if (auto done = outer().load(snapshot); !done) return fail(std::move(done.error()).with_context(at));
  return {};
}

void PeerHost::on_contributed(const prime::TrainerContributed& contributed) {
  const auto& c = contributed.contribution;
  {
    const Lock lock(mutex_);
    progress_.reset();
  }
  const auto taken = outer().take_contribution();
  Revision base;
  {
    const Lock lock(mutex_);
    // A diverged trainer is restarted from the outer state; what it made is not sent (restart_machine bounds how often).
    if (!taken) return refuse(taken.error());
    awaits_commit_ = true;
    base = base_;
  }
  if (c.weight == 0) {
    options_.report(peer::TrainerGaveUp{Error{ErrorName::TrainerProtocol, "the trainer contributed without having trained on a token"}});
    return;
  }
  const double rate = c.seconds > 0 ? static_cast<double>(c.weight) / c.seconds : 0;
  options_.report(peer::TrainerContributed{c.step, base, c.weight, c.samples, Real{c.loss}, held_out_of(c.held_out), Real{rate}});
}

void PeerHost::on_final(const prime::TrainerFinal& final) {
  {
    const Lock lock(mutex_);
    over_ = true;
    progress_.reset();
  }
  options_.report(peer::TrainerFinal{held_out_of(final.answer.held_out), final.answer.sample});
}

/// Stops a trainer whose own fault it is; the cause is what its end is reported with.
void PeerHost::refuse(const Error& cause) {
  stop_cause_ = cause;
  if (trainer_) trainer_->stop(cause);
}

/// The trainer has ended; without a cause it left by itself, or because we stopped it.
void PeerHost::trainer_gone(std::optional<Error> cause) {
  bool began = false;
  {
    const Lock lock(mutex_);
    began = std::exchange(trainer_ready_, false);
    awaits_commit_ = false;
    progress_.reset();
    if (over_) return;
    if (stop_cause_) cause = stop_cause_;
  }
  if (cause) options_.trainer_died(std::move(*cause), began);
  else options_.report(peer::TrainerLeft{});
}

void PeerHost::begin(const BeginStep& begin) {
  options_.members(begin.view);
  const Lock lock(mutex_);
  pending_begin_ = begin;
  send_pending();
}

/// A step or the end is told to the trainer once the state that it starts from is the current one: the commit before it is
/// carried out by the reduce worker, in its own time.
void PeerHost::send_pending() {
  if (!trainer_ready_ || !state_) return;
  const auto slot = state_->slot();
  // A trainer that was started again while its peer was late begins with what was committed meanwhile.
  if (pending_begin_ && pending_begin_->base <= state_->counters().revision) {
    const auto& shared = manifest_->shared;
    StepPlan plan;
    plan.step = pending_begin_->step;
    plan.base = base_ = state_->counters().revision;
    plan.rank = pending_begin_->rank;
    plan.peers = static_cast<std::uint32_t>(pending_begin_->view.members.size());
    plan.first_sample = pending_begin_->first_sample;
    plan.inner_steps = shared.sync.inner_steps;
    plan.total_steps = shared.train.outer_steps;
    plan.evaluate = {pending_begin_->evaluate.index, pending_begin_->evaluate.of};
    pending_begin_.reset();
    progress_ = monotonic_now();
    state_->pin_base();
    trainer_->begin(wire::Begin{plan, state_->digest(), slot});
  }
  if (pending_finish_ && pending_finish_->step.value == state_->counters().revision.value) {
    progress_ = monotonic_now();
    const auto& share = pending_finish_->evaluate;
    const FinalPlan plan{{share.index, share.of}, pending_finish_->finalist};
    trainer_->finish(wire::Finish{plan, state_->counters().revision, state_->digest(), slot});
    pending_finish_.reset();
  }
}

void PeerHost::start_over() {
  const Lock lock(mutex_);
  if (!trainer_) return;
  if (options_.external) {
    options_.report(peer::TrainerGaveUp{
        Error{ErrorName::TrainerFailed,
              "another trainer of its replica was started again, and this one, which joined by itself, cannot begin the "
              "step anew: join again, or let the agents start all trainers (`local.trainer_command`)"}});
    return;
  }
  stop_cause_ = Error{ErrorName::Interrupted, "another trainer of its replica was started again: they begin the step together"};
  progress_.reset();
  trainer_->kill();  // its end arrives as an event, and the supervisor starts it again
}

void PeerHost::committed(const Commit&, std::uint32_t peers) {
  const Lock lock(mutex_);
  last_peers_ = peers;
}

void PeerHost::finish(const RunDone& done) {
  const Lock lock(mutex_);
  pending_finish_ = done;
  send_pending();
}

void PeerHost::stop(const std::optional<Error>& cause) {
  const Lock lock(mutex_);
  over_ = true;
  progress_.reset();
  if (trainer_) trainer_->stop(cause);
}

void PeerHost::watch(Instant instant) {
  const Lock lock(mutex_);
  if (!progress_ || !trainer_ || instant - *progress_ <= options_.local.trainer.stall_limit) return;
  stop_cause_ = Error{ErrorName::TrainerFailed, "it stalled: no sign of life for " + format_duration(options_.local.trainer.stall_limit) +
                                                    " (`local.trainer.stall_limit`)"};
  progress_.reset();
  trainer_->kill();  // its end arrives as an event, and the supervisor decides
}

supervisor::Options PeerHost::trainer_intensity() { return {options_.local.trainer.restarts, options_.local.trainer.within}; }

// The outer state --------------------------------------------------------------------------------------------------------------

/// There from the moment when the trainer has bound its tensors, and never another one.
OuterState& PeerHost::outer() const {
  const Lock lock(mutex_);
  return *state_;
}

std::span<const float> PeerHost::contribution() const { return outer().input(); }

std::span<float> PeerHost::result() { return outer().result(); }

Result<Digest> PeerHost::prepare(const StartReduce& reduce) {
  StepGain gain{0, reduce.next_sample};
  bool own_work = false;
  for (const auto& contribution : reduce.contributions) {
    gain.tokens += contribution.weight;
    own_work |= contribution.peer == options_.self && contribution.weight > 0;
  }
  {
    const Lock lock(mutex_);
    own_work_prepared_ = own_work;
  }
  return outer().prepare(reduce.op, gain);
}

void PeerHost::commit(const Commit& commit) {
  const Lock lock(mutex_);
  const auto done = state_->commit(commit.op);
  PRIME_ASSERT(done && state_->digest() == commit.state, "law 2: what is committed is what was voted for");
  keep_for_saving();
  // A late trainer hears nothing of what is committed without its work.
  if (own_work_prepared_ && std::exchange(awaits_commit_, false) && trainer_ready_) {
    const Committed committed{commit.step, commit.revision, commit.state, last_peers_};
    trainer_->committed(wire::StepCommitted{committed, state_->slot()});
  }
  send_pending();
}

void PeerHost::discard() { outer().discard(); }

// Recovery ---------------------------------------------------------------------------------------------------------------------

Result<Digest> PeerHost::fetch(const FetchState& fetch) {
  auto& state = outer();
  manifest::Shared shared;
  {
    const Lock lock(mutex_);
    shared = manifest_->shared;
  }
  const auto opened = [this](net::Channel* channel) {
    const Lock lock(mutex_);
    fetching_ = channel;
    if (channel != nullptr && cancelled_) channel->shutdown();
  };
  const auto dial = [&]() -> Result<net::ChannelPtr> {
    {
      const Lock lock(mutex_);
      if (cancelled_) return fail(ErrorName::FetchFailed, "this peer ends");
    }
    return options_.dial_donor(fetch, shared);
  };
  PRIME_TRY(const auto counters, fetch_state(fetch.revision, state.reserve(), dial, opened, fetched_bytes_));
  PRIME_CHECK(state.adopt(counters, fetch.state));
  return fetch.state;
}

void PeerHost::cancel_fetch() {
  const Lock lock(mutex_);
  cancelled_ = true;
  if (fetching_ != nullptr) fetching_->shutdown();
}

void PeerHost::save(const peer::SaveState& order) {
  const Lock lock(mutex_);
  to_save_.push_back(order);
  keep_for_saving();
}

/// What is to be saved of the current revision is held from now on; what was overtaken before the disk had time for it is given up.
void PeerHost::keep_for_saving() {
  if (!state_ || !state_->initialized()) return;
  const auto revision = state_->counters().revision;
  for (const auto& order : std::exchange(to_save_, {})) {
    if (order.of > revision) {
      to_save_.push_back(order);
      continue;
    }
    if (order.of == revision && !saving_.contains(revision)) {
      saving_.clear();
      if (auto held = state_->snapshot(Holder::Disk)) saving_.emplace(revision, std::move(held));
    }
    options_.save(order);
  }
}

Result<std::string> PeerHost::write_checkpoint(Revision of) {
  std::shared_ptr<const Snapshot> state;
  {
    const Lock lock(mutex_);
    // A periodic one and the last one may be of the same revision.
    if (std::error_code ignored; written_ && written_->first == of && std::filesystem::exists(written_->second, ignored))
      return written_->second;
    if (const auto kept = saving_.find(of); kept != saving_.end()) state = kept->second;
  }
  if (!state) return fail(ErrorName::StorageFailed, "revision " + std::to_string(of.value) + ": the disk was still busy with an older one");
  auto written = write_checkpoint(*state);
  const Lock lock(mutex_);
  if (const auto kept = saving_.find(of); kept != saving_.end()) saving_.erase(kept);
  if (written) written_.emplace(of, *written);
  return written;
}

Result<std::string> PeerHost::write_checkpoint(const Snapshot& state) {
  // Whoever removed the directory of a run does not want a part of it back.
  if (std::error_code ignored; !std::filesystem::exists(options_.directory, ignored))
    return fail(ErrorName::StorageFailed, options_.directory.string() + " is gone");
  store::CheckpointContent content;
  {
    const Lock lock(mutex_);
    content.export_files = export_files_;
    content.manifest = welcome_.manifest;
  }
  const auto& counters = state.counters;
  content.state = {options_.run,    counters.revision, counters.step,  counters.next_sample,
                   counters.tokens, state.state,       options_.shard, manifest_->shared.membership.shards};
  std::size_t offset = 0;
  for (const auto& tensor : state.layout.tensors()) {
    PRIME_TRY(const auto elements, count_elements(tensor));
    content.parameters.push_back({tensor.name, tensor.shape, state.parameters.subspan(offset, elements)});
    offset += elements;
  }
  content.momentum = state.momentum;
  PRIME_TRY(const auto path, store::write_checkpoint(options_.checkpoints, content));
  if (const auto pruned = store::prune_checkpoints(options_.checkpoints, manifest_->shared.checkpoint.keep); !pruned)
    return fail(pruned.error());
  return path.string();
}

std::shared_ptr<const Snapshot> PeerHost::snapshot() {
  const Lock lock(mutex_);
  return state_ && state_->initialized() ? state_->snapshot(Holder::Joiner) : nullptr;
}

}  // namespace prime
