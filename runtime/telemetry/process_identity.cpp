#include "runtime/telemetry/process_identity.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>

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

namespace {

/// The number of an inode is that of another file elsewhere.
bool has_open(pid_t pid, const std::filesystem::path& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/fd", error})
    if (std::filesystem::equivalent(entry.path(), path, error)) return true;
  return false;
}

}  // namespace

std::optional<ProcessIdentity> writer_of(const std::filesystem::path& journal) {
  struct stat status {};
  if (::stat(journal.c_str(), &status) != 0) return std::nullopt;
  const auto inode = ':' + std::to_string(status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
    std::istringstream fields(line);
    std::string number, kind, mode, access, file;
    pid_t pid = 0;
    if (!(fields >> number >> kind >> mode >> access >> pid >> file)) continue;
    if (kind != "FLOCK" || access != "WRITE" || !file.ends_with(inode) || !has_open(pid, journal)) continue;
    if (const auto ticks = start_ticks(pid)) return ProcessIdentity{pid, *ticks};
  }
  return std::nullopt;
}

}  // namespace prime::telemetry
