#include "runtime/agent/outer_state.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <new>

#include "kernels/digest/digest.hpp"
#include "kernels/merge/merge.hpp"
#include "kernels/reduce/reduce.hpp"
#include "messages/assert.hpp"
#include "runtime/agent/block_pool.hpp"
#include "runtime/lanes/huge_pages.hpp"
#include "runtime/session/shared_memory.hpp"
#include "runtime/session/state_digest.hpp"
#include "runtime/shortage.hpp"

namespace prime {
namespace {

/// Where the trainer of one life writes.
struct Segment {
  Descriptor file;
  SharedFloats memory;
  bool shared = false;  ///< the trainer's own
};

Result<std::shared_ptr<Segment>> make_local(std::uint64_t elements) {
  auto segment = std::make_shared<Segment>();
  PRIME_TRY(segment->file, create_memory_file("prime-local", elements * sizeof(float)));
  PRIME_TRY(segment->memory, SharedFloats::map(segment->file.number(), elements, Access::ReadWrite));
  return segment;
}

/// What the other process could make shorter would end this one.
Result<std::shared_ptr<Segment>> map_shared(const Descriptor& file, std::uint64_t elements) {
  auto segment = std::make_shared<Segment>();
  segment->shared = true;
  const int seals = ::fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return fail(ErrorName::TrainerProtocol, "the trainer's memory is not sealed");
  segment->file = Descriptor(::fcntl(file.number(), F_DUPFD_CLOEXEC, 0));
  if (!segment->file) return fail(refused(ErrorName::ProcessFailed, "the trainer's memory cannot be taken", errno));
  PRIME_TRY(segment->memory, SharedFloats::map(segment->file.number(), elements, Access::ReadWrite));
  return segment;
}

/// Momentum, or a mean that becomes momentum.
using Buffer = std::shared_ptr<Floats>;

/// Keeps some buffers that nobody uses for whoever asks next. Each is as large as the largest fragment, so that any of them may take it.
class BufferPool {
 public:
  BufferPool(std::uint64_t size, std::size_t kept) : impl_(std::make_shared<Impl>()) {
    impl_->size = size;
    impl_->kept = kept;
  }
  [[nodiscard]] Buffer take() {
    std::unique_ptr<Floats> buffer;
    {
      const std::lock_guard lock(impl_->mutex);
      if (!impl_->idle.empty()) {
        buffer = std::move(impl_->idle.back());
        impl_->idle.pop_back();
      }
    }
    if (!buffer) buffer = std::make_unique<Floats>(impl_->size);
    return {buffer.release(), [pool = impl_](Floats* floats) {
              std::unique_ptr<Floats> back(floats);
              const std::lock_guard lock(pool->mutex);
              if (pool->idle.size() < pool->kept) pool->idle.push_back(std::move(back));
            }};
  }

 private:
  struct Impl {
    std::uint64_t size = 0;
    std::size_t kept = 1;
    std::mutex mutex;
    std::vector<std::unique_ptr<Floats>> idle;
  };
  std::shared_ptr<Impl> impl_;
};

/// A fragment's current or next version, by reference.
struct Version {
  OuterStep step;
  Digest digest;
  BlockRef parameters;
  Buffer momentum;
};
using Versions = std::vector<Version>;

/// What a peer expects of its own contribution to a fragment.
struct Expected {
  BlockRef parameters;  ///< until the next commit: what its trainer is given
  Buffer momentum;      ///< of its own contributions alone; null is 0
};

Digest digest_of(const Versions& versions) {
  std::vector<Digest> parts;
  for (const auto& version : versions) parts.push_back(version.digest);
  return kernels::digest_of_parts(parts);
}

/// The last step that all fragments have made.
OuterStep step_of(const Versions& versions) { return std::ranges::min_element(versions, {}, &Version::step)->step; }

}  // namespace

OuterStep Snapshot::step() const { return std::ranges::min_element(fragments, {}, &Fragment::version)->version; }

/// Of error feedback. Once it is a residual it is not written to any more: who saves it holds it.
struct Lost {
  Buffer residual;  ///< null is 0
  Buffer next;      ///< of the reduce that is under way
};

struct OuterState::Impl {
  struct Prepared {
    OperationId operation;
    Version version;
    StepGain gain;
  };

  Impl(Layout of, const OuterStateOptions& with, BlockPool pool)
      : layout(std::move(of)),
        options(with),
        blocks(std::move(pool)),
        buffers(layout.largest_fragment(), std::min(with.in_flight, layout.fragments())),
        contributed(layout.fragments()),
        base(layout.fragments()),
        expected(layout.fragments()),
        lost(layout.fragments()),
        radial(options.merge == Merge::Radial ? merged_radially(layout.tensors()) : std::vector<bool>(layout.tensors().size())) {}

  const Layout layout;
  const OuterStateOptions options;
  BlockPool blocks;
  BufferPool buffers;

  mutable std::mutex mutex;                           ///< all below; never held over memory traffic
  std::shared_ptr<Segment> local;                     ///< where the trainer of this life writes what it contributes
  std::vector<DataType> types;                        ///< of its tensors; empty: f32
  std::vector<std::shared_ptr<Segment>> contributed;  ///< by fragment: the same, unless the trainer was started again since
  Versions current;                                   ///< by fragment; empty before there is a state
  StateCounters counters;
  Digest digest;
  CopiedValues copied;
  Versions base;                               ///< from which the trainer started, until its contribution is taken
  std::vector<Expected> expected;              ///< by fragment
  std::vector<Lost> lost;                      ///< by fragment
  const std::vector<bool> radial;              ///< by tensor
  Versions reserved;                           ///< by fragment; of those that do not come there is no block
  std::map<std::uint32_t, Buffer> means;       ///< by fragment, of reduces that are under way or were prepared
  std::map<std::uint32_t, Prepared> prepared;  ///< by fragment
  std::vector<std::weak_ptr<const Snapshot>> held;
  std::weak_ptr<const Snapshot> latest;  ///< callers at one revision share a snapshot

  using Lock = std::lock_guard<std::mutex>;

  [[nodiscard]] std::map<std::uint32_t, Prepared>::iterator find(const OperationId& operation) {
    return std::ranges::find_if(prepared, [&](const auto& entry) { return entry.second.operation == operation; });
  }
  [[nodiscard]] Lost lost_of(std::uint32_t fragment) const {
    const Lock lock(mutex);
    return lost[fragment];
  }
  [[nodiscard]] std::shared_ptr<Segment> locals() const {
    const Lock lock(mutex);
    return local;
  }
  [[nodiscard]] std::span<float> local_values(const Segment& segment, std::uint32_t fragment) const {
    return segment.memory.values().subspan(layout.begin(fragment), layout.size(fragment));
  }
  [[nodiscard]] std::span<float> momentum_of(const Version& version, std::uint32_t fragment) const {
    return std::span{*version.momentum}.first(layout.size(fragment));
  }
  [[nodiscard]] Fragment view(const Version& version, std::uint32_t fragment) const {
    return {version.step, version.digest, version.parameters->values, momentum_of(version, fragment)};
  }

  /// What the trainer was given of the base, less what it has made of that.
  void subtract(std::span<const float> base, std::span<float> values, std::uint32_t fragment, const std::vector<DataType>& of) const {
    if (std::ranges::find(of, DataType::BF16) == of.end()) return kernels::pseudo_gradient(base, values, values);
    for (std::size_t i = 0; i < layout.homes().size(); ++i) {
      const auto& home = layout.homes()[i];
      if (home.fragment != fragment) continue;
      const auto own = values.subspan(home.offset, layout.counts()[i]);
      const auto given = base.subspan(home.offset, layout.counts()[i]);
      if (of[i] == DataType::BF16) kernels::pseudo_gradient_bf16(given, own, own);
      else kernels::pseudo_gradient(given, own, own);
    }
  }

  /// The tensors of a fragment that are merged radially, where they lie in its values.
  [[nodiscard]] std::vector<std::span<float>> radial_tensors(std::uint32_t fragment, std::span<float> values) const {
    std::vector<std::span<float>> tensors;
    for (std::size_t i = 0; i < layout.homes().size(); ++i)
      if (radial[i] && layout.homes()[i].fragment == fragment)
        tensors.push_back(values.subspan(layout.homes()[i].offset, layout.counts()[i]));
    return tensors;
  }

  /// Directions are left; the lengths.
  [[nodiscard]] Lengths make_units(std::uint32_t fragment, std::span<float> values) const {
    Lengths lengths;
    for (const auto tensor : radial_tensors(fragment, values)) {
      const double length = kernels::length(tensor);
      if (length > 0) kernels::scale(tensor, 1 / length);
      lengths.emplace_back(length);
    }
    return lengths;
  }

  /// The mean of unit vectors gets the length that it is to have.
  Result<void> make_radial(std::uint32_t fragment, std::span<float> mean, const StepGain& gain) const {
    const auto tensors = radial_tensors(fragment, mean);
    if (tensors.size() != gain.radii.size())
      return fail(ErrorName::ReduceMismatch, std::to_string(gain.radii.size()) + " lengths for " + std::to_string(tensors.size()) +
                                                 " tensors that `sync.merge: radial` is for");
    for (std::size_t i = 0; i < tensors.size(); ++i)
      kernels::scale(tensors[i], kernels::radial_factor(gain.radii[i].value(), kernels::length(tensors[i]), gain.contributors));
    return {};
  }

  /// Made anew where a commit came in between.
  void expect(std::uint32_t fragment, std::span<const float> contribution, float share) {
    Version from;
    Expected to;
    do {
      Buffer momentum;
      {
        const Lock lock(mutex);
        from = current[fragment];
        momentum = expected[fragment].momentum;
        to = {blocks.take(layout.size(fragment)), buffers.take()};
      }
      const auto next = std::span{*to.momentum}.first(layout.size(fragment));
      std::ranges::transform(contribution, next.begin(), [&](float value) { return share * value; });
      const Floats none(momentum ? 0 : layout.size(fragment), 0.0F);
      kernels::nesterov(options.rule, {.parameters = from.parameters->values,
                                       .momentum = momentum ? std::span<const float>{*momentum}.first(next.size()) : std::span{none},
                                       .mean = next,
                                       .next_parameters = to.parameters->values,
                                       .next_momentum = next});
    } while (!give(fragment, from.step, to));
  }
  /// Whether the fragment is still of that version.
  bool give(std::uint32_t fragment, OuterStep version, const Expected& next) {
    const Lock lock(mutex);
    if (current[fragment].step != version) return false;
    expected[fragment] = next;
    return true;
  }
  [[nodiscard]] BlockRef given(std::uint32_t fragment) const {
    const auto& own = expected[fragment].parameters;
    return own ? own : current[fragment].parameters;
  }

  Result<void> require_finite(std::span<const float> checked, std::uint32_t fragment, const char* what) const {
    const auto index = kernels::first_non_finite(checked);
    if (index == checked.size()) return {};
    return fail(ErrorName::NonFiniteValue, layout.place(fragment, index) + " of " + what);
  }
};

OuterState::OuterState(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
OuterState::OuterState(OuterState&&) noexcept = default;
OuterState& OuterState::operator=(OuterState&&) noexcept = default;
OuterState::~OuterState() = default;

Result<OuterState> OuterState::create(Layout layout, const OuterStateOptions& options) try {
  PRIME_ASSERT(layout.elements() > 0, "a layout comes from make_layout");
  PRIME_TRY(auto blocks, BlockPool::create("prime-outer", wire::block_size(layout), wire::block_count(layout), Access::ReadOnly));
  auto impl = std::make_shared<Impl>(std::move(layout), options, std::move(blocks));
  PRIME_TRY(impl->local, make_local(impl->layout.elements()));
  // Taken now, so that a machine without so much memory says so now; touched when they are needed.
  for (std::uint32_t fragment = 0; fragment < impl->layout.fragments(); ++fragment)
    impl->reserved.push_back({{}, {}, nullptr, impl->buffers.take()});
  for (std::uint32_t fragment = 0; fragment < std::min(options.in_flight, impl->layout.fragments()); ++fragment)
    impl->means.emplace(fragment, impl->buffers.take());
  return OuterState{std::move(impl)};
} catch (const std::bad_alloc&) {
  return fail(ErrorName::MemoryUnavailable, "no memory for the outer state: " + limits_in_the_way());
}

Result<void> OuterState::initialize() {
  auto& s = *impl_;
  std::vector<std::uint32_t> all(s.layout.fragments());
  for (std::uint32_t fragment = 0; fragment < all.size(); ++fragment) all[fragment] = fragment;
  const auto incoming = reserve(all);
  const auto local = s.locals();
  for (const auto& each : incoming) {
    // Copied first and checked there: the trainer could change its region between a check and a copy.
    std::ranges::copy(s.local_values(*local, each.fragment), each.parameters.begin());
    PRIME_CHECK(s.require_finite(each.parameters, each.fragment, "the initial values"));
    std::ranges::fill(each.momentum, 0.0F);
  }
  return adopt(incoming, {}, std::nullopt);
}

bool OuterState::initialized() const {
  const Impl::Lock lock(impl_->mutex);
  return !impl_->current.empty();
}

std::vector<OuterState::Incoming> OuterState::reserve(const std::vector<std::uint32_t>& fragments) {
  auto& s = *impl_;
  const Impl::Lock lock(s.mutex);
  s.reserved.resize(s.layout.fragments());
  for (auto& each : s.reserved) each.parameters.reset();
  std::vector<Incoming> incoming;
  for (const auto fragment : fragments) {
    auto& to = s.reserved[fragment];
    to.parameters = s.blocks.take(s.layout.size(fragment));
    if (!to.momentum) to.momentum = s.buffers.take();
    incoming.push_back({fragment, {}, to.parameters->values, s.momentum_of(to, fragment)});
  }
  return incoming;
}

Result<void> OuterState::adopt(const std::vector<Incoming>& incoming, const StateCounters& counters,
                               const std::optional<Digest>& expected) {
  auto& s = *impl_;
  Versions next;
  {
    const Impl::Lock lock(s.mutex);
    next = s.current;
  }
  next.resize(s.layout.fragments());
  for (const auto& each : incoming) {
    next[each.fragment].step = each.version;
    next[each.fragment].digest = fragment_digest(each.fragment, each.version, each.parameters, each.momentum, s.options.threads);
  }
  const Impl::Lock lock(s.mutex);
  auto reserved = std::exchange(s.reserved, {});
  if (const auto digest = digest_of(next); expected && digest != *expected)
    return fail(ErrorName::FetchFailed, "the loaded state has the digest " + to_string(digest) + ", and not " + to_string(*expected));
  for (const auto& each : incoming) {
    PRIME_ASSERT(reserved[each.fragment].parameters, "what is adopted was reserved");
    next[each.fragment].parameters = std::move(reserved[each.fragment].parameters);
    next[each.fragment].momentum = std::move(reserved[each.fragment].momentum);
    s.expected[each.fragment] = {};
    s.lost[each.fragment] = {};
  }
  s.current = std::move(next);
  s.digest = digest_of(s.current);
  s.counters = counters;
  s.prepared.clear();
  s.latest.reset();
  return {};
}

void OuterState::pin_base() {
  for (std::uint32_t fragment = 0; fragment < impl_->layout.fragments(); ++fragment) pin_base(fragment);
}

void OuterState::pin_base(std::uint32_t fragment) {
  const Impl::Lock lock(impl_->mutex);
  impl_->base[fragment] = {impl_->current[fragment].step, {}, impl_->given(fragment), nullptr};
}

void OuterState::forget_expected() {
  const Impl::Lock lock(impl_->mutex);
  for (auto& each : impl_->expected) each = {};
}

Result<std::vector<Lengths>> OuterState::take_contribution(const Fragments& fragments, float share) {
  auto& s = *impl_;
  Versions base;
  std::vector<DataType> types;
  {
    const Impl::Lock lock(s.mutex);
    PRIME_ASSERT(!s.current.empty(), "law 2: a contribution has a base");
    types = s.types;
    base = s.current;
    for (std::uint32_t fragment = 0; fragment < s.layout.fragments(); ++fragment)
      if (covers(fragments, fragment) && s.base[fragment].parameters) base[fragment] = std::exchange(s.base[fragment], {});
  }
  const auto local = s.locals();
  for (std::uint32_t fragment = 0; fragment < s.layout.fragments(); ++fragment) {
    if (!covers(fragments, fragment)) continue;
    // In place: the trainer writes there again when it contributes to the next step, and not before.
    const auto values = s.local_values(*local, fragment);
    s.subtract(base[fragment].parameters->values, values, fragment, types);
  }
  {
    const Impl::Lock lock(s.mutex);
    for (std::uint32_t fragment = 0; fragment < s.layout.fragments(); ++fragment)
      if (covers(fragments, fragment)) s.contributed[fragment] = local;
  }
  for (std::uint32_t fragment = 0; fragment < s.layout.fragments(); ++fragment)
    if (covers(fragments, fragment)) PRIME_CHECK(s.require_finite(s.local_values(*local, fragment), fragment, "the contribution"));
  for (std::uint32_t fragment = 0; fragment < s.layout.fragments() && share > 0; ++fragment)
    if (covers(fragments, fragment)) s.expect(fragment, s.local_values(*local, fragment), share);
  std::vector<Lengths> lengths;
  if (s.options.merge == Merge::Radial)
    for (std::uint32_t fragment = 0; fragment < s.layout.fragments(); ++fragment)
      if (covers(fragments, fragment)) lengths.push_back(s.make_units(fragment, s.local_values(*local, fragment)));
  return lengths;
}

Result<void> OuterState::begin_life(std::vector<DataType> types, const Descriptor* shared) {
  auto& s = *impl_;
  PRIME_ASSERT(types.empty() || types.size() == s.layout.tensors().size(), "each tensor has a type");
  {
    const Impl::Lock lock(s.mutex);
    s.types = std::move(types);
    const bool used = std::ranges::find(s.contributed, s.local) != s.contributed.end();
    if (!used && !s.local->shared && shared == nullptr) return {};
  }
  PRIME_TRY(auto fresh, shared != nullptr ? map_shared(*shared, s.layout.elements()) : make_local(s.layout.elements()));
  const Impl::Lock lock(s.mutex);
  s.local = std::move(fresh);
  return {};
}

std::span<const float> OuterState::input(std::uint32_t fragment) const {
  const Impl::Lock lock(impl_->mutex);
  const auto& contributed = impl_->contributed[fragment];
  return contributed ? impl_->local_values(*contributed, fragment) : std::span<const float>{};
}

std::span<float> OuterState::result(std::uint32_t fragment) {
  const Impl::Lock lock(impl_->mutex);
  auto& mean = impl_->means[fragment];
  if (!mean) mean = impl_->buffers.take();
  return std::span{*mean}.first(impl_->layout.size(fragment));
}

StatePort::Feedback OuterState::feedback(std::uint32_t fragment) {
  auto& s = *impl_;
  if (!s.options.feedback) return {};
  auto lost = s.lost_of(fragment);
  if (!lost.residual) {
    lost.residual = s.buffers.take();
    std::ranges::fill(*lost.residual, 0.0F);
  }
  if (!lost.next) lost.next = s.buffers.take();
  const Impl::Lock lock(s.mutex);
  s.lost[fragment] = lost;
  return {std::span{*lost.residual}.first(s.layout.size(fragment)), std::span{*lost.next}.first(s.layout.size(fragment))};
}

Residuals OuterState::residuals() const {
  auto held = std::make_shared<std::vector<Buffer>>();
  std::vector<std::span<const float>> values;
  {
    const Impl::Lock lock(impl_->mutex);
    for (const auto& lost : impl_->lost) held->push_back(lost.residual);
  }
  for (std::uint32_t fragment = 0; fragment < held->size(); ++fragment)
    if (const auto& each = (*held)[fragment]) values.push_back(std::span{*each}.first(impl_->layout.size(fragment)));
    else return {};
  return {std::move(values), std::move(held)};
}

std::span<float> OuterState::bring_residual(std::uint32_t fragment) {
  auto residual = impl_->buffers.take();
  const auto values = std::span{*residual}.first(impl_->layout.size(fragment));
  const Impl::Lock lock(impl_->mutex);
  impl_->lost[fragment] = {std::move(residual), nullptr};
  return values;
}

Result<Digest> OuterState::prepare(const OperationId& operation, std::uint32_t fragment, const StepGain& gain) {
  auto& s = *impl_;
  Version from;
  Version to;
  {
    const Impl::Lock lock(s.mutex);
    PRIME_ASSERT(!s.current.empty() && s.means[fragment], "law 2: a step has a base, and a mean");
    if (const auto other = s.prepared.find(fragment); other != s.prepared.end())
      return fail(ErrorName::InternalError, "operation " + to_string(other->second.operation) + " is still prepared");
    from = s.current[fragment];
    to = {from.step.next(), {}, s.blocks.take(s.layout.size(fragment)), s.means[fragment]};
  }
  const auto mean = s.momentum_of(to, fragment);
  if (s.options.merge == Merge::Radial) PRIME_CHECK(s.make_radial(fragment, mean, gain));
  PRIME_CHECK(s.require_finite(mean, fragment, "the mean"));
  kernels::nesterov(s.options.rule, {.parameters = from.parameters->values,
                                     .momentum = s.momentum_of(from, fragment),
                                     .mean = mean,
                                     .next_parameters = to.parameters->values,
                                     .next_momentum = mean});
  to.digest = fragment_digest(fragment, to.step, to.parameters->values, mean, s.options.threads);
  const auto digest = to.digest;
  const Impl::Lock lock(s.mutex);
  s.prepared.emplace(fragment, Impl::Prepared{operation, std::move(to), gain});
  return digest;
}

Result<void> OuterState::commit(const OperationId& operation, std::uint64_t tokens) {
  auto& s = *impl_;
  const Impl::Lock lock(s.mutex);
  const auto found = s.find(operation);
  if (found == s.prepared.end()) return fail(ErrorName::InternalError, "operation " + to_string(operation) + " is not prepared");
  auto [fragment, prepared] = std::move(*found);
  s.prepared.erase(found);
  s.means.erase(fragment);
  const auto made = step_of(s.current);
  s.current[fragment] = std::move(prepared.version);
  s.expected[fragment].parameters.reset();
  if (auto& lost = s.lost[fragment]; lost.next) lost.residual = std::exchange(lost.next, nullptr);
  s.counters.revision = s.counters.revision.next();
  s.counters.tokens = tokens;
  if (step_of(s.current) > made) s.counters.next_sample = std::max(s.counters.next_sample, prepared.gain.next_sample);
  s.digest = digest_of(s.current);
  s.latest.reset();
  return {};
}

void OuterState::discard(const OperationId& operation) {
  const Impl::Lock lock(impl_->mutex);
  if (const auto found = impl_->find(operation); found != impl_->prepared.end()) impl_->prepared.erase(found);
}

void OuterState::set_copied(CopiedValues copied) {
  const Impl::Lock lock(impl_->mutex);
  impl_->copied = std::move(copied);
  impl_->latest.reset();
}

CopiedValues OuterState::copied() const {
  const Impl::Lock lock(impl_->mutex);
  return impl_->copied;
}

std::size_t OuterState::prepared() const {
  const Impl::Lock lock(impl_->mutex);
  return impl_->prepared.size();
}

const Layout& OuterState::layout() const { return impl_->layout; }

StateCounters OuterState::counters() const {
  const Impl::Lock lock(impl_->mutex);
  return impl_->counters;
}

Digest OuterState::digest() const {
  const Impl::Lock lock(impl_->mutex);
  return impl_->digest;
}

std::vector<Fragment> OuterState::fragments() const {
  const Impl::Lock lock(impl_->mutex);
  std::vector<Fragment> fragments;
  for (std::uint32_t fragment = 0; fragment < impl_->current.size(); ++fragment)
    fragments.push_back(impl_->view(impl_->current[fragment], fragment));
  return fragments;
}

wire::Places OuterState::places() const {
  const Impl::Lock lock(impl_->mutex);
  wire::Places places;
  for (std::uint32_t fragment = 0; fragment < impl_->current.size(); ++fragment)
    places.push_back({impl_->given(fragment)->number, impl_->current[fragment].step});
  return places;
}

std::shared_ptr<const Snapshot> OuterState::snapshot(Holder holder) {
  auto& s = *impl_;
  const Impl::Lock lock(s.mutex);
  PRIME_ASSERT(!s.current.empty(), "law 9: there is a state to hold");
  if (auto shared = s.latest.lock()) return shared;
  std::erase_if(s.held, [](const auto& each) { return each.expired(); });
  if (s.held.size() >= (holder == Holder::Disk ? PINNED_MAX : PINNED_MAX - 1)) return nullptr;
  auto memory = std::make_shared<const Versions>(s.current);
  Snapshot made{s.layout, s.counters, {}, s.digest, s.copied, nullptr};
  for (std::uint32_t fragment = 0; fragment < memory->size(); ++fragment) made.fragments.push_back(s.view((*memory)[fragment], fragment));
  made.memory = std::move(memory);
  auto shared = std::make_shared<const Snapshot>(std::move(made));
  s.held.push_back(shared);
  s.latest = shared;
  return shared;
}

std::array<int, 2> OuterState::descriptors() const { return {impl_->blocks.descriptor(), impl_->locals()->file.number()}; }

}  // namespace prime
