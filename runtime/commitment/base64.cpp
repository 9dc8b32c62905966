// Owns base64 (RFC 4648, section 4), read strictly: each text has one meaning, and each meaning one text.
#include <array>

#include "prime/commitment.hpp"

namespace prime {
namespace {

constexpr std::string_view ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t NO_DIGIT = 64;

constexpr std::array<std::uint8_t, 256> DIGITS = [] {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(NO_DIGIT);
  for (std::uint8_t i = 0; i < NO_DIGIT; ++i) digits[static_cast<unsigned char>(ALPHABET[i])] = i;
  return digits;
}();

}  // namespace

std::string to_base64(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < there ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j) text.push_back(j <= there ? ALPHABET[group >> (18 - 6 * j) & 63U] : '=');
  }
  return text;
}

Result<std::vector<std::uint8_t>> from_base64(std::string_view text) {
  const auto wrong = [](const std::string& what) { return fail(ErrorName::ProofMalformed, "no base64: " + what); };
  if (text.size() % 4 != 0) return wrong("its length is no multiple of 4");
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::size_t missing = i + 4 == text.size() ? padding : 0;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const auto digit = j < 4 - missing ? DIGITS[static_cast<unsigned char>(text[i + j])] : std::uint8_t{0};
      if (digit == NO_DIGIT) return wrong("the character at " + std::to_string(i + j) + " is not of its alphabet");
      group = group << 6 | digit;
    }
    for (std::size_t j = 0; j < 3 - missing; ++j) bytes.push_back(static_cast<std::uint8_t>(group >> (16 - 8 * j)));
    if (missing > 0 && (group & ((1U << 8 * missing) - 1)) != 0) return wrong("its last bits are not 0");
  }
  return bytes;
}

}  // namespace prime
