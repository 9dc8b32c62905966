// Owns the headers of token files.
#include "runtime/trainer/data/token_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/trainer/data/byte_stream.hpp"
#include "runtime/trainer/data/token_shard.hpp"

namespace prime::data {
namespace {

/// llm.c's two kinds: of GPT-2 with 16 bits, of Llama 3 with 32.
constexpr std::int32_t MAGIC_16 = 20240520, MAGIC_32 = 20240801;
constexpr std::size_t HEADER_NUMBERS = 256;
constexpr std::size_t AT_ONCE = 64 * KIB;

tl::unexpected<Error> broken(const std::string& path, const std::string& why) { return fail(ErrorName::DataUnreadable, path + ": " + why); }

/// As much as there is, up to `into`.
Result<std::size_t> fill(ByteStream& stream, std::span<char> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    PRIME_TRY(const auto got, stream.read(into.subspan(done)));
    if (got == 0) break;
    done += got;
  }
  return done;
}

struct Kind {
  std::size_t token_bytes = 2;
  std::optional<std::uint64_t> tokens = {};  ///< that the header promises
};

/// By what stands at the beginning of a file, as much as there is of a header.
Kind kind_of(std::string_view head, DataFormat format) {
  std::array<std::int32_t, 3> header{};
  if (head.size() == HEADER_NUMBERS * sizeof(std::int32_t)) std::memcpy(header.data(), head.data(), sizeof header);
  if (header[0] != MAGIC_16 && header[0] != MAGIC_32) return {format == DataFormat::Tokens32 ? std::size_t{4} : std::size_t{2}};
  return {header[0] == MAGIC_16 ? std::size_t{2} : std::size_t{4}, static_cast<std::uint32_t>(header[2])};
}

Result<void> hear_documents(std::span<const Token> tokens, std::optional<Token> end, const TokensHeard& heard) {
  while (!tokens.empty()) {
    const auto found = end ? std::ranges::find(tokens, *end) : tokens.end();
    const bool ends = found != tokens.end();
    const auto size = static_cast<std::size_t>(found - tokens.begin()) + (ends ? 1 : 0);
    PRIME_CHECK(heard(tokens.first(size), ends));
    tokens = tokens.subspan(size);
  }
  return {};
}

Result<void> read_own(const std::string& path, const TokensHeard& heard) {
  auto shard = TokenShard::open(path);
  if (!shard) return fail(ErrorName::DataUnreadable, shard.error().detail);
  if (const auto whole = shard->verify(); !whole)
    return fail(ErrorName::DataUnreadable, whole.error().detail + "; copy it again from where it was made");
  const auto documents = shard->documents();
  if (!documents) return fail(ErrorName::DataUnreadable, documents.error().detail);
  std::vector<Token> tokens;
  std::uint64_t at = 0;
  for (const auto& document : *documents)
    while (at < document.end) {
      tokens.resize(std::min<std::uint64_t>(AT_ONCE, document.end - at));
      PRIME_CHECK(shard->read(at, tokens));
      at += tokens.size();
      PRIME_CHECK(heard(tokens, at == document.end));
    }
  return {};
}

}  // namespace

Result<void> read_token_file(const std::string& path, DataFormat format, std::optional<Token> end_of_document, const TokensHeard& heard) {
  PRIME_TRY(auto stream, ByteStream::open(path));
  std::vector<char> bytes(AT_ONCE * sizeof(Token));
  PRIME_TRY(auto have, fill(stream, std::span{bytes}.first(HEADER_NUMBERS * sizeof(std::int32_t))));
  const std::string_view head(bytes.data(), have);
  if (head.starts_with(SHARD_MAGIC) && stream.packed())
    return broken(path, "is a token shard of ours, packed: unpack it, since it is read where it lies");
  if (head.starts_with(SHARD_MAGIC)) return read_own(path, heard);
  const auto kind = kind_of(head, format);
  if (kind.tokens) have = 0;
  std::uint64_t count = 0;
  bool open = false;
  std::vector<Token> tokens;
  while (true) {
    PRIME_TRY(const auto more, fill(stream, std::span{bytes}.subspan(have)));
    have += more;
    if (have == 0) break;
    if (have % kind.token_bytes != 0) return broken(path, "ends within a token of " + std::to_string(kind.token_bytes) + " bytes");
    tokens.resize(have / kind.token_bytes);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = 0;
      std::memcpy(&tokens[i], bytes.data() + i * kind.token_bytes, kind.token_bytes);
    }
    count += tokens.size();
    open = !end_of_document || tokens.back() != *end_of_document;
    PRIME_CHECK(hear_documents(tokens, end_of_document, heard));
    have = 0;
  }
  if (kind.tokens && *kind.tokens != count)
    return broken(path, "holds " + std::to_string(count) + " tokens, and its header says " + std::to_string(*kind.tokens));
  return open ? heard({}, true) : Result<void>{};
}

Result<std::uint32_t> token_bytes_of(const std::string& path, DataFormat format) {
  PRIME_TRY(auto stream, ByteStream::open(path));
  std::vector<char> bytes(HEADER_NUMBERS * sizeof(std::int32_t));
  PRIME_TRY(const auto have, fill(stream, bytes));
  const std::string_view head(bytes.data(), have);
  constexpr std::size_t WIDTH_AT = 12;  // in our own header
  if (head.starts_with(SHARD_MAGIC) && have > WIDTH_AT) {
    const auto width = static_cast<std::uint32_t>(static_cast<unsigned char>(head[WIDTH_AT]));
    return width == 1 || width == 2 || width == 4 ? Result<std::uint32_t>{width} : broken(path, "has tokens of no known width");
  }
  return static_cast<std::uint32_t>(kind_of(head, format).token_bytes);
}

}  // namespace prime::data
