// Owns what a session does where no peer waits for another one (Decoupled DiLoCo, arXiv:2604.21428): at each boundary it takes over what
// has arrived, then publishes what is due or asked for. So what is published towards a version has the version before as its base.
#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "runtime/clock.hpp"
#include "runtime/session/session_state.hpp"

namespace prime {
namespace {

/// Tokens² by inner steps: who trains fast and on much weighs more. Saturates where no run comes to.
std::uint64_t throughput(std::uint64_t tokens, std::uint64_t steps) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(std::min(Wide{tokens} * tokens / steps, Wide{std::numeric_limits<std::int64_t>::max()}));
}

}  // namespace

Result<std::vector<Committed>> Session::Impl::free_boundary(bool last, bool all) {
  PRIME_TRY(const bool goes_on, take_over_arrived());
  if (goes_on) {
    for (std::uint32_t fragment = 0; fragment < held.size(); ++fragment) {
      const auto& own = held[fragment];
      const bool asked = own.asked == own.version->next();
      // Who is asked and has just taken the fragment over answers at the next boundary: the others' grace is for that.
      const bool due = asked || all || own.since >= work->plan.inner_steps;
      if (due && own.steps > 0 && !own.published) PRIME_CHECK(publish(fragment));
    }
    if (last) {
      PRIME_CHECK(record_now());
      PRIME_CHECK(link.send(wire::LeaseUsed{work->plan.step}));
    }
  }
  if (last || !goes_on) work.reset();
  return std::exchange(arrived, {});
}

Result<bool> Session::Impl::take_up(const wire::Begin& begin) {
  if (!fits(begin.places)) return unexpected_message();
  told = begin.places;
  work.emplace().plan = begin.plan;
  return take_over_arrived();
}

Result<bool> Session::Impl::hear() {
  while (true) {
    PRIME_TRY(auto received, link.receive_if_any());
    if (!received) return true;
    if (const auto* news = std::get_if<wire::StepCommitted>(&received->message)) {
      if (!fits(news->places)) return unexpected_message();
      note(*news, arrived);
    } else if (const auto* asked = std::get_if<wire::Publish>(&received->message)) {
      if (asked->fragment >= held.size()) return unexpected_message();
      held[asked->fragment].asked = asked->version;
    } else if (const auto* recorded = std::get_if<wire::Recorded>(&received->message)) {
      record_place = recorded->place;
    } else if (const auto* stop = std::get_if<wire::Stop>(&received->message)) {
      return stopped(*stop);
    } else if (std::holds_alternative<wire::Begin>(received->message) || std::holds_alternative<wire::Finish>(received->message)) {
      link.put_back(std::move(*received));
      return false;
    } else {
      return unexpected_message();
    }
  }
}

/// Until nothing newer is known: memory of a version is written to again only after the next one was told.
Result<bool> Session::Impl::take_over_arrived() {
  for (bool any = true; any;) {
    PRIME_TRY(const bool goes_on, hear());
    if (!goes_on) return false;
    any = false;
    for (std::uint32_t fragment = 0; fragment < held.size(); ++fragment) {
      if (held[fragment].version && told[fragment].version <= *held[fragment].version) continue;
      take_over(fragment);
      any = true;
    }
  }
  return true;
}

void Session::Impl::take_over(std::uint32_t fragment) {
  auto& own = held[fragment];
  const bool first = !own.version;
  load(fragment, told[fragment]);
  own.tokens = own.steps = 0;
  own.taken = monotonic_now();
  const auto inner_steps = work->plan.inner_steps;
  if (first) own.since = inner_steps - publication_steps(terms.offsets, layout.fragments(), inner_steps)[fragment];
  else if (!own.published) own.since = 0;
  own.published.reset();
}

Result<void> Session::Impl::publish(std::uint32_t fragment) {
  auto& own = held[fragment];
  own.asked.reset();
  const auto& totals = work->totals;
  wire::Contribute message{.step = own.version->next(),
                           .samples = totals.samples,
                           .loss = totals.made > 0 ? totals.loss_sum / totals.made : 0,
                           .held_out = {},
                           .seconds = std::chrono::duration<double>(monotonic_now() - own.taken).count(),
                           .diverged_at = work->diverged_at};
  const double leased = std::chrono::duration<double>(monotonic_now() - work->begun).count();
  if (totals.data_wait_s && leased > 0)
    message.data_wait_s = *totals.data_wait_s / leased * message.seconds;  // as far as is known of that time
  if (held.size() > 1) message.fragments = {fragment};
  if (own.tokens < own.steps)
    return link.give_up(Error(ErrorName::Usage, "fewer tokens were reported than inner steps, and a contribution weighs by its tokens"));
  PRIME_CHECK(check_arena());
  store(fragment);
  message.tokens = own.tokens;
  message.weight = terms.by_throughput ? throughput(own.tokens, own.steps) : own.tokens;
  own.published = message.step;
  own.since = 0;
  return link.send(message);
}

void Session::Impl::note_inner_step(std::uint64_t tokens) {
  for (auto& each : held) {
    each.tokens += tokens;
    ++each.steps;
    ++each.since;
  }
}

}  // namespace prime
