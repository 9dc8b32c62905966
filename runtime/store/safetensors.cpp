// Owns reading and writing of safetensors headers; the tensors themselves are copied as bytes.
#include "runtime/store/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_set>

#include "messages/assert.hpp"
#include "messages/tensor_shape.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and tensors are copied as bytes");
constexpr std::uint64_t LENGTH_BYTES = 8;

/// The longest that a tensor of a layout can be in a header: a name that is escaped throughout, extents whose product is the most elements
/// (each further dimension of 1 takes two characters), two offsets, and the words around them.
constexpr std::uint64_t HEADER_BYTES_EACH = 2 * MODEL_LIMITS.name_bytes + 2 * MODEL_LIMITS.dimensions + 16 + 2 * 20 + 64;
static_assert(MODEL_LIMITS.tensors * HEADER_BYTES_EACH <= MODEL_LIMITS.header_bytes, "whatever can be bound has a header that is read");

/// The product of the shape, or nothing when a size is negative or the bytes would overflow. A file may hold a tensor without values.
std::optional<std::uint64_t> product_of(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const auto size : shape) {
    if (size < 0) return std::nullopt;
    if (size > 0 && count > (UINT64_MAX / sizeof(float)) / static_cast<std::uint64_t>(size)) return std::nullopt;
    count *= static_cast<std::uint64_t>(size);
  }
  return count;
}

void append_list(std::string& text, std::span<const std::int64_t> numbers) {
  text += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(numbers[i]);
  }
  text += ']';
}

/// Of what a name may hold JSON escapes these two.
void append_name(std::string& text, std::string_view name) {
  text += '"';
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
}

/// The format's names of our types are ours in capital letters.
std::string name_of(DataType type) {
  std::string name{to_string(type)};
  for (auto& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return name;
}

struct Header {
  std::string text;              ///< padded
  std::uint64_t data_bytes = 0;  ///< of all tensors
};

/// Written by hand, in the order given: a JSON library's ordered object takes a time that is quadratic in the number of tensors.
Result<Header> make_header(std::span<const NamedTensor> tensors, const ModelLimits& limits) {
  if (tensors.size() > limits.tensors) {
    return fail(ErrorName::LayoutUnusable,
                std::to_string(tensors.size()) + " tensors: a file holds at most " + std::to_string(limits.tensors));
  }
  std::unordered_set<std::string_view> names;
  std::uint64_t total = 0;  // of values
  Header header{R"({"__metadata__":{"format":"pt"})"};
  for (const auto& tensor : tensors) {
    PRIME_CHECK(check_tensor_name(tensor.name, limits));
    if (!names.insert(tensor.name).second) return fail(ErrorName::LayoutUnusable, "two tensors are called `" + tensor.name + "`");
    const auto elements = product_of(tensor.shape);
    if (tensor.shape.size() > limits.dimensions || !elements || *elements > limits.elements - total)
      return fail(ErrorName::LayoutUnusable, "`" + tensor.name + "` has a shape that no file can hold");
    total += *elements;
    const auto end = header.data_bytes + *elements * element_bytes(tensor.data.type());
    header.text += ',';
    append_name(header.text, tensor.name);
    header.text += R"(:{"dtype":")" + name_of(tensor.data.type()) + R"(","shape":)";
    append_list(header.text, tensor.shape);
    header.text += R"(,"data_offsets":[)" + std::to_string(header.data_bytes) + ',' + std::to_string(end) + "]}";
    header.data_bytes = end;
  }
  header.text += '}';
  header.text.append((LENGTH_BYTES - header.text.size() % LENGTH_BYTES) % LENGTH_BYTES, ' ');
  if (header.text.size() <= limits.header_bytes) return header;
  return fail(ErrorName::LayoutUnusable, "the names and shapes of " + std::to_string(tensors.size()) + " tensors take " +
                                             std::to_string(header.text.size()) + " bytes in a safetensors file, which has room for " +
                                             std::to_string(limits.header_bytes) + ": merge small tensors, or shorten their names");
}

/// The header at the beginning of a new file.
Result<void> write_header(OutputFile& file, const Header& header) {
  const std::uint64_t length = header.text.size();
  PRIME_CHECK(file.write(std::as_bytes(std::span{&length, 1})));
  return file.write(header.text);
}

/// No byte of the rest is written, so that this costs neither time nor room.
Result<void> set_length(const fs::path& path, std::uint64_t bytes) {
  // Whoever goes beyond this limit is killed.
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur) {
    return fail(ErrorName::StorageFailed, path.string() + " would have " + std::to_string(bytes) + " bytes, and this process may write " +
                                              std::to_string(most.rlim_cur) + " (`ulimit -f`)");
  }
  if (::truncate(path.c_str(), static_cast<off_t>(bytes)) != 0)
    return fail(storage_error("make a file of " + std::to_string(bytes) + " bytes of", path, errno));
  return {};
}

Error corrupt(const fs::path& path, const std::string& what) { return Error{ErrorName::CheckpointCorrupt, path.string() + ": " + what}; }

Result<void> read_at(int fd, std::uint64_t offset, std::span<std::byte> into, const fs::path& path) {
  while (!into.empty()) {
    const auto got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(storage_error("read", path, errno));
    if (got == 0) return fail(corrupt(path, "ends too early"));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

/// The types that the format and we know.
std::optional<DataType> parse_type(std::string_view name) {
  for (std::uint8_t number = 0; number < DATA_TYPES; ++number)
    if (name_of(static_cast<DataType>(number)) == name) return static_cast<DataType>(number);
  return std::nullopt;
}

/// The format's other types, which we step over: masks of a GPT-2, weights of 8 bits beside what is asked for.
struct ForeignType {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array<ForeignType, 8> FOREIGN_TYPES{
    {{"BOOL", 8}, {"C64", 64}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}}};

struct Extent {
  std::uint64_t element_bits = 0;
  TensorEntry entry;  ///< with an offset that is still relative to the first tensor's
  std::uint64_t end_bytes = 0;
};

/// Takes a header apart as it is read, and stops at the first thing that is off, a key that is named twice included: nothing is held but
/// the tensors, whatever the file holds.
class HeaderParser final : public nlohmann::json::json_sax_t {
 public:
  Result<std::vector<Extent>> parse(const fs::path& path, const std::string& text) {
    if (nlohmann::json::sax_parse(text, this)) return std::move(extents_);
    return fail(corrupt(path, wrong_.empty() ? "the header is not a JSON object" : wrong_));
  }

  bool start_object(std::size_t) override { return ++depth_ < 3 && !list_ ? true : off(); }
  bool end_object() override {
    const bool tensor = --depth_ == 1 && !is_metadata();
    return tensor ? ended() : true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || list_ || is_metadata() || (field_ != Shape && field_ != Offsets)) return off();
    return list_ = true;
  }
  bool end_array() override {
    list_ = false;
    return true;
  }
  bool key(std::string& text) override { return depth_ == 1 ? begun(text) : is_metadata() || named(text); }
  bool string(std::string& text) override {
    if (depth_ != 2 || list_) return off();
    if (is_metadata()) return true;
    if (field_ != Dtype) return off();
    if (const auto type = parse_type(text)) {
      extent_.entry.type = *type;
      extent_.element_bits = 8 * element_bytes(*type);
      return true;
    }
    const auto* const foreign = std::ranges::find(FOREIGN_TYPES, std::string_view{text}, &ForeignType::name);
    if (foreign == FOREIGN_TYPES.end()) return off();
    extent_.entry.foreign = foreign->name;
    extent_.element_bits = foreign->bits;
    return true;
  }
  bool number_unsigned(std::uint64_t number) override {
    if (!list_) return off();
    if (field_ == Offsets) {
      if (offsets_ == 2) return off();
      (offsets_++ == 0 ? extent_.entry.offset_bytes : extent_.end_bytes) = number;
      return true;
    }
    auto& shape = extent_.entry.shape;
    if (number > INT64_MAX || shape.size() == MODEL_LIMITS.dimensions) return off();
    shape.push_back(static_cast<std::int64_t>(number));
    return true;
  }
  bool null() override { return off(); }
  bool boolean(bool) override { return off(); }
  bool number_integer(std::int64_t) override { return off(); }
  bool number_float(double, const std::string&) override { return off(); }
  bool binary(nlohmann::json::binary_t&) override { return off(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  enum Field : unsigned { None = 0, Dtype = 1, Shape = 2, Offsets = 4, All = 7 };

  [[nodiscard]] bool is_metadata() const { return extent_.entry.name == "__metadata__"; }
  bool wrong(std::string what) {
    wrong_ = std::move(what);
    return false;
  }
  bool off() { return depth_ == 0 ? false : wrong("`" + extent_.entry.name + "` is not a well-formed tensor of a known type"); }

  bool begun(const std::string& name) {
    if (name.empty() || name.size() > MODEL_LIMITS.name_bytes)
      return wrong("a tensor's name has " + std::to_string(name.size()) + " bytes");
    if (!names_.insert(name).second) return wrong("the header names `" + name + "` twice");
    extent_ = {};
    extent_.entry.name = name;
    field_ = None;
    seen_ = None;
    offsets_ = 0;
    if (extents_.size() == MODEL_LIMITS.tensors && !is_metadata())
      return wrong("it has more than " + std::to_string(MODEL_LIMITS.tensors) + " tensors");
    return true;
  }
  bool named(std::string_view key) {
    field_ = key == "dtype" ? Dtype : key == "shape" ? Shape : key == "data_offsets" ? Offsets : None;
    if (field_ == None || (seen_ & field_) != 0) return off();
    seen_ |= field_;
    return true;
  }
  bool ended() {
    auto& [bits, entry, end_bytes] = extent_;
    const auto elements = product_of(entry.shape);
    if (seen_ != All || offsets_ != 2 || !elements || end_bytes < entry.offset_bytes || *elements > UINT64_MAX / bits ||
        *elements * bits % 8 != 0 || end_bytes - entry.offset_bytes != *elements * bits / 8)
      return off();
    entry.elements = *elements;
    extents_.push_back(std::move(extent_));
    return true;
  }

  int depth_ = 0;
  bool list_ = false;  ///< inside one
  Extent extent_;      ///< the one that is being read
  Field field_ = None;
  unsigned seen_ = None;
  unsigned offsets_ = 0;
  std::unordered_set<std::string> names_;
  std::vector<Extent> extents_;
  std::string wrong_;
};

/// All tensors by offset; they must cover `data_bytes` without gap or overlap.
Result<std::vector<TensorEntry>> parse_header(const fs::path& path, const std::string& text, std::uint64_t data_bytes) {
  PRIME_TRY(auto extents, HeaderParser{}.parse(path, text));
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair{a.entry.offset_bytes, a.end_bytes} < std::pair{b.entry.offset_bytes, b.end_bytes};
  });
  std::uint64_t covered = 0;
  std::vector<TensorEntry> entries;
  for (auto& extent : extents) {
    if (extent.entry.offset_bytes != covered) return fail(corrupt(path, "`" + extent.entry.name + "` leaves a gap or overlaps"));
    covered = extent.end_bytes;
    extent.entry.offset_bytes += LENGTH_BYTES + text.size();
    entries.push_back(std::move(extent.entry));
  }
  if (covered != data_bytes) return fail(corrupt(path, "the tensors do not fill the file"));
  return entries;
}

}  // namespace

Result<FileSummary> write_safetensors(const fs::path& path, std::span<const NamedTensor> tensors) {
  PRIME_TRY(const auto header, make_header(tensors, MODEL_LIMITS));
  for (const auto& tensor : tensors) {
    if (product_of(tensor.shape) != tensor.data.size())
      return fail(ErrorName::LayoutUnusable,
                  "`" + tensor.name + "` holds " + std::to_string(tensor.data.size()) + " values, which is not its shape");
  }
  PRIME_TRY(auto file, OutputFile::create(path));
  PRIME_CHECK(write_header(file, header));
  for (const auto& tensor : tensors) PRIME_CHECK(file.write(tensor.data.bytes()));
  return file.finish();
}

Result<void> rehearse_safetensors(const fs::path& path, std::span<const NamedTensor> tensors, const ModelLimits& limits) {
  PRIME_TRY(const auto header, make_header(tensors, limits));
  PRIME_TRY(auto file, OutputFile::create(path));
  PRIME_CHECK(write_header(file, header));
  PRIME_CHECK(file.finish());
  PRIME_CHECK(set_length(path, LENGTH_BYTES + header.text.size() + header.data_bytes));
  PRIME_TRY(const auto found, SafetensorsReader::open(path));
  const bool same = std::ranges::equal(found.tensors(), tensors, [](const TensorEntry& read, const NamedTensor& written) {
    return read.name == written.name && read.shape == written.shape;
  });
  return same ? Result<void>{} : fail(ErrorName::InternalError, path.string() + ": other tensors are read than were written");
}

SafetensorsReader::SafetensorsReader(fs::path path, Descriptor file, std::vector<TensorEntry> tensors)
    : path_(std::move(path)), file_(std::move(file)), tensors_(std::move(tensors)) {}

Result<SafetensorsReader> SafetensorsReader::open(fs::path path) {
  PRIME_TRY(Descriptor file, open_to_read(path));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail(storage_error("open", path, errno));
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  std::uint64_t length = 0;
  PRIME_CHECK(read_at(file.get(), 0, std::as_writable_bytes(std::span{&length, 1}), path));
  if (length > MODEL_LIMITS.header_bytes || length > size - LENGTH_BYTES) return fail(corrupt(path, "the header is too long"));
  std::string text(length, '\0');
  PRIME_CHECK(read_at(file.get(), LENGTH_BYTES, std::as_writable_bytes(std::span{text}), path));
  PRIME_TRY(auto tensors, parse_header(path, text, size - LENGTH_BYTES - length));
  return SafetensorsReader{std::move(path), std::move(file), std::move(tensors)};
}

Result<void> SafetensorsReader::read(const TensorEntry& tensor, std::span<float> into) const {
  PRIME_ASSERT(into.size() == tensor.elements && tensor.type == DataType::F32 && tensor.foreign.empty(), "law 9");
  return read_bytes(tensor, 0, std::as_writable_bytes(into));
}

Result<void> SafetensorsReader::read_bytes(const TensorEntry& tensor, std::uint64_t from, std::span<std::byte> into) const {
  PRIME_ASSERT(tensor.foreign.empty() && from <= tensor.size_bytes() && into.size() <= tensor.size_bytes() - from, "law 9");
  return read_at(file_.get(), tensor.offset_bytes + from, into, path_);
}

}  // namespace prime::store
