// Owns cutting a stream into lines. A line that is longer than a record may be is passed over without being held in memory.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "messages/units.hpp"
#include "runtime/trainer/data/byte_stream.hpp"

namespace prime::data {

/// No line, and no record, is longer; a line of three gigabytes is somebody's mistake.
inline constexpr std::size_t MAX_RECORD_BYTES = 16 * MIB;

struct Line {
  std::string_view text;  ///< without its end ("\n" or "\r\n"); valid until the next call; the beginning of one that is too long
  std::uint64_t number = 0;
  bool too_long = false;
};

class LineReader {
 public:
  explicit LineReader(ByteStream stream) : stream_(std::move(stream)), buffer_(START_BYTES) {}

  /// Empty at the end. A last line without an end is one.
  Result<std::optional<Line>> next();
  [[nodiscard]] const std::string& path() const { return stream_.path(); }

 private:
  static constexpr std::size_t START_BYTES = 256 * KIB;

  Result<void> fill();
  Result<Line> pass_over();

  ByteStream stream_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;
  bool ended_ = false;
  std::uint64_t number_ = 0;
};

}  // namespace prime::data
