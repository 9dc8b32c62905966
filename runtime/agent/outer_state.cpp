#include "runtime/agent/outer_state.hpp"

#include <algorithm>
#include <new>

#include "kernels/digest/digest.hpp"
#include "kernels/reduce/reduce.hpp"
#include "messages/assert.hpp"

namespace prime {

Digest state_digest(std::span<const float> parameters, std::span<const float> momentum, const StateCounters& counters, unsigned threads) {
  const auto first = kernels::digest_tensor(std::as_bytes(parameters), threads);
  const auto second = kernels::digest_tensor(std::as_bytes(momentum), threads);
  const std::array<std::uint64_t, 8> parts{first.high,          first.low,       second.high,         second.low, counters.revision.value,
                                           counters.step.value, counters.tokens, counters.next_sample};
  return kernels::digest_bytes(std::as_bytes(std::span{parts}));
}

Result<OuterState::Segment> OuterState::make_segment(const char* name, std::uint64_t elements) {
  Segment segment;
  PRIME_TRY(segment.file, create_memory_file(name, elements * sizeof(float)));
  PRIME_TRY(segment.memory, SharedFloats::map(segment.file.number(), elements, Access::ReadWrite));
  return segment;
}

Result<OuterState> OuterState::create(Layout layout, const OuterStateOptions& options) try {
  PRIME_ASSERT(layout.elements() > 0, "a layout comes from make_layout");
  const auto elements = layout.elements();
  OuterState state;
  for (auto& slot : state.slots_) {
    PRIME_TRY(slot, make_segment("prime-outer", elements));
    PRIME_CHECK(seal_against_new_writers(slot.file));
  }
  PRIME_TRY(state.local_, make_segment("prime-local", elements));
  state.momentum_.resize(elements);
  state.input_.resize(elements);
  state.result_.resize(elements);
  state.layout_ = std::move(layout);
  state.options_ = options;
  return state;
} catch (const std::bad_alloc&) {
  return fail(ErrorName::ProcessFailed, "not enough memory for the outer state");
}

Result<void> OuterState::require_finite(std::span<const float> values, const char* what) const {
  const auto index = kernels::first_non_finite(values);
  if (index == values.size()) return {};
  return fail(ErrorName::NonFiniteValue, layout_.place(index) + " of " + what);
}

std::uint32_t OuterState::free_slot() const {
  std::uint32_t slot = 0;
  while (slot == slot_ || slot == base_) ++slot;
  return slot;
}

void OuterState::adopt(std::uint32_t slot, const StateCounters& counters, const Digest& digest) {
  slot_ = slot;
  counters_ = counters;
  digest_ = digest;
  initialized_ = true;
  prepared_.reset();
  snapshot_.reset();
}

Result<void> OuterState::initialize() {
  // Copied first and checked there: the trainer could change its region between a check and a copy.
  const auto slot = free_slot();
  const auto values = slots_[slot].memory.values();
  std::ranges::copy(local_.memory.values(), values.begin());
  PRIME_CHECK(require_finite(values, "the initial values"));
  std::ranges::fill(momentum_, 0.0F);
  adopt(slot, {}, state_digest(values, momentum_, {}, options_.threads));
  return {};
}

Result<void> OuterState::load(const Snapshot& snapshot) {
  if (snapshot.layout.digest() != layout_.digest())
    return fail(ErrorName::LayoutMismatch, "the loaded state has other tensors: " + first_difference(layout_, snapshot.layout));
  const auto elements = layout_.elements();
  if (snapshot.parameters.size() != elements || snapshot.momentum.size() != elements ||
      state_digest(snapshot.parameters, snapshot.momentum, snapshot.counters, options_.threads) != snapshot.state) {
    return fail(ErrorName::FetchFailed, "the loaded state does not have the digest " + to_string(snapshot.state));
  }
  const auto slot = free_slot();
  std::ranges::copy(snapshot.parameters, slots_[slot].memory.values().begin());
  std::ranges::copy(snapshot.momentum, momentum_.begin());
  adopt(slot, snapshot.counters, snapshot.state);
  return {};
}

Result<void> OuterState::take_contribution() {
  PRIME_ASSERT(initialized_, "law 2: a contribution has a base");
  kernels::pseudo_gradient(slots_[base_.value_or(slot_)].memory.values(), local_.memory.values(), input_);
  base_.reset();
  return require_finite(input_, "the contribution");
}

Result<Digest> OuterState::prepare(const OperationId& operation, const StepGain& gain) {
  PRIME_ASSERT(initialized_, "law 2: a step has a base");
  if (prepared_) return fail(ErrorName::InternalError, "operation " + to_string(prepared_->operation) + " is still prepared");
  PRIME_CHECK(require_finite(result_, "the mean"));
  const auto slot = free_slot();
  const auto next_parameters = slots_[slot].memory.values();
  kernels::nesterov(
      options_.rule,
      {.parameters = parameters(), .momentum = momentum_, .mean = result_, .next_parameters = next_parameters, .next_momentum = result_});
  const StateCounters next{counters_.revision.next(), counters_.step.next(), counters_.tokens + gain.tokens, gain.next_sample};
  prepared_ = Prepared{operation, slot, next, state_digest(next_parameters, result_, next, options_.threads)};
  return prepared_->digest;
}

Result<void> OuterState::commit(const OperationId& operation) {
  if (!prepared_ || prepared_->operation != operation) {
    return fail(ErrorName::InternalError, "operation " + to_string(operation) + " is not prepared");
  }
  momentum_.swap(result_);
  adopt(prepared_->slot, prepared_->counters, prepared_->digest);
  return {};
}

void OuterState::discard() { prepared_.reset(); }

std::optional<OperationId> OuterState::prepared() const { return prepared_ ? std::optional(prepared_->operation) : std::nullopt; }

std::shared_ptr<const Snapshot> OuterState::snapshot() {
  PRIME_ASSERT(initialized_, "law 9: there is a state to copy");
  auto shared = snapshot_.lock();
  if (!shared) {
    const auto current = parameters();
    shared = std::make_shared<const Snapshot>(
        Snapshot{layout_, counters_, {current.begin(), current.end()}, {momentum_.begin(), momentum_.end()}, digest_});
    snapshot_ = shared;
  }
  return shared;
}

std::array<int, wire::OUTER_SLOTS + 1> OuterState::descriptors() const {
  std::array<int, wire::OUTER_SLOTS + 1> numbers{};
  std::ranges::transform(slots_, numbers.begin(), [](const Segment& slot) { return slot.file.number(); });
  numbers.back() = local_.file.number();
  return numbers;
}

}  // namespace prime
