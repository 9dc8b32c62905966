// Owns the walk through a directory tree.
#include "runtime/trainer/data/file_walk.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fnmatch.h>
#include <set>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "kernels/digest/digest.hpp"
#include "runtime/trainer/data/byte_stream.hpp"

namespace prime::data {
namespace {

/// A file or a folder that another name has led to before.
constexpr const char* REACHED_TWICE = "reached twice";

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// What tells apart two names of one file or folder.
using Identity = std::pair<dev_t, ino_t>;

struct Magic {
  std::string_view bytes;
  const char* kind;
};
constexpr std::array MAGIC{Magic{"BZh"sv, "bzip2"},
                           Magic{"\xfd"
                                 "7zXZ\0"sv,
                                 "xz"},
                           Magic{"PK\x03\x04"sv, "zip"},
                           Magic{"7z\xbc\xaf\x27\x1c"sv, "7z"},
                           Magic{"\x04\x22\x4d\x18"sv, "lz4"},
                           Magic{"PAR1"sv, "Parquet"},
                           Magic{"ARROW1"sv, "Arrow"},
                           Magic{"Obj\x01"sv, "Avro"},
                           Magic{"ORC"sv, "ORC"},
                           Magic{"\x89HDF"sv, "HDF5"},
                           Magic{"\x93NUMPY"sv, "NumPy"},
                           Magic{"SQLite format 3"sv, "SQLite"},
                           Magic{"\x7f"
                                 "ELF"sv,
                                 "a program"},
                           Magic{"%PDF-"sv, "PDF"},
                           Magic{"\x89PNG"sv, "PNG"},
                           Magic{"\xff\xd8\xff"sv, "JPEG"},
                           Magic{"GIF8"sv, "GIF"},
                           Magic{"RIFF"sv, "RIFF"},
                           Magic{"OggS"sv, "Ogg"},
                           Magic{"\xff\xfe"sv, "UTF-16"},
                           Magic{"\xfe\xff"sv, "UTF-16"}};

struct Opened {
  Identity identity;
  FoundFile file;
  std::string problem;  ///< why it is not read
};

/// Opened for good, since a permission bit alone promises nothing, and looked at.
Opened look_into(const std::string& path, bool any) {
  Opened opened;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    opened.problem = errno == ENOENT || errno == ELOOP ? "links to nothing" : "cannot be opened";
    return opened;
  }
  struct stat status = {};
  std::array<char, HEAD_BYTES> head{};
  const bool regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto got = regular ? ::pread(file, head.data(), head.size(), 0) : -1;
  ::close(file);
  if (got < 0) {
    opened.problem = regular ? "cannot be read" : "no files";
    return opened;
  }
  const std::string_view text(head.data(), static_cast<std::size_t>(got));
  opened.identity = {status.st_dev, status.st_ino};
  opened.file.size_bytes = static_cast<std::uint64_t>(status.st_size);
  opened.file.changed_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  opened.file.head = kernels::digest_bytes(std::as_bytes(std::span{text}));
  if (!any) opened.problem = binary_kind(text);
  return opened;
}

class Walk {
 public:
  Walk(const std::string& root, const std::string& glob, std::size_t limit, bool any) : glob_(glob), limit_(limit), any_(any) {
    found_.root = root;
  }

  Result<FoundFiles> run() && {
    pending_.emplace_back();
    while (!pending_.empty() || !links_.empty()) {
      if (pending_.empty()) {
        PRIME_CHECK(follow(links_.extract(links_.begin()).value()));
        continue;
      }
      const std::string folder = std::move(pending_.back());
      pending_.pop_back();
      PRIME_CHECK(visit(folder));
    }
    std::ranges::sort(found_.files, {}, &FoundFile::path);
    return std::move(found_);
  }

 private:
  /// Visits one folder; the folders in it wait on `pending_`, so depth costs memory and not stack.
  Result<void> visit(const std::string& folder) {
    struct stat status = {};
    if (::stat((found_.root + folder).c_str(), &status) == 0 && !folders_.insert({status.st_dev, status.st_ino}).second) {
      skip(found_.skipped_folders, REACHED_TWICE, folder);
      return {};
    }
    std::error_code error;
    fs::directory_iterator entry(found_.root + folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string path = folder + entry->path().filename().string();
      std::error_code unknown;
      const fs::file_type type = entry->symlink_status(unknown).type();
      if (type == fs::file_type::directory) pending_.push_back(path + '/');
      if (type == fs::file_type::symlink) links_.insert(path);
      if (type == fs::file_type::regular) PRIME_CHECK(consider(path, false));
    }
    if (error) skip(found_.skipped_folders, "cannot be opened", folder);
    return {};
  }

  Result<void> follow(const std::string& link) {
    std::error_code error;
    if (!fs::is_directory(found_.root + link, error)) return consider(link, true);
    pending_.push_back(link + '/');
    return {};
  }

  Result<void> consider(const std::string& path, bool linked) {
    const auto name = path.substr(path.rfind('/') + 1);
    if (::fnmatch(glob_.c_str(), name.c_str(), 0) != 0) {
      ++found_.other_names;
      return {};
    }
    auto opened = look_into(found_.root + path, any_);
    // Two names of one file are two files, unless one is a link: that leads to the same one.
    const bool known = opened.problem.empty() && !files_.insert(opened.identity).second && linked;
    if (known) opened.problem = REACHED_TWICE;
    if (!opened.problem.empty()) {
      skip(found_.skipped, opened.problem, path);
      return {};
    }
    if (found_.files.size() == limit_) {
      return fail(ErrorName::DataUnreadable,
                  found_.root + ": more than " + std::to_string(limit_) + " files match `data.include` (" + glob_ + ")");
    }
    opened.file.path = path;
    found_.files.push_back(std::move(opened.file));
    return {};
  }

  static void skip(std::map<std::string, Skipped>& skipped, const std::string& why, const std::string& path) {
    auto& [count, first] = skipped[why];
    if (count++ == 0 || path < first) first = path;
  }

  const std::string& glob_;
  std::size_t limit_;
  bool any_;
  FoundFiles found_;
  std::vector<std::string> pending_;
  std::set<std::string> links_;  ///< in the order of their paths, not of the disk
  std::set<Identity> folders_;
  std::set<Identity> files_;
};

}  // namespace

std::uint64_t FoundFiles::skipped_files() const {
  std::uint64_t sum = 0;
  for (const auto& [why, files] : skipped) sum += files.count;
  return sum;
}

std::string binary_kind(std::string_view head) {
  if (!packing_of(head).empty()) return {};
  const auto known = std::ranges::find_if(MAGIC, [&](const Magic& magic) { return head.starts_with(magic.bytes); });
  if (known != MAGIC.end()) return known->kind;
  return head.find('\0') == std::string_view::npos ? "" : "binary";
}

Result<FoundFiles> find_files(const std::string& path, const std::string& glob, std::size_t limit, bool any) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) {
    auto opened = look_into(path, any);
    if (opened.problem.starts_with("cannot")) return fail(ErrorName::DataUnreadable, path + " " + opened.problem);
    if (!opened.problem.empty())
      return fail(ErrorName::DataUnreadable, path + " is " + opened.problem + ", and only plain text can be read: unpack or convert it");
    const fs::path file(path);
    opened.file.path = file.filename().string();
    const std::string folder = file.has_parent_path() ? (file.parent_path() / "").string() : std::string();
    return FoundFiles{folder, {std::move(opened.file)}, {}, {}, 0};
  }
  if (!fs::is_directory(status)) {
    return fail(ErrorName::DataUnreadable, path + ": " + (error ? error.message() : "neither a file nor a directory"));
  }
  PRIME_TRY(auto found, Walk((fs::path(path) / "").string(), glob, limit, any).run());
  if (!found.files.empty()) return found;
  // A folder that was looked into by another way hides no file.
  const bool all_seen = std::ranges::all_of(found.skipped_folders, [](const auto& entry) { return entry.first == REACHED_TWICE; });
  if (found.skipped.empty() && all_seen) {
    return fail(ErrorName::DataTooSmall,
                path + ": `data.include` is " + glob + ", which matches none of its " + std::to_string(found.other_names) + " files");
  }
  std::string why;
  const auto add = [&](const std::map<std::string, Skipped>& skipped, const std::string& what) {
    for (const auto& [reason, some] : skipped)
      why += (why.empty() ? "" : ", ") + std::to_string(some.count) + what + reason + " (" + some.first + ")";
  };
  add(found.skipped, " ");
  add(found.skipped_folders, " of its folders ");
  return fail(ErrorName::DataUnreadable, path + ": none of its files that match " + glob + " can be read as plain text: " + why);
}

}  // namespace prime::data
