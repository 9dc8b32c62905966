// Owns the rules of trimming, collapsing and filtering.
#include "runtime/trainer/data/read_cleaning.hpp"

#include <algorithm>
#include <span>

#include "kernels/digest/digest.hpp"

namespace prime::data {
namespace {

constexpr std::size_t LEAST_ADAPTER = 3, LEAST_OVERLAP = 11;
constexpr int SCORE_ZERO = '!';

/// Whether at most one in ten differs.
bool alike(std::string_view a, std::string_view b) {
  const std::size_t most = a.size() / 10;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && ++differ > most) return false;
  return true;
}

char complement(char base) {
  switch (base) {
    case 'A': return 'T';
    case 'C': return 'G';
    case 'G': return 'C';
    case 'T': return 'A';
    default: return base;
  }
}

Read turned(const Read& read) {
  Read result{read.bases, {read.quality.rbegin(), read.quality.rend()}};
  std::ranges::transform(read.bases.rbegin(), read.bases.rend(), result.bases.begin(), complement);
  return result;
}

}  // namespace

std::size_t quality_cut(std::string_view quality, std::uint32_t least) {
  std::int64_t sum = 0, highest = 0;
  std::size_t cut = quality.size();
  for (std::size_t i = quality.size(); i-- > 0;) {
    sum += static_cast<std::int64_t>(least) - (quality[i] - SCORE_ZERO);
    if (sum < 0) break;
    if (sum > highest) highest = sum, cut = i;
  }
  return cut;
}

std::size_t adapter_cut(std::string_view bases, std::string_view adapter) {
  for (std::size_t at = 0; at + LEAST_ADAPTER <= bases.size(); ++at) {
    const auto size = std::min(adapter.size(), bases.size() - at);
    if (size >= LEAST_ADAPTER && alike(bases.substr(at, size), adapter.substr(0, size))) return at;
  }
  return bases.size();
}

std::string collapse_pair(const Read& forward, const Read& reverse) {
  const Read other = turned(reverse);
  const std::string_view a = forward.bases, b = other.bases;
  const auto better = [&](std::size_t at_a, std::size_t at_b) {
    const bool scored = at_a < forward.quality.size() && at_b < other.quality.size();
    return a[at_a] == 'N' || (b[at_b] != 'N' && scored && other.quality[at_b] > forward.quality[at_a]) ? b[at_b] : a[at_a];
  };
  // The other one begins further on in the fragment: the more they overlap, the likelier it is.
  for (std::size_t at = 0; at + LEAST_OVERLAP <= a.size() && b.size() >= LEAST_OVERLAP; ++at) {
    const auto size = std::min(a.size() - at, b.size());
    if (!alike(a.substr(at, size), b.substr(0, size))) continue;
    std::string merged(a.substr(0, at));
    for (std::size_t i = 0; i < size; ++i) merged += better(at + i, i);
    // What goes on beyond both is the fragment's; beyond one that holds the other, its own end.
    if (at + size < a.size()) return merged;
    return merged.append(b.substr(size));
  }
  // It begins before: the fragment is shorter than the reads, and what stands outside of it is adapter.
  for (std::size_t at = 1; at + LEAST_OVERLAP <= b.size() && a.size() >= LEAST_OVERLAP; ++at) {
    const auto size = std::min(a.size(), b.size() - at);
    if (!alike(a.substr(0, size), b.substr(at, size))) continue;
    std::string merged;
    for (std::size_t i = 0; i < size; ++i) merged += better(i, at + i);
    return merged;
  }
  return {};
}

void ReadCleaner::trim(Read& read) const {
  if (source_.quality_trim > 0 && !read.quality.empty()) {
    const auto cut = quality_cut(read.quality, source_.quality_trim);
    counts_.trimmed_quality += cut < read.bases.size() ? 1 : 0;
    read.bases.resize(cut);
    read.quality.resize(cut);
  }
  if (source_.adapter.empty()) return;
  const auto cut = adapter_cut(read.bases, source_.adapter);
  counts_.trimmed_adapter += cut < read.bases.size() ? 1 : 0;
  read.bases.resize(cut);
  if (!read.quality.empty()) read.quality.resize(cut);
}

Result<bool> ReadCleaner::keeps(std::string_view bases) {
  const auto unknown = static_cast<std::uint64_t>(std::ranges::count(bases, 'N'));
  return keeps(bases.size(), unknown, source_.deduplicate ? kernels::digest_bytes(std::as_bytes(std::span{bases})) : Digest{});
}

Result<bool> ReadCleaner::keeps(std::uint64_t bases, std::uint64_t unknown, const Digest& digest) {
  if (static_cast<double>(unknown) * 100 > source_.n_percent * static_cast<double>(bases)) return ++counts_.dropped_n, false;
  const bool too_long = source_.max_length > 0 && bases > source_.max_length;
  if (bases == 0 || bases < source_.min_length || too_long) return ++counts_.dropped_length, false;
  if (!source_.deduplicate) return true;
  if (!seen_.insert(digest).second) return ++counts_.dropped_duplicate, false;
  if (seen_.size() <= MAX_DIFFERENT_READS) return true;
  return fail(ErrorName::DataUnreadable, "`deduplicate`: more than " + std::to_string(MAX_DIFFERENT_READS) +
                                             " different reads cannot be told apart: divide them into several sources");
}

}  // namespace prime::data
