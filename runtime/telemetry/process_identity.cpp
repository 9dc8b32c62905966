#include "runtime/telemetry/process_identity.hpp"

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgets to say that these are C functions
}
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store/file_io.hpp"

namespace prime::telemetry {
namespace {

Place find_place() {
  Place place;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> place.boot;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) place.host = name.data();
  // Sandboxes that hide it have a name at least.
  if (place.boot.empty()) place.boot = "of " + place.host;
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) == 0) place.pid_namespace = status.st_ino;
  return place;
}

/// Its number as /proc has it, which may have been mounted for another PID namespace than ours. 0: it is not in there.
pid_t number_in_proc(pid_t pid) {
  const store::Descriptor process{::pidfd_open(pid, 0)};
  if (!process.open()) return 0;
  std::ifstream file("/proc/self/fdinfo/" + std::to_string(process.get()));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Pid:")) return std::max(0, std::atoi(line.c_str() + 4));
  return 0;
}

}  // namespace

const Place& here() {
  static const Place place = find_place();
  return place;
}

std::optional<std::uint64_t> start_ticks(pid_t pid) {
  const auto number = number_in_proc(pid);
  if (number == 0) return std::nullopt;
  std::ifstream file("/proc/" + std::to_string(number) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The command's name, field 2, may hold anything; what follows its last bracket is plain.
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(bracket + 1));
  std::string field;
  for (int at = 3; at <= 22 && fields >> field; ++at)
    if (at == 3 && (field == "Z" || field == "X")) return std::nullopt;
  return std::strtoull(field.c_str(), nullptr, 10);
}

ProcessIdentity identify(pid_t pid) { return {pid, start_ticks(pid).value_or(0), here()}; }

bool is_alive(const ProcessIdentity& process) {
  if (process.pid <= 0 || (process.place.known() && !is_here(process.place))) return false;
  return start_ticks(process.pid) == process.start_ticks;
}

nlohmann::json to_json(const ProcessIdentity& process) {
  return {{"pid", static_cast<std::uint64_t>(process.pid)},
          {"start_ticks", process.start_ticks},
          {"boot_id", process.place.boot},
          {"pid_namespace", process.place.pid_namespace},
          {"host", process.place.host}};
}

ProcessIdentity identity_from(const nlohmann::json& fields) {
  const auto count = [&](const char* key) {
    const auto found = fields.find(key);
    return found != fields.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  const auto text = [&](const char* key) {
    const auto found = fields.find(key);
    return found != fields.end() && found->is_string() ? found->get<std::string>() : std::string{};
  };
  return {static_cast<pid_t>(count("pid")), count("start_ticks"), {text("boot_id"), count("pid_namespace"), text("host")}};
}

std::string place_text(const Place& place) {
  if (!place.known()) return "on a machine that its files do not name";
  const auto host = "`" + place.host + "`";
  if (place.boot == here().boot) return "in another container, or PID namespace, of this machine (host name " + host + ")";
  return place.host == here().host ? "on another machine that is called " + host + ", too" : "on " + host;
}

}  // namespace prime::telemetry
