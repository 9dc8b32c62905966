// Proves that what we write is safetensors to the byte, and that a damaged or hostile file is refused and never believed.
#include "runtime/store/safetensors.hpp"

#include <array>
#include <cstring>
#include <limits>

#include "scratch.hpp"

BOOST_AUTO_TEST_SUITE(safetensors)

using namespace prime;
using namespace prime::store;

namespace {

std::string as_text(std::span<const float> values) { return {reinterpret_cast<const char*>(values.data()), values.size_bytes()}; }

/// A file with this header and so many bytes of tensors.
void put_file(const std::filesystem::path& path, const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  put(path, std::string{reinterpret_cast<const char*>(&length), sizeof length} + header + std::string(data_bytes, '\0'));
}

bool refused(const std::filesystem::path& path) {
  const auto reader = SafetensorsReader::open(path);
  return !reader && reader.error().name == ErrorName::CheckpointCorrupt;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_has_exactly_the_bytes_of_the_format) {
  const ScratchDirectory scratch;
  const std::array<float, 2> a{1.5F, -2.0F};
  const std::array<float, 1> b{3.0F};
  const std::array<NamedTensor, 2> tensors{NamedTensor{"w", {2, 1}, a}, NamedTensor{"b", {}, b}};
  const auto path = scratch.path() / "x.safetensors";
  const auto summary = write_safetensors(path, tensors);
  BOOST_REQUIRE(summary);
  std::string header = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                       R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  const std::string expected = std::string{reinterpret_cast<const char*>(&length), 8} + header + as_text(a) + as_text(b);
  BOOST_TEST(content_of(path) == expected);
  BOOST_TEST(summary->bytes == expected.size());
  BOOST_TEST((summarize_file(path) == *summary));
}

BOOST_AUTO_TEST_CASE(tensors_come_back_bit_by_bit_across_many_chunks) {
  const ScratchDirectory scratch;
  std::vector<float> large(700'001);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i) * 0.37F;
  large[5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> none;
  const std::array<NamedTensor, 3> tensors{NamedTensor{"first", {1, 700'001}, large}, NamedTensor{"empty", {0, 4}, none},
                                           NamedTensor{"again", {700'001}, large}};
  const auto path = scratch.path() / "x.safetensors";
  const auto summary = write_safetensors(path, tensors);
  BOOST_REQUIRE(summary);
  BOOST_TEST((summarize_file(path) == *summary));
  const auto reader = SafetensorsReader::open(path);
  BOOST_REQUIRE(reader);
  BOOST_REQUIRE(reader->tensors().size() == 3u);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& entry = reader->tensors()[i];
    BOOST_TEST(entry.name == tensors[i].name);
    BOOST_TEST(entry.shape == tensors[i].shape, boost::test_tools::per_element());
    std::vector<float> values(entry.elements);
    BOOST_REQUIRE(reader->read(entry, values));
    BOOST_REQUIRE(values.size() == tensors[i].data.size());
    BOOST_TEST((values.empty() || std::memcmp(values.data(), tensors[i].data.data(), values.size() * sizeof(float)) == 0));
  }
}

BOOST_AUTO_TEST_CASE(tensors_that_cannot_be_written_are_refused_before_a_file_exists) {
  const ScratchDirectory scratch;
  const std::array<float, 2> data{};
  const auto path = scratch.path() / "x.safetensors";
  for (const auto& tensors : std::vector<std::vector<NamedTensor>>{{{"twice", {2}, data}, {"twice", {2}, data}},
                                                                   {{"", {2}, data}},
                                                                   {{"__metadata__", {2}, data}},
                                                                   {{std::string(TENSOR_NAME_BYTES_MAX + 1, 'n'), {2}, data}},
                                                                   {{"short", {3}, data}},
                                                                   {{"negative", {-1, -2}, data}},
                                                                   {{"overflow", {INT64_MAX, INT64_MAX, 2}, data}}}) {
    const auto written = write_safetensors(path, tensors);
    BOOST_REQUIRE(!written);
    BOOST_TEST((written.error().name == ErrorName::LayoutMismatch));
    BOOST_TEST(!std::filesystem::exists(path));
  }
}

BOOST_AUTO_TEST_CASE(a_header_that_lies_is_refused) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "x.safetensors";
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  put_file(path, good, 8);
  BOOST_REQUIRE(SafetensorsReader::open(path));
  put_file(path, good, 7);
  BOOST_TEST(refused(path), "shorter than its header says");
  put_file(path, good, 9);
  BOOST_TEST(refused(path), "longer than its header says");
  for (const std::string header :
       {R"()", R"([])", R"({"a":)", R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})",
        R"({"a":{"dtype":"F32","shape":[2]}})", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
        R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"}) {
    put_file(path, header, 8);
    BOOST_TEST(refused(path), header);
  }
}

BOOST_AUTO_TEST_CASE(lengths_are_bounded_before_memory_is_taken) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "x.safetensors";
  put(path, std::string(8, '\xff') + "{}");
  BOOST_TEST(refused(path));
  put(path, std::string("\x20\0\0\0\0\0\0\0", 8) + "{}");
  BOOST_TEST(refused(path));
  put(path, "short");
  BOOST_TEST(refused(path));
  put_file(path, std::string(200'000, '['), 0);
  BOOST_TEST(refused(path));
}

BOOST_AUTO_TEST_SUITE_END()
