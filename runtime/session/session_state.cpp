#include "runtime/session/session_state.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>

#include "kernels/small_floats.hpp"
#include "runtime/clock.hpp"

namespace prime {

namespace {

constexpr Duration PROGRESS_INTERVAL{50ms};
/// Leaves room in a packet for what surrounds the tensors, and for every character of a name being escaped.
constexpr std::size_t MAX_BIND_BYTES = MAX_PACKET_BYTES / 2;

/// At most what one tensor takes in a packet: its name with every character escaped, and 20 digits for each extent.
std::size_t packed_size(const TensorShape& tensor) { return 2 * tensor.name.size() + 21 * tensor.shape.size() + 64; }

std::span<float> floats_of(std::span<std::byte> bytes) { return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)}; }
std::span<std::uint16_t> codes_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint16_t*>(bytes.data()), bytes.size() / sizeof(std::uint16_t)};
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

Result<void> Session::Impl::add(BoundTensor tensor) {
  if (offered) return prime::fail(ErrorName::Usage, "tensors are bound before the first step");
  auto& count = counts[static_cast<std::size_t>(tensor.role)];
  PRIME_CHECK(check_tensor_count(count + 1));
  PRIME_CHECK(count_elements(tensor.shape));
  PRIME_CHECK(check_type(tensor));
  if (!names.emplace(tensor.role, tensor.shape.name).second)
    return prime::fail(ErrorName::LayoutUnusable, "`" + tensor.shape.name + "` is bound twice");
  ++count;
  bound.push_back(std::move(tensor));
  return {};
}

Result<void> Session::Impl::tell_shapes() {
  // The agent refuses the same; here the program learns of it before it waits for anybody, and tells.
  if (const auto undivided = make_bound_layout(bound); !undivided) return link.give_up(undivided.error());
  if (const auto records_of = make_record_layout(bound, true); !records_of) return link.give_up(records_of.error());
  wire::Bind bind;
  std::size_t bytes = 0;
  for (const auto& tensor : bound) {
    const auto size = packed_size(tensor.shape);
    if (bind.tensors.size() == wire::MAX_BIND_TENSORS || bytes + size > MAX_BIND_BYTES) {
      PRIME_CHECK(link.send(std::exchange(bind, {})));
      bytes = 0;
    }
    bytes += size;
    bind.tensors.push_back(tensor);
  }
  bind.last = true;
  bind.device = device;
  bind.shared = arena_is_layout();
  if (bind.shared) return link.send(bind, std::array{arena->descriptor()});
  return link.send(bind);
}

Result<void> Session::Impl::offer_tensors() {
  PRIME_CHECK(tell_shapes());
  PRIME_TRY(const auto received, link.receive());
  if (const auto* stop = std::get_if<wire::Stop>(&received.message)) return stopped(*stop);
  const auto* segments = std::get_if<wire::Segments>(&received.message);
  if (segments == nullptr) return unexpected_message();
  PRIME_CHECK(map_memory(*segments, received.descriptors));
  in_place = segments->in_place;
  PRIME_CHECK(check_arena());
  for (std::uint32_t fragment = 0; fragment < layout.fragments(); ++fragment) store(fragment);
  PRIME_CHECK(store_kept(record.copied, segments->record_place));
  return link.send(wire::Initial{});
}

Result<void> Session::Impl::map_memory(const wire::Segments& segments, const std::vector<Descriptor>& descriptors) {
  auto divided = make_layout(averaged_of(bound), segments.division);
  auto recorded = make_record_layout(bound, segments.record_every > 0);
  if (!divided || divided->elements() != segments.elements || !recorded || recorded->bytes != segments.record_bytes)
    return unexpected_message();
  layout = std::move(*divided);
  record = std::move(*recorded);
  record_every = segments.record_every;
  terms = segments;
  held.assign(layout.fragments(), {});
  const auto map = [&](std::size_t file, std::uint64_t elements, Access access, SharedFloats& into) -> Result<void> {
    auto mapped = SharedFloats::map(descriptors[file].number(), elements, access);
    if (!mapped) return link.end(mapped.error());
    into = std::move(*mapped);
    return {};
  };
  if (segments.in_place && !arena_is_layout()) return unexpected_message();
  PRIME_CHECK(map(0, wire::outer_elements(layout), Access::ReadOnly, outer));
  PRIME_CHECK(map(1, layout.elements(), Access::ReadWrite, local));
  if (record.bytes == 0) return {};
  return map(2, record.bytes / sizeof(float) * wire::RECORDS, Access::ReadWrite, records);
}

/// Calls `visit(memory, type, home)` for each averaged tensor.
template <class Visit>
void Session::Impl::for_each_averaged(const Visit& visit) const {
  std::size_t averaged = 0;
  for (std::size_t i = 0; i < bound.size(); ++i)
    if (bound[i].role == Role::Averaged) visit(memory[i].bytes, bound[i].type, layout.homes()[averaged++]);
}

void Session::Impl::store(std::uint32_t fragment) const {
  if (in_place) return;
  for_each_averaged([&](std::span<std::byte> bytes, DataType type, const Home& home) {
    if (home.fragment != fragment) return;
    const auto into = local.values().subspan(layout.begin(home.fragment) + home.offset);
    if (type == DataType::F32) std::ranges::copy(floats_of(bytes), into.begin());
    else std::ranges::transform(codes_of(bytes), into.begin(), kernels::bf16_to_f32);
  });
}

bool Session::Impl::fits(const wire::Places& places) const {
  return places.size() == layout.fragments() &&
         std::ranges::all_of(places, [&](const wire::Place& place) { return place.block < wire::block_count(layout); });
}

void Session::Impl::load(std::uint32_t fragment, const wire::Place& place, float keep) {
  for_each_averaged([&](std::span<std::byte> bytes, DataType type, const Home& home) {
    if (home.fragment != fragment) return;
    const auto from = outer.values().subspan(place.block * wire::block_size(layout) + home.offset, bytes.size() / element_bytes(type));
    const auto mix = [&](float theirs, float own) { return keep * own + (1.0F - keep) * theirs; };
    if (type == DataType::F32) {
      const auto own = floats_of(bytes);
      if (keep == 0) std::ranges::copy(from, own.begin());
      else std::ranges::transform(from, own, own.begin(), mix);
    } else {
      const auto own = codes_of(bytes);
      const auto mixed = [&](float theirs, std::uint16_t code) { return kernels::f32_to_bf16(mix(theirs, kernels::bf16_to_f32(code))); };
      if (keep == 0) std::ranges::transform(from, own.begin(), kernels::f32_to_bf16);
      else std::ranges::transform(from, own, own.begin(), mixed);
    }
  });
  held[fragment].version = place.version;
  loaded = true;
}

Result<void> Session::Impl::load_all(const wire::Places& places) {
  if (!fits(places)) return unexpected_message();
  for (std::uint32_t fragment = 0; fragment < places.size(); ++fragment) load(fragment, places[fragment]);
  return {};
}

Result<bool> Session::Impl::load(const wire::Begin& begin) {
  if (!fits(begin.places)) return unexpected_message();
  // What it has made of a step that it leaves is void: nothing of that is to be in what it makes now.
  if (begin.plan.step < std::exchange(loaded_for, begin.plan.step))
    for (auto& each : held) each = {};
  for (std::uint32_t fragment = 0; fragment < held.size(); ++fragment) {
    if (comes_later(fragment, begin)) continue;
    auto& own = held[fragment];
    if (!std::ranges::binary_search(begin.in_flight, fragment)) own.published.reset();
    if (!own.version || *own.version < begin.places[fragment].version) load(fragment, begin.places[fragment]);
  }
  if (told.empty()) told = begin.places;
  // The agent writes to these blocks again only after the contribution to this step, or once it has told of a later revision. While
  // something is reduced that this trainer has published, its commit says nothing of the blocks that a step begins from.
  return !link.knows_later_than(begin.plan.base) || (!begin.in_flight.empty() && !link.knows_another_step());
}

/// However early it is known what became of a publication, it is taken over when it is due: else the values would hang on who is fast.
bool Session::Impl::comes_later(std::uint32_t fragment, const wire::Begin& begin) const {
  const auto& own = held[fragment];
  const bool is_next = own.version && own.published && own.published->next() == begin.plan.step;
  if (!is_next || !own.heard || begin.places[fragment].version != *own.published) return false;
  return due_of(fragment, begin.plan.inner_steps) > begin.plan.inner_steps;
}

Samples OuterWork::samples_after(std::uint64_t taken) const {
  const std::uint64_t granted = std::uint64_t{plan.inner_steps} * plan.batch;
  return {plan.first_sample + taken, std::min<std::uint64_t>(plan.batch, granted - std::min(granted, taken))};
}

Result<bool> Session::Impl::begin_work() {
  PRIME_CHECK(check_arena());
  if (!std::exchange(offered, true)) PRIME_CHECK(offer_tensors());
  while (true) {
    PRIME_TRY(const auto received, link.receive());
    if (const auto* begin = std::get_if<wire::Begin>(&received.message)) {
      PRIME_TRY(const bool whole, terms.decoupled ? take_up(*begin) : load(*begin));
      // Also where a later step is begun instead: it is said once.
      if (begin->copied) PRIME_CHECK(load_kept(record.copied, begin->record_place));
      if (begin->resume) PRIME_CHECK(load_kept(record.kept(), begin->resume->place));
      restored = restored || begin->resume.has_value();
      if (!whole) continue;
      PRIME_CHECK(begin_work(*begin));
      return true;
    }
    if (const auto* finish = std::get_if<wire::Finish>(&received.message)) {
      PRIME_CHECK(load_all(finish->places));
      done = true;
      final_plan = finish->plan;
      return false;
    }
    if (const auto* stop = std::get_if<wire::Stop>(&received.message)) {
      if (stop->error) return stopped(*stop);
      done = true;
      return false;
    }
    if (const auto* asked = std::get_if<wire::Publish>(&received.message); asked != nullptr && asked->fragment < held.size()) {
      held[asked->fragment].asked = asked->version;
      continue;
    }
    if (const auto* recorded = std::get_if<wire::Recorded>(&received.message); recorded != nullptr && terms.decoupled) {
      record_place = recorded->place;
      continue;
    }
    // A commit of a step that this trainer took no part in is news that the next `begin` repeats.
    const auto* committed = std::get_if<wire::StepCommitted>(&received.message);
    if (committed == nullptr || !fits(committed->places)) return unexpected_message();
    std::vector<Committed> news;
    note(*committed, terms.decoupled ? arrived : news);
  }
}

Result<void> Session::Impl::begin_work(const wire::Begin& begin) {
  record_place = begin.record_place;
  work.emplace().plan = begin.plan;
  work->published.resize(held.size());
  for (const auto fragment : begin.published) {
    if (fragment >= held.size()) return unexpected_message();
    work->published[fragment] = true;
  }
  work->begun = monotonic_now();
  if (begin.resume && begin.resume->within) resume(*begin.resume);
  return {};
}

Result<std::optional<InnerStep>> Session::Impl::next() {
  if (done) return std::nullopt;
  PRIME_CHECK(link.intact());
  if (!work) {
    PRIME_TRY(const bool begun, begin_work());
    if (!begun) return std::nullopt;
  }
  step_open = true;
  const auto& plan = work->plan;
  return InnerStep{.outer_step = plan.step,
                   .base = plan.base,
                   .rank = plan.rank,
                   .peers = plan.peers,
                   .index = work->totals.made,
                   .inner_steps = plan.inner_steps,
                   .clock = (plan.step.value - 1) * plan.inner_steps + work->totals.made,
                   .total = std::uint64_t{plan.total_steps} * plan.inner_steps,
                   .samples = work->samples_after(work->totals.samples),
                   .evaluate = work->totals.made == 0 ? plan.evaluate : EvaluationShare{},
                   .loaded = std::exchange(loaded, false),
                   .restored = std::exchange(restored, false),
                   .stored = is_boundary(work->totals.made + 1) || record_is_due(work->totals.made + 1)};
}

std::vector<Samples> Session::Impl::upcoming(std::size_t count) const {
  std::vector<Samples> ahead;
  if (!work) return ahead;
  auto taken = work->totals.samples;
  for (auto index = work->totals.made + 1; index < work->plan.inner_steps && ahead.size() < count; ++index) {
    taken += work->samples_after(taken).count;
    ahead.push_back(work->samples_after(taken));
  }
  return ahead;
}

Result<std::vector<Committed>> Session::Impl::report(const InnerReport& inner) {
  if (!step_open) return prime::fail(ErrorName::Usage, "no step is in progress: `next` gives one");
  const auto granted = work->samples_after(work->totals.samples).count;
  const auto taken = inner.samples.value_or(granted);
  const auto left = std::uint64_t{work->plan.inner_steps} * work->plan.batch - work->totals.samples;
  if (taken > left)
    return prime::fail(ErrorName::Usage, "an inner step took " + std::to_string(taken) + " samples, and this peer has " +
                                             std::to_string(left) + " left in this outer step (`train.batch` · `sync.inner_steps`)");
  step_open = false;
  ++work->totals.made;
  work->totals.loss_sum += inner.loss;
  if (work->diverged_at == 0 && !std::isfinite(inner.loss)) work->diverged_at = work->totals.made;
  work->totals.tokens += inner.tokens;
  if (terms.decoupled) note_inner_step(inner.tokens);
  else
    for (auto& each : held) each.tokens += inner.tokens;
  work->totals.samples += taken;
  if (inner.held_out) work->totals.held_out = inner.held_out;
  if (inner.data_wait_s) work->totals.data_wait_s = work->totals.data_wait_s.value_or(0) + *inner.data_wait_s;
  PRIME_CHECK(tell_progress(inner.loss));
  const bool last = work->totals.made == work->plan.inner_steps;
  std::vector<Committed> committed;
  if (terms.decoupled) {
    PRIME_TRY(committed, free_boundary(last, false));
  } else if (is_boundary(work->totals.made)) {
    PRIME_TRY(committed, boundary(last));
  }
  if (work) PRIME_CHECK(record_if_due());
  return committed;
}

Result<std::vector<Committed>> Session::Impl::contribute() {
  if (!work || work->totals.made == 0) return prime::fail(ErrorName::Usage, "nothing was reported that could be contributed");
  step_open = false;
  return terms.decoupled ? free_boundary(true, true) : boundary(true);
}

Result<void> Session::Impl::tell_progress(double loss) {
  const auto now = monotonic_now();
  const bool due = !last_told || now - *last_told >= PROGRESS_INTERVAL;
  if (!due && !link.hung_up()) return {};
  last_told = now;
  return link.send_if_possible(wire::Inner{work->plan.step, work->totals.made, loss, work->totals.tokens, work->totals.samples});
}

Result<void> Session::Impl::alive(std::string_view waits_for) {
  const auto now = monotonic_now();
  const bool news = waits_for != last_wait;
  if (!news && last_alive && now - *last_alive < PROGRESS_INTERVAL && !link.hung_up()) return {};
  last_alive = now;
  last_wait = waits_for;
  return link.send_if_possible(wire::Alive{last_wait});
}

}  // namespace prime
