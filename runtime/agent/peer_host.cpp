#include "runtime/agent/peer_host.hpp"

#include <algorithm>
#include <cmath>

#include "messages/assert.hpp"
#include "runtime/agent/run_terms.hpp"
#include "runtime/agent/state_transfer.hpp"
#include "runtime/clock.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/check.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/shortage.hpp"
#include "runtime/store/checkpoint.hpp"

namespace prime {
namespace {

HeldOutLoss held_out_of(const std::optional<HeldOut>& part) {
  return part ? HeldOutLoss{Real{part->loss}, part->tokens} : HeldOutLoss{Real{std::nan("")}, 0};
}

/// What the peer's machine hears of a contribution, with the share of the measured time that was waited for samples.
peer::TrainerContributed contributed_of(const wire::Contribute& c) {
  const bool timed = c.seconds > 0;
  const double rate = timed ? static_cast<double>(c.tokens) / c.seconds : 0;
  const double waited = timed && c.data_wait_s ? std::clamp(*c.data_wait_s / c.seconds, 0.0, 1.0) : NOT_MEASURED;
  return {c.step, {}, c.weight, c.samples, Real{c.loss}, held_out_of(c.held_out), Real{rate}, c.fragments, {}, c.tokens, Real{waited}};
}

/// Before anybody trains: a model that no checkpoint can hold, or not at this place, would be lost at the end.
Result<void> rehearse_checkpoint(const std::filesystem::path& checkpoints, std::uint32_t last_step, const std::vector<BoundTensor>& bound) {
  std::vector<store::NamedTensor> averaged;
  std::vector<store::NamedTensor> copied;
  for (const auto& [shape, type, role] : bound) {
    if (role == Role::Averaged) averaged.push_back({shape.name, shape.shape, {}});
    if (role == Role::Copied) copied.push_back({shape.name, shape.shape, store::TensorData{type, {}}});
  }
  auto able = store::rehearse_checkpoint(checkpoints, OuterStep{last_step}, averaged, copied);
  if (!able) able.error().detail = "a checkpoint, tried out before the first step: " + able.error().detail;
  return able;
}

/// The flat buffer has the tensors as they were bound.
bool in_order(const Layout& layout) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < layout.homes().size(); ++i) {
    const auto& home = layout.homes()[i];
    if (layout.begin(home.fragment) + home.offset != end) return false;
    end += layout.counts()[i];
  }
  return true;
}

std::vector<Digest> digests_of(const std::vector<Fragment>& fragments) {
  std::vector<Digest> digests;
  for (const auto& fragment : fragments) digests.push_back(fragment.digest);
  return digests;
}

}  // namespace

PeerHost::PeerHost(PeerHostOptions options) : options_(std::move(options)), place_(options_.directory) {
  life_.options = {.stall_limit = options_.local.trainer.stall_limit, .external = options_.external.has_value()};
}

PeerHost::~PeerHost() { end(); }

void PeerHost::end() {
  std::unique_ptr<TrainerHost> trainer;
  {
    const Lock lock(mutex_);
    (void)step(trainer_life::AgentEnds{});
    trainer = std::move(trainer_);
  }
  trainer.reset();  // joins its thread, which may be waiting for the mutex: not under it
}

std::uint32_t PeerHost::trainer_pid() const {
  const Lock lock(mutex_);
  return trainer_ ? trainer_->pid() : 0;
}

bool PeerHost::trainer_lives() const {
  const Lock lock(mutex_);
  return trainer_ && trainer_->has_child();
}

// The machine ------------------------------------------------------------------------------------------------------------------

void PeerHost::handle(const trainer_life::Event& event) {
  Works works;
  {
    const Lock lock(mutex_);
    works = step(event);
  }
  for (const auto& order : works)
    if (const auto outcome = work(order)) handle(*outcome);
}

/// Under the lock. Returns what is to be done without it.
PeerHost::Works PeerHost::step(const trainer_life::Event& event) {
  auto transition = trainer_life::step(std::move(life_), event, monotonic_now());
  life_ = std::move(transition.state);
  if (options_.log && !transition.reason.empty()) options_.log(transition.reason);
  Works works;
  for (const auto& effect : transition.effects) carry_out(effect, works);
  return works;
}

void PeerHost::carry_out(const trainer_life::Effect& effect, Works& works) {
  namespace life = trainer_life;
  const auto later = [&](const auto& order) { works.emplace_back(order); };
  std::visit(overloaded{
                 [&](const life::Launch& e) { later(e); },
                 [&](const life::OpenState& e) { later(e); },
                 [&](const life::FoundState& e) { later(e); },
                 [&](const life::TakeContribution& e) {
                   taking_ = true;
                   later(e);
                 },
                 [&](const life::Kill&) {
                   if (trainer_) trainer_->kill();
                 },
                 [&](const life::TellStop& e) {
                   if (trainer_) trainer_->stop(e.cause);
                 },
                 [&](const life::MapTensors&) {
                   const auto outer_and_local = state_->descriptors();
                   std::vector<int> descriptors(outer_and_local.begin(), outer_and_local.end());
                   if (records_) descriptors.push_back(records_->descriptor());
                   const auto& sync = manifest_->shared.sync;
                   const wire::Segments segments{state_->layout().elements(),
                                                 sync.fragments,
                                                 sync.offsets,
                                                 sync.overlap,
                                                 sync.mix,
                                                 sync.eager,
                                                 sync.decoupled(),
                                                 sync.weight == manifest::Weighting::Throughput,
                                                 record_layout_.bytes,
                                                 record_every(),
                                                 records_ ? records_->next() : 0,
                                                 shared_ != nullptr};
                   if (trainer_) trainer_->segments(segments, descriptors);
                 },
                 [&](const life::TellBegin& e) { tell_begin(e); },
                 [&](const life::TellAsked& e) {
                   if (trainer_) trainer_->publish({e.asked.fragment, e.asked.version});
                 },
                 [&](const life::TellCommitted& e) {
                   const auto places = state_->places();
                   const auto made = std::ranges::min_element(places, {}, &wire::Place::version)->version;
                   const Committed committed{made, e.commit.revision, e.commit.state, e.contributors};
                   tell([said = wire::StepCommitted{committed, places}](TrainerHost& trainer) { trainer.committed(said); });
                   // It may still read this one while some fragments move on.
                   if (e.rebase == life::TellCommitted::Rebase::All) state_->pin_base();
                   if (e.rebase == life::TellCommitted::Rebase::Fragment) state_->pin_base(e.commit.fragment);
                 },
                 [&](const life::TellFinish& e) {
                   const auto& share = e.done.evaluate;
                   const FinalPlan plan{{share.index, share.of}, e.done.finalist};
                   tell([said = wire::Finish{plan, e.done.step, state_->counters().revision, state_->digest(), state_->places()}](
                            TrainerHost& trainer) { trainer.finish(said); });
                   state_->pin_base();
                 },
                 [&](const life::Report& e) { options_.report(e.event); },
                 [&](const life::Died& e) { options_.trainer_died(e.cause, e.began); },
                 [&](const life::Write& e) { write(e); },
             },
             effect);
}

std::optional<trainer_life::Event> PeerHost::work(const Work& order) {
  namespace life = trainer_life;
  using Outcome = std::optional<life::Event>;
  return std::visit(overloaded{
                        [&](const life::Launch& e) -> Outcome {
                          auto launched = launch(e.fresh);
                          if (launched) return std::nullopt;
                          if (launched.error().name == ErrorName::MemoryUnavailable) return life::Unserved{std::move(launched.error())};
                          return life::Gone{std::move(launched.error())};
                        },
                        [&](const life::OpenState&) -> Outcome { return life::StateOpened{open_state()}; },
                        [&](const life::FoundState&) -> Outcome { return life::StateFound{found_state()}; },
                        [&](const life::TakeContribution& e) -> Outcome { return life::ContributionTaken{take_contribution(e.fragments)}; },
                    },
                    order);
}

/// What has the trainer write to its tensors: it may share them with this agent. One that waits for nobody does not, and has to hear of a
/// commit before memory of the version before is free.
void PeerHost::tell(std::function<void(TrainerHost&)> say) {
  if (taking_ && !life_.options.decoupled) to_tell_.push_back(std::move(say));
  else if (trainer_) say(*trainer_);
}

/// Of the mean, that which is this peer's as far as it expects; 0: it expects nothing.
float PeerHost::own_share() const {
  const Lock lock(mutex_);
  return manifest_->shared.sync.eager && begun_ ? 1.0F / static_cast<float>(begun_->view.members.size()) : 0.0F;
}

Result<std::vector<Lengths>> PeerHost::take_contribution(const Fragments& fragments) {
  auto taken = outer().take_contribution(fragments, own_share());
  const Lock lock(mutex_);
  taking_ = false;
  for (const auto& say : std::exchange(to_tell_, {})) tell(say);
  return taken;
}

// The trainer ------------------------------------------------------------------------------------------------------------------

void PeerHost::start(const Welcome& welcome) {
  auto shared = manifest::parse_shared(welcome.manifest);
  if (!shared) {
    options_.report(peer::TrainerGaveUp{std::move(shared.error()).with_context("reading the run's manifest")});
    return;
  }
  const auto& membership = shared->membership;
  if (auto able = check_descriptors(std::uint64_t{membership.peers.minimum} * membership.shards, shared->sync.wire.streams); !able) {
    options_.report(peer::TrainerGaveUp{std::move(able.error())});
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
  {
    const Lock lock(mutex_);
    welcome_ = welcome;
    manifest_ = manifest::Manifest{*shared, options_.local};
    life_.options.fragments = shared->sync.fragments.count;
    life_.options.streams = shared->sync.streams();
    life_.options.decoupled = shared->sync.decoupled();
  }
  options_.configured(*shared);
  options_.report(peer::Configured{shared->sync.fragments.count, shared->membership.heartbeat.every,
                                   shared->membership.heartbeat.dead_after, shared->checkpoint.every, shared->membership.coordinator_grace,
                                   shared->membership.correlated_loss == manifest::CorrelatedLoss::Rollback, shared->checkpoint.retry,
                                   shared->sync.decoupled(), shared->sync.streams()});
  handle(trainer_life::Start{});
}

void PeerHost::restart() { handle(trainer_life::Start{}); }

Result<void> PeerHost::launch(bool fresh) {
  std::unique_ptr<TrainerHost> previous;
  {
    const Lock lock(mutex_);
    previous = std::move(trainer_);
    to_tell_.clear();
  }
  previous.reset();  // joins its thread, which may be waiting for the mutex: not under it
  const auto handler = [this](TrainerEvent event) { on_trainer(std::move(event)); };
  TrainerCommand command;
  command.arguments = options_.local.trainer_command;
  if (command.arguments.empty()) command.arguments = {options_.default_trainer};
  command.log_path = (options_.directory / "trainer.log").string();
  const Lock lock(mutex_);
  if (life_.over) return {};  // the agent ends
  auto host = options_.external ? TrainerHost::adopt(std::move(*options_.external), {}, handler) : TrainerHost::start(command, {}, handler);
  if (!host) return fail(host.error());
  trainer_ = std::move(*host);
  const wire::Welcome hello{options_.run,
                            options_.self,
                            options_.name,
                            welcome_.manifest,
                            manifest::local_yaml(*manifest_),
                            fresh,
                            options_.shard,
                            manifest_->shared.membership.shards,
                            options_.replica};
  if (auto sent = trainer_->welcome(hello); !sent) trainer_->kill();
  return {};
}

void PeerHost::on_trainer(TrainerEvent event) {
  namespace life = trainer_life;
  std::visit(overloaded{
                 [&](const prime::TrainerBound& e) { on_bound(e); },
                 [&](TrainerExported& e) { keep_export(e); },
                 [&](TrainerDescribed& e) {
                   {
                     const Lock lock(mutex_);
                     data_ = e.data;
                   }
                   handle(life::Described{std::move(e.data)});
                 },
                 [&](const TrainerInitial&) { handle(life::Initial{}); },
                 [&](const TrainerInner& e) { handle(life::Worked{e.totals.inner_steps}); },
                 [&](TrainerAlive& e) {
                   handle(life::Worked{{}, std::move(e.waits_for)});
                 },
                 [&](const prime::TrainerRecorded& e) { on_recorded(e); },
                 [&](const prime::TrainerContributed& e) {
                   const auto& c = e.contribution;
                   std::optional<life::Record> record;
                   if (c.recorded) {
                     auto copied = copied_in_record();
                     const Lock lock(mutex_);
                     contributed_copied_ = std::move(copied);
                   }
                   if (c.recorded) record = life::Record{.step = c.step, .base = {}, .content = keep_record({})};
                   handle(life::Contributed{contributed_of(c), c.diverged_at, std::move(record)});
                 },
                 [&](const prime::TrainerUsedLease&) { handle(life::UsedLease{}); },
                 [&](const prime::TrainerFinal& e) {
                   handle(life::Answered{{held_out_of(e.answer.held_out), e.answer.sample}});
                 },
                 [&](const prime::TrainerLeft&) { handle(life::Gone{}); },
                 [&](TrainerFailed& e) { handle(life::Gone{std::move(e.cause)}); },
                 [&](TrainerLost& e) { handle(life::Lost{std::move(e.cause)}); },
                 [&](TrainerUnserved& e) { handle(life::Unserved{std::move(e.cause)}); },
             },
             event);
}

void PeerHost::keep_export(TrainerExported& exported) {
  {
    const Lock lock(mutex_);
    // Of a trainer that was started again, too: a checkpoint with more would not be found again.
    if (export_files_.size() < EXPORT_FILES_MAX || export_files_.contains(exported.name)) {
      export_files_[exported.name] = std::move(exported.content);
      return;
    }
  }
  handle(trainer_life::Misbehaved{Error{ErrorName::TrainerProtocol, "too many exported files"}});
}

void PeerHost::on_bound(const prime::TrainerBound& bound) {
  {
    const Lock lock(mutex_);
    bound_ = bound.tensors;
    copied_told_ = false;
    shared_ = bound.shared;
  }
  handle(trainer_life::TensorsBound{bound.device});
}

/// Memory for the tensors that were bound; the same for every life of the trainer.
Result<void> PeerHost::open_state() {
  std::vector<BoundTensor> bound;
  bool first = false;
  {
    const Lock lock(mutex_);
    bound = bound_;
    first = !state_;
  }
  PRIME_TRY(const auto layout, make_bound_layout(bound));
  if (first) {
    const auto terms = shared();
    PRIME_TRY(auto divided, make_bound_layout(bound, terms.sync.fragments));
    PRIME_CHECK(rehearse_checkpoint(options_.checkpoints, terms.train.outer_steps, bound));
    PRIME_TRY(auto state, OuterState::create(std::move(divided), outer_options(terms)));
    const Lock lock(mutex_);
    state_ = std::make_unique<OuterState>(std::move(state));
  }
  if (layout.digest() != outer().layout().digest())
    return fail(ErrorName::LayoutMismatch, "the restarted trainer binds other tensors than before");
  PRIME_CHECK(open_records(bound));
  std::vector<DataType> types;
  for (const auto& tensor : bound)
    if (tensor.role == Role::Averaged) types.push_back(tensor.type);
  // Only where a trainer that has published does nothing until it is given the next parameters, and they lie as they are reduced.
  std::shared_ptr<const Descriptor> shared;
  {
    const Lock lock(mutex_);
    const auto& sync = manifest_->shared.sync;
    const bool reads_nothing = sync.overlap == 0 && !sync.streams() && sync.mix == 0;  // of its own parameters, once they are published
    if (!reads_nothing || !in_order(state_->layout())) shared_.reset();
    shared = shared_;
  }
  return outer().begin_life(std::move(types), shared.get());
}

/// The trainers of a replica go on together, at publications alone.
std::uint32_t PeerHost::record_every() const { return manifest_->shared.membership.shards > 1 ? 0 : manifest_->local.record_every; }

/// Records outlive the trainer that wrote them, so what a later one reads must be what they hold.
Result<void> PeerHost::open_records(const std::vector<BoundTensor>& bound) {
  const Lock lock(mutex_);
  PRIME_TRY(auto layout, make_record_layout(bound, record_every() > 0));
  const bool first = record_layout_.digest == Digest{};
  if (!first && (layout.digest != record_layout_.digest || layout.bytes != record_layout_.bytes))
    return fail(ErrorName::LayoutMismatch, "the restarted trainer binds other private tensors, or tensors of other types, than before");
  if (first && layout.bytes > 0) {
    PRIME_TRY(auto records, RecordStore::create(layout));
    records_ = std::make_unique<RecordStore>(std::move(records));
  }
  record_layout_ = std::move(layout);
  return {};
}

std::shared_ptr<const trainer_life::RecordContent> PeerHost::keep_record(const wire::Totals& totals) {
  const Lock lock(mutex_);
  return records_ ? records_->keep(totals) : nullptr;
}

/// What the trainer has written where its next record goes.
CopiedValues PeerHost::copied_in_record() const {
  const auto bytes = record_layout_.copied_bytes;
  if (bytes == 0) return nullptr;
  const auto written = records_->memory().first(bytes);
  return std::make_shared<const std::vector<std::byte>>(written.begin(), written.end());
}

/// Puts the copied tensors of the state where a trainer finds them that was not told to begin yet, and writes there no more.
void PeerHost::offer_copied() {
  const auto copied = outer().copied();
  {
    const Lock lock(mutex_);
    if (!copied || copied_told_) return;
  }
  std::ranges::copy(*copied, records_->memory().begin());
}

void PeerHost::on_recorded(const prime::TrainerRecorded& recorded) {
  if (const auto& made = recorded.record)
    handle(trainer_life::Recorded{{.step = made->step, .base = {}, .within = true, .content = keep_record(made->totals)}});
  const Lock lock(mutex_);
  if (trainer_ && records_) trainer_->recorded({records_->next()});
}

Result<trainer_life::Held> PeerHost::found_state() {
  auto& state = outer();
  if (!state.initialized()) PRIME_CHECK(initialize());
  PRIME_TRY(auto record, saved_record());
  offer_copied();
  return trainer_life::Held{state.layout().digest(), state.layout().elements(),     state.digest(),   state.counters().revision,
                            trainer_pid(),           digests_of(state.fragments()), std::move(record)};
}

void PeerHost::begin(const BeginStep& begin) {
  options_.members(begin.view);
  {
    const Lock lock(mutex_);
    begun_ = begin;
  }
  handle(trainer_life::Begin{begin});
}

void PeerHost::tell_begin(const trainer_life::TellBegin& order) {
  const auto& shared = manifest_->shared;
  const auto& begin = order.begin;
  wire::StepPlan plan;
  plan.step = begin.step;
  plan.base = order.base;
  plan.rank = begin.rank;
  plan.peers = static_cast<std::uint32_t>(begin.view.members.size());
  plan.first_sample = begin.first_sample;
  plan.batch = shared.train.batch;
  plan.inner_steps = shared.sync.inner_steps;
  plan.total_steps = shared.train.outer_steps;
  plan.evaluate = {begin.evaluate.index, begin.evaluate.of};
  std::optional<wire::Resume> resume;
  if (order.resume && order.resume->content) {
    resume = wire::Resume{order.resume->content->block->number, {}};
    if (order.resume->within) resume->within = order.resume->content->totals;
  }
  if (order.is_void) state_->forget_expected();
  const auto place = records_ ? records_->next() : 0;
  const bool copied = state_->copied() && !std::exchange(copied_told_, true) && !resume;
  tell([said = wire::Begin{plan, state_->digest(), state_->places(), place, resume, copied, order.in_flight, order.published}](
           TrainerHost& trainer) { trainer.begin(said); });
  state_->pin_base();  // it hears of this revision before memory of the one that it had is free
}

void PeerHost::ask(const PublishNow& asked) { handle(trainer_life::Ask{asked}); }

void PeerHost::start_over() { handle(trainer_life::StartOver{}); }

void PeerHost::finish(const RunDone& done) { handle(trainer_life::Finish{done}); }

void PeerHost::stop(const std::optional<Error>& cause) { handle(trainer_life::Stop{cause}); }

void PeerHost::watch() { handle(trainer_life::Tick{}); }

supervisor::Options PeerHost::trainer_intensity() { return {options_.local.trainer.restarts, options_.local.trainer.within}; }

// The outer state --------------------------------------------------------------------------------------------------------------

/// There from the moment when the trainer has bound its tensors, and never another one.
OuterState& PeerHost::outer() const {
  const Lock lock(mutex_);
  return *state_;
}

manifest::Shared PeerHost::shared() const {
  const Lock lock(mutex_);
  return manifest_->shared;
}

std::span<const float> PeerHost::contribution(std::uint32_t fragment) const { return outer().input(fragment); }

std::span<float> PeerHost::result(std::uint32_t fragment) { return outer().result(fragment); }

Result<Digest> PeerHost::prepare(const StartReduce& reduce, bool brings) {
  StepGain gain{.next_sample = reduce.next_sample, .radii = reduce.radii.list()};
  trainer_life::Applied then{{}, brings, 0};
  for (const auto& contribution : reduce.contributions) {
    if (contribution.weight > 0) ++then.contributors;
  }
  gain.contributors = then.contributors;
  {
    const Lock lock(mutex_);
    prepared_.insert_or_assign(reduce.op, Prepared{then, reduce.view.members});
  }
  if (brings && shared().checkpoint.keep_contributions) keep_contribution(reduce);
  return outer().prepare(reduce.op, reduce.fragment, gain);
}

void PeerHost::commit(const Commit& commit) {
  Works works;
  {
    // As one: what the trainer is told is of the state that is current then.
    const Lock lock(mutex_);
    const auto done = state_->commit(commit.op, commit.tokens);
    PRIME_ASSERT(done && state_->digest() == commit.state, "law 2: what is committed is what was voted for");
    const auto prepared = prepared_.find(commit.op);
    PRIME_ASSERT(prepared != prepared_.end(), "law 2: only what was prepared is committed");
    auto [applied, members] = std::move(prepared->second);
    prepared_.erase(prepared);
    applied.commit = commit;
    if (commit.completes) {
      members_ = std::move(members);
      given_back_ = commit.given_back;
      if (applied.own_work && contributed_copied_) state_->set_copied(std::move(contributed_copied_));
    }
    works = step(applied);
    const auto takes = [](const Work& order) { return std::holds_alternative<trainer_life::TakeContribution>(order); };
    PRIME_ASSERT(std::ranges::all_of(works, takes), "a commit changes references alone, and lets go what waited for it");
  }
  for (const auto& order : works)
    if (const auto outcome = work(order)) handle(*outcome);
}

void PeerHost::discard(OperationId op) {
  outer().discard(op);
  const Lock lock(mutex_);
  prepared_.erase(op);
}

// Recovery ---------------------------------------------------------------------------------------------------------------------

Result<std::vector<Digest>> PeerHost::fetch(const FetchState& fetch) {
  auto& state = outer();
  const auto held = digests_of(state.fragments());
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t fragment = 0; fragment < held.size(); ++fragment)
    if (fetch.parts.size() != held.size() || fetch.parts[fragment] != held[fragment]) wanted.push_back(fragment);
  const auto terms = shared();
  {
    const Lock lock(mutex_);
    under_way_ = {fetch.donor, fetch.revision};
  }
  const auto opened = [this](net::Channel* channel) {
    const Lock lock(mutex_);
    fetching_ = channel;
    if (channel != nullptr && (cancelled_ || !under_way_)) channel->shutdown();
  };
  const auto dial = [&]() -> Result<net::ChannelPtr> {
    {
      const Lock lock(mutex_);
      if (cancelled_) return fail(ErrorName::FetchFailed, "this peer ends");
      if (!under_way_) return fail(ErrorName::FetchFailed, "its donor is gone, and another one is asked");
    }
    return options_.dial_donor(fetch, terms);
  };
  auto incoming = state.reserve(wanted);
  std::vector<std::byte> copied(record_layout_.copied_bytes);
  if (!wanted.empty()) PRIME_CHECK(fetch_state(fetch.revision, incoming, copied, dial, opened, fetched_bytes_));
  PRIME_CHECK(state.adopt(incoming, {fetch.revision, fetch.tokens, fetch.next_sample}, fetch.state));
  if (!wanted.empty() && !copied.empty()) {
    state.set_copied(std::make_shared<const std::vector<std::byte>>(std::move(copied)));
    offer_copied();
  }
  {
    const Lock lock(mutex_);
    given_back_ = fetch.given_back;
    if (founded_ && fetch.revision != *founded_) founded_.reset();
  }
  handle(trainer_life::Adopted{fetch.revision});
  return digests_of(state.fragments());
}

void PeerHost::stop_fetch(const std::optional<FetchState>& fetch) {
  const Lock lock(mutex_);
  if (!fetch) cancelled_ = true;
  else if (!under_way_ || *under_way_ != std::pair{fetch->donor, fetch->revision}) return;
  under_way_.reset();
  if (fetching_ != nullptr) fetching_->shutdown();
}

std::shared_ptr<const Snapshot> PeerHost::snapshot() {
  const Lock lock(mutex_);
  return state_ && state_->initialized() ? state_->snapshot(Holder::Joiner) : nullptr;
}

}  // namespace prime
