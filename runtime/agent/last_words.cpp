#include "runtime/agent/last_words.hpp"

#include <algorithm>
#include <deque>
#include <fstream>
#include <sstream>

namespace prime {
namespace {

constexpr std::size_t LINES = 3;
constexpr std::size_t BYTES = 400;
constexpr std::streamoff READ_BYTES = 16 * 1024;

}  // namespace

std::string tail_of(const std::string& path, std::uint64_t begin) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff end = file.tellg();
  file.seekg(std::max<std::streamoff>(static_cast<std::streamoff>(begin), end - READ_BYTES));
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    // Progress bars and colours are not for one line of a status.
    std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; });
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    lines.push_back(std::move(line));
    if (lines.size() > LINES) lines.pop_front();
  }
  std::string text;
  for (const auto& line : lines) text += (text.empty() ? "" : " | ") + line;
  if (text.size() <= BYTES) return text;
  auto at = text.size() - BYTES;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;  // not in the midst of a character
  return "…" + text.substr(at);
}

}  // namespace prime
