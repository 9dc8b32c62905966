// Owns the sentences.
#include "runtime/trainer/data/corpus_words.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "messages/units.hpp"

namespace prime::data {
namespace {

constexpr std::size_t SHOWN_NAME = 80;

/// The beginning of what is longer, in whole characters.
std::string shown(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80U) --most;
  return text.erase(most) + "…";
}

/// Texts that are shorter than a sample.
std::uint64_t too_short(const std::vector<TokenShard>& shards, std::size_t first_shard, const TokenIndex& rules) {
  std::uint64_t count = 0;
  for (std::size_t i = first_shard; i < shards.size() && !rules.packed(); ++i)
    for (const auto& file : shards[i].content().files) count += rules.windows_of(file.bytes) == 0 ? 1 : 0;
  return count;
}

}  // namespace

std::string counted(std::uint64_t count, const std::string& what) { return std::to_string(count) + " " + what + (count == 1 ? "" : "s"); }

std::string figure(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2g" : "%.0f", value);
  return text.data();
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < KIB) return counted(bytes, "byte");
  const auto unit = bytes < MIB ? std::pair{KIB, " KiB"} : bytes < GIB ? std::pair{MIB, " MiB"} : std::pair{GIB, " GiB"};
  return figure(static_cast<double>(bytes) / static_cast<double>(unit.first)) + unit.second;
}

std::string left_out(const Counts& counts, const std::string& first_skipped) {
  std::string text;
  const auto add = [&](std::uint64_t count, const std::string& what) {
    if (count > 0) text += ", " + std::to_string(count) + " " + what;
  };
  add(counts.skipped, "broken (the first: " + shown(first_skipped, 2 * SHOWN_NAME) + ")");
  add(counts.dropped_length, "of another length");
  add(counts.dropped_n, "with too many N");
  add(counts.dropped_duplicate, "there already");
  return text;
}

std::string found_in(const Source& source, const CompiledSource& compiled, const manifest::Data& data,
                     const std::vector<TokenShard>& shards, std::size_t first_shard, const TokenIndex& rules) {
  const auto& over = compiled.files.passed_over;
  const bool texts = source.format == DataFormat::Text;
  const auto short_ones = texts ? too_short(shards, first_shard, rules) : 0;
  const auto readable = compiled.files.files.size();
  const auto files = readable + over.skipped_files();
  auto text = counted(files, "file") + " in " + compiled.files.place + (files + over.other_names > 1 ? ", matching " + data.include : "") +
              ": " + std::to_string(readable - short_ones) + " used";
  std::string rest;
  const auto passed_over = [&](std::uint64_t count, const std::string& why) {
    if (count > 0) rest += (rest.empty() ? " (passed over: " : ", ") + std::to_string(count) + " " + why;
  };
  for (const auto& [why, some] : over.skipped) passed_over(some.count, why + " as " + shown(some.first, SHOWN_NAME));
  for (const auto& [why, some] : over.skipped_folders)
    passed_over(some.count, (some.count == 1 ? "folder " : "folders ") + why + " as " + shown(some.first, SHOWN_NAME));
  passed_over(short_ones, "too short for a sample");
  passed_over(over.other_names, over.other_names == 1 ? "of another name" : "of other names");
  text += rest.empty() ? "" : rest + ")";
  std::uint64_t size_bytes = 0;
  for (const auto& file : compiled.files.files) size_bytes += file.size_bytes;
  const auto& counts = compiled.counts;
  if (!texts) text += ", " + counted(counts.documents, "document");
  text += left_out(counts, compiled.first_skipped) + ", " + size_text(counts.bytes);
  const bool cut = texts && counts.bytes < size_bytes && counts.skipped == 0;
  return text + (cut ? " of " + size_text(size_bytes) + " (`data.per_file`)" : "");
}

std::string passes_in(std::uint64_t windows, std::size_t window_tokens, bool bytes) {
  return counted(windows, "sample") + " of " + std::to_string(window_tokens) + (bytes ? " bytes, " : " tokens, ");
}

std::string reads_each(const manifest::Shared& shared, std::uint64_t windows) {
  const double of_one_peer = static_cast<double>(shared.train.outer_steps) * shared.sync.inner_steps * shared.train.batch;
  const auto passes = [&](std::uint32_t peers) { return figure(of_one_peer * peers / static_cast<double>(windows)); };
  const auto [fewest, most] = shared.membership.peers;
  auto text = "; in " + counted(shared.train.outer_steps, "outer step") + " " + counted(fewest, "peer") +
              (fewest == 1 ? " reads" : " read") + " each sample " + passes(fewest) + " times on average";
  if (most > fewest) text += ", and " + std::to_string(most) + " peers " + passes(most) + " times";
  return text;
}

std::string beginning_of(std::string text) {
  constexpr std::size_t LONGEST = 24;
  constexpr const char* SPACE = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(SPACE), text.size()));
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  // Whole words, where there are several.
  if (text.size() > LONGEST) text.resize(std::min(LONGEST, text.find_last_of(SPACE, LONGEST)));
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80U) != 0) text.pop_back();  // no half character
  return text;
}

}  // namespace prime::data
