// Owns reading the model, of which only names are taken: scores and tables of characters are its library's business.
#include "runtime/trainer/data/sentence_pieces.hpp"

#include <array>
#include <charconv>

namespace prime::data {
namespace {

constexpr std::size_t MAX_PIECES = std::size_t{1} << 24;
constexpr std::string_view SPACE = "\u2581";  ///< how the format writes a space

/// The fields of a message, one after the other.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t field = 0;
  std::uint64_t number = 0;     ///< of a field that is one
  std::string_view bytes = {};  ///< of a text, or a message

  /// False at the end, and where what is there is no field.
  bool next() {
    if (rest_.empty()) return false;
    std::uint64_t key = 0, size = 0;
    bytes = {};
    number = 0;
    if (!take_number(key)) return false;
    field = key >> 3U;
    switch (key & 7U) {
      case 0: return take_number(number);
      case 1: return take(8);
      case 2: return take_number(size) && take(size);
      case 5: return take(4);
      default: return whole_ = false;
    }
  }
  /// Whether all was fields.
  [[nodiscard]] bool whole() const { return whole_; }

 private:
  bool take_number(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return true;
    }
    return whole_ = false;
  }
  bool take(std::uint64_t size) {
    if (size > rest_.size()) return whole_ = false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool whole_ = true;
};

/// "<0x0A>" is one byte.
std::optional<char> byte_of(std::string_view piece) {
  unsigned value = 0;
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  return error == std::errc{} && end == piece.data() + 5 ? std::optional{static_cast<char>(value)} : std::nullopt;
}

}  // namespace

/// The numbers are those of sentencepiece_model.proto.
class ModelReading {
 public:
  static bool read(SentencePieces& pieces) {
    Wire model(pieces.model_);
    while (model.next()) {
      if (model.field == 1 && !read_piece(pieces, model.bytes)) return false;
      if (model.field == 2 && !read_training(pieces, model.bytes)) return false;
      if (model.field == 3 && !read_normalizing(pieces, model.bytes)) return false;
    }
    return model.whole();
  }

 private:
  static bool read_piece(SentencePieces& pieces, std::string_view bytes) {
    SentencePieces::Piece piece;
    Wire wire(bytes);
    while (wire.next()) {
      if (wire.field == 1) piece.text = wire.bytes;
      if (wire.field == 3 && wire.number >= 1 && wire.number <= 6) piece.kind = static_cast<SentencePieces::Kind>(wire.number);
    }
    if (!wire.whole() || pieces.pieces_.size() == MAX_PIECES) return false;
    pieces.pieces_.push_back(std::move(piece));
    return true;
  }

  static bool read_training(SentencePieces& pieces, std::string_view bytes) {
    Wire wire(bytes);
    while (wire.next()) {
      if (wire.field == 44) pieces.unknown_text_ = wire.bytes;
      if (wire.field == 45) pieces.unknown_ = wire.bytes;
      if (wire.field == 46) pieces.bos_ = wire.bytes;
      if (wire.field == 47) pieces.eos_ = wire.bytes;
      if (wire.field == 48) pieces.pad_ = wire.bytes;
    }
    return wire.whole();
  }

  static bool read_normalizing(SentencePieces& pieces, std::string_view bytes) {
    Wire wire(bytes);
    while (wire.next()) {
      if (wire.field == 3) pieces.adds_space_ = wire.number != 0;
      if (wire.field == 4) pieces.removes_spaces_ = wire.number != 0;
    }
    return wire.whole();
  }
};

Result<std::shared_ptr<const SentencePieces>> SentencePieces::parse(std::string model, const std::string& name) {
  auto pieces = std::make_shared<SentencePieces>();
  pieces->model_ = std::move(model);
  const bool whole = ModelReading::read(*pieces);
  if (!whole || pieces->pieces_.empty())
    return fail(ErrorName::DataUnreadable,
                name + ": is no SentencePiece model: " +
                    (pieces->model_.empty()    ? "it is empty"
                     : pieces->pieces_.empty() ? "it begins with no piece"
                                               : "it goes wrong behind its piece " + std::to_string(pieces->size())));
  for (Token id = 0; id < pieces->size(); ++id) pieces->ids_.emplace(pieces->pieces_[id].text, id);
  return pieces;
}

std::optional<Token> SentencePieces::id_of(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<std::string> SentencePieces::special(std::string_view role) const {
  const std::array roles{std::pair{std::string_view{"bos"}, &bos_}, std::pair{std::string_view{"eos"}, &eos_},
                         std::pair{std::string_view{"pad"}, &pad_}, std::pair{std::string_view{"unk"}, &unknown_}};
  for (const auto& [named, piece] : roles) {
    if (named != role) continue;
    const auto id = id_of(*piece);
    if (id && pieces_[*id].kind == (role == "unk" ? Kind::Unknown : Kind::Control)) return *piece;
  }
  return std::nullopt;
}

std::string SentencePieces::decode(std::span<const Token> tokens) const {
  std::string text;
  bool begins = adds_space_ || removes_spaces_;  // a space that comes now is none of the text
  for (const Token token : tokens) {
    if (token >= size()) continue;
    const auto& [piece, kind] = pieces_[token];
    if (kind == Kind::Control) {
      text += piece;
      begins = adds_space_ || removes_spaces_;
      continue;
    }
    if (kind == Kind::Unknown) text += unknown_text_;
    else if (const auto byte = kind == Kind::Byte ? byte_of(piece) : std::nullopt) text += *byte;
    else {
      std::string_view rest = piece;
      const bool led = begins && rest.starts_with(SPACE);
      if (led) rest.remove_prefix(SPACE.size());
      for (auto at = rest.find(SPACE); at != std::string_view::npos; at = rest.find(SPACE)) {
        text.append(rest.substr(0, at)).push_back(' ');
        rest.remove_prefix(at + SPACE.size());
      }
      text += rest;
      // Where more than one space at the beginning is none of the text, the next one is not, either.
      if (led && removes_spaces_ && rest.empty() && piece.size() == SPACE.size()) continue;
    }
    begins = false;
  }
  return text;
}

}  // namespace prime::data
