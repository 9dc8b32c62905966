// Owns what a session publishes of its fragments at a boundary between two inner steps, and when it takes over what became of them.
#include <algorithm>
#include <chrono>

#include "runtime/clock.hpp"
#include "runtime/session/session_state.hpp"

namespace prime {

/// Something is published or taken over after so many inner steps of an outer step.
bool Session::Impl::is_boundary(std::uint32_t made) const {
  if (terms.decoupled) return true;
  const auto inner_steps = work->plan.inner_steps;
  const auto is_it = [&](std::uint32_t offset) { return offset == made || (offset + terms.overlap) % inner_steps == made % inner_steps; };
  return made == inner_steps || std::ranges::any_of(publication_steps(terms.offsets, layout.fragments(), inner_steps), is_it);
}

/// The inner step after which the result of what was published of a fragment is taken over, counted on beyond the end of an outer step.
std::uint32_t Session::Impl::due_of(std::uint32_t fragment, std::uint32_t inner_steps) const {
  return publication_steps(terms.offsets, layout.fragments(), inner_steps)[fragment] + terms.overlap;
}

/// Whether the result of what was published of a fragment is due, be it in the next outer step.
bool Session::Impl::takes_over(std::uint32_t fragment, bool last) const {
  const auto& published = held[fragment].published;
  if (!published) return false;
  const auto& plan = work->plan;
  const auto due = due_of(fragment, plan.inner_steps);
  if (*published < plan.step) return due <= plan.inner_steps + work->totals.made;
  return due <= (last ? plan.inner_steps : work->totals.made);
}

Result<std::vector<Committed>> Session::Impl::boundary(bool last) {
  const auto steps = publication_steps(terms.offsets, layout.fragments(), work->plan.inner_steps);
  std::vector<Committed> committed;
  std::vector<std::uint32_t> due;
  std::vector<std::uint32_t> before;
  for (std::uint32_t fragment = 0; fragment < steps.size(); ++fragment) {
    if (work->published[fragment] || (!last && steps[fragment] > work->totals.made)) continue;
    due.push_back(fragment);
    if (held[fragment].published) before.push_back(fragment);
  }
  // The agent reads there what was published before, until that is committed.
  PRIME_TRY(bool goes_on, await(before, committed));
  if (goes_on) {
    for (const auto fragment : before) held[fragment].published.reset();
    PRIME_CHECK(publish(due, last));
    auto taken = before;
    for (std::uint32_t fragment = 0; fragment < steps.size(); ++fragment)
      if (std::ranges::find(before, fragment) == before.end() && takes_over(fragment, last)) taken.push_back(fragment);
    std::vector<std::uint32_t> awaited{taken.begin() + static_cast<std::ptrdiff_t>(before.size()), taken.end()};
    PRIME_TRY(goes_on, await(awaited, committed));
    if (goes_on) {
      for (const auto fragment : awaited) held[fragment].published.reset();
      if (!terms.eager) PRIME_CHECK(take_over(taken));
    }
  }
  if (!goes_on)
    for (auto& each : held) each.tokens = 0;
  if (last || !goes_on) work.reset();
  return committed;
}

Result<void> Session::Impl::publish(const std::vector<std::uint32_t>& fragments, bool last) {
  if (fragments.empty()) return {};
  if (std::ranges::any_of(fragments, [&](std::uint32_t fragment) { return held[fragment].tokens == 0; }))
    return link.give_up(Error(ErrorName::Usage,
                              "no token was reported since the last publication, and a contribution weighs as many as it was trained on"));
  PRIME_CHECK(check_arena());
  for (const auto fragment : fragments) store(fragment);
  // What is read where it lies is no version any more. And who hears of a result only after its next work begins that from the state again:
  // what it has published would be in that, too.
  for (const auto fragment : fragments)
    if (in_place || terms.overlap == work->plan.inner_steps) held[fragment].version.reset();
  const bool records = last && record.bytes > 0;
  if (records) {
    PRIME_TRY(const auto place, free_place());
    PRIME_CHECK(store_kept(record.kept(), place));
  }
  const auto& totals = work->totals;
  const double seconds = std::chrono::duration<double>(monotonic_now() - work->begun).count();
  wire::Contribute message{
      work->plan.step,   0, totals.samples, totals.loss_sum / totals.made, totals.held_out, seconds, work->diverged_at, records, {}, 0,
      totals.data_wait_s};
  // Those that were published at the same time before have trained on as much since.
  for (std::size_t i = 0; i < fragments.size();) {
    message.fragments.clear();
    message.weight = message.tokens = held[fragments[i]].tokens;
    for (; i < fragments.size() && held[fragments[i]].tokens == message.weight; ++i) message.fragments.push_back(fragments[i]);
    message.recorded = records && i == fragments.size();
    if (message.fragments.size() == held.size()) message.fragments.clear();
    PRIME_CHECK(link.send(message));
  }
  for (const auto fragment : fragments) {
    work->published[fragment] = true;
    held[fragment] = {held[fragment].version, work->plan.step, false, 0};
  }
  return {};
}

void Session::Impl::note(const wire::StepCommitted& news, std::vector<Committed>& committed) {
  const auto made = [](const wire::Places& places) { return std::ranges::min_element(places, {}, &wire::Place::version)->version; };
  if (told.empty() || made(news.places) > made(told)) committed.push_back(news.committed);
  told = news.places;
  // A late trainer may have begun from a newer version than that which its work was for: what is told after that has it.
  for (std::uint32_t fragment = 0; fragment < held.size(); ++fragment)
    if (const auto& published = held[fragment].published; published && *published <= told[fragment].version) held[fragment].heard = true;
}

Result<bool> Session::Impl::await(const std::vector<std::uint32_t>& fragments, std::vector<Committed>& committed) {
  std::optional<FromAgent> ahead;  // a step that begins beside what is awaited
  bool goes_on = true;
  while (goes_on && !std::ranges::all_of(fragments, [&](std::uint32_t fragment) { return held[fragment].heard; })) {
    PRIME_TRY(auto received, link.receive());
    if (const auto* news = std::get_if<wire::StepCommitted>(&received.message)) {
      if (!fits(news->places)) return unexpected_message();
      note(*news, committed);
    } else if (const auto* stop = std::get_if<wire::Stop>(&received.message)) {
      return stopped(*stop);
    } else if (const auto* begin = std::get_if<wire::Begin>(&received.message)) {
      const bool beside = std::ranges::all_of(fragments, [&](std::uint32_t fragment) {
        return held[fragment].heard || std::ranges::binary_search(begin->in_flight, fragment);
      });
      if (beside) {
        ahead = std::move(received);
        continue;
      }
      PRIME_TRY(goes_on, pass(std::move(received), committed));
    } else if (std::holds_alternative<wire::Finish>(received.message)) {
      PRIME_TRY(goes_on, pass(std::move(received), committed));
    } else {
      return unexpected_message();
    }
  }
  if (ahead && goes_on) link.put_back(std::move(*ahead));
  return goes_on;
}

Result<bool> Session::Impl::pass(FromAgent received, std::vector<Committed>& committed) {
  const bool waits_for_all = terms.overlap == 0;
  if (const auto* begin = std::get_if<wire::Begin>(&received.message); begin != nullptr && waits_for_all) {
    PRIME_TRY(const bool whole, load(*begin));
    if (!whole) return true;  // another one follows
    committed.push_back({OuterStep{begin->plan.step.value - 1}, begin->plan.base, begin->state, 0});
  } else if (const auto* finish = std::get_if<wire::Finish>(&received.message); finish != nullptr && waits_for_all) {
    PRIME_CHECK(load_all(finish->places));
    committed.push_back({finish->step, finish->revision, finish->state, 0});
  }
  link.put_back(std::move(received));
  return false;
}

Result<void> Session::Impl::take_over(const std::vector<std::uint32_t>& fragments) {
  for (const auto fragment : fragments) load(fragment, told[fragment], static_cast<float>(terms.mix));
  return {};
}

}  // namespace prime
