// Owns the buffer of lines.
#include "runtime/trainer/data/line_reader.hpp"

#include <algorithm>
#include <cstring>

namespace prime::data {
namespace {

constexpr std::size_t SHOWN_BYTES = 64;

std::string_view without_return(const char* begin, std::size_t size) {
  return {begin, size > 0 && begin[size - 1] == '\r' ? size - 1 : size};
}

}  // namespace

/// More behind what is there; moves that to the front first.
Result<void> LineReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
  end_ -= at_;
  at_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  PRIME_TRY(const auto got, stream_.read({buffer_.data() + end_, buffer_.size() - end_}));
  end_ += got;
  ended_ = got == 0;
  return {};
}

Result<std::optional<Line>> LineReader::next() {
  std::size_t looked = 0;
  while (true) {
    const char* begin = buffer_.data() + at_;
    if (const auto* found = static_cast<const char*>(std::memchr(begin + looked, '\n', end_ - at_ - looked))) {
      const auto size = static_cast<std::size_t>(found - begin);
      at_ += size + 1;
      return Line{without_return(begin, size), ++number_, size > MAX_RECORD_BYTES};
    }
    looked = end_ - at_;
    if (ended_) {
      if (looked == 0) return std::optional<Line>{};
      at_ = end_;
      return Line{without_return(begin, looked), ++number_, looked > MAX_RECORD_BYTES};
    }
    if (looked > MAX_RECORD_BYTES) return pass_over();
    PRIME_CHECK(fill());
  }
}

Result<Line> LineReader::pass_over() {
  std::copy_n(buffer_.data() + at_, SHOWN_BYTES, buffer_.data());
  end_ = at_ = SHOWN_BYTES;
  while (!ended_) {
    PRIME_TRY(const auto got, stream_.read({buffer_.data() + SHOWN_BYTES, buffer_.size() - SHOWN_BYTES}));
    ended_ = got == 0;
    at_ = SHOWN_BYTES;
    end_ = SHOWN_BYTES + got;
    if (const auto* found = static_cast<const char*>(std::memchr(buffer_.data() + at_, '\n', got))) {
      at_ = static_cast<std::size_t>(found - buffer_.data()) + 1;
      break;
    }
    at_ = end_;
  }
  return Line{{buffer_.data(), SHOWN_BYTES}, ++number_, true};
}

}  // namespace prime::data
