// Owns globs, lists of paths, and the pairing of files.
#include "runtime/trainer/data/source_files.hpp"

#include <algorithm>
#include <glob.h>
#include <set>
#include <sys/stat.h>

namespace prime::data {
namespace {

/// What a glob matches, sorted; a path without its signs is itself.
Result<std::vector<std::string>> expand(const std::string& path) {
  struct stat status = {};
  if (path.find_first_of("*?[") == std::string::npos || ::stat(path.c_str(), &status) == 0) return std::vector{path};
  glob_t found{};
  const int code = ::glob(path.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code == 0) return paths;
  if (code == GLOB_NOMATCH) return fail(ErrorName::DataUnreadable, path + ": matches no file");
  return fail(ErrorName::DataUnreadable, path + ": its folders cannot be read");
}

/// "reads_R2.fq" of "reads_R1.fq", by the last such mark in the name; nothing where there is none.
std::optional<std::string> with_mark(const std::string& path, char from, char to) {
  const auto name_at = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  for (const auto& mark : {std::string{"_R"} + from, std::string{"_"} + from}) {
    const auto at = path.rfind(mark);
    if (at == std::string::npos || at < name_at) continue;
    const auto behind = at + mark.size();
    if (behind < path.size() && path[behind] != '.' && path[behind] != '_') continue;
    auto other = path;
    other[behind - 1] = to;
    return other;
  }
  return std::nullopt;
}

Result<void> pair_up(std::vector<SourceFile>& files) {
  std::set<std::string> firsts;
  for (const auto& file : files) firsts.insert(file.path);
  // A second file is found by its first, and is none of its own.
  std::erase_if(files, [&](const SourceFile& file) {
    const auto first = with_mark(file.path, '2', '1');
    return first && firsts.count(*first) != 0;
  });
  for (auto& file : files) {
    const auto mate = with_mark(file.path, '1', '2');
    if (!mate) return fail(ErrorName::DataUnreadable, file.path + ": `collapse: files` needs `_R1` or `_1` in the name of a first file");
    struct stat status = {};
    if (::stat(mate->c_str(), &status) != 0)
      return fail(ErrorName::DataUnreadable, *mate + ": is not there, and `collapse: files` needs it beside " + file.path);
    file.mate = mate;
    file.mate_bytes = static_cast<std::uint64_t>(status.st_size);
    file.mate_changed_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  }
  return {};
}

void add_skipped(std::map<std::string, Skipped>& all, const std::map<std::string, Skipped>& some) {
  for (const auto& [why, skipped] : some) {
    auto& [count, first] = all[why];
    if (count == 0) first = skipped.first;
    count += skipped.count;
  }
}

}  // namespace

Result<SourceFiles> files_of(const Source& source, const std::string& include) {
  SourceFiles result;
  std::vector<std::string> paths;
  for (const auto& path : source.paths) {
    PRIME_TRY(const auto expanded, expand(path));
    paths.insert(paths.end(), expanded.begin(), expanded.end());
  }
  result.place = source.paths.size() == 1 ? source.paths.front() : std::to_string(source.paths.size()) + " paths";
  for (const auto& path : paths) {
    PRIME_TRY(auto found, find_files(path, include, MAX_SOURCE_FILES - result.files.size(), source.format != DataFormat::Text));
    for (const auto& file : found.files)
      result.files.push_back({found.root + file.path, file.path, file.size_bytes, file.changed_ns, file.head, {}, 0, 0});
    result.passed_over.other_names += found.other_names;
    add_skipped(result.passed_over.skipped, found.skipped);
    add_skipped(result.passed_over.skipped_folders, found.skipped_folders);
  }
  if (source.collapse == Collapse::Files) PRIME_CHECK(pair_up(result.files));
  return result;
}

}  // namespace prime::data
