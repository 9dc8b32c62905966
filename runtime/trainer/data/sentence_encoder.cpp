// Owns the talk with that process: the model first, then texts, each answered by its ids.
#include "runtime/trainer/data/sentence_encoder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/trainer/data/record_reader.hpp"

namespace prime::data {
namespace {

/// Both ways: tag u8, size u32, then so many bytes. To there `m` (the model), `t` (a text), `g` (a text that goes on); from there `r`
/// (ready, and how many pieces it knows), `i` (ids, u32 each), `b` (broken: why), `m` (the library is missing: why).
constexpr std::size_t ANSWER_BYTES = 5;
static_assert(std::endian::native == std::endian::little);

/// U+FDFA, three bytes, becomes eighteen characters when it is normalized, of thirty-three bytes that may each be an id.
constexpr std::size_t MAX_IDS_OF_BYTE = 32;

// A text that goes on begins with a line's end. What the model adds in front of a text is not wanted there, unless it takes the line's end
// for a space and removes that: which way gives what the whole would have given is found out by trying. The bytes behind the model are
// `normalizer_spec {add_dummy_prefix: …}`: of a field that is there twice the last one counts.
constexpr const char* APPLIES_MODEL = R"(
import array, struct
def take(size):
    data = sys.stdin.buffer.read(size)
    if len(data) < size: sys.exit(0)
    return data
def tell(tag, data):
    sys.stdout.buffer.write(struct.pack('<cI', tag, len(data)) + data)
    sys.stdout.buffer.flush()
def words(why):
    return why.encode('utf-8', 'replace')[:16384]
try:
    import sentencepiece
except ImportError as error:
    tell(b'm', words(str(error)))
    sys.exit(0)
first = later = None
while True:
    tag, size = struct.unpack('<cI', take(5))
    data = take(size)
    try:
        if tag == b'm':
            first = sentencepiece.SentencePieceProcessor(model_proto=data)
            ways = [first] + [sentencepiece.SentencePieceProcessor(model_proto=data + b'\x1a\x02\x18' + adds) for adds in (b'\0', b'\1')]
            later = next((way for way in ways if first.normalize('a') + way.normalize('\nb') == first.normalize('a\nb')), first)
            tell(b'r', struct.pack('<I', first.vocab_size()))
        else:
            ids = array.array('I', (first if tag == b't' else later).encode(data))
            tell(b'i', ids.tobytes())
    except Exception as error:
        tell(b'b', words(reason(error)))
)";

}  // namespace

SentenceEncoder::SentenceEncoder(std::shared_ptr<const SentencePieces> pieces, std::string name)
    : pieces_(std::move(pieces)), name_(std::move(name)) {}

/// The size of the answer that was asked for, which can be read now.
Result<std::uint32_t> SentenceEncoder::ask(char what, std::string_view text, char answer) {
  std::array<char, ANSWER_BYTES> head{what};
  auto size = static_cast<std::uint32_t>(text.size());
  std::memcpy(&head[1], &size, sizeof size);
  PRIME_CHECK(python_->write(head));
  PRIME_CHECK(python_->write(text));
  PRIME_CHECK(python_->read(head));
  std::memcpy(&size, &head[1], sizeof size);
  if (head[0] == answer) return size;
  const bool complains = (head[0] == 'b' || head[0] == 'm') && size <= MAX_COMPLAINT_BYTES;
  if (!complains) return fail(python_->ended_early());
  std::string why(size, '\0');
  PRIME_CHECK(python_->read(why));
  if (head[0] == 'm') return fail(python_->lacks_library("has none (" + why + ")"));
  return fail(ErrorName::DataUnreadable, std::move(why));
}

Result<void> SentenceEncoder::start() {
  python_ = std::make_unique<PythonProcess>(
      PythonWork{name_, "sentencepiece", "SentencePiece models are applied", "applies this SentencePiece model"});
  const auto ready = [&]() -> Result<void> {
    PRIME_CHECK(python_->start(APPLIES_MODEL, {}));
    const auto size = ask('m', pieces_->model(), 'r');
    // Records that are passed over are broken by themselves: a model is no record.
    if (!size && size.error().name == ErrorName::DataUnreadable)
      return fail(ErrorName::ProcessFailed, name_ + ": its library does not take this SentencePiece model: " + size.error().detail);
    PRIME_CHECK(size);
    std::uint32_t known = 0;
    if (*size != sizeof known) return fail(python_->ended_early());
    PRIME_CHECK(python_->read({reinterpret_cast<char*>(&known), sizeof known}));
    if (known == pieces_->size()) return {};
    return fail(ErrorName::ProcessFailed, name_ + ": its library finds " + std::to_string(known) +
                                              " pieces in this SentencePiece model, and " + std::to_string(pieces_->size()) + " are there");
  };
  auto started = ready();
  if (!started) python_.reset();
  return started;
}

Result<void> SentenceEncoder::encode(std::string_view text, bool goes_on, std::vector<Token>& tokens) {
  if (!python_) PRIME_CHECK(start());
  const auto before = tokens.size();
  // The library holds fifty bytes for each of a text.
  while (!text.empty()) {
    const auto cut = text.size() > PIECE_BYTES ? cut_before_line_end(text.substr(0, PIECE_BYTES)) : 0;
    const auto stretch = text.substr(0, cut == 0 ? text.size() : cut);
    if (auto done = encode_stretch(stretch, goes_on, tokens); !done) {
      tokens.resize(before);
      return done;
    }
    text.remove_prefix(stretch.size());
    goes_on = true;
  }
  return {};
}

Result<void> SentenceEncoder::encode_stretch(std::string_view text, bool goes_on, std::vector<Token>& tokens) {
  PRIME_TRY(const auto size, ask(goes_on ? 'g' : 't', text, 'i'));
  if (size % sizeof(Token) != 0 || size / sizeof(Token) > MAX_IDS_OF_BYTE * (text.size() + 1)) return fail(python_->ended_early());
  const auto before = tokens.size();
  tokens.resize(before + size / sizeof(Token));
  PRIME_CHECK(python_->read({reinterpret_cast<char*>(tokens.data() + before), size}));
  if (std::ranges::all_of(std::span(tokens).subspan(before), [&](Token token) { return token < pieces_->size(); })) return {};
  return fail(python_->ended_early());
}

}  // namespace prime::data
