#include "runtime/telemetry/process_identity.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace prime::telemetry {

std::optional<std::uint64_t> start_ticks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The command's name, field 2, may hold anything; what follows its last bracket is plain.
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(bracket + 1));
  std::string field;
  for (int number = 3; number <= 22 && fields >> field; ++number)
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
  return std::strtoull(field.c_str(), nullptr, 10);
}

bool is_alive(const ProcessIdentity& process) { return process.pid > 0 && start_ticks(process.pid) == process.start_ticks; }

}  // namespace prime::telemetry
