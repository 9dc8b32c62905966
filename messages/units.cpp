#include "messages/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace prime {
namespace {

struct Quantity {
  std::uint64_t number;
  std::string_view unit;
};

std::optional<Quantity> split(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return Quantity{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

template <std::size_t N>
std::optional<std::uint64_t> scaled(std::string_view text, const std::array<std::pair<std::string_view, std::uint64_t>, N>& units) {
  const auto quantity = split(text);
  if (!quantity) return std::nullopt;
  for (const auto& [unit, factor] : units) {
    if (unit != quantity->unit) continue;
    if (quantity->number > static_cast<std::uint64_t>(INT64_MAX) / factor) return std::nullopt;
    return quantity->number * factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 4> UNITS = {
      {{"ms", 1'000'000}, {"s", 1'000'000'000}, {"min", 60'000'000'000}, {"h", 3'600'000'000'000}}};
  const auto count = scaled(text, UNITS);
  return count ? std::optional<Duration>{Duration{static_cast<std::int64_t>(*count)}} : std::nullopt;
}

std::optional<std::uint64_t> parse_byte_count(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 4> UNITS = {{{"B", 1}, {"KiB", KIB}, {"MiB", MIB}, {"GiB", GIB}}};
  return scaled(text, UNITS);
}

std::optional<std::uint64_t> parse_bit_rate(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 3> UNITS = {
      {{"kbit/s", 1'000}, {"Mbit/s", 1'000'000}, {"Gbit/s", 1'000'000'000}}};
  return scaled(text, UNITS);
}

std::string format_duration(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  std::array<char, 32> text{};
  if (seconds < 1e-3) std::snprintf(text.data(), text.size(), "%.0f us", seconds * 1e6);
  else if (seconds < 1) std::snprintf(text.data(), text.size(), "%.0f ms", seconds * 1e3);
  else if (seconds < 120) std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  else std::snprintf(text.data(), text.size(), "%dm%02ds", static_cast<int>(seconds / 60), static_cast<int>(std::fmod(seconds, 60)));
  return text.data();
}

std::string format_byte_count(std::uint64_t bytes) {
  std::array<char, 32> text{};
  const auto figure = static_cast<double>(bytes);
  if (bytes >= GIB) std::snprintf(text.data(), text.size(), "%.1f GiB", figure / static_cast<double>(GIB));
  else if (bytes >= MIB) std::snprintf(text.data(), text.size(), "%.1f MiB", figure / static_cast<double>(MIB));
  else if (bytes >= KIB) std::snprintf(text.data(), text.size(), "%.1f KiB", figure / static_cast<double>(KIB));
  else std::snprintf(text.data(), text.size(), "%llu B", static_cast<unsigned long long>(bytes));
  return text.data();
}

}  // namespace prime
