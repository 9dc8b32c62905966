// Owns what a session writes into records and reads from them, and which of its tensors lie in memory that it has given.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/clock.hpp"
#include "runtime/session/session_state.hpp"

namespace prime {

Result<std::optional<std::uint64_t>> Session::Impl::place_in_arena(const std::string& name, std::span<const std::byte> bytes) {
  const auto place = arena ? arena->find(bytes) : std::nullopt;
  if (!place) return std::nullopt;
  if (place->given_back) return prime::fail(ErrorName::LayoutUnusable, "`" + name + "` lies in memory of `allocate` that was given back");
  const auto end = place->first + (bytes.size() + sizeof(float) - 1) / sizeof(float);
  const auto next = bound_in_arena.upper_bound(place->first);
  if (next != bound_in_arena.end() && *memory[next->second].lies_at < end)
    return prime::fail(ErrorName::LayoutUnusable,
                       "`" + name + "` lies where `" + bound[next->second].shape.name + "` does, in memory of `allocate`");
  bound_in_arena.emplace(end, bound.size());
  return place->first;
}

bool Session::Impl::arena_is_layout() const {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].role != Role::Averaged) continue;
    if (bound[i].type != DataType::F32 || memory[i].lies_at != end) return false;
    end += memory[i].bytes.size() / sizeof(float);
  }
  return end > 0;
}

Result<void> Session::Impl::check_arena() {
  for (std::size_t i = 0; arena && arena->has_given_back() && i < bound.size(); ++i)
    if (memory[i].lies_at && arena->find(memory[i].bytes)->given_back)
      return link.give_up(Error(ErrorName::Usage, "`" + bound[i].shape.name + "` is bound, and its memory was given back"));
  return {};
}

std::span<std::byte> Session::Impl::part(std::uint32_t number, const RecordLayout::Place& place) const {
  return std::as_writable_bytes(records.values()).subspan(number * record.bytes + place.offset_bytes, place.bytes);
}

Result<void> Session::Impl::store_kept(const std::vector<RecordLayout::Place>& places, std::uint32_t number) {
  for (const auto& place : places) {
    const auto& [bytes, blob, lies_at] = memory[place.tensor];
    const auto into = part(number, place);
    if (!blob) {
      std::ranges::copy(bytes, into.begin());
      continue;
    }
    const auto saved = blob->save();
    if (saved.size() > blob->capacity)
      return link.give_up(Error(ErrorName::Usage, "`" + blob->name + "` has " + std::to_string(saved.size()) +
                                                      " bytes, and was bound with a capacity of " + std::to_string(blob->capacity)));
    const std::uint64_t length = saved.size();
    std::memcpy(into.data(), &length, BLOB_LENGTH_BYTES);
    std::ranges::copy(std::as_bytes(std::span{saved}), into.begin() + BLOB_LENGTH_BYTES);
  }
  return {};
}

Result<void> Session::Impl::load_kept(const std::vector<RecordLayout::Place>& places, std::uint32_t number) {
  for (const auto& place : places) {
    const auto& [bytes, blob, lies_at] = memory[place.tensor];
    const auto from = part(number, place);
    if (!blob) {
      std::ranges::copy(from, bytes.begin());
      continue;
    }
    std::uint64_t length = 0;
    std::memcpy(&length, from.data(), BLOB_LENGTH_BYTES);
    const auto kept = from.subspan(BLOB_LENGTH_BYTES, std::min(length, blob->capacity));
    if (auto done = blob->load({reinterpret_cast<const char*>(kept.data()), kept.size()}); !done)
      return link.give_up(std::move(done.error()).with_context("loading the private `" + blob->name + "`"));
  }
  return {};
}

void Session::Impl::store_locals(std::uint32_t number) const {
  for (const auto& place : record.locals) std::ranges::copy(memory[place.tensor].bytes, part(number, place).begin());
}

void Session::Impl::load_locals(std::uint32_t number) {
  for (const auto& place : record.locals) std::ranges::copy(part(number, place), memory[place.tensor].bytes.begin());
}

void Session::Impl::resume(const wire::Resume& from) {
  load_locals(from.place);
  work->totals = *from.within;
  for (auto& each : held) each.tokens = from.within->tokens;
  work->begun -= std::chrono::duration_cast<Duration>(std::chrono::duration<double>(from.within->seconds));
}

bool Session::Impl::record_is_due(std::uint32_t made) const {
  // What a diverged trainer has is nothing to go on from.
  return record_every > 0 && made % record_every == 0 && work->diverged_at == 0;
}

Result<std::uint32_t> Session::Impl::free_place() {
  if (!record_place) {
    PRIME_TRY(const auto answer, link.receive_recorded());
    record_place = answer.place;
  }
  return *std::exchange(record_place, std::nullopt);
}

Result<void> Session::Impl::record_if_due() { return record_is_due(work->totals.made) ? record_now() : Result<void>{}; }

Result<void> Session::Impl::record_now() {
  if (record.bytes == 0 || work->diverged_at > 0) return {};
  PRIME_TRY(const auto place, free_place());
  PRIME_CHECK(store_kept(record.kept(), place));
  store_locals(place);
  auto totals = work->totals;
  totals.seconds = std::chrono::duration<double>(monotonic_now() - work->begun).count();
  return link.send(wire::Record{work->plan.step, totals});
}

}  // namespace prime
