#include "runtime/agent/reason_log.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "runtime/store/journal.hpp"

namespace prime {

std::function<void(const std::string& reason)> reason_log(std::string machine) {
  const char* const level = std::getenv(LOG_LEVEL_VARIABLE);
  if (level == nullptr || std::string_view{level} != "debug") return {};
  return [machine = std::move(machine)](const std::string& reason) {
    auto line = store::format_utc(std::chrono::system_clock::now()) + " debug " + machine + ": " + reason;
    // A reason may quote a stranger: one line it stays.
    for (auto& c : line)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    std::fputs((line + "\n").c_str(), stderr);
  };
}

}  // namespace prime
