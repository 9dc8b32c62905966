#include "runtime/agent/last_words.hpp"

#include <algorithm>
#include <deque>
#include <fstream>
#include <sstream>
#include <string_view>

namespace prime {
namespace {

constexpr std::size_t LINES = 3;
constexpr std::size_t BYTES = 400;
constexpr std::streamoff READ_BYTES = 16 * 1024;

/// The figure behind a name in a file of "name figure" lines; 0 when it is not there.
std::uint64_t figure(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value)
    if (name == wanted) return value;
  return 0;
}

/// "/user.slice/x" of cgroup v2, as "0::/user.slice/x" tells it.
std::string own_group() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("0::")) return line.substr(3);
  return {};
}

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

MemoryKills MemoryKills::now() {
  return {figure("/sys/fs/cgroup" + own_group() + "/memory.events", "oom_kill"), figure("/proc/vmstat", "oom_kill")};
}

}  // namespace prime
