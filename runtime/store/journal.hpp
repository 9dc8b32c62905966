// Owns the journal: what a process did and decided, one JSON object per line, appended whole. Status, logs and the dashboard read it.
//
// Every line begins {"t": RFC 3339 UTC with milliseconds, "seq": 1, 2, …, "event": name}, then the event's own fields follow.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::store {

/// The longest line, its end included; a longer one is refused by the writer and skipped by the reader.
inline constexpr std::size_t JOURNAL_LINE_BYTES_MAX = 64 * 1024;
/// What one `read_new` takes from the file at most.
inline constexpr std::size_t JOURNAL_READ_BYTES_MAX = 4 * 1024 * 1024;

/// "2031-05-04T09:14:02.137Z"; the wall clock is for people and never compared between machines.
std::string format_utc(std::chrono::system_clock::time_point time);
/// Its inverse; empty for any other text.
std::optional<std::chrono::system_clock::time_point> parse_utc(const std::string& text);

/// The one writer of a journal. All calls are safe from any thread.
class Journal {
 public:
  /// Creates or continues a journal: `seq` goes on, and a last line that a crash tore is cut off. Fails while another process writes it.
  static Result<Journal> open(const std::filesystem::path& path);
  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();

  /// Writes one line and returns its `seq`. `durable`: returns only when the line is on the disk (law 8). On failure no part of it stays.
  /// Fails too when the file is no longer found at its path: what is told must stay readable.
  Result<std::uint64_t> append(std::string_view event, const nlohmann::json& fields, bool durable = false);
  /// The file was removed; one that was only moved may be moved back.
  [[nodiscard]] bool removed() const;

 private:
  struct Impl;
  explicit Journal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct JournalLine {
  std::uint64_t seq = 0;
  std::string event;
  nlohmann::json fields;  ///< the whole object, "t", "seq" and "event" included
};

/// Follows a journal that may still grow, or not exist yet. Whole lines only; what cannot be read is skipped and counted.
class JournalReader {
 public:
  explicit JournalReader(std::filesystem::path path) : path_(std::move(path)) {}
  /// The lines since the last call, up to JOURNAL_READ_BYTES_MAX at once; none when nothing is new.
  Result<std::vector<JournalLine>> read_new();
  /// All lines up to where the file ends now.
  Result<void> read_to_end(const std::function<void(const JournalLine&)>& use);
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }
  /// Up to where the file has been read.
  [[nodiscard]] std::uint64_t offset_bytes() const { return offset_; }

 private:
  Result<std::string> read_chunk();

  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t offset_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace prime::store
