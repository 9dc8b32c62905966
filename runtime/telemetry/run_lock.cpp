#include "runtime/telemetry/run_lock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <linux/magic.h>
#include <mutex>
#include <sys/statfs.h>
#include <thread>
#include <unistd.h>

#include "runtime/store/file_io.hpp"
#include "runtime/store/file_lock.hpp"

namespace prime::telemetry {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t LOCK_BYTES_MAX = 16 * KIB;
constexpr std::string_view RELEASED = "released\n";

fs::path lock_file(const fs::path& directory) { return directory / "lock"; }

/// File systems that no other kernel has at the same time. All others may be shared, with locks that may hold on one machine only: those of
/// NFS with `nolock`, 9p, virtiofs, FUSE.
bool is_own(const fs::path& directory) {
  constexpr std::uint32_t ZFS = 0x2FC12FC1;
  constexpr std::uint32_t BCACHEFS = 0xCA451A4E;
  constexpr std::array<std::uint32_t, 10> OWN{EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC, TMPFS_MAGIC, RAMFS_MAGIC,
                                              OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, NILFS_SUPER_MAGIC, ZFS,         BCACHEFS};
  struct statfs status {};
  return ::statfs(directory.c_str(), &status) == 0 && std::ranges::find(OWN, static_cast<std::uint32_t>(status.f_type)) != OWN.end();
}

bool is_own(const fs::path& directory, const LockTerms& terms) { return terms.own_file_system.value_or(is_own(directory)); }

std::optional<ProcessIdentity> parse_holder(const std::string& text) {
  const auto end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const auto object = nlohmann::json::parse(text.substr(0, end), nullptr, false);
  if (!object.is_object()) return std::nullopt;
  auto holder = identity_from(object);
  return holder.pid > 0 && holder.place.known() ? std::optional{std::move(holder)} : std::nullopt;
}

std::string holder_text(const ProcessIdentity& holder) {
  return to_json(holder).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Of one length, so that it can be written over the one before.
std::string count_text(std::uint64_t count) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%020llu\n", static_cast<unsigned long long>(count));
  return text.data();
}

bool counts(const std::string& text) { return text.find('\n') < text.size() - 1; }

/// Opened anew each time: a client of NFS asks its server then whether what it remembers of the file still holds.
std::optional<std::string> read_lock(const fs::path& path) {
  auto text = store::read_file(path, LOCK_BYTES_MAX);
  return text ? std::optional{*std::move(text)} : std::nullopt;
}

store::LockAnswer ask(const fs::path& path) {
  const store::Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  return file.open() ? store::ask_life(file.get()) : store::LockAnswer::Failed;
}

}  // namespace

struct RunLock::Impl {
  fs::path path;
  store::Descriptor file;
  std::string text;  ///< its first line
  Duration beat_every{};
  std::mutex mutex;
  std::condition_variable ends;
  bool ended = false;
  bool beats_at_all = false;
  std::uint64_t beats = 0;
  std::thread beating;

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    ends.notify_all();
    if (beating.joinable()) beating.join();
    // While it beats, another one may have taken its place since the last beat.
    if (!text.empty() && (!beats_at_all || is_mine())) static_cast<void>(write(std::string{RELEASED}));
  }

  [[nodiscard]] Result<void> write(const std::string& content) const {
    if (::ftruncate(file.get(), 0) != 0 || ::lseek(file.get(), 0, SEEK_SET) != 0) return fail(store::storage_error("write", path, errno));
    PRIME_CHECK(store::write_all(file.get(), std::as_bytes(std::span{content}), path));
    // A file server has it only then.
    if (::fdatasync(file.get()) != 0) return fail(store::storage_error("sync", path, errno));
    return {};
  }

  [[nodiscard]] bool is_mine() const {
    const auto now = read_lock(path);
    return now && now->starts_with(text);
  }

  void beat() {
    const auto count = count_text(++beats);
    // What fails is tried again; a disk that stays away is the journal's to complain about.
    if (::pwrite(file.get(), count.data(), count.size(), static_cast<off_t>(text.size())) > 0) static_cast<void>(::fdatasync(file.get()));
  }

  /// Two writers of one run are worse than none: who stood still for so long that another one took its place ends at once.
  void end_if_replaced() const {
    const auto now = read_lock(path);
    if ((!now && !fs::exists(path.parent_path())) || (now && !now->empty() && !now->starts_with(text))) {
      const Error cause{ErrorName::RunElsewhere, "another process has taken " + path.string() + " while this one stood still"};
      std::fputs(render(cause).c_str(), stderr);
      std::_Exit(info(cause.name).exit_code);
    }
  }

  void start_beating() {
    beats_at_all = true;
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for the threads that wait for them
    beating = std::thread([this] {
      std::unique_lock lock(mutex);
      while (!ends.wait_for(lock, beat_every, [this] { return ended; })) {
        end_if_replaced();
        beat();
      }
    });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
};

RunLock::RunLock(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunLock::RunLock(RunLock&&) noexcept = default;
RunLock& RunLock::operator=(RunLock&&) noexcept = default;
RunLock::~RunLock() = default;

namespace {

Error held_by(const fs::path& directory, const std::optional<ProcessIdentity>& holder) {
  if (holder && is_here(holder->place))
    return Error{ErrorName::StorageFailed, "process " + std::to_string(holder->pid) + " writes " + directory.string() + " already"};
  return Error{ErrorName::RunElsewhere, "a process " + place_text(holder ? holder->place : Place{}) +
                                            (holder ? " (pid " + std::to_string(holder->pid) + " there)" : std::string{}) + " writes " +
                                            directory.string()};
}

}  // namespace

Result<RunLock> RunLock::take(const fs::path& directory, LockTerms terms) {
  auto impl = std::make_unique<Impl>();
  impl->path = lock_file(directory);
  impl->beat_every = terms.beat_every;
  const auto open = [&](int more) { return store::Descriptor{::open(impl->path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | more, 0644)}; };
  impl->file = open(O_EXCL);
  const bool first = impl->file.open();  // of all machines, file servers included
  if (!first) impl->file = open(0);
  if (!impl->file.open()) return fail(store::storage_error("open", impl->path, errno));
  LockWatch watch{directory, terms};
  // Before it is locked: after that the lock is our own.
  if (!first && settled_look(watch, {}, false) != Presence::Gone) return fail(held_by(directory, watch.holder()));
  const auto answer = store::lock_life(impl->file.get());
  if (answer == store::LockAnswer::Failed) return fail(store::storage_error("lock", impl->path, errno));
  if (answer == store::LockAnswer::Held) {
    static_cast<void>(watch.look({}, false));
    return fail(held_by(directory, watch.holder()));
  }
  impl->text = holder_text(identify(::getpid()));
  const bool proves = answer == store::LockAnswer::Granted && is_own(directory, terms);
  PRIME_CHECK(impl->write(proves ? impl->text : impl->text + count_text(0)));
  if (proves) return RunLock{std::move(impl)};
  if (!first) {
    // Another machine that took it in the same moment has written by then what it read as free before.
    std::this_thread::sleep_for(terms.beat_every);
    if (!impl->is_mine()) {
      impl->text.clear();  // it is not ours to release
      static_cast<void>(watch.look({}, false));
      return fail(held_by(directory, watch.holder()));
    }
  }
  impl->start_beating();
  return RunLock{std::move(impl)};
}

LockWatch::LockWatch(fs::path directory, LockTerms terms) : directory_(std::move(directory)), terms_(terms) {}

bool LockWatch::proves() const { return is_own(directory_, terms_); }

Presence LockWatch::look(const ProcessIdentity& told, bool ended, Instant now) {
  const auto path = lock_file(directory_);
  holder_.reset();
  auto text = read_lock(path);
  std::error_code error;
  if (!text) return fs::exists(path, error) || error ? Presence::Unknown : without_lock(told, ended);
  if (*text == RELEASED) return Presence::Gone;
  holder_ = parse_holder(*text);
  if (holder_ && is_here(holder_->place)) return is_alive(*holder_) ? Presence::Here : Presence::Gone;
  const auto answer = ask(path);
  if (answer == store::LockAnswer::Held) return Presence::Elsewhere;
  // Who counts has found its own lock to be no proof: seen from the host, files of a virtual machine look like its own.
  if (counts(*text)) return watched(*text, now);
  return answer == store::LockAnswer::Granted && proves() ? Presence::Gone : Presence::Unknown;
}

/// A lock file that somebody has taken away is one way to say that its holder is gone; what the kernel knows of the journal counts.
Presence LockWatch::without_lock(const ProcessIdentity& told, bool ended) const {
  const store::Descriptor journal{::open((directory_ / "journal.jsonl").c_str(), O_RDONLY | O_CLOEXEC)};
  if (ended || !journal.open()) return Presence::Gone;
  const auto answer = store::share_whole(journal.get());
  if (answer == store::LockAnswer::Held) return Presence::Elsewhere;
  const bool free = answer == store::LockAnswer::Granted && proves();
  return free || told.place.known() ? Presence::Gone : Presence::Unknown;
}

Presence LockWatch::watched(const std::string& text, Instant now) {
  stands_ += seen_ ? std::min<Duration>(now - looked_at_, LOOK_SPAN_MAX) : Duration{};
  looked_at_ = now;
  if (seen_ != text) {
    beats_ = seen_.has_value();
    seen_ = text;
    stands_ = {};
  }
  if (stands_ >= terms_.silence_limit) return Presence::Gone;
  return beats_ ? Presence::Elsewhere : Presence::Unsettled;
}

Presence settled_look(LockWatch& watch, const ProcessIdentity& told, bool ended) {
  for (;;) {
    const auto presence = watch.look(told, ended);
    if (presence != Presence::Unsettled) return presence;
    std::this_thread::sleep_for(LOOK_EVERY);
  }
}

}  // namespace prime::telemetry
