// Owns reading a column of texts out of Parquet, which Python's pyarrow does in a process of its own: the format is larger than what is
// wanted of it, and its library larger than all of ours. The process tells each row in a frame, one row group after the other, so that
// neither side holds more than a few rows beside what the file itself packs together.
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "runtime/store/file_io.hpp"
#include "runtime/trainer/data/record_reader.hpp"

extern char** environ;

namespace prime::data {
namespace {

/// A row group that takes longer to unpack than this comes from a disk that does not answer.
constexpr int PATIENCE_MS = 300'000;
constexpr std::size_t MAX_WORDS_BYTES = 64 * KIB;  ///< of a complaint

/// What a frame tells.
enum class Tag : char { Text = 't', Null = 'n', TooLong = 'l', Broken = 'b', Lacking = 'm', End = 'e' };

/// tag u8, row group u32, row u64, size u32, then so many bytes; little-endian, as every machine of ours is. Rows of a group and groups
/// count from 1; 0: of the file.
constexpr std::size_t FRAME_BYTES = 17;
static_assert(std::endian::native == std::endian::little);

// What the current folder holds is no module of ours. A batch of few rows bounds what is unpacked at once.
constexpr const char* HELPER = R"(
import signal, struct, sys
sys.path[:1] = []
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
path, field, largest = sys.argv[1], sys.argv[2], int(sys.argv[3])
group = 0
def tell(tag, row=0, data=b''):
    sys.stdout.buffer.write(struct.pack('<cIQI', tag, group, row, len(data)) + data)
def end(tag, why=''):
    tell(tag, 0, why.encode('utf-8', 'replace')[:16384])
    sys.stdout.buffer.flush()
    sys.exit(0)
try:
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    end(b'm', str(error))
try:
    file = pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True)
    names = file.schema_arrow.names
    if names.count(field) != 1:
        shown = ', '.join('`%s`' % name for name in names[:20])
        end(b'b', 'has several columns `%s`' % field if field in names else 'has no column `%s`: it has %s' % (field, shown or 'none'))
    kind = file.schema_arrow.field(field).type
    value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(value) or pyarrow.types.is_large_string(value)):
        end(b'b', 'has %s as `%s`, not a text' % (kind, field))
    for number in range(file.num_row_groups):
        group, row = number + 1, 0
        for batch in file.iter_batches(batch_size=64, row_groups=[number], columns=[field], use_threads=False):
            for text in batch.column(0).cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist():
                row += 1
                if text is None: tell(b'n', row)
                elif len(text) > largest: tell(b'l', row)
                else: tell(b't', row, text)
    group = 0
    end(b'e')
except Exception as error:
    end(b'b', ('%s' % error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
)";

std::string interpreter() {
  const char* named = std::getenv("PRIME_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

Error lacks_library(const std::string& path, const std::string& why) {
  return Error{ErrorName::ProcessFailed,
               path + ": Parquet is read by Python's pyarrow, and `" + interpreter() + "` " + why +
                   ": install it (`python3 -m pip install pyarrow`), or let PRIME_PYTHON name an interpreter that has it"};
}

class ParquetReader final : public RecordReader {
 public:
  explicit ParquetReader(std::string path, std::string field) : path_(std::move(path)), field_(std::move(field)) {}
  ParquetReader(const ParquetReader&) = delete;
  ParquetReader& operator=(const ParquetReader&) = delete;
  ~ParquetReader() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    reap();
  }

  Result<void> start() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(store::storage_error("read through a pipe", path_, errno));
    answers_ = store::Descriptor{ends[0]};
    const store::Descriptor told{ends[1]};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, told.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::array<std::string, 6> words{interpreter(), "-c", HELPER, path_, field_, std::to_string(MAX_RECORD_BYTES)};
    std::array<char*, 7> pointers{};
    for (std::size_t i = 0; i < words.size(); ++i) pointers[i] = words[i].data();
    // It ends with us: a caller that blocks signals must not make it deaf to a pipe that nobody reads.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int reason = ::posix_spawnp(&pid_, pointers[0], &actions, &attributes, pointers.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (reason == 0) return {};
    pid_ = 0;
    return fail(lacks_library(path_, std::string{"could not be started ("} + std::strerror(reason) + ")"));
  }

  Result<bool> next(Record& record) override {
    if (over_) return false;
    std::array<char, FRAME_BYTES> head{};
    PRIME_CHECK(take(head));
    std::uint32_t group = 0, size = 0;
    record = {};
    std::memcpy(&group, &head[1], sizeof group);
    std::memcpy(&record.number, &head[5], sizeof record.number);
    std::memcpy(&size, &head[13], sizeof size);
    record.group = group;
    const auto tag = static_cast<Tag>(head[0]);
    if (size > (tag == Tag::Text ? MAX_RECORD_BYTES : MAX_WORDS_BYTES)) return fail(ended_early());
    text_.resize(size);
    PRIME_CHECK(take(text_));
    switch (tag) {
      case Tag::Text: record.text = text_; return true;
      case Tag::Null: record.broken = "has null as `" + field_ + "`, not a text"; return true;
      case Tag::TooLong: record.broken = "is longer than " + std::to_string(MAX_RECORD_BYTES / MIB) + " MiB"; return true;
      case Tag::Broken:
        return fail(ErrorName::DataUnreadable, path_ + (group > 0 ? ":" + std::to_string(group) : std::string{}) + ": " + text_);
      case Tag::Lacking: return fail(lacks_library(path_, "has none (" + text_ + ")"));
      case Tag::End: over_ = true; return false;
    }
    return fail(ended_early());
  }

 private:
  Result<void> take(std::span<char> into) {
    while (!into.empty()) {
      pollfd watched{answers_.get(), POLLIN, 0};
      const int ready = ::poll(&watched, 1, PATIENCE_MS);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return fail(ErrorName::ProcessFailed, path_ + ": the process that reads this Parquet file says nothing any more");
      const auto got = ::read(answers_.get(), into.data(), into.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return fail(ended_early());
      into = into.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

  /// Where the interpreter fell over, as one that is out of memory does.
  Error ended_early() {
    if (pid_ > 0) {  // for who asks again there is none, and 0 would be our own process group
      ::kill(pid_, SIGKILL);
      status_ = reap();
    }
    const auto how =
        WIFEXITED(status_) ? "with exit code " + std::to_string(WEXITSTATUS(status_)) : "by signal " + std::to_string(WTERMSIG(status_));
    return Error{ErrorName::ProcessFailed, path_ + ": `" + interpreter() + "`, which reads this Parquet file, ended in between, " + how};
  }

  int reap() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

  std::string path_, field_, text_;
  store::Descriptor answers_;
  pid_t pid_ = 0;
  int status_ = 0;  ///< of its end
  bool over_ = false;
};

}  // namespace

Result<std::unique_ptr<RecordReader>> open_parquet(const std::string& path, const std::string& field) {
  auto reader = std::make_unique<ParquetReader>(path, field);
  PRIME_CHECK(reader->start());
  return reader;
}

}  // namespace prime::data
