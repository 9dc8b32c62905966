// Owns the cache: names, locks, and the threads that fill it.
#include "runtime/trainer/data/compile.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "kernels/digest/digest.hpp"
#include "messages/assert.hpp"
#include "runtime/store/file_lock.hpp"
#include "runtime/trainer/data/shard_compiler.hpp"
#include "runtime/trainer/data/token_file.hpp"

namespace prime::data {
namespace {

namespace fs = std::filesystem;

/// Raised with whatever changes what a shard holds for equal files.
constexpr int COMPILER_VERSION = 2;
/// Large enough that there are few shards, small enough that several are made at once and little is lost when one is not finished.
constexpr std::uint64_t GROUP_BYTES = 64 * MIB;
constexpr std::uint64_t MAX_GROUPS = 1024;
constexpr int LOCK_ATTEMPTS_MAX = 100;
constexpr auto TELL_EVERY = std::chrono::milliseconds(200);

struct Group {
  std::vector<SourceFile> files;
  std::uint64_t bytes = 0;
  std::string name;
};

std::string option_text(const Source& s) {
  std::string text;
  for (const auto& part :
       {std::to_string(COMPILER_VERSION), std::to_string(static_cast<int>(s.format)), s.field, std::to_string(static_cast<int>(s.on_error)),
        std::to_string(s.quality_trim), s.adapter, std::to_string(s.n_percent), std::to_string(s.min_length), std::to_string(s.max_length),
        std::to_string(s.deduplicate), std::to_string(static_cast<int>(s.collapse))})
    text += part + '\0';
  return text;
}

std::string name_of(const Group& group, const Source& source, const Tokenizer& tokenizer, std::uint64_t per_file_bytes) {
  auto all = option_text(source) + to_string(tokenizer.digest()) + std::to_string(per_file_bytes);
  for (const auto& file : group.files) {
    all += '\0' + file.name + '\0' + std::to_string(file.size_bytes) + ' ' + std::to_string(file.changed_ns) + to_string(file.head);
    if (file.mate) all += *file.mate + '\0' + std::to_string(file.mate_bytes) + ' ' + std::to_string(file.mate_changed_ns);
  }
  return to_string(kernels::digest_bytes(std::as_bytes(std::span{all}))) + ".tokens";
}

/// In the order of the files. Equal reads are told apart within a shard, so that all of such a source are in one.
std::vector<Group> groups_of(const Source& source, const SourceFiles& files, const Tokenizer& tokenizer, std::uint64_t per_file_bytes) {
  const bool text = source.format == DataFormat::Text;
  std::uint64_t all = 0;
  const auto counts = [&](const SourceFile& file) {
    return text ? std::min(file.size_bytes, per_file_bytes) : file.size_bytes + file.mate_bytes;
  };
  for (const auto& file : files.files) all += counts(file);
  const auto enough = source.deduplicate ? ~0ULL : std::max(GROUP_BYTES, all / MAX_GROUPS);
  std::vector<Group> groups;
  for (const auto& file : files.files) {
    if (groups.empty() || groups.back().bytes >= enough) groups.emplace_back();
    groups.back().files.push_back(file);
    groups.back().bytes += counts(file);
  }
  for (auto& group : groups) group.name = name_of(group, source, tokenizer, per_file_bytes);
  return groups;
}

/// The widest; a file that cannot be read is named when it is.
std::uint32_t bytes_of_file_token(const Group& group, DataFormat format) {
  std::uint32_t widest = 1;
  for (const auto& file : group.files) widest = std::max(widest, token_bytes_of(file.path, format).value_or(4));
  return widest;
}

std::uint32_t bytes_of_token(const Group& group, const Source& source, const Tokenizer& tokenizer) {
  if (source.format == DataFormat::Tokens32 || source.format == DataFormat::Tokens) return bytes_of_file_token(group, source.format);
  return tokenizer.size() <= 1U << 8 ? 1 : tokenizer.size() <= 1U << 16 ? 2 : 4;
}

/// The file in the making, locked: whoever else wants the same waits, and finds it made.
Result<store::Descriptor> lock_hidden(const fs::path& hidden) {
  for (int attempt = 0; attempt < LOCK_ATTEMPTS_MAX; ++attempt) {
    store::Descriptor file{::open(hidden.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
    if (!file.open()) return fail(store::storage_error("create", hidden, errno));
    const auto answer = store::lock_whole(file.get(), true);
    if (answer == store::LockAnswer::Failed) return fail(store::storage_error("lock", hidden, errno));
    // Without locks two may write the same; each has its own bytes, which are equal.
    struct stat here = {}, there = {};
    if (::fstat(file.get(), &here) == 0 && ::stat(hidden.c_str(), &there) == 0 && here.st_ino == there.st_ino) return file;
  }
  return fail(store::storage_error("lock", hidden, EBUSY));
}

Result<TokenShard> whole_shard(const fs::path& path) {
  PRIME_TRY(auto shard, TokenShard::open(path));
  PRIME_CHECK(shard.verify());
  return shard;
}

Result<TokenShard> make_shard(const Group& group, const ShardPlan& plan, const fs::path& cache, std::atomic<std::uint64_t>& done) {
  const auto path = cache / group.name, hidden = cache / ("." + group.name + ".writing");
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    if (auto shard = whole_shard(path)) return done += group.bytes, shard;
    fs::remove(path, ignored);  // damaged: made again
  }
  PRIME_TRY(auto file, lock_hidden(hidden));
  if (fs::exists(path, ignored)) {
    fs::remove(hidden, ignored);
    done += group.bytes;
    return whole_shard(path);
  }
  const auto make = [&]() -> Result<void> {
    PRIME_TRY(auto writer, ShardWriter::begin(hidden, std::move(file), bytes_of_token(group, plan.source, plan.tokenizer)));
    ShardCompiler compiler(plan, writer);
    for (const auto& one : group.files) {
      PRIME_CHECK(compiler.add(one));
      done += plan.source.format == DataFormat::Text ? std::min(one.size_bytes, plan.per_file_bytes) : one.size_bytes + one.mate_bytes;
    }
    PRIME_CHECK(writer.finish(compiler.content()));
    fs::rename(hidden, path, ignored);
    if (ignored) return fail(store::storage_error("rename", hidden, ignored.value()));
    return store::sync_directory(cache);
  };
  if (auto made = make(); !made) {
    fs::remove(hidden, ignored);
    return fail(std::move(made).error());
  }
  return TokenShard::open(path);
}

/// Workers take the next group each; the caller's thread tells how far they are.
class Work {
 public:
  Work(const Source& source, const Tokenizer& tokenizer, const CompileOptions& options, std::vector<Group> groups)
      : plan_{source, tokenizer, options.per_file_bytes, stop_}, options_(options), groups_(std::move(groups)), made_(groups_.size()) {}

  Result<std::vector<TokenShard>> run() {
    std::uint64_t all = 0;
    for (const auto& group : groups_) all += group.bytes;
    const auto count = std::clamp<std::size_t>(options_.threads, 1, std::max<std::size_t>(1, groups_.size()));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    auto told = tell(all);
    for (auto& thread : threads) thread.join();
    PRIME_CHECK(told);
    std::vector<TokenShard> shards;
    // Those that were interrupted were so by another's error.
    for (auto& shard : made_)
      if (shard && !*shard && shard->error().name != ErrorName::Interrupted) return fail(std::move(*shard).error());
    for (auto& shard : made_) shards.push_back(**std::move(shard));
    return shards;
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < groups_.size() && !stop_; i = next_++) {
      made_[i] = make_shard(groups_[i], plan_, options_.cache, done_);
      if (!*made_[i]) stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  Result<void> tell(std::uint64_t all) {
    const auto count = std::clamp<std::size_t>(options_.threads, 1, std::max<std::size_t>(1, groups_.size()));
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, TELL_EVERY, [&] { return ended_ == count; })) {
      if (!options_.on_progress) continue;
      lock.unlock();
      auto heard = options_.on_progress({done_, all});
      lock.lock();
      if (heard) continue;
      stop_ = true;
      changed_.wait(lock, [&] { return ended_ == count; });
      return heard;
    }
    return {};
  }

  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<std::size_t> next_ = 0;
  ShardPlan plan_;
  const CompileOptions& options_;
  std::vector<Group> groups_;
  std::vector<std::optional<Result<TokenShard>>> made_;
  std::mutex mutex_;  // of ended_
  std::condition_variable changed_;
  std::size_t ended_ = 0;
};

}  // namespace

Result<fs::path> cache_root(const std::optional<std::string>& chosen) {
  if (chosen) return fs::path{*chosen};
  const auto from = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string{value != nullptr ? value : ""};
  };
  if (const auto xdg = from("XDG_CACHE_HOME"); !xdg.empty()) return fs::path{xdg} / "prime";
  if (const auto home = from("HOME"); !home.empty()) return fs::path{home} / ".cache" / "prime";
  return fail(ErrorName::Usage, "neither `local.data_cache` nor XDG_CACHE_HOME nor HOME says where compiled data is to be kept");
}

Result<std::vector<TokenShard>> compile(const Source& source, const SourceFiles& files, const Tokenizer& tokenizer,
                                        const CompileOptions& options) {
  std::error_code error;
  fs::create_directories(options.cache, error);
  if (error) return fail(store::storage_error("create", options.cache, error.value()));
  return Work(source, tokenizer, options, groups_of(source, files, tokenizer, options.per_file_bytes)).run();
}

}  // namespace prime::data
