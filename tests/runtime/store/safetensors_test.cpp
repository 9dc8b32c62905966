// Proves that what we write is safetensors to the byte, and that a damaged or hostile file is refused and never believed.
#include "runtime/store/safetensors.hpp"

#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <limits>
#include <numeric>
#include <sys/resource.h>

#include "messages/tensor_shape.hpp"
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

/// So many tensors of one value each, with the longest names and the most dimensions that can be bound; JSON escapes each of their
/// characters.
[[maybe_unused]] std::vector<NamedTensor> widest_tensors(std::size_t count, std::span<const float> values) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    auto name = std::to_string(i);
    name.insert(0, MODEL_LIMITS.name_bytes - name.size(), i % 2 == 0 ? '"' : '\\');
    tensors.push_back({std::move(name), std::vector<std::int64_t>(MODEL_LIMITS.dimensions, 1), values.subspan(i, 1)});
  }
  return tensors;
}

/// To write and to read them: the best of three times.
[[maybe_unused]] double seconds_for(const std::filesystem::path& folder, std::size_t count) {
  const std::vector<float> values(count);
  const auto tensors = widest_tensors(count, values);
  const auto seconds = [] {  // of this thread, whatever else the machine does
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto path = folder / (std::to_string(count) + "-" + std::to_string(i));
    const double begun = seconds();
    BOOST_REQUIRE(write_safetensors(path, tensors));
    const double written = seconds();
    BOOST_REQUIRE(SafetensorsReader::open(path));
    const double read = seconds();
    BOOST_TEST_MESSAGE(count << " tensors: " << written - begun << " s to write, " << read - written << " s to read");
    best = std::min(best, read - begun);
  }
  return best;
}

}  // namespace

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // minutes there, of one thread alone
BOOST_AUTO_TEST_CASE(as_many_tensors_as_can_be_bound_with_the_longest_names_are_written_and_found_again) {
  const ScratchDirectory scratch;
  std::vector<float> values(MODEL_LIMITS.tensors);
  std::iota(values.begin(), values.end(), 0.0F);
  const auto tensors = widest_tensors(values.size(), values);
  for (const auto& tensor : tensors) BOOST_REQUIRE(count_elements({tensor.name, tensor.shape}));
  const auto path = scratch.path() / "x.safetensors";
  const auto written = write_safetensors(path, tensors);
  BOOST_REQUIRE(written);
  const auto reader = SafetensorsReader::open(path);
  BOOST_REQUIRE(reader);
  BOOST_REQUIRE(reader->tensors().size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    BOOST_REQUIRE((reader->tensors()[i].name == tensors[i].name && reader->tensors()[i].shape == tensors[i].shape));
    BOOST_REQUIRE(reader->tensors()[i].offset_bytes + (tensors.size() - i) * sizeof(float) == written->bytes);
  }
  // One more is refused by both sides: the writer by name, the reader although somebody else wrote it.
  auto more = tensors;
  more.push_back({"one more", {}, std::span{values}.first(1)});
  const auto refusal = write_safetensors(scratch.path() / "y", more);
  BOOST_REQUIRE(!refusal);
  BOOST_TEST((refusal.error() == Error{ErrorName::LayoutUnusable, "100001 tensors: a file holds at most 100000"}));
  std::string header = "{";
  for (std::size_t i = 0; i <= MODEL_LIMITS.tensors; ++i)
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  put_file(path, header + "}", 0);
  BOOST_TEST(refused(path));
}

BOOST_AUTO_TEST_CASE(the_time_for_a_header_grows_as_the_number_of_tensors_does) {
  const ScratchDirectory scratch;
  const double few = seconds_for(scratch.path(), 10'000);
  const double many = seconds_for(scratch.path(), 100'000);
  // Ten times as many take ten times as long; a hundred times if each looked at all the others.
  BOOST_TEST(many < 30 * few);
}
#endif

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_found_out_without_its_values) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "x.safetensors";
  const auto problem = [&](const std::filesystem::path& at, const std::vector<NamedTensor>& tensors,
                           const ModelLimits& limits = MODEL_LIMITS) {
    std::filesystem::remove(path);
    const auto done = rehearse_safetensors(at, tensors, limits);
    return done ? std::string{} : to_string(done.error());
  };
  // 2.4 GB, of which not a byte is written.
  BOOST_TEST(problem(path, {{"large", {600'000'000}, {}}, {"\"\\", {}, {}}}) == "");
  BOOST_TEST(std::filesystem::file_size(path) > 2'400'000'000);
  BOOST_TEST(problem(path, {{"a", {1}, {}}, {"a", {1}, {}}}).find("two tensors are called `a`") != std::string::npos);
  BOOST_TEST(problem(path, {{"__metadata__", {1}, {}}}).find("rename the tensor") != std::string::npos);
  ModelLimits narrow;
  narrow.header_bytes = 96;
  const auto too_long = problem(path, {{"layers.0.weight", {1}, {}}}, narrow);
  BOOST_TEST(too_long.find("take 104 bytes in a safetensors file, which has room for 96: merge small tensors") != std::string::npos,
             too_long);
  narrow.header_bytes = 104;
  BOOST_TEST(problem(path, {{"layers.0.weight", {1}, {}}}, narrow) == "");
  BOOST_TEST(problem(scratch.path() / std::string(300, 'n'), {{"a", {1}, {}}}).find("File name too long") != std::string::npos);
  BOOST_TEST(problem(scratch.path() / "nowhere" / "x", {{"a", {1}, {}}}).find("No such file or directory") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_longer_than_the_process_may_write_is_named_and_does_not_kill_it) {
  const ScratchDirectory scratch;
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit narrow{std::min<rlim_t>(1 << 20, before.rlim_max), before.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &narrow) == 0);
  const auto done = rehearse_safetensors(scratch.path() / "x", std::vector<NamedTensor>{{"a", {300'000}, {}}});
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().name == ErrorName::StorageFailed));
  BOOST_TEST(done.error().detail.find("x would have 1200104 bytes, and this process may write 1048576 (`ulimit -f`)") != std::string::npos,
             done.error().detail);
}

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
    BOOST_TEST((values.empty() || std::memcmp(values.data(), tensors[i].data.bytes().data(), values.size() * sizeof(float)) == 0));
  }
}

BOOST_AUTO_TEST_CASE(tensors_that_cannot_be_written_are_refused_before_a_file_exists) {
  const ScratchDirectory scratch;
  const std::array<float, 2> data{};
  const auto path = scratch.path() / "x.safetensors";
  for (const auto& tensors : std::vector<std::vector<NamedTensor>>{{{"twice", {2}, data}, {"twice", {2}, data}},
                                                                   {{"", {2}, data}},
                                                                   {{"__metadata__", {2}, data}},
                                                                   {{std::string(MODEL_LIMITS.name_bytes + 1, 'n'), {2}, data}},
                                                                   {{"short", {3}, data}},
                                                                   {{"negative", {-1, -2}, data}},
                                                                   {{"overflow", {INT64_MAX, INT64_MAX, 2}, data}}}) {
    const auto written = write_safetensors(path, tensors);
    BOOST_REQUIRE(!written);
    BOOST_TEST((written.error().name == ErrorName::LayoutUnusable));
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
       {R"()",
        R"([])",
        R"({"a":)",
        R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"Q16","shape":[4],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F64","shape":[4611686018427387903],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})",
        R"({"a":{"dtype":"F32","shape":[2]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        R"({"a":{"dtype":"BOOL","shape":[9],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F4","shape":[17],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F6_E2M3","shape":[11],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"BOOL","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
        R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
        R"({"a":1})",
        R"({"a":[0,8]})",
        R"({"__metadata__":1})",
        R"({"a":{"dtype":"F32","dtype":"F32","data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":{"0":2},"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,8]}})"}) {
    put_file(path, header, 8);
    BOOST_TEST(refused(path), header);
  }
}

BOOST_AUTO_TEST_CASE(tensors_of_every_type_are_found_and_read_as_bytes) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "x.safetensors";
  put_file(path, R"({"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"b":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})", 16);
  const auto reader = SafetensorsReader::open(path);
  BOOST_REQUIRE(reader);
  BOOST_REQUIRE(reader->tensors().size() == 2u);
  BOOST_TEST((reader->tensors()[0].type == DataType::BF16));
  BOOST_TEST((reader->tensors()[1].type == DataType::I64));
  BOOST_TEST(reader->tensors()[1].size_bytes() == 8u);
  std::array<std::byte, 3> some{std::byte{1}, std::byte{1}, std::byte{1}};
  BOOST_REQUIRE(reader->read_bytes(reader->tensors()[0], 5, some));
  BOOST_TEST((some == std::array<std::byte, 3>{}));
}

BOOST_AUTO_TEST_CASE(types_that_nobody_reads_are_stepped_over) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "x.safetensors";
  put_file(path,
           R"({"m":{"dtype":"BOOL","shape":[1,5],"data_offsets":[0,5]},"q":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[5,8]},)"
           R"("n":{"dtype":"F4","shape":[16],"data_offsets":[8,16]},"w":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})",
           24);
  const auto reader = SafetensorsReader::open(path);
  BOOST_REQUIRE(reader);
  BOOST_REQUIRE(reader->tensors().size() == 4u);
  const auto name = [&](std::size_t i) { return std::string{reader->tensors()[i].type_name()}; };
  BOOST_TEST((std::vector{name(0), name(1), name(2), name(3)} == std::vector<std::string>{"BOOL", "F8_E4M3", "F4", "f32"}));
  std::array<float, 2> values{1, 1};
  BOOST_REQUIRE(reader->read(reader->tensors()[3], values));
  BOOST_TEST((values == std::array<float, 2>{}));
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
