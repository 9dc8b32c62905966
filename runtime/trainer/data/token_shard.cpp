// Owns the bytes of a token shard.
#include "runtime/trainer/data/token_shard.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <xxhash.h>

#include "messages/units.hpp"

namespace prime::data {
namespace {

using nlohmann::json;

constexpr std::uint32_t SHARD_VERSION = 1;
constexpr std::size_t WRITTEN_AT_ONCE = 1 * MIB;
constexpr std::uint64_t MAX_FOOTER_BYTES = 1 * GIB;

struct Header {
  std::array<char, 8> magic{};
  std::uint32_t version = SHARD_VERSION, token_bytes = 0;
  std::uint64_t tokens = 0, documents = 0, footer_bytes = 0, digest_high = 0, digest_low = 0, unused = 0;
};
static_assert(sizeof(Header) == 64 && sizeof(ShardDocument) == 16);

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

json to_json(const ShardContent& content) {
  const auto& c = content.counts;
  json files = json::array();
  for (const auto& file : content.files) files.push_back({file.name, file.bytes, file.documents, file.mark});
  return {{"files", std::move(files)},
          {"largest", content.largest},
          {"first_skipped", content.first_skipped},
          {"counts",
           {c.documents, c.bytes, c.skipped, c.trimmed_quality, c.trimmed_adapter, c.dropped_n, c.dropped_length, c.dropped_duplicate,
            c.collapsed}}};
}

bool is_row(const json& row, std::size_t numbers_from, std::size_t size) {
  if (!row.is_array() || row.size() != size) return false;
  return std::all_of(row.begin() + static_cast<std::ptrdiff_t>(numbers_from), row.end(),
                     [](const json& value) { return value.is_number_unsigned(); });
}

std::optional<ShardContent> content_of(const json& footer) {
  ShardContent content;
  if (!footer.is_object() || !footer.contains("counts") || !is_row(footer["counts"], 0, 9) || !footer.contains("files") ||
      !footer["files"].is_array())
    return std::nullopt;
  for (const auto& row : footer["files"]) {
    if (!is_row(row, 1, 4) || !row[0].is_string()) return std::nullopt;
    content.files.push_back({row[0], row[1], row[2], row[3]});
  }
  const auto& c = footer["counts"];
  content.counts = {c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]};
  // Of a file that somebody brings, each may be of any type.
  const auto largest = footer.find("largest"), skipped = footer.find("first_skipped");
  if (largest != footer.end() && !largest->is_number_unsigned()) return std::nullopt;
  if (skipped != footer.end() && !skipped->is_string()) return std::nullopt;
  if (largest != footer.end()) content.largest = *largest;
  if (skipped != footer.end()) content.first_skipped = *skipped;
  return content;
}

/// XXH3-128 of so much of a file.
Result<Digest> digest_of(int file, std::uint64_t from, std::uint64_t bytes, const std::filesystem::path& path) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(WRITTEN_AT_ONCE);
  for (std::uint64_t done = 0; done < bytes;) {
    const auto got = ::pread(file, buffer.data(), std::min<std::uint64_t>(buffer.size(), bytes - done), static_cast<off_t>(from + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(store::storage_error("read", path, errno));
    if (got == 0) return fail(ErrorName::StorageFailed, path.string() + " is shorter than its header says");
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<std::size_t>(got));
    done += static_cast<std::uint64_t>(got);
  }
  const auto hash = XXH3_128bits_digest(state.get());
  return Digest{.high = hash.high64, .low = hash.low64};
}

Result<void> read_exactly(int file, std::uint64_t from, std::span<std::byte> into, const std::filesystem::path& path) {
  for (std::size_t done = 0; done < into.size();) {
    const auto got = ::pread(file, into.data() + done, into.size() - done, static_cast<off_t>(from + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(store::storage_error("read", path, errno));
    if (got == 0) return fail(ErrorName::StorageFailed, path.string() + " is shorter than its header says");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

template <class Narrow>
void narrow(std::span<const Token> tokens, std::vector<std::byte>& into) {
  const auto before = into.size();
  into.resize(before + tokens.size() * sizeof(Narrow));
  auto* to = into.data() + before;
  for (const Token token : tokens) {
    const auto value = static_cast<Narrow>(token);
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  }
}

template <class Narrow>
void widen(std::span<Token> into) {
  // The narrow ones lie at the end of the same memory, so that none is overwritten before it is read.
  const auto* from = reinterpret_cast<const std::byte*>(into.data()) + into.size() * (sizeof(Token) - sizeof(Narrow));
  for (Token& token : into) {
    Narrow value = 0;
    std::memcpy(&value, from, sizeof value);
    from += sizeof value;
    token = value;
  }
}

}  // namespace

Result<ShardWriter> ShardWriter::begin(const std::filesystem::path& path, store::Descriptor file, std::uint32_t token_bytes) {
  if (::ftruncate(file.get(), 0) != 0) return fail(store::storage_error("write", path, errno));
  ShardWriter writer(path, std::move(file), token_bytes);
  writer.buffer_.resize(sizeof(Header));
  return writer;
}

Result<void> ShardWriter::write(std::span<const std::byte> bytes) { return store::write_all(file_.get(), bytes, path_); }

Result<void> ShardWriter::flush() {
  PRIME_CHECK(write(buffer_));
  buffer_.clear();
  return {};
}

Result<void> ShardWriter::add(std::span<const Token> tokens) {
  for (const Token token : tokens) largest_ = std::max(largest_, token);
  if (token_bytes_ == 1) narrow<std::uint8_t>(tokens, buffer_);
  else if (token_bytes_ == 2) narrow<std::uint16_t>(tokens, buffer_);
  else narrow<std::uint32_t>(tokens, buffer_);
  tokens_ += tokens.size();
  if (buffer_.size() < WRITTEN_AT_ONCE) return {};
  return flush();
}

Result<void> ShardWriter::end_document(std::uint64_t hash) {
  kept_ = tokens_;
  documents_.push_back({tokens_, hash});
  return {};
}

Result<void> ShardWriter::drop_document() {
  if (tokens_ == kept_) return {};
  PRIME_CHECK(flush());
  const auto end = static_cast<off_t>(sizeof(Header) + kept_ * token_bytes_);
  if (::ftruncate(file_.get(), end) != 0 || ::lseek(file_.get(), end, SEEK_SET) < 0)
    return fail(store::storage_error("write", path_, errno));
  tokens_ = kept_;
  return {};
}

Result<void> ShardWriter::finish(const ShardContent& content) {
  PRIME_CHECK(flush());
  PRIME_CHECK(write(std::as_bytes(std::span{documents_})));
  auto whole = content;
  whole.largest = largest_;
  const auto footer = to_json(whole).dump(-1, ' ', false, json::error_handler_t::replace);
  PRIME_CHECK(write(std::as_bytes(std::span{footer})));
  Header header;
  std::ranges::copy(SHARD_MAGIC, header.magic.begin());
  header.token_bytes = token_bytes_;
  header.tokens = tokens_;
  header.documents = documents_.size();
  header.footer_bytes = footer.size();
  PRIME_TRY(const auto digest,
            digest_of(file_.get(), sizeof header, tokens_ * token_bytes_ + documents_.size() * sizeof(ShardDocument), path_));
  header.digest_high = digest.high;
  header.digest_low = digest.low;
  if (::lseek(file_.get(), 0, SEEK_SET) < 0) return fail(store::storage_error("write", path_, errno));
  PRIME_CHECK(write(std::as_bytes(std::span{&header, 1})));
  if (::fsync(file_.get()) != 0) return fail(store::storage_error("flush", path_, errno));
  return {};
}

Result<TokenShard> TokenShard::open(const std::filesystem::path& path) {
  PRIME_TRY(const auto file, store::open_to_read(path));
  const auto no_shard = [&] { return fail(ErrorName::StorageFailed, path.string() + " is no shard of tokens, or of another version"); };
  Header header;
  const auto size = static_cast<std::uint64_t>(::lseek(file.get(), 0, SEEK_END));
  if (size < sizeof header) return no_shard();
  PRIME_CHECK(read_exactly(file.get(), 0, std::as_writable_bytes(std::span{&header, 1}), path));
  const auto width = header.token_bytes;
  if (!std::ranges::equal(SHARD_MAGIC, header.magic) || header.version != SHARD_VERSION || (width != 1 && width != 2 && width != 4))
    return no_shard();
  // Each is bounded by itself first, so that their sum does not run over.
  const bool plausible = header.tokens <= size && header.documents <= size && header.footer_bytes <= std::min(size, MAX_FOOTER_BYTES);
  const auto footer_at = sizeof header + header.tokens * width + header.documents * sizeof(ShardDocument);
  if (!plausible || footer_at + header.footer_bytes != size)
    return fail(ErrorName::StorageFailed, path.string() + " is not as long as its header says");
  std::string footer(header.footer_bytes, '\0');
  PRIME_CHECK(read_exactly(file.get(), footer_at, std::as_writable_bytes(std::span{footer}), path));
  auto content = content_of(json::parse(footer, nullptr, /*allow_exceptions=*/false));
  if (!content) return no_shard();
  TokenShard shard;
  shard.path_ = path;
  shard.token_bytes_ = width;
  shard.tokens_ = header.tokens;
  shard.documents_ = header.documents;
  shard.digest_ = {.high = header.digest_high, .low = header.digest_low};
  shard.content_ = *std::move(content);
  return shard;
}

Result<void> TokenShard::verify() const {
  PRIME_TRY(const auto file, store::open_to_read(path_));
  PRIME_TRY(const auto digest, digest_of(file.get(), sizeof(Header), tokens_ * token_bytes_ + documents_ * sizeof(ShardDocument), path_));
  if (digest != digest_) return fail(ErrorName::StorageFailed, path_.string() + " is damaged: it does not hold what its digest says");
  return {};
}

// The file is opened for each read: no limit on open files binds the size of the data.
Result<void> TokenShard::read(std::uint64_t first, std::span<Token> into) const {
  PRIME_TRY(const auto file, store::open_to_read(path_));
  const auto narrow_bytes = into.size() * token_bytes_;
  const auto bytes = std::as_writable_bytes(into).last(narrow_bytes);
  PRIME_CHECK(read_exactly(file.get(), sizeof(Header) + first * token_bytes_, bytes, path_));
  if (token_bytes_ == 1) widen<std::uint8_t>(into);
  else if (token_bytes_ == 2) widen<std::uint16_t>(into);
  return {};
}

Result<std::vector<ShardDocument>> TokenShard::documents() const {
  PRIME_TRY(const auto file, store::open_to_read(path_));
  std::vector<ShardDocument> documents(documents_);
  PRIME_CHECK(read_exactly(file.get(), sizeof(Header) + tokens_ * token_bytes_, std::as_writable_bytes(std::span{documents}), path_));
  std::uint64_t before = 0;
  for (const auto& document : documents) {
    if (document.end < before || document.end > tokens_)
      return fail(ErrorName::StorageFailed, path_.string() + " is damaged: its documents do not follow one another");
    before = document.end;
  }
  return documents;
}

}  // namespace prime::data
