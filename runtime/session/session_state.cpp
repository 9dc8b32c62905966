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

std::vector<TensorShape> shapes_of(const std::vector<TensorView>& tensors) {
  std::vector<TensorShape> shapes;
  for (const auto& tensor : tensors) shapes.push_back({tensor.name, tensor.shape});
  return shapes;
}

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
  // The agent refuses the same; here the program learns of it before it waits for anybody, and tells.
  const auto undivided = make_layout(shapes_of(tensors));
  if (!undivided) {
    PRIME_CHECK(link.send(wire::Failure{undivided.error()}));
    return link.end(undivided.error());
  }
  wire::Bind bind;
  std::size_t bytes = 0;
  for (const auto& shape : undivided->tensors()) {
    const auto size = packed_size(shape);
    if (bind.tensors.size() == wire::MAX_BIND_TENSORS || bytes + size > MAX_BIND_BYTES) {
      PRIME_CHECK(link.send(std::exchange(bind, {})));
      bytes = 0;
    }
    bytes += size;
    bind.tensors.push_back(shape);
  }
  bind.last = true;
  bind.device = device;
  return link.send(bind);
}

Result<void> Session::Impl::offer_tensors() {
  PRIME_CHECK(tell_shapes());
  PRIME_TRY(const auto received, link.receive());
  if (const auto* stop = std::get_if<wire::Stop>(&received.message)) return stopped(*stop);
  const auto* segments = std::get_if<wire::Segments>(&received.message);
  if (segments == nullptr) return unexpected_message();
  auto divided = make_layout(shapes_of(tensors), segments->division);
  if (!divided || divided->elements() != segments->elements) return unexpected_message();
  layout = std::move(*divided);
  const auto map = [&](std::size_t file, std::uint64_t elements, Access access, SharedFloats& into) -> Result<void> {
    auto mapped = SharedFloats::map(received.descriptors[file].number(), elements, access);
    if (!mapped) return link.end(mapped.error());
    into = std::move(*mapped);
    return {};
  };
  PRIME_CHECK(map(0, wire::outer_elements(layout), Access::ReadOnly, outer));
  PRIME_CHECK(map(1, layout.elements(), Access::ReadWrite, local));
  store();
  return link.send(wire::Initial{});
}

void Session::Impl::store() const {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& home = layout.homes()[i];
    const auto at = layout.begin(home.fragment) + home.offset;
    std::ranges::copy(tensors[i].data, local.values().begin() + static_cast<std::ptrdiff_t>(at));
  }
}

Result<bool> Session::Impl::load(const wire::Blocks& blocks, Revision revision) {
  const bool all_there =
      blocks.size() == layout.fragments() && std::ranges::all_of(blocks, [&](auto block) { return block < wire::block_count(layout); });
  if (!all_there) return unexpected_message();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& home = layout.homes()[i];
    const auto from = blocks[home.fragment] * wire::block_size(layout) + home.offset;
    std::ranges::copy(outer.values().subspan(from, tensors[i].data.size()), tensors[i].data.begin());
  }
  // The agent writes to these blocks again only after the contribution to this step, or once it has told of a later revision.
  return !link.knows_later_than(revision);
}

Result<std::optional<StepPlan>> Session::Impl::next_plan() {
  if (done) return std::nullopt;
  if (step_open) return link.end(Error(ErrorName::Usage, "the step before was not committed"));
  if (!std::exchange(offered, true)) PRIME_CHECK(offer_tensors());
  while (true) {
    PRIME_TRY(const auto received, link.receive());
    if (const auto* begin = std::get_if<wire::Begin>(&received.message)) {
      PRIME_TRY(const bool whole, load(begin->blocks, begin->plan.base));
      if (!whole) continue;
      step_open = true;
      totals = {};
      totals.begun = monotonic_now();
      return begin->plan;
    }
    if (const auto* finish = std::get_if<wire::Finish>(&received.message)) {
      PRIME_CHECK(load(finish->blocks, finish->revision));
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

Result<void> Session::Impl::alive(std::string_view waits_for) {
  const auto now = monotonic_now();
  const bool news = waits_for != last_wait;
  if (!news && last_alive && now - *last_alive < PROGRESS_INTERVAL && !link.hung_up()) return {};
  last_alive = now;
  last_wait = waits_for;
  return link.send_if_possible(wire::Alive{last_wait});
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
      if (told->committed.step < plan.step) continue;
      PRIME_TRY(const bool whole, load(told->blocks, told->committed.revision));
      if (whole) return told->committed;
    } else if (const auto* begin = std::get_if<wire::Begin>(&received.message)) {
      // Decided without us: the tensors follow the run, and the next call finds the step that is on now.
      PRIME_TRY(const bool whole, load(begin->blocks, begin->plan.base));
      if (!whole) continue;
      const Committed passed{OuterStep{begin->plan.step.value - 1}, begin->plan.base, begin->state, 0};
      link.put_back(std::move(received));
      return passed;
    } else if (const auto* finish = std::get_if<wire::Finish>(&received.message)) {
      PRIME_CHECK(load(finish->blocks, finish->revision));
      const Committed passed{finish->step, finish->revision, finish->state, 0};
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
