// Owns time and size: one monotonic instant, one duration, sizes in bytes, and their texts ("10s", "32KiB").
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace prime {

using Duration = std::chrono::nanoseconds;
/// A point on the monotonic clock of one process. Never sent to another machine (DESIGN law 6).
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;

inline constexpr std::uint64_t KIB = 1024;
inline constexpr std::uint64_t MIB = 1024 * KIB;
inline constexpr std::uint64_t GIB = 1024 * MIB;

/// "250ms", "30s", "5min", "2h"; a bare number is refused.
std::optional<Duration> parse_duration(std::string_view text);
/// "512B", "32KiB", "4MiB", "1GiB"; a bare number is refused.
std::optional<std::uint64_t> parse_byte_count(std::string_view text);
/// Bits per second: "500kbit/s", "40Mbit/s", "1Gbit/s"; thousands, as links have them; a bare number is refused.
std::optional<std::uint64_t> parse_bit_rate(std::string_view text);
std::string format_duration(Duration duration);
/// With one decimal, in the largest binary unit that keeps the figure at or above one.
std::string format_byte_count(std::uint64_t bytes);

}  // namespace prime
