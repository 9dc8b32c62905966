#include "cli/render/figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace prime::cli {
namespace {

struct Scale {
  double factor;
  const char* unit;
};

/// The largest unit that keeps the shown figure at or above one.
template <std::size_t N>
const Scale& scale_of(const std::array<Scale, N>& scales, double value) {
  for (const auto& scale : scales)
    if (value >= scale.factor * 0.9995) return scale;
  return scales.back();
}

constexpr std::array RATES{Scale{1e9, "G"}, Scale{1e6, "M"}, Scale{1e3, "k"}};
constexpr std::array BIT_RATES{Scale{1e9, " Gbit/s"}, Scale{1e6, " Mbit/s"}, Scale{1e3, " kbit/s"}, Scale{1, " bit/s"}};
constexpr std::array BYTES{Scale{1e9, " GB"}, Scale{1e6, " MB"}, Scale{1e3, " kB"}};

}  // namespace

std::string loss_figure(std::optional<double> loss) { return loss ? fmt::format("{:.3f}", *loss) : UNKNOWN; }

std::string rate_figure(std::optional<double> per_second) {
  if (!per_second || !std::isfinite(*per_second)) return UNKNOWN;
  if (*per_second < 999.5) return fmt::format("{:.0f}", *per_second);
  const auto& scale = scale_of(RATES, *per_second);
  return fmt::format("{:.1f}{}", *per_second / scale.factor, scale.unit);
}

std::string bit_rate_figure(std::optional<double> bits_per_s) {
  if (!bits_per_s || !std::isfinite(*bits_per_s)) return UNKNOWN;
  const auto& scale = scale_of(BIT_RATES, *bits_per_s);
  return fmt::format("{:.1f}{}", *bits_per_s / scale.factor, scale.unit);
}

std::string share_figure(std::optional<double> share) {
  if (!share || !std::isfinite(*share)) return UNKNOWN;
  return fmt::format("{:.1f} %", *share * 100);
}

std::string bytes_figure(std::optional<std::uint64_t> bytes) {
  if (!bytes) return UNKNOWN;
  if (*bytes < 1000) return fmt::format("{} B", *bytes);
  const auto value = static_cast<double>(*bytes);
  const auto& scale = scale_of(BYTES, value);
  return fmt::format("{:.1f}{}", value / scale.factor, scale.unit);
}

std::string short_time_figure(std::optional<double> seconds) {
  if (!seconds || !std::isfinite(*seconds)) return UNKNOWN;
  if (*seconds < 0.000995) return fmt::format("{:.0f} us", *seconds * 1e6);
  if (*seconds < 0.00995) return fmt::format("{:.1f} ms", *seconds * 1e3);
  if (*seconds < 0.9995) return fmt::format("{:.0f} ms", *seconds * 1e3);
  return fmt::format("{:.2f} s", *seconds);
}

std::string elapsed_figure(double seconds) {
  if (seconds < 59.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string age_figure(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f}s ago", std::max(seconds, 0.0));
  if (seconds < 3600) return fmt::format("{:.0f}min ago", std::floor(seconds / 60));
  if (seconds < 48 * 3600) return fmt::format("{:.0f}h ago", std::floor(seconds / 3600));
  return fmt::format("{:.0f}d ago", std::floor(seconds / 86400));
}

std::string plural(std::uint64_t count, const char* noun) { return std::to_string(count) + " " + noun + (count == 1 ? "" : "s"); }

std::string sparkline(std::span<const double> values, std::size_t width, bool unicode) {
  constexpr std::array<const char*, 8> BARS{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> finite;
  for (const auto value : values)
    if (std::isfinite(value)) finite.push_back(value);
  if (finite.size() > width) finite.erase(finite.begin(), finite.end() - static_cast<std::ptrdiff_t>(width));
  if (finite.size() < 2) return {};
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  const double span = *high - *low;
  std::string text;
  for (const auto value : finite) {
    const auto height = span > 0 ? static_cast<std::size_t>(std::lround((value - *low) / span * 7)) : 0;
    text += unicode ? std::string{BARS.at(height)} : std::to_string(height);
  }
  return text;
}

}  // namespace prime::cli
