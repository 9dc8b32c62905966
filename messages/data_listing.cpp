#include "messages/data_listing.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "messages/data_identity.hpp"

namespace prime {
namespace {

constexpr std::size_t DIFFERENCES_MAX = 4;
constexpr std::size_t SHOWN_PATH_BYTES = 160;

/// Of one file, or of all whose paths begin so.
struct Line {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint32_t marks = 0;  ///< their sum, so that groups can be made of parts
  [[nodiscard]] bool is_group() const { return files != 1; }
  void add(const Line& other) {
    files += other.files;
    bytes += other.bytes;
    marks += other.marks;
  }
  friend bool operator==(const Line&, const Line&) = default;
};
using Lines = std::map<std::string, Line, std::less<>>;

std::string written(std::string_view path) {
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    std::array<char, 4> code{};
    if (byte >= 0x20 && byte < 0x7f && c != '%') text += c;
    else text.append(code.data(), static_cast<std::size_t>(std::snprintf(code.data(), code.size(), "%%%02X", byte)));
  }
  return text;
}

std::string shown(std::string_view path) {
  std::string text;
  for (std::size_t at = 0; at < path.size(); ++at) {
    unsigned byte = 0;
    const auto code = path.substr(at).substr(1, 2);
    const bool coded =
        path[at] == '%' && code.size() == 2 && std::from_chars(code.data(), code.data() + 2, byte, 16).ptr == code.data() + 2;
    text += coded ? static_cast<char>(byte) : path[at];
    at += coded ? 2 : 0;
  }
  return text;
}

/// A line in the making: files that lie side by side.
struct Range {
  std::size_t first;
  std::size_t end;
  bool whole = false;  ///< there is no room to divide it
  [[nodiscard]] std::size_t files() const { return end - first; }
};

class Listing {
 public:
  explicit Listing(std::span<const ListedFile> files) : files_(files) {
    if (files.empty()) return;
    ranges_.push_back({0, files.size()});
    size_ = text_of(ranges_.front()).size();
    while (divide_the_largest()) {
    }
  }

  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& range : ranges_) all += text_of(range);
    return all.size() <= MAX_DATA_LISTING_BYTES ? all : std::string{};  // one path alone may be too long
  }

 private:
  [[nodiscard]] std::string beginning_of(const Range& range) const {
    const auto& first = files_[range.first].path;
    const auto& last = files_[range.end - 1].path;
    return {first.begin(), std::ranges::mismatch(first, last).in1};
  }

  [[nodiscard]] std::string text_of(const Range& range) const {
    Line sum;
    for (const auto& file : files_.subspan(range.first, range.files())) sum.add({1, file.bytes, static_cast<std::uint32_t>(file.mark)});
    std::array<char, 16> marks{};
    std::snprintf(marks.data(), marks.size(), "%08x", sum.marks);
    return std::to_string(sum.files) + " " + std::to_string(sum.bytes) + " " + marks.data() + " " + written(beginning_of(range)) + "\n";
  }

  /// By the character in which its paths begin to differ.
  [[nodiscard]] std::vector<Range> parts_of(const Range& range) const {
    const auto at = beginning_of(range).size();
    const auto next = [&](std::size_t file) { return files_[file].path.size() > at ? files_[file].path[at] : '\0'; };
    std::vector<Range> parts;
    for (auto file = range.first; file < range.end; ++file) {
      if (parts.empty() || next(file) != next(parts.back().first)) parts.push_back({file, file});
      parts.back().end = file + 1;
    }
    return parts;
  }

  bool divide_the_largest() {
    const auto weight = [](const Range& range) { return range.whole ? std::size_t{1} : range.files(); };
    const auto largest = std::ranges::max_element(ranges_, {}, weight);
    if (weight(*largest) == 1) return false;
    const auto parts = parts_of(*largest);
    auto size = size_ - text_of(*largest).size();
    for (const auto& part : parts) size += text_of(part).size();
    largest->whole = size > MAX_DATA_LISTING_BYTES || parts.size() < 2;
    if (largest->whole) return true;
    size_ = size;
    ranges_.insert(ranges_.erase(largest), parts.begin(), parts.end());
    return true;
  }

  std::span<const ListedFile> files_;
  std::vector<Range> ranges_;
  std::size_t size_ = 0;
};

std::optional<Lines> parse(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const char* at = text.data();
    const char* const stop = text.data() + end;
    Line line;
    const auto number = [&](auto& value, int base) {
      const auto [next, error] = std::from_chars(at, stop, value, base);
      const bool read = error == std::errc{} && next != stop && *next == ' ';
      at = read ? next + 1 : stop;
      return read;
    };
    if (!number(line.files, 10) || !number(line.bytes, 10) || !number(line.marks, 16) || line.files == 0) return std::nullopt;
    if (!lines.emplace(std::string{at, stop}, line).second) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  return lines;
}

/// The beginnings by which both can be compared: those of groups that lie in no other group, and the paths that lie in none.
std::vector<std::string> common_beginnings(const Lines& here, const Lines& there) {
  std::map<std::string, bool> all;  // in this order a group comes before what lies in it
  for (const auto* lines : {&here, &there})
    for (const auto& [path, line] : *lines) all[path] |= line.is_group();
  std::vector<std::string> beginnings;
  std::optional<std::string> group;
  for (const auto& [path, is_group] : all) {
    if (group && path.starts_with(*group)) continue;
    if (is_group) group = path;
    beginnings.push_back(path);
  }
  return beginnings;
}

Line sum_of(const Lines& lines, const std::string& beginning, bool group) {
  Line sum;
  if (!group) {
    if (const auto found = lines.find(beginning); found != lines.end()) sum.add(found->second);
    return sum;
  }
  for (auto line = lines.lower_bound(beginning); line != lines.end() && line->first.starts_with(beginning); ++line) sum.add(line->second);
  return sum;
}

std::string quoted(const std::string& written_path) {
  const auto path = shown(written_path);
  const bool long_one = path.size() > SHOWN_PATH_BYTES;
  return "`" + (long_one ? "…" + path.substr(path.size() - SHOWN_PATH_BYTES) : path) + "`";
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

std::string difference(const std::string& path, const Line& here, const Line& there, bool group, std::string_view where) {
  const auto in_there = " " + std::string{where};
  if (group) {
    const auto some = [](const Line& line) { return std::to_string(line.files) + " with " + bytes_text(line.bytes); };
    const auto files = path.empty() ? std::string{"files"} : "files that begin with " + quoted(path);
    if (here.files == there.files && here.bytes == there.bytes) return "some of the " + some(here) + ", " + files + ", differ";
    return files + ": " + some(here) + " here, " + some(there) + in_there;
  }
  if (there.files == 0) return quoted(path) + " (" + bytes_text(here.bytes) + ") is not" + in_there;
  if (here.files == 0) return quoted(path) + " (" + bytes_text(there.bytes) + in_there + ") is missing here";
  if (here.bytes == there.bytes) return quoted(path) + " (" + bytes_text(here.bytes) + ") begins with other text here";
  return quoted(path) + " has " + bytes_text(here.bytes) + " here and " + std::to_string(there.bytes) + in_there;
}

bool has_groups(const Lines& lines) {
  return std::ranges::any_of(lines, [](const auto& entry) { return entry.second.is_group(); });
}

/// Of all paths under a folder, from there on.
std::string beginning_of_all(const Lines& lines, const std::string& folder) {
  auto first = lines.lower_bound(folder);
  if (first == lines.end()) return {};
  auto beginning = first->first;
  for (; first != lines.end() && first->first.starts_with(folder); ++first)
    beginning.resize(static_cast<std::size_t>(std::ranges::mismatch(beginning, first->first).in1 - beginning.begin()));
  return beginning.substr(folder.size());
}

/// Whether what `lines` has under `folder` is what `others` are, by names and sizes; where files share lines, by their number and size.
bool are_under(const Lines& lines, const std::string& folder, const Lines& others) {
  const auto under = [&](const auto& entry) { return entry.first.starts_with(folder); };
  Line sum;
  Line wanted;
  for (const auto& entry : lines)
    if (under(entry)) sum.add(entry.second);
  for (const auto& entry : others) wanted.add(entry.second);
  if (sum.files != wanted.files || sum.bytes != wanted.bytes) return false;
  if (has_groups(lines) || has_groups(others)) {
    const auto mine = beginning_of_all(lines, folder);
    const auto theirs = beginning_of_all(others, "");
    return mine.starts_with(theirs) || theirs.starts_with(mine);
  }
  return std::ranges::all_of(others, [&](const auto& entry) {
    const auto found = lines.find(folder + entry.first);
    return found != lines.end() && found->second.bytes == entry.second.bytes;
  });
}

/// The folder of `lines` that holds what `others` are; empty: there is none.
std::string folder_of(const Lines& lines, const Lines& others) {
  std::string last;
  for (const auto& [path, line] : lines)
    for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      auto folder = path.substr(0, slash + 1);
      if (last.starts_with(folder)) continue;  // it was looked at
      if (are_under(lines, folder, others)) return folder;
      last = std::move(folder);
    }
  return {};
}

/// Who names the folder above the data, or one in it, has all of it under other names.
std::string shifted(const Lines& here, const Lines& there, std::string_view where) {
  const auto besides = [](const Lines& lines, const Lines& same) {
    std::uint64_t files = 0;
    for (const auto& [path, line] : lines) files += line.files;
    for (const auto& [path, line] : same) files -= std::min(files, line.files);
    if (files == 0) return std::string{};
    return " (beside " + std::to_string(files) + (files == 1 ? " other file)" : " other files)");
  };
  if (const auto folder = folder_of(here, there); !folder.empty())
    return "the same files lie under " + quoted(folder) + " here" + besides(here, there) + ": let the path of the data lead to that folder";
  if (const auto folder = folder_of(there, here); !folder.empty())
    return "the same files lie under " + quoted(folder) + " " + std::string{where} + besides(there, here) +
           ": let the path of the data lead to the folder above";
  return {};
}

}  // namespace

std::string listing_of(std::span<const ListedFile> files) { return Listing{files}.text(); }

std::string listings_differ(std::string_view here, std::string_view there_listing, std::string_view there) {
  auto mine = parse(here);
  auto theirs = parse(there_listing);
  if (!mine || !theirs || mine->empty() || theirs->empty()) return {};
  const auto is_one_file = [](const Lines& lines) { return lines.size() == 1 && !lines.begin()->second.is_group(); };
  // One file alone is the same by whatever name.
  if (is_one_file(*mine) && is_one_file(*theirs)) theirs = Lines{{mine->begin()->first, theirs->begin()->second}};
  if (*mine == *theirs) return {};
  if (auto found = shifted(*mine, *theirs, there); !found.empty()) return found;
  std::string text;
  std::size_t differences = 0;
  for (const auto& beginning : common_beginnings(*mine, *theirs)) {
    const auto is_group_in = [&](const Lines& lines) {
      const auto found = lines.find(beginning);
      return found != lines.end() && found->second.is_group();
    };
    const bool group = is_group_in(*mine) || is_group_in(*theirs);
    const auto a = sum_of(*mine, beginning, group);
    const auto b = sum_of(*theirs, beginning, group);
    if (a == b) continue;
    if (++differences <= DIFFERENCES_MAX) text += (text.empty() ? "" : "; ") + difference(beginning, a, b, group, there);
  }
  if (differences > DIFFERENCES_MAX) text += "; and " + std::to_string(differences - DIFFERENCES_MAX) + " more";
  return text;
}

}  // namespace prime
