#include "runtime/session/session_state.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>

#include "runtime/clock.hpp"

namespace prime {

namespace {

constexpr Duration PROGRESS_INTERVAL{50ms};
/// Leaves room in a packet for what surrounds the tensors, and for every character of a name being escaped.
constexpr std::size_t MAX_BIND_BYTES = MAX_PACKET_BYTES / 2;

/// At most what one tensor takes in a packet: its name with every character escaped, and 20 digits for each extent.
std::size_t packed_size(const TensorShape& tensor) { return 2 * tensor.name.size() + 21 * tensor.shape.size() + 32; }

}  // namespace

tl::unexpected<Error> Session::Impl::stopped(const wire::Stop& stop) {
  return link.end(stop.error.value_or(Error(ErrorName::RunDone, "the agent has stopped")));
}

tl::unexpected<Error> Session::Impl::unexpected_message() {
  return link.end(Error(ErrorName::TrainerProtocol, "the agent sent a message out of order"));
}

Result<void> Session::Impl::await_welcome(Instant deadline) {
  PRIME_TRY(auto received, link.receive(deadline));
  if (auto* said = std::get_if<wire::Welcome>(&received.message)) {
    welcome = std::move(*said);
    return {};
  }
  if (const auto* stop = std::get_if<wire::Stop>(&received.message)) return stopped(*stop);
  return unexpected_message();
}

Result<void> Session::Impl::tell_shapes() {
  std::vector<TensorShape> shapes;
  for (const auto& tensor : tensors) shapes.push_back({tensor.name, tensor.shape});
  // The agent refuses the same; here the program learns of it before it waits for anybody, and tells.
  const auto layout = make_layout(std::move(shapes));
  if (!layout) {
    PRIME_CHECK(link.send(wire::Failure{layout.error()}));
    return link.end(layout.error());
  }
  wire::Bind bind;
  std::size_t bytes = 0;
  for (const auto& shape : layout->tensors()) {
    const auto size = packed_size(shape);
    if (bind.tensors.size() == wire::MAX_BIND_TENSORS || bytes + size > MAX_BIND_BYTES) {
      PRIME_CHECK(link.send(std::exchange(bind, {})));
      bytes = 0;
    }
    bytes += size;
    bind.tensors.push_back(shape);
  }
  bind.last = true;
  return link.send(bind);
}

Result<void> Session::Impl::offer_tensors() {
  std::uint64_t elements = 0;
  for (const auto& tensor : tensors) elements += tensor.data.size();
  PRIME_CHECK(tell_shapes());
  PRIME_TRY(const auto received, link.receive());
  if (const auto* stop = std::get_if<wire::Stop>(&received.message)) return stopped(*stop);
  const auto* segments = std::get_if<wire::Segments>(&received.message);
  if (segments == nullptr || segments->elements != elements) return unexpected_message();
  for (std::size_t slot = 0; slot < wire::OUTER_SLOTS; ++slot) {
    auto mapped = SharedFloats::map(received.descriptors[slot].number(), elements, Access::ReadOnly);
    if (!mapped) return link.end(mapped.error());
    slots.push_back(std::move(*mapped));
  }
  auto mapped = SharedFloats::map(received.descriptors[wire::OUTER_SLOTS].number(), elements, Access::ReadWrite);
  if (!mapped) return link.end(mapped.error());
  local = std::move(*mapped);
  store();
  return link.send(wire::Initial{});
}

void Session::Impl::store() const {
  auto out = local.values().begin();
  for (const auto& tensor : tensors) out = std::ranges::copy(tensor.data, out).out;
}

bool Session::Impl::load(std::uint32_t slot, Revision revision) {
  auto in = slots[slot].values().begin();
  for (auto& tensor : tensors) {
    const auto count = static_cast<std::ptrdiff_t>(tensor.data.size());
    std::copy(in, in + count, tensor.data.begin());
    in += count;
  }
  // The agent writes to this slot again only after the contribution to this step, or once it has told of a later revision.
  return !link.knows_later_than(revision);
}

Result<std::optional<StepPlan>> Session::Impl::next_plan() {
  if (done) return std::nullopt;
  if (step_open) return link.end(Error(ErrorName::Usage, "the step before was not committed"));
  if (!std::exchange(offered, true)) PRIME_CHECK(offer_tensors());
  while (true) {
    PRIME_TRY(const auto received, link.receive());
    if (const auto* begin = std::get_if<wire::Begin>(&received.message)) {
      if (!load(begin->slot, begin->plan.base)) continue;
      step_open = true;
      totals = {};
      totals.begun = monotonic_now();
      return begin->plan;
    }
    if (const auto* finish = std::get_if<wire::Finish>(&received.message)) {
      load(finish->slot, finish->revision);
      done = true;
      final_plan = finish->plan;
      return std::nullopt;
    }
    if (const auto* stop = std::get_if<wire::Stop>(&received.message)) {
      if (stop->error) return stopped(*stop);
      done = true;
      return std::nullopt;
    }
    // A commit of a step that this trainer took no part in is news that the next `begin` repeats.
    if (!std::holds_alternative<wire::StepCommitted>(received.message)) return unexpected_message();
  }
}

Result<void> Session::Impl::report(const StepPlan& plan, const InnerReport& inner) {
  ++totals.inner_steps;
  totals.loss_sum += inner.loss;
  if (totals.diverged_at == 0 && !std::isfinite(inner.loss)) totals.diverged_at = totals.inner_steps;
  totals.tokens += inner.tokens;
  totals.samples += inner.samples;
  const auto now = monotonic_now();
  const bool due = !totals.last_told || now - *totals.last_told >= PROGRESS_INTERVAL;
  if (!due && !link.hung_up()) return {};
  totals.last_told = now;
  return link.send_if_possible(wire::Inner{plan.step, totals.inner_steps, inner.loss, totals.tokens, totals.samples});
}

Result<void> Session::Impl::alive() {
  const auto now = monotonic_now();
  if (last_alive && now - *last_alive < PROGRESS_INTERVAL && !link.hung_up()) return {};
  last_alive = now;
  return link.send_if_possible(wire::Alive{});
}

Result<Committed> Session::Impl::commit(const StepPlan& plan, const std::optional<HeldOut>& held_out) {
  if (!std::exchange(step_open, false)) return link.end(Error(ErrorName::Usage, "no step is in progress"));
  store();
  const double loss = totals.inner_steps == 0 ? std::numeric_limits<double>::quiet_NaN() : totals.loss_sum / totals.inner_steps;
  const double seconds = std::chrono::duration<double>(monotonic_now() - totals.begun).count();
  PRIME_CHECK(link.send(wire::Contribute{plan.step, totals.tokens, totals.samples, loss, held_out, seconds, totals.diverged_at}));
  while (true) {
    PRIME_TRY(auto received, link.receive());
    if (const auto* told = std::get_if<wire::StepCommitted>(&received.message)) {
      if (told->committed.step >= plan.step && load(told->slot, told->committed.revision)) return told->committed;
    } else if (const auto* begin = std::get_if<wire::Begin>(&received.message)) {
      // Decided without us: the tensors follow the run, and the next call finds the step that is on now.
      if (!load(begin->slot, begin->plan.base)) continue;
      const Committed passed{OuterStep{begin->plan.base.value}, begin->plan.base, begin->state, 0};
      link.put_back(std::move(received));
      return passed;
    } else if (const auto* finish = std::get_if<wire::Finish>(&received.message)) {
      load(finish->slot, finish->revision);
      const Committed passed{OuterStep{finish->revision.value}, finish->revision, finish->state, 0};
      link.put_back(std::move(received));
      return passed;
    } else if (const auto* stop = std::get_if<wire::Stop>(&received.message)) {
      return stopped(*stop);
    } else {
      return unexpected_message();
    }
  }
}

}  // namespace prime
