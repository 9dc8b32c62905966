// Owns the bytes of a journal: appending whole lines, and finding whole lines again.
#include "runtime/store/journal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store/file_lock.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

std::optional<JournalLine> parse_line(std::string_view text) {
  if (text.size() >= JOURNAL_LINE_BYTES_MAX) return std::nullopt;
  auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto seq = object.find("seq");
  const auto event = object.find("event");
  if (seq == object.end() || !seq->is_number_unsigned() || event == object.end() || !event->is_string()) return std::nullopt;
  return JournalLine{seq->get<std::uint64_t>(), event->get<std::string>(), std::move(object)};
}

Result<std::string> make_line(std::uint64_t seq, std::string_view event, const nlohmann::json& fields) {
  nlohmann::ordered_json line;
  line["t"] = format_utc(std::chrono::system_clock::now());
  line["seq"] = seq;
  line["event"] = event;
  for (const auto& [key, value] : fields.items()) {
    if (line.contains(key)) return fail(ErrorName::InternalError, "the journal's own field `" + key + "` was given");
    line[key] = value;
  }
  auto text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (text.size() > JOURNAL_LINE_BYTES_MAX)
    return fail(ErrorName::InternalError, "a journal line of " + std::to_string(text.size()) + " bytes");
  return text;
}

/// A file that was removed or moved still takes bytes, but nobody would ever find them.
bool names(const fs::path& path, const Descriptor& file) {
  struct stat there {};
  struct stat ours {};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(file.get(), &ours) == 0 && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino;
}

struct Position {
  std::uint64_t end_bytes = 0;  ///< after the last whole line
  std::uint64_t seq = 0;
};

/// Where the last readable line ends, so that writing goes on there.
Result<Position> find_end(const fs::path& path) {
  JournalReader reader{path};
  Position position;
  PRIME_CHECK(reader.read_to_end([&](const JournalLine& line) { position.seq = line.seq; }));
  position.end_bytes = reader.offset_bytes();
  return position;
}

}  // namespace

std::string format_utc(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 40> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + length, text.size() - length, ".%03dZ", static_cast<int>(ms % 1000));
  return text.data();
}

std::optional<std::chrono::system_clock::time_point> parse_utc(const std::string& text) {
  std::tm parts{};
  const char* const rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  int ms = 0;
  int length = 0;
  if (rest == nullptr || std::sscanf(rest, ".%3dZ%n", &ms, &length) != 1 || length != 5 || rest[length] != '\0') return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&parts)) + std::chrono::milliseconds{ms};
}

struct Journal::Impl {
  fs::path path;
  Descriptor file;
  std::mutex mutex;  ///< orders `seq` as the lines are; held over one write
  Position position;
};

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Journal::Journal(Journal&&) noexcept = default;
Journal& Journal::operator=(Journal&&) noexcept = default;
Journal::~Journal() = default;

Result<Journal> Journal::open(const fs::path& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->file = Descriptor{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (!impl->file.open()) return fail(storage_error("open", path, errno));
  // A file system without locks leaves it to who opens journals that nobody else writes this one.
  if (const auto answer = lock_whole(impl->file.get(), false); answer == LockAnswer::Held)
    return fail(ErrorName::StorageFailed, "another process is writing " + path.string());
  else if (answer == LockAnswer::Failed) return fail(storage_error("lock", path, errno));
  PRIME_TRY(impl->position, find_end(path));
  if (::ftruncate(impl->file.get(), static_cast<off_t>(impl->position.end_bytes)) != 0) return fail(storage_error("truncate", path, errno));
  PRIME_CHECK(sync_directory(path.has_parent_path() ? path.parent_path() : fs::path{"."}));
  return Journal{std::move(impl)};
}

Result<std::uint64_t> Journal::append(std::string_view event, const nlohmann::json& fields, bool durable) {
  const std::scoped_lock lock{impl_->mutex};
  auto& [path, file, mutex, position] = *impl_;
  const auto seq = position.seq + 1;
  PRIME_TRY(const auto line, make_line(seq, event, fields));
  if (!names(path, file)) return fail(ErrorName::StorageFailed, path.string() + " is gone");
  if (auto written = write_all(file.get(), std::as_bytes(std::span{line}), path); !written) {
    // A full disk may have taken a part of the line: readers must never see the next line glued to it.
    if (::ftruncate(file.get(), static_cast<off_t>(position.end_bytes)) != 0) return fail(storage_error("truncate", path, errno));
    return fail(std::move(written).error());
  }
  position = Position{position.end_bytes + line.size(), seq};
  if (durable && ::fdatasync(file.get()) != 0) return fail(storage_error("sync", path, errno));
  return seq;
}

bool Journal::removed() const {
  struct stat ours {};
  return ::fstat(impl_->file.get(), &ours) == 0 && ours.st_nlink == 0;
}

Result<std::string> JournalReader::read_chunk() {
  if (!file_.open()) file_ = Descriptor{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file_.open() && errno == ENOENT) return std::string{};
  if (!file_.open()) return fail(storage_error("open", path_, errno));
  std::string chunk(JOURNAL_READ_BYTES_MAX, '\0');
  std::size_t filled = 0;
  while (filled < chunk.size()) {
    const auto got = ::pread(file_.get(), chunk.data() + filled, chunk.size() - filled, static_cast<off_t>(offset_ + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(storage_error("read", path_, errno));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  chunk.resize(filled);
  return chunk;
}

Result<std::vector<JournalLine>> JournalReader::read_new() {
  PRIME_TRY(const std::string chunk, read_chunk());
  std::vector<JournalLine> lines;
  std::string_view rest{chunk};
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    if (auto line = parse_line(rest.substr(0, end))) lines.push_back(std::move(*line));
    else ++skipped_;
    rest.remove_prefix(end + 1);
  }
  if (rest.size() == JOURNAL_READ_BYTES_MAX) return fail(ErrorName::StorageFailed, path_.string() + " is not a journal: a line has no end");
  offset_ += chunk.size() - rest.size();
  return lines;
}

Result<void> JournalReader::read_to_end(const std::function<void(const JournalLine&)>& use) {
  for (;;) {
    const auto before = offset_;
    PRIME_TRY(const auto lines, read_new());
    std::for_each(lines.begin(), lines.end(), use);
    if (offset_ == before) return {};
  }
}

}  // namespace prime::store
