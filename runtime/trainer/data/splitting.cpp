// Owns the use of PCRE2.
#include "runtime/trainer/data/splitting.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <cstring>
#include <pcre2.h>

#include "messages/assert.hpp"

namespace prime::data {
namespace {

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

Splitter known(const char* expression, Splitter::Keeps keeps) {
  auto splitter = Splitter::of(expression, keeps);
  PRIME_ASSERT(splitter.has_value(), "our own expressions are right");
  return *std::move(splitter);
}

/// How many bytes follow a lead byte, and the least first of them; 0 for none that may lead.
struct Lead {
  int more = 0;
  unsigned least = 0x80, most = 0xbf;
};
Lead lead_of(unsigned byte) {
  if (byte >= 0xc2 && byte <= 0xdf) return {1};
  if (byte == 0xe0) return {2, 0xa0, 0xbf};
  if (byte == 0xed) return {2, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {2};
  if (byte == 0xf0) return {3, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {3};
  if (byte == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

}  // namespace

std::size_t valid_utf8(std::string_view text) {
  std::size_t at = 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  while (at < text.size()) {
    std::uint64_t eight = 0;
    while (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080ULL) != 0) break;
      at += sizeof eight;
    }
    if (at == text.size()) break;
    if (byte(at) < 0x80) {
      ++at;
      continue;
    }
    const Lead lead = lead_of(byte(at));
    if (lead.more == 0 || at + static_cast<std::size_t>(lead.more) >= text.size()) return at;
    if (byte(at + 1) < lead.least || byte(at + 1) > lead.most) return at;
    for (int i = 2; i <= lead.more; ++i)
      if ((byte(at + static_cast<std::size_t>(i)) & 0xc0U) != 0x80U) return at;
    at += static_cast<std::size_t>(lead.more) + 1;
  }
  return text.size();
}

struct Splitter::Compiled {
  explicit Compiled(pcre2_code* code) : code(code) {}
  ~Compiled() { pcre2_code_free(code); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  pcre2_code* code;
};

Result<Splitter> Splitter::of(const std::string& expression, Keeps keeps) {
  int error = 0;
  PCRE2_SIZE at = 0;
  auto* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (code == nullptr)
    return fail(ErrorName::DataUnreadable,
                "the regular expression `" + expression.substr(0, 80) + "` goes wrong at its character " + std::to_string(at));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it the same, more slowly
  return Splitter(std::make_shared<const Compiled>(code), keeps);
}

// Spaces are Unicode's White_Space, and word characters those of UTS #18, as in the libraries that Hugging Face uses; PCRE2's own \s and \w
// differ from them.
Splitter Splitter::gpt2() {
  return known(
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "
      "?[^\\p{White_Space}\\p{L}\\p{N}]+|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+",
      {});
}
Splitter Splitter::whitespace() {
  constexpr const char* WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}";
  return known((std::string{"["} + WORD + "]+|[^" + WORD + "\\p{White_Space}]+").c_str(), {.matches = true, .gaps = false});
}
Splitter Splitter::whitespace_split() { return known("\\p{White_Space}+", {.matches = false, .gaps = true}); }

bool Splitter::split(std::string_view text, std::vector<std::string_view>& words) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto* where = pcre2_get_ovector_pointer(match.get());
  std::size_t at = 0, looked = 0;
  while (looked < text.size()) {
    const int found = pcre2_match(compiled_->code, subject, text.size(), looked, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return false;
    const std::size_t begin = where[0], end = where[1];
    if (end == begin) {  // of nothing: no word, and no way on
      do ++looked;
      while (looked < text.size() && (static_cast<unsigned char>(text[looked]) & 0xc0U) == 0x80U);
      continue;
    }
    if (begin > at && keeps_.gaps) words.push_back(text.substr(at, begin - at));
    if (keeps_.matches) words.push_back(text.substr(begin, end - begin));
    at = looked = end;
  }
  if (at < text.size() && keeps_.gaps) words.push_back(text.substr(at));
  return true;
}

}  // namespace prime::data
