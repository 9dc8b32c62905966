// Owns what a peer's host takes from the disk and puts there: the state that it begins with, checkpoints, and what its trainer keeps for
// itself.
#include <algorithm>
#include <numeric>

#include "runtime/agent/peer_host.hpp"
#include "runtime/session/state_digest.hpp"
#include "runtime/store/checkpoint.hpp"
#include "runtime/store/contribution.hpp"

namespace prime {
namespace {

std::vector<std::uint32_t> all_fragments(const Layout& layout) {
  std::vector<std::uint32_t> all(layout.fragments());
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// One that has no copied tensors at all is of a trainer that did not bind them yet: those of this one begin as it brings them.
Result<void> check_tensors(const store::LoadedCheckpoint& loaded, const std::vector<BoundTensor>& bound) {
  std::vector<BoundTensor> tensors;
  for (const auto& tensor : loaded.layout) tensors.push_back({{tensor.name, tensor.shape}});
  for (const auto& tensor : loaded.copied) tensors.push_back({{tensor.name, tensor.shape}, tensor.type, Role::Copied});
  PRIME_TRY(const auto theirs, make_bound_layout(tensors));
  auto ours = bound;
  if (loaded.copied.empty()) std::erase_if(ours, [](const BoundTensor& tensor) { return tensor.role == Role::Copied; });
  PRIME_TRY(const auto layout, make_bound_layout(ours));
  if (theirs.digest() == layout.digest()) return {};
  const auto difference = first_difference(layout, theirs);
  return fail(ErrorName::LayoutMismatch,
              "the loaded state has other tensors: " + (difference.empty() ? "the copied ones differ" : difference));
}

/// From one after the other to the places of a record.
CopiedValues copied_of(const store::LoadedCheckpoint& loaded, const RecordLayout& layout) {
  std::vector<std::byte> values(layout.copied_bytes);
  auto rest = std::span{loaded.copied_bytes};
  for (const auto& place : layout.copied) {
    std::ranges::copy(rest.first(place.bytes), values.begin() + static_cast<std::ptrdiff_t>(place.offset_bytes));
    rest = rest.subspan(place.bytes);
  }
  return std::make_shared<const std::vector<std::byte>>(std::move(values));
}

}  // namespace

/// The state before the first step of this peer: a checkpoint's, or what the trainer brings.
Result<void> PeerHost::initialize() {
  if (const auto brought = copied_in_record()) outer().set_copied(brought);
  if (options_.origin.empty()) {
    PRIME_CHECK(outer().initialize());
    const Lock lock(mutex_);
    founded_ = Revision{};
    return {};
  }
  const auto at = "reading " + options_.origin.string();
  auto loaded = store::load_checkpoint(options_.origin);
  if (!loaded) return fail(std::move(loaded.error()).with_context(at));
  const auto& of = loaded->state;
  const auto shards = manifest_->shared.membership.shards;
  if (of.shard != options_.shard || of.shards != shards)
    return fail(ErrorName::StateMismatch, options_.origin.string() + " is of shard " + std::to_string(of.shard) + " of " +
                                              std::to_string(of.shards) + ", this peer holds shard " + std::to_string(options_.shard) +
                                              " of " + std::to_string(shards));
  const auto& layout = outer().layout();
  if (auto same = check_tensors(*loaded, bound_); !same) return fail(std::move(same.error()).with_context(at));
  if (!loaded->copied.empty()) outer().set_copied(copied_of(*loaded, record_layout_));
  auto incoming = outer().reserve(all_fragments(layout));
  for (auto& each : incoming) {
    each.version = of.versions.empty() ? of.outer_step : of.versions[each.fragment];
    place({loaded->parameters, loaded->momentum}, layout, each.fragment, each.parameters, each.momentum);
  }
  // The digest depends on the division, which the one who goes on may have changed.
  const bool comparable = of.division == manifest_->shared.sync.fragments && !of.dated;
  const auto expected = comparable ? std::optional{of.state} : std::nullopt;
  if (auto done = outer().adopt(incoming, {of.revision, of.tokens, of.next_sample}, expected); !done)
    return fail(std::move(done.error()).with_context(at));
  const Lock lock(mutex_);
  given_back_ = of.given_back;
  founded_ = of.revision;
  return {};
}

/// For the first life of the trainer: what the one before it had for itself, in the run that this one goes on from.
Result<std::optional<trainer_life::Record>> PeerHost::saved_record() {
  const auto& path = options_.private_state;
  if (path.empty() || record_read_) return std::nullopt;
  auto saved = read_saved_record(path, record_layout_, bound_, records_.get(), outer());
  if (!saved) return fail(std::move(saved.error()).with_context("reading " + path.string()));
  record_read_ = true;
  if (!saved->fresh.empty()) options_.journal(events::PrivateStateFresh{Cause{saved->fresh}});
  else if (saved->record) options_.journal(events::PrivateStateTaken{path.string(), saved->record->step});
  return std::move(saved->record);
}

void PeerHost::save(const peer::SaveState& order) { handle(trainer_life::Save{order}); }

void PeerHost::write(const trainer_life::Write& order) {
  if (order.hold) hold(order);
  options_.save(order.order);
}

/// Beside the shared state this peer, or its trainer, has something of its own.
bool PeerHost::keeps_private() const { return !record_layout_.kept().empty() || manifest_->shared.sync.wire.feedback; }

/// Of each kind one waits for the disk, while another one is being written: what is newer takes its place.
void PeerHost::hold(const trainer_life::Write& order) {
  const auto of = order.order.of;
  if (order.order.shared && !saving_.contains(of)) {
    saving_.clear();
    if (auto held = state_->snapshot(Holder::Disk)) saving_.emplace(of, StateToSave{std::move(held), members_at(order.order), given_back_});
  }
  if (!keeps_private() || saving_record_.contains(of) || written_record_ == of) return;
  saving_record_.clear();
  const auto fragments = state_->fragments();
  const auto step = std::ranges::min_element(fragments, {}, &Fragment::version)->version;
  store::PrivateState state{.run = options_.run,
                            .peer = options_.self,
                            .revision = of,
                            .outer_step = step,
                            .state = state_->digest(),
                            .layout = {},
                            .late = order.order.late};
  saving_record_.emplace(of, record_to_save(std::move(state), order.record, state_->residuals(), record_layout_, bound_));
}

/// Who is at the next step is in the run; a state that is saved on the way is of those who made it.
SharedList<Member> PeerHost::members_at(const peer::SaveState& order) const {
  const bool next_has_begun = !order.periodic && begun_ && begun_->base == order.of;
  return next_has_begun ? begun_->view.members : members_;
}

/// Whoever removed the directory of a run does not want a part of it back.
Result<void> PeerHost::check_place() const {
  if (auto moved = place_.moved()) return fail(std::move(*moved));
  if (std::error_code ignored; !std::filesystem::exists(options_.directory, ignored))
    return fail(ErrorName::StorageFailed, options_.directory.string() + " is gone");
  return {};
}

Result<std::optional<std::string>> PeerHost::write_private_state(Revision of) {
  RecordToSave save;
  {
    const Lock lock(mutex_);
    if (!keeps_private() || written_record_ == of) return std::nullopt;
    const auto kept = saving_record_.extract(of);
    if (kept.empty())
      return fail(ErrorName::StorageFailed, "revision " + std::to_string(of.value) + ": the disk was still busy with an older one");
    save = kept.mapped();
  }
  PRIME_CHECK(check_place());
  options_.saving(save.state.outer_step, false);
  PRIME_TRY(const auto path, store::write_private_state(options_.checkpoints, save.state, save.tensors));
  options_.saving(save.state.outer_step, true);
  {
    const Lock lock(mutex_);
    written_record_ = of;
  }
  // One more than checkpoints: the state that belongs to the newest may be on its way to another peer's disk.
  PRIME_CHECK(store::prune_private_states(options_.checkpoints, manifest_->shared.checkpoint.keep + std::size_t{1}));
  return path.string();
}

Result<std::string> PeerHost::write_checkpoint(Revision of) {
  StateToSave held;
  {
    const Lock lock(mutex_);
    // A periodic one and the last one may be of the same revision.
    if (std::error_code ignored; written_ && written_->first == of && std::filesystem::exists(written_->second, ignored))
      return written_->second;
    if (const auto kept = saving_.find(of); kept != saving_.end()) held = kept->second;
  }
  if (!held.state)
    return fail(ErrorName::StorageFailed, "revision " + std::to_string(of.value) + ": the disk was still busy with an older one");
  auto written = write_checkpoint(held, options_.checkpoints);
  if (written) {
    if (auto pruned = store::prune_checkpoints(options_.checkpoints, shared().checkpoint.keep); !pruned) return fail(pruned.error());
  }
  const Lock lock(mutex_);
  if (const auto kept = saving_.find(of); kept != saving_.end()) saving_.erase(kept);
  if (written) written_.emplace(of, *written);
  return written;
}

Result<std::string> PeerHost::write_checkpoint(const StateToSave& held, const std::filesystem::path& directory) {
  PRIME_CHECK(check_place());
  const auto& state = *held.state;
  store::CheckpointContent content;
  {
    const Lock lock(mutex_);
    content.export_files = export_files_;
    content.manifest = welcome_.manifest;
    content.state.data = data_;
    content.state.private_state = keeps_private();
  }
  const auto& counters = state.counters;
  content.state = {options_.run,
                   counters.revision,
                   state.step(),
                   counters.next_sample,
                   counters.tokens,
                   state.state,
                   options_.shard,
                   manifest_->shared.membership.shards,
                   manifest_->shared.sync.fragments,
                   {},
                   std::move(content.state.data),
                   false,
                   held.given_back,
                   {},
                   content.state.private_state,
                   static_cast<std::uint32_t>(state.copied ? record_layout_.copied.size() : 0)};
  for (const auto& member : held.members) content.state.members.push_back({member.id, member.name});
  for (const auto& fragment : state.fragments) {
    content.state.versions.push_back(fragment.version);
    content.state.digests.push_back(fragment.digest);
  }
  const auto& layout = state.layout;
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const auto& [name, shape] = layout.tensors()[i];
    const auto& home = layout.homes()[i];
    const auto& fragment = state.fragments[home.fragment];
    content.parameters.push_back({name, shape, fragment.parameters.subspan(home.offset, layout.counts()[i])});
    content.momentum.push_back({name, shape, fragment.momentum.subspan(home.offset, layout.counts()[i])});
  }
  if (state.copied) {
    for (const auto& place : record_layout_.copied) {
      const auto& [shape, type, role] = bound_[place.tensor];
      content.copied.push_back(
          {shape.name, shape.shape, store::TensorData{type, std::span{*state.copied}.subspan(place.offset_bytes, place.bytes)}});
    }
  }
  PRIME_TRY(const auto path, store::write_checkpoint(directory, content));
  return path.string();
}

/// On the disk before this peer votes: so of each version that is committed all is there that it was made of. The run does not end for the
/// want of that.
void PeerHost::keep_contribution(const StartReduce& reduce) {
  auto& state = outer();
  store::KeptContribution kept{
      options_.run, options_.self,      {reduce.fragment, reduce.step}, to_string(reduce.op), reduce.contributions.list(),
      reduce.ring,  reduce.radii.list()};
  auto done = check_place();
  if (done) done = keep_start(reduce.base);
  if (done)
    done = store::write_contribution(options_.directory / "contributions", kept, state.input(reduce.fragment),
                                     state.feedback(reduce.fragment).residual);
  if (!done) options_.journal(events::ContributionNotKept{reduce.fragment, reduce.step, Cause{done.error()}});
}

/// What the first round began with; those who come later do not hold that.
Result<void> PeerHost::keep_start(Revision base) {
  {
    const Lock lock(mutex_);
    if (!founded_ || *founded_ != base) return {};
    founded_.reset();
  }
  const auto start = state_->snapshot(Holder::Disk);
  if (!start || start->counters.revision != base) return {};
  const auto contributions = options_.directory / "contributions";
  PRIME_CHECK(store::make_directory(contributions));
  PRIME_TRY(const auto path, write_checkpoint({start, {}, {}}, contributions / "start"));
  return {};
}

}  // namespace prime
