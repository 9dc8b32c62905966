// Owns the loops around ISA-L and libzstd.
#include "runtime/trainer/data/byte_stream.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>
#include <zstd.h>

#include "messages/units.hpp"

namespace prime::data {
namespace {

constexpr std::size_t BUFFER_BYTES = 256 * KIB;
/// zstd's own limit for streams; a frame may ask for more, and is refused then.
constexpr int ZSTD_WINDOW_LOG = 27;

/// ISA-L's, which is several times as fast as zlib.
struct Inflater {
  inflate_state state{};
  Inflater() { start(); }
  void start() {
    isal_inflate_init(&state);
    state.crc_flag = ISAL_GZIP;
  }
};

const char* why_no_gzip(int code) {
  switch (code) {
    case ISAL_INCORRECT_CHECKSUM: return "its checksum is that of other content";
    case ISAL_INVALID_WRAPPER:
    case ISAL_UNSUPPORTED_METHOD: return "its header is none";
    default: return "what was packed cannot be unpacked";
  }
}

struct FreeDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

std::string_view packing_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return "gzip";
  // A frame that is skipped may come first, as pzstd writes it.
  const bool skipped = head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xf0U) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18";
  return skipped || head.starts_with("\x28\xb5\x2f\xfd") ? "zstd" : "";
}

struct ByteStream::Impl {
  ~Impl() {
    if (file >= 0) ::close(file);
  }

  tl::unexpected<Error> broken(const std::string& why) const { return fail(ErrorName::DataUnreadable, path + ": " + why); }

  Result<std::size_t> read_file(std::span<char> into) {
    while (true) {
      const ssize_t got = ::read(file, into.data(), into.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return broken(std::strerror(errno));
    }
  }

  Result<void> refill() {
    PRIME_TRY(end, read_file(buffer));
    at = 0;
    ended = end == 0;
    return {};
  }

  Result<std::size_t> read_plain(std::span<char> into) {
    if (at == end) return read_file(into);
    const auto count = std::min(into.size(), end - at);
    std::copy_n(buffer.data() + at, count, into.data());
    at += count;
    return count;
  }

  /// A file of several members, as bgzip writes, is their contents one after the other; zeros after the last are padding.
  Result<std::size_t> read_gzip(std::span<char> into) {
    auto& state = inflater->state;
    const auto room = static_cast<std::uint32_t>(std::min<std::size_t>(into.size(), GIB));
    state.next_out = reinterpret_cast<std::uint8_t*>(into.data());
    state.avail_out = room;
    while (state.avail_out == room) {
      if (at == end && !ended) PRIME_CHECK(refill());
      if (ended && between) return std::size_t{0};
      if (between && buffer[at] == '\0') {
        ++at;
        continue;
      }
      if (std::exchange(between, false)) {
        inflater->start();
        state.next_out = reinterpret_cast<std::uint8_t*>(into.data());
        state.avail_out = room;
      }
      state.next_in = reinterpret_cast<std::uint8_t*>(buffer.data() + at);
      state.avail_in = static_cast<std::uint32_t>(end - at);
      const int code = isal_inflate(&state);
      at = end - state.avail_in;
      if (code != ISAL_DECOMP_OK) return broken(std::string{"damaged gzip data: "} + why_no_gzip(code));
      between = state.block_state == ISAL_BLOCK_FINISH;
      // At the end of the file it may have some left to give; when it gives nothing any more, something is missing.
      if (ended && !between && state.avail_out == room) return broken("breaks off within gzip data: the file is not whole");
    }
    return room - state.avail_out;
  }

  Result<std::size_t> read_zstd(std::span<char> into) {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos == 0) {
      if (at == end && !ended) PRIME_CHECK(refill());
      ZSTD_inBuffer in{buffer.data(), end, at};
      if (ended && between) return std::size_t{0};
      const auto before = out.pos;
      const auto left = ZSTD_decompressStream(decompressor.get(), &out, &in);
      if (ZSTD_isError(left) != 0) return broken(why_no_zstd(left));
      const bool moved = in.pos != at || out.pos != before;
      at = in.pos;
      between = left == 0;
      if (ended && !moved) return broken("breaks off within zstd data: the file is not whole");
    }
    return out.pos;
  }

  std::string why_no_zstd(std::size_t code) const {
    const std::string name = ZSTD_getErrorName(code);
    if (name.find("ictionary") != std::string::npos)
      return "its zstd data needs a dictionary, which is not part of the file: pack it without one";
    return "damaged zstd data: " + name;
  }

  std::string path;
  int file = -1;
  std::vector<char> buffer = std::vector<char>(BUFFER_BYTES);
  std::size_t at = 0, end = 0;  ///< what is read of the file and not taken
  bool ended = false;
  bool between = true;  ///< two members or frames
  std::unique_ptr<Inflater> inflater;
  std::unique_ptr<ZSTD_DCtx, FreeDecompressor> decompressor;
};

ByteStream::ByteStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;
ByteStream::~ByteStream() = default;

Result<ByteStream> ByteStream::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (impl->file < 0) return impl->broken(std::strerror(errno));
  struct stat status = {};
  if (::fstat(impl->file, &status) != 0) return impl->broken(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return impl->broken(S_ISDIR(status.st_mode) ? "is a directory, not a file" : "is no regular file");
  PRIME_CHECK(impl->refill());
  const auto packing = packing_of({impl->buffer.data(), impl->end});
  if (packing == "gzip") {
    impl->inflater = std::make_unique<Inflater>();
  } else if (packing == "zstd") {
    impl->decompressor.reset(ZSTD_createDCtx());
    if (impl->decompressor == nullptr) return fail(ErrorName::MemoryUnavailable, path + ": zstd");
    ZSTD_DCtx_setParameter(impl->decompressor.get(), ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
  }
  return ByteStream(std::move(impl));
}

Result<std::size_t> ByteStream::read(std::span<char> into) {
  if (into.empty()) return std::size_t{0};
  if (impl_->inflater) return impl_->read_gzip(into);
  return impl_->decompressor ? impl_->read_zstd(into) : impl_->read_plain(into);
}

const std::string& ByteStream::path() const { return impl_->path; }

bool ByteStream::packed() const { return impl_->inflater || impl_->decompressor; }

Result<void> check_packing(const std::string& path, const std::atomic<bool>* stop) {
  PRIME_TRY(auto stream, ByteStream::open(path));
  std::vector<char> unpacked(BUFFER_BYTES);
  for (bool more = stream.packed(); more && (stop == nullptr || !*stop);) {
    PRIME_TRY(const auto got, stream.read(unpacked));
    more = got > 0;
  }
  return {};
}

}  // namespace prime::data
