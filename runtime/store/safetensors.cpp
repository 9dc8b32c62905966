// Owns reading and writing of safetensors headers; the tensors themselves are copied as bytes.
#include "runtime/store/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "messages/assert.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and tensors are copied as bytes");
constexpr std::uint64_t LENGTH_BYTES = 8;

/// The product of the shape, or nothing when a size is negative or the bytes would overflow.
std::optional<std::uint64_t> count_elements(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const auto size : shape) {
    if (size < 0) return std::nullopt;
    if (size > 0 && count > (UINT64_MAX / sizeof(float)) / static_cast<std::uint64_t>(size)) return std::nullopt;
    count *= static_cast<std::uint64_t>(size);
  }
  return count;
}

/// Says what is wrong with tensors that somebody asks to write, if anything.
std::optional<std::string> objection(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> names;
  if (tensors.size() > SAFETENSORS_TENSORS_MAX) return "more than " + std::to_string(SAFETENSORS_TENSORS_MAX) + " tensors";
  for (const auto& tensor : tensors) {
    if (tensor.name.empty() || tensor.name.size() > TENSOR_NAME_BYTES_MAX || tensor.name == "__metadata__")
      return "a tensor cannot be called `" + tensor.name.substr(0, TENSOR_NAME_BYTES_MAX) + "`";
    if (!names.insert(tensor.name).second) return "two tensors are called `" + tensor.name + "`";
    if (tensor.shape.size() > TENSOR_DIMENSIONS_MAX || count_elements(tensor.shape) != tensor.data.size())
      return "`" + tensor.name + "` holds " + std::to_string(tensor.data.size()) + " values, which is not its shape";
  }
  return std::nullopt;
}

std::string make_header(std::span<const NamedTensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    const std::uint64_t end = offset + tensor.data.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((LENGTH_BYTES - text.size() % LENGTH_BYTES) % LENGTH_BYTES, ' ');
  return text;
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

/// Parses JSON and refuses an object that names a key twice, which the parser by itself would take silently.
std::optional<nlohmann::json> parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> open_objects;
  bool repeated = false;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) open_objects.pop_back();
    if (event == nlohmann::json::parse_event_t::key) repeated |= !open_objects.back().insert(parsed.get<std::string>()).second;
    return true;
  };
  auto parsed = nlohmann::json::parse(text, watch, false);
  if (parsed.is_discarded() || repeated || !parsed.is_object()) return std::nullopt;
  return parsed;
}

struct Extent {
  TensorEntry entry;
  std::uint64_t end_bytes = 0;
};

/// One tensor of the header, with offsets still relative to the first tensor's; nothing when anything about it is off.
std::optional<Extent> parse_extent(const std::string& name, const nlohmann::json& fields) {
  if (name.empty() || name.size() > TENSOR_NAME_BYTES_MAX || !fields.is_object() || fields.size() != 3) return std::nullopt;
  const auto dtype = fields.find("dtype");
  const auto shape = fields.find("shape");
  const auto offsets = fields.find("data_offsets");
  if (dtype == fields.end() || shape == fields.end() || offsets == fields.end() || *dtype != "F32") return std::nullopt;
  if (!shape->is_array() || shape->size() > TENSOR_DIMENSIONS_MAX || !offsets->is_array() || offsets->size() != 2) return std::nullopt;
  Extent extent{{name, {}, 0, 0}, 0};
  for (const auto& size : *shape) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
    extent.entry.shape.push_back(size.get<std::int64_t>());
  }
  const auto elements = count_elements(extent.entry.shape);
  if (!elements || !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) return std::nullopt;
  extent.entry.elements = *elements;
  extent.entry.offset_bytes = (*offsets)[0].get<std::uint64_t>();
  extent.end_bytes = (*offsets)[1].get<std::uint64_t>();
  if (extent.end_bytes < extent.entry.offset_bytes || extent.end_bytes - extent.entry.offset_bytes != *elements * sizeof(float))
    return std::nullopt;
  return extent;
}

/// All tensors by offset; they must cover `data_bytes` without gap or overlap.
Result<std::vector<TensorEntry>> parse_header(const fs::path& path, const std::string& text, std::uint64_t data_bytes) {
  const auto header = parse_strictly(text);
  if (!header) return fail(corrupt(path, "the header is not a JSON object with distinct keys"));
  if (header->size() > SAFETENSORS_TENSORS_MAX + 1) return fail(corrupt(path, "too many tensors"));
  std::vector<Extent> extents;
  for (const auto& [name, fields] : header->items()) {
    if (name == "__metadata__") continue;
    auto extent = parse_extent(name, fields);
    if (!extent) return fail(corrupt(path, "`" + name.substr(0, TENSOR_NAME_BYTES_MAX) + "` is not a well-formed f32 tensor"));
    extents.push_back(std::move(*extent));
  }
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
  if (const auto problem = objection(tensors)) return fail(ErrorName::LayoutMismatch, *problem);
  const auto header = make_header(tensors);
  const std::uint64_t length = header.size();
  if (length > SAFETENSORS_HEADER_BYTES_MAX) return fail(ErrorName::LayoutMismatch, "the names of the tensors are too long together");
  PRIME_TRY(auto file, OutputFile::create(path));
  PRIME_CHECK(file.write(std::as_bytes(std::span{&length, 1})));
  PRIME_CHECK(file.write(header));
  for (const auto& tensor : tensors) PRIME_CHECK(file.write(std::as_bytes(tensor.data)));
  return file.finish();
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
  if (length > SAFETENSORS_HEADER_BYTES_MAX || length > size - LENGTH_BYTES) return fail(corrupt(path, "the header is too long"));
  std::string text(length, '\0');
  PRIME_CHECK(read_at(file.get(), LENGTH_BYTES, std::as_writable_bytes(std::span{text}), path));
  PRIME_TRY(auto tensors, parse_header(path, text, size - LENGTH_BYTES - length));
  return SafetensorsReader{std::move(path), std::move(file), std::move(tensors)};
}

Result<void> SafetensorsReader::read(const TensorEntry& tensor, std::span<float> into) const {
  PRIME_ASSERT(into.size() == tensor.elements, "law 9");
  return read_at(file_.get(), tensor.offset_bytes, std::as_writable_bytes(into), path_);
}

}  // namespace prime::store
