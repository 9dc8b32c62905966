// Owns how figures are written for people: short, aligned, with units.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace prime::cli {

/// What stands where nothing is known.
inline constexpr const char* UNKNOWN = "-";

/// "3.711"; not finite: "nan".
std::string loss_figure(std::optional<double> loss);
/// "950", "21.4k", "1.2M".
std::string rate_figure(std::optional<double> per_second);
/// "40.0 Mbit/s", "1.2 Gbit/s": as links have them.
std::string bit_rate_figure(std::optional<double> bits_per_s);
/// "95.3 %".
std::string share_figure(std::optional<double> share);
/// "640 B", "1.1 MB": decimal, as links are measured.
std::string bytes_figure(std::optional<std::uint64_t> bytes);
/// "250 us", "3.1 ms", "41 ms", "1.24 s".
std::string short_time_figure(std::optional<double> seconds);
/// "1.2s", "2m41s", "3h05m".
std::string elapsed_figure(double seconds);
/// "12s ago", "5min ago", "3h ago", "4d ago".
std::string age_figure(double seconds);
/// "1 peer", "3 peers".
std::string plural(std::uint64_t count, const char* noun);
/// The last `width` values as bars of eight heights, lowest to highest; digits where only ASCII is safe.
std::string sparkline(std::span<const double> values, std::size_t width, bool unicode);

}  // namespace prime::cli
