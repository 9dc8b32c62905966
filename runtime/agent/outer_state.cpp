#include "runtime/agent/outer_state.hpp"

#include <algorithm>
#include <mutex>
#include <new>

#include "kernels/digest/digest.hpp"
#include "kernels/reduce/reduce.hpp"
#include "messages/assert.hpp"

namespace prime {
namespace {

struct Segment {
  Descriptor file;
  SharedFloats memory;
};

Result<Segment> make_segment(const char* name, std::uint64_t elements) {
  Segment segment;
  PRIME_TRY(segment.file, create_memory_file(name, elements * sizeof(float)));
  PRIME_TRY(segment.memory, SharedFloats::map(segment.file.number(), elements, Access::ReadWrite));
  return segment;
}

using Buffer = std::shared_ptr<Floats>;

}  // namespace

Digest state_digest(std::span<const float> parameters, std::span<const float> momentum, const StateCounters& counters, unsigned threads) {
  const auto first = kernels::digest_tensor(std::as_bytes(parameters), threads);
  const auto second = kernels::digest_tensor(std::as_bytes(momentum), threads);
  const std::array<std::uint64_t, 8> parts{first.high,          first.low,       second.high,         second.low, counters.revision.value,
                                           counters.step.value, counters.tokens, counters.next_sample};
  return kernels::digest_bytes(std::as_bytes(std::span{parts}));
}

struct OuterState::Impl {
  struct Prepared {
    OperationId operation;
    std::uint32_t slot = 0;
    StateCounters counters;
    Digest digest;
  };
  struct Reserved {
    std::uint32_t slot = 0;
    Buffer momentum;
  };

  Layout layout;
  OuterStateOptions options;
  std::array<Segment, wire::OUTER_SLOTS> slots;

  mutable std::mutex mutex;                             ///< all below; never held over memory traffic
  std::shared_ptr<Segment> local;                       ///< where the trainer of this life writes what it contributes
  std::shared_ptr<Segment> contributed;                 ///< the same, unless the trainer was started again since
  std::array<std::uint32_t, wire::OUTER_SLOTS> pins{};  ///< snapshots that hold it
  Buffer momentum;
  Buffer result;
  StateCounters counters;
  Digest digest;
  std::uint32_t slot = 0;
  std::optional<std::uint32_t> base;      ///< from which the trainer started, until its contribution is taken
  std::optional<std::uint32_t> making;    ///< a prepare is under way there
  std::optional<std::uint32_t> compared;  ///< a contribution is being made from it
  std::optional<Reserved> reserved;
  bool initialized = false;
  std::optional<Prepared> prepared;
  std::weak_ptr<const Snapshot> current;  ///< callers at one revision share a snapshot

  using Lock = std::lock_guard<std::mutex>;

  [[nodiscard]] Buffer new_buffer() const { return std::make_shared<Floats>(layout.elements()); }
  [[nodiscard]] std::shared_ptr<Segment> locals() const {
    const Lock lock(mutex);
    return local;
  }
  [[nodiscard]] std::span<float> values(std::uint32_t at) const { return slots[at].memory.values(); }

  /// Under the lock: one that nobody reads and that no revision to come is made in.
  [[nodiscard]] std::uint32_t free_slot() const {
    for (std::uint32_t at = 0; at < wire::OUTER_SLOTS; ++at) {
      const bool kept = (initialized && at == slot) || at == base || at == making || at == compared || (reserved && at == reserved->slot) ||
                        (prepared && at == prepared->slot) || pins[at] > 0;
      if (!kept) return at;
    }
    PRIME_ASSERT(false, "at most PINNED_MAX old revisions are held");
    return 0;
  }

  /// Under the lock. The momentum of before is free for the next mean, unless a snapshot holds that revision.
  void become(std::uint32_t next, Buffer next_momentum, const StateCounters& next_counters, const Digest& next_digest) {
    const bool held = initialized && pins[slot] > 0;
    auto before = std::exchange(momentum, std::move(next_momentum));
    if (result == momentum) result = held ? nullptr : std::move(before);
    slot = next;
    counters = next_counters;
    digest = next_digest;
    initialized = true;
    prepared.reset();
    current.reset();
  }

  Result<void> require_finite(std::span<const float> checked, const char* what) const {
    const auto index = kernels::first_non_finite(checked);
    if (index == checked.size()) return {};
    return fail(ErrorName::NonFiniteValue, layout.place(index) + " of " + what);
  }
};

OuterState::OuterState(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
OuterState::OuterState(OuterState&&) noexcept = default;
OuterState& OuterState::operator=(OuterState&&) noexcept = default;
OuterState::~OuterState() = default;

Result<OuterState> OuterState::create(Layout layout, const OuterStateOptions& options) try {
  PRIME_ASSERT(layout.elements() > 0, "a layout comes from make_layout");
  const auto elements = layout.elements();
  auto impl = std::make_shared<Impl>();
  for (auto& slot : impl->slots) {
    PRIME_TRY(slot, make_segment("prime-outer", elements));
    PRIME_CHECK(seal_against_new_writers(slot.file));
  }
  PRIME_TRY(auto local, make_segment("prime-local", elements));
  impl->local = std::make_shared<Segment>(std::move(local));
  impl->layout = std::move(layout);
  impl->options = options;
  // Taken now, so that a machine without so much memory says so now; touched when they are needed.
  impl->momentum = impl->new_buffer();
  impl->result = impl->new_buffer();
  return OuterState{std::move(impl)};
} catch (const std::bad_alloc&) {
  return fail(ErrorName::ProcessFailed, "not enough memory for the outer state");
}

Result<void> OuterState::initialize() {
  auto& s = *impl_;
  const auto at = reserve();
  // Copied first and checked there: the trainer could change its region between a check and a copy.
  std::ranges::copy(s.locals()->memory.values(), at.parameters.begin());
  PRIME_CHECK(s.require_finite(at.parameters, "the initial values"));
  std::ranges::fill(at.momentum, 0.0F);
  return adopt({}, state_digest(at.parameters, at.momentum, {}, s.options.threads));
}

Result<void> OuterState::load(const Snapshot& snapshot) {
  const auto& layout = impl_->layout;
  if (snapshot.layout.digest() != layout.digest())
    return fail(ErrorName::LayoutMismatch, "the loaded state has other tensors: " + first_difference(layout, snapshot.layout));
  if (snapshot.parameters.size() != layout.elements() || snapshot.momentum.size() != layout.elements())
    return fail(ErrorName::FetchFailed, "the loaded state is of another size");
  const auto at = reserve();
  std::ranges::copy(snapshot.parameters, at.parameters.begin());
  std::ranges::copy(snapshot.momentum, at.momentum.begin());
  return adopt(snapshot.counters, snapshot.state);
}

bool OuterState::initialized() const {
  const Impl::Lock lock(impl_->mutex);
  return impl_->initialized;
}

OuterState::Incoming OuterState::reserve() {
  auto& s = *impl_;
  const Impl::Lock lock(s.mutex);
  s.reserved.reset();
  // The first state is put where it will lie; a later one beside the one that is there.
  s.reserved = Impl::Reserved{s.free_slot(), s.initialized ? s.new_buffer() : s.momentum};
  return {s.values(s.reserved->slot), *s.reserved->momentum};
}

Result<void> OuterState::adopt(const StateCounters& counters, const Digest& expected) {
  auto& s = *impl_;
  Impl::Reserved incoming;
  {
    const Impl::Lock lock(s.mutex);
    PRIME_ASSERT(s.reserved.has_value(), "what is adopted was reserved");
    incoming = *s.reserved;
  }
  const auto digest = state_digest(s.values(incoming.slot), *incoming.momentum, counters, s.options.threads);
  const Impl::Lock lock(s.mutex);
  s.reserved.reset();
  if (digest != expected) return fail(ErrorName::FetchFailed, "the loaded state does not have the digest " + to_string(expected));
  s.become(incoming.slot, std::move(incoming.momentum), counters, digest);
  return {};
}

void OuterState::pin_base() {
  const Impl::Lock lock(impl_->mutex);
  impl_->base = impl_->slot;
}

Result<void> OuterState::take_contribution() {
  auto& s = *impl_;
  std::uint32_t base = 0;
  {
    const Impl::Lock lock(s.mutex);
    PRIME_ASSERT(s.initialized, "law 2: a contribution has a base");
    base = s.base.value_or(s.slot);
    s.base.reset();
    s.compared = base;
  }
  // In place: the trainer writes there again when it contributes to the next step, and not before.
  const auto local = s.locals();
  kernels::pseudo_gradient(s.values(base), local->memory.values(), local->memory.values());
  {
    const Impl::Lock lock(s.mutex);
    s.compared.reset();
    s.contributed = local;
  }
  return s.require_finite(local->memory.values(), "the contribution");
}

Result<void> OuterState::begin_life() {
  auto& s = *impl_;
  {
    const Impl::Lock lock(s.mutex);
    if (s.local != s.contributed) return {};
  }
  PRIME_TRY(auto fresh, make_segment("prime-local", s.layout.elements()));
  const Impl::Lock lock(s.mutex);
  s.local = std::make_shared<Segment>(std::move(fresh));
  return {};
}

std::span<const float> OuterState::input() const {
  const Impl::Lock lock(impl_->mutex);
  if (!impl_->contributed) return {};
  return impl_->contributed->memory.values();
}

std::span<float> OuterState::result() {
  const Impl::Lock lock(impl_->mutex);
  if (!impl_->result) impl_->result = impl_->new_buffer();  // a snapshot holds what would have been written to
  return *impl_->result;
}

Result<Digest> OuterState::prepare(const OperationId& operation, const StepGain& gain) {
  auto& s = *impl_;
  Buffer momentum;
  Buffer result;
  StateCounters next;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  {
    const Impl::Lock lock(s.mutex);
    PRIME_ASSERT(s.initialized && s.result, "law 2: a step has a base, and a mean");
    if (s.prepared) return fail(ErrorName::InternalError, "operation " + to_string(s.prepared->operation) + " is still prepared");
    momentum = s.momentum;
    result = s.result;
    from = s.slot;
    to = s.free_slot();
    s.making = to;
    next = {s.counters.revision.next(), s.counters.step.next(), s.counters.tokens + gain.tokens, gain.next_sample};
  }
  const auto made = [&]() -> Result<Digest> {
    PRIME_CHECK(s.require_finite(*result, "the mean"));
    kernels::nesterov(
        s.options.rule,
        {.parameters = s.values(from), .momentum = *momentum, .mean = *result, .next_parameters = s.values(to), .next_momentum = *result});
    return state_digest(s.values(to), *result, next, s.options.threads);
  }();
  const Impl::Lock lock(s.mutex);
  s.making.reset();
  if (made) s.prepared = Impl::Prepared{operation, to, next, *made};
  return made;
}

Result<void> OuterState::commit(const OperationId& operation) {
  auto& s = *impl_;
  const Impl::Lock lock(s.mutex);
  if (!s.prepared || s.prepared->operation != operation)
    return fail(ErrorName::InternalError, "operation " + to_string(operation) + " is not prepared");
  const auto prepared = *s.prepared;
  s.become(prepared.slot, s.result, prepared.counters, prepared.digest);
  return {};
}

void OuterState::discard() {
  const Impl::Lock lock(impl_->mutex);
  impl_->prepared.reset();
}

std::optional<OperationId> OuterState::prepared() const {
  const Impl::Lock lock(impl_->mutex);
  return impl_->prepared ? std::optional(impl_->prepared->operation) : std::nullopt;
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

std::uint32_t OuterState::slot() const {
  const Impl::Lock lock(impl_->mutex);
  return impl_->slot;
}

std::span<const float> OuterState::parameters() const { return impl_->values(slot()); }

std::span<const float> OuterState::momentum() const {
  const Impl::Lock lock(impl_->mutex);
  return *impl_->momentum;
}

std::shared_ptr<const Snapshot> OuterState::snapshot(Holder holder) {
  auto& s = *impl_;
  const Impl::Lock lock(s.mutex);
  PRIME_ASSERT(s.initialized, "law 9: there is a state to hold");
  if (auto shared = s.current.lock()) return shared;
  std::uint32_t others = 0;
  for (std::uint32_t at = 0; at < wire::OUTER_SLOTS; ++at) others += at != s.slot && s.pins[at] > 0 ? 1 : 0;
  if (others >= (holder == Holder::Disk ? PINNED_MAX : PINNED_MAX - 1)) return nullptr;
  ++s.pins[s.slot];
  const auto release = [impl = impl_, at = s.slot](const Floats*) {
    const Impl::Lock unpinning(impl->mutex);
    --impl->pins[at];
  };
  // Of the same momentum as the state's: it is freed with the last of those who hold it.
  struct Held {
    Buffer momentum;
    std::shared_ptr<const Floats> pin;
  };
  auto held = std::make_shared<const Held>(Held{s.momentum, std::shared_ptr<const Floats>{s.momentum.get(), release}});
  auto shared = std::make_shared<const Snapshot>(Snapshot{s.layout, s.counters, s.values(s.slot), *s.momentum, s.digest, std::move(held)});
  s.current = shared;
  return shared;
}

std::array<int, wire::OUTER_SLOTS + 1> OuterState::descriptors() const {
  std::array<int, wire::OUTER_SLOTS + 1> numbers{};
  std::ranges::transform(impl_->slots, numbers.begin(), [](const Segment& slot) { return slot.file.number(); });
  numbers.back() = impl_->locals()->file.number();
  return numbers;
}

}  // namespace prime
