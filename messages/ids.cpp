#include "messages/ids.hpp"

#include <array>
#include <charconv>

namespace prime {
namespace {

std::string hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); value != 0; value >>= 4U) text[--i] = "0123456789abcdef"[value & 15U];
  return text;
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string to_string(PeerId id) { return hex(id.value); }
std::string to_string(const Digest& digest) { return hex(digest.high) + hex(digest.low); }
std::string to_string(const OperationId& op) {
  return std::to_string(op.epoch.value) + "." + std::to_string(op.sequence.value) +
         (op.tag.value == 0 ? "" : "#" + std::to_string(op.tag.value));
}

std::optional<PeerId> parse_peer_id(std::string_view text) {
  const auto value = parse_hex(text);
  return value ? std::optional<PeerId>{PeerId{*value}} : std::nullopt;
}

std::optional<Digest> parse_digest(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = parse_hex(text.substr(0, 16));
  const auto low = parse_hex(text.substr(16));
  return high && low ? std::optional<Digest>{Digest{*high, *low}} : std::nullopt;
}

std::string readable_name(PeerId id) {
  static constexpr std::array<std::string_view, 32> MOODS = {"brave", "calm",  "wild",  "dusk",  "swift", "quiet", "bold",  "amber",
                                                             "lucid", "merry", "noble", "proud", "rapid", "sunny", "vivid", "witty",
                                                             "clear", "deft",  "eager", "frank", "grand", "happy", "jolly", "keen",
                                                             "light", "mild",  "neat",  "plain", "ready", "sharp", "true",  "warm"};
  static constexpr std::array<std::string_view, 32> ANIMALS = {"otter", "heron", "lynx",  "ibex",  "finch",  "tapir", "gecko",  "raven",
                                                               "bison", "crane", "dingo", "eagle", "ferret", "goose", "hyena",  "koala",
                                                               "lemur", "moose", "newt",  "okapi", "panda",  "quail", "robin",  "seal",
                                                               "tiger", "urial", "viper", "whale", "yak",    "zebra", "badger", "civet"};
  const auto mixed = id.value * 0x9E3779B97F4A7C15ULL;
  return std::string{MOODS[(mixed >> 59) & 31]} + "-" + std::string{ANIMALS[(mixed >> 54) & 31]};
}

}  // namespace prime
