#include "runtime/doctor/machine_checks.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <ifaddrs.h>
#include <map>
#include <memory>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "messages/units.hpp"
#include "runtime/clock.hpp"
#include "runtime/doctor/memory_room.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/shortage.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::doctor {
namespace fs = std::filesystem;
namespace {

/// A run that may grow so far is what is asked for here.
constexpr std::uint64_t PEERS_EXAMINED = 200;
constexpr rlim_t DESCRIPTORS_WISHED = 4096;
/// A trainer of the smallest model, with libtorch, and its agent.
constexpr std::uint64_t MEMORY_NEEDED = 512 * MIB;
constexpr std::uint64_t MEMORY_WISHED = 2048 * MIB;
/// Of the model in 32-bit floats, agent and trainer together.
constexpr double SIZES_OF_A_PEER = 6.2;
constexpr double SIZES_OF_A_JOINER = 12.4;
constexpr std::uint64_t FREE_NEEDED = 64 * MIB;
constexpr std::uint64_t FREE_WISHED = 2048 * MIB;
constexpr std::uint64_t DISK_TRIED = 64 * MIB;
constexpr Duration DISK_PATIENCE = 1s;
constexpr double DISK_WISHED_BYTES_PER_S = 20e6;
constexpr std::uint64_t SHARED_TRIED = 64 * MIB;
/// IPv6 demands it, and below it not even a handshake fits.
constexpr unsigned MTU_NEEDED = 1280;
constexpr unsigned MTU_WISHED = 1400;

std::string size_text(std::uint64_t bytes) {
  if (bytes == RLIM_INFINITY) return "unlimited";
  if (bytes >= 1024 * MIB) return std::to_string(bytes / (1024 * MIB)) + " GiB";
  return bytes >= MIB ? std::to_string(bytes / MIB) + " MiB" : std::to_string(bytes / KIB) + " KiB";
}

Finding descriptors() {
  const auto allowed = descriptors_allowed();
  const auto text = std::to_string(allowed) + " may be open at once";
  if (allowed >= DESCRIPTORS_WISHED) return {"descriptors", Level::Good, text};
  return {"descriptors", allowed < descriptors_needed(PEERS_EXAMINED, 1) ? Level::Stops : Level::Doubtful, text,
          "`ulimit -n " + std::to_string(DESCRIPTORS_WISHED) + "` before `primectl`, or LimitNOFILE= of its service"};
}

/// How many parameters a peer may have whose agent and trainer are `bytes` in all, and a joiner's: docs/LIMITS.md, "Large tensors".
std::string holds_text(std::uint64_t bytes) {
  const auto millions = [&](double sizes) {
    return std::to_string(static_cast<std::uint64_t>(static_cast<double>(bytes) / (4 * sizes) / 1e6));
  };
  return "enough for one peer of up to " + millions(SIZES_OF_A_PEER) + " M parameters, " + millions(SIZES_OF_A_JOINER) +
         " M while it joins, and less what its activations take";
}

Finding memory() {
  const auto room = memory_room();
  if (!room) return {"memory", Level::Doubtful, "the kernel does not say how much is free", "see `free -h`"};
  const auto bytes = room->can_be_had();
  auto text = size_text(room->free_bytes) + " of " + size_text(room->machine_bytes) + " can be had";
  std::string hint = "end what else uses it, or train a smaller model or fewer peers here";
  if (room->group) {
    text += ", " + size_text(room->group->free_bytes) + " of the " + size_text(room->group->limit_bytes) + " that its cgroup allows (" +
            room->group->limit_file + ")";
    if (room->group->free_bytes < room->free_bytes) hint = "raise that limit (`docker run --memory`, MemoryMax= of its service)";
  }
  if (bytes >= MEMORY_WISHED) return {"memory", Level::Good, text + ": " + holds_text(bytes)};
  return {"memory", bytes < MEMORY_NEEDED ? Level::Stops : Level::Doubtful, text + ": " + holds_text(bytes), hint};
}

Finding locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return {"locked memory", Level::Good, size_text(limit.rlim_cur) + " may be locked (a run needs none)"};
}

Finding shared_memory() {
  const store::Descriptor memory{::memfd_create("prime-doctor", MFD_CLOEXEC)};
  if (!memory.open() || ::posix_fallocate(memory.get(), 0, static_cast<off_t>(SHARED_TRIED)) != 0)
    return {"shared memory", Level::Stops, size_text(SHARED_TRIED) + " of it cannot be had: " + std::strerror(errno),
            "give the machine, or its container, more memory"};
  struct statvfs shm {};
  std::string text = size_text(SHARED_TRIED) + " of it could be had";
  if (::statvfs("/dev/shm", &shm) == 0) {
    const auto size = shm.f_blocks * shm.f_frsize;
    text += "; /dev/shm has " + size_text(size);
    if (size < 256 * MIB)
      return {"shared memory", Level::Doubtful, text, "data loaders of an own trainer may need more: `docker run --shm-size=2g`"};
  }
  return {"shared memory", Level::Good, text};
}

fs::path existing(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  return path;
}

std::string hint_of(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT ? "free space there, or name another place with `--state-dir`"
                                                          : "let this user write there, or name another place with `--state-dir`";
}

/// Written for so long, and once to the platter.
Finding disk(const fs::path& state_root) {
  const auto place = existing(state_root);
  struct statvfs volume {};
  if (::statvfs(place.c_str(), &volume) != 0) return {"disk", Level::Stops, place.string() + ": " + std::strerror(errno), hint_of(errno)};
  const auto free = static_cast<std::uint64_t>(volume.f_bavail) * volume.f_frsize;
  const auto text = place.string() + " has " + size_text(free) + " free";
  if (free < FREE_NEEDED) return {"disk", Level::Stops, text + ": it is full", hint_of(ENOSPC)};
  auto name = (place / ".prime-doctor-XXXXXX").string();
  const store::Descriptor file{::mkostemp(name.data(), O_CLOEXEC)};
  if (!file.open()) return {"disk", Level::Stops, place.string() + " cannot be written: " + std::strerror(errno), hint_of(errno)};
  ::unlink(name.c_str());
  const std::vector<std::byte> block(MIB, std::byte{0x5a});
  const auto begun = monotonic_now();
  std::uint64_t written = 0;
  while (written < std::min(DISK_TRIED, free / 2) && monotonic_now() - begun < DISK_PATIENCE / 2) {
    if (const auto done = store::write_all(file.get(), block, name); !done)
      return {"disk", Level::Stops, text + ", but a write fails: " + done.error().detail, hint_of(errno)};
    written += block.size();
  }
  if (::fdatasync(file.get()) != 0) return {"disk", Level::Stops, text + ", but a write fails: " + std::strerror(errno), hint_of(errno)};
  const double seconds = std::chrono::duration<double>(monotonic_now() - begun).count();
  const double speed = static_cast<double>(written) / std::max(seconds, 1e-6);
  const auto found = text + " and takes " + std::to_string(static_cast<std::uint64_t>(speed / 1e6)) + " MB/s";
  if (speed < DISK_WISHED_BYTES_PER_S)
    return {"disk", Level::Doubtful, found, "checkpoints will take long: name a faster place with `--state-dir`"};
  if (free < FREE_WISHED) return {"disk", Level::Doubtful, found, "a checkpoint needs 4 bytes for each parameter, twice with momentum"};
  return {"disk", Level::Good, found};
}

/// What this program was built of is older than now.
Finding clock() {
  struct stat self {};
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (::stat("/proc/self/exe", &self) == 0 && now < self.st_mtime - 24 * 3600)
    return {"clock", Level::Doubtful, "it is before the day on which this program was installed", "set the clock, and let NTP keep it"};
  timex state{};
  const bool synchronised = ::adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) == 0;
  return {"clock", Level::Good,
          synchronised
              ? "synchronised by NTP"
              : "not synchronised by NTP, as far as the kernel tells; a run needs no such clock, only the times in logs may differ"};
}

std::map<std::string, unsigned> interface_mtus() {
  std::map<std::string, unsigned> mtus;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return mtus;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if ((at->ifa_flags & IFF_UP) == 0U || (at->ifa_flags & IFF_LOOPBACK) != 0U) continue;
    std::ifstream file{std::string{"/sys/class/net/"} + at->ifa_name + "/mtu"};
    if (unsigned mtu = 0; file >> mtu) mtus[at->ifa_name] = mtu;
  }
  return mtus;
}

Finding mtu() {
  std::string text;
  unsigned least = ~0U;
  std::string narrow;
  for (const auto& [name, size] : interface_mtus()) {
    text += (text.empty() ? "" : ", ") + name + " " + std::to_string(size);
    if (size < least) narrow = name;
    least = std::min(least, size);
  }
  if (text.empty()) return {"mtu", Level::Good, "no interface but loopback is up"};
  if (least >= MTU_WISHED) return {"mtu", Level::Good, text};
  return {"mtu", least < MTU_NEEDED ? Level::Stops : Level::Doubtful, text,
          "`ip link set " + narrow + " mtu 1500`, unless what it leads through is narrower"};
}

Finding addresses() {
  std::string text;
  bool useful = false;
  for (const auto& own : net::own_addresses()) {
    text += (text.empty() ? "" : ", ") + own.host + " of " + own.interface + " (" + std::string{net::reach_text(own.reach)} + ")";
    useful = useful || own.reach == net::Reach::Anywhere || own.reach == net::Reach::Network;
  }
  if (useful) return {"addresses", Level::Good, "told in this order: " + text};
  return {"addresses", Level::Doubtful, text.empty() ? "none but loopback" : text,
          "runs of this machine alone work; for others, connect it to a network, or name in `local.network.advertise` what leads here"};
}

}  // namespace

Findings examine_machine(const fs::path& state_root) {
  return {clock(), descriptors(), memory(), locked_memory(), shared_memory(), disk(state_root), mtu(), addresses()};
}

}  // namespace prime::doctor
