#include "actors/peer/publications.hpp"

#include <algorithm>
#include <utility>

namespace prime::trainer_life {

void Publications::end_life() {
  p_.waiting.clear();
  p_.taking = false;
  p_.owed.clear();
  p_.in_vain = false;
  p_.lease_used = false;
}

void Publications::begin_step(const BeginStep& begin, bool anew) {
  if (!decoupled_) {
    if (anew)
      for_each(begin.fragments, [&](std::uint32_t fragment) {
        if (p_.of_step.contains(fragment)) p_.uncommitted.erase(fragment);
      });
    else if (!begin.overlaps) {
      p_.uncommitted.clear();
      p_.owed.clear();
    }
    p_.waiting.resize(p_.taking ? 1 : 0);  // what waits is of no step any more
  }
  p_.of_step.clear();
  for (std::uint32_t fragment = 0; fragment < fragments_; ++fragment)
    if (!covers(begin.fragments, fragment)) p_.of_step.insert(fragment);  // it has made the step
}

std::optional<std::string> Publications::add(Publication publication) {
  bool again = false;
  for_each(publication.work.fragments,
           [&](std::uint32_t fragment) { again = again || (decoupled_ ? p_.uncommitted : p_.of_step).contains(fragment); });
  if (decoupled_) {
    const auto fragment = publication.work.fragments.empty() ? 0 : publication.work.fragments.front();
    const auto version = p_.versions.find(fragment);
    if (version != p_.versions.end() && publication.work.step <= version->second) return "publishes for a version that is committed";
    if (again) return "publishes what an earlier life has published";
  }
  if (again) return "contributes again";
  p_.waiting.push_back(std::move(publication));
  return std::nullopt;
}

std::optional<Fragments> Publications::take_next() {
  if (p_.taking || p_.waiting.empty()) return std::nullopt;
  const auto& fragments = p_.waiting.front().work.fragments;
  bool free = true;
  for_each(fragments, [&](std::uint32_t fragment) { free = free && !p_.uncommitted.contains(fragment); });
  if (!free) return std::nullopt;
  p_.taking = true;
  return fragments;
}

Publications::Taken Publications::taken() {
  Taken taken;
  if (!std::exchange(p_.taking, false)) return taken;
  taken.fate = std::exchange(p_.in_vain, false) ? Taken::Fate::InVain : Taken::Fate::Counts;
  taken.publication = std::move(p_.waiting.front());
  p_.waiting.pop_front();
  return taken;
}

void Publications::contributed(const Fragments& fragments) {
  for_each(fragments, [&](std::uint32_t fragment) {
    if (!decoupled_) p_.of_step.insert(fragment);
    p_.owed.insert(fragment);
    p_.uncommitted.insert(fragment);
  });
}

bool Publications::own_work_committed(std::uint32_t fragment) {
  p_.uncommitted.erase(fragment);
  return p_.owed.erase(fragment) > 0;
}

void Publications::version_committed(std::uint32_t fragment, OuterStep version) {
  p_.versions[fragment] = version;
  own_work_committed(fragment);
  const auto is_void = [&](const Publication& each) { return covers(each.work.fragments, fragment); };
  if (p_.taking && is_void(p_.waiting.front())) p_.in_vain = true;
  const auto untaken = p_.waiting.begin() + (p_.taking ? 1 : 0);
  p_.waiting.erase(std::remove_if(untaken, p_.waiting.end(), is_void), p_.waiting.end());
}

bool Publications::take_lease_used() { return p_.waiting.empty() && std::exchange(p_.lease_used, false); }

bool Publications::has_all() const {
  std::size_t left = fragments_ - p_.of_step.size();
  for (const auto& each : p_.waiting) for_each(each.work.fragments, [&](std::uint32_t) { --left; });
  return left == 0;
}

}  // namespace prime::trainer_life
