// Proves that what a trainer kept for itself comes back in every type, that any damage is named, and that the newest are kept.
#include "runtime/store/private_state.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "scratch.hpp"

BOOST_AUTO_TEST_SUITE(private_state)

using namespace prime;
using namespace prime::store;
namespace fs = std::filesystem;

namespace {

struct Sample {
  PrivateState state{"run-1", PeerId{7}, Revision{12}, OuterStep{6}, Digest{1, 2}, Digest{3, 4}, true, false};
  std::vector<float> moments{1.5F, -2.0F, 0.25F};
  std::array<std::int64_t, 1> count{1234567890123};
  std::string blob{"\x03\0\0\0\0\0\0\0abc", 11};
  [[nodiscard]] std::vector<NamedTensor> tensors() const {
    return {{"exp_avg", {3, 1}, moments},
            {"step", {}, TensorData{DataType::I64, std::as_bytes(std::span{count})}},
            {"rng", {11}, TensorData{DataType::U8, std::as_bytes(std::span{blob})}}};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(it_comes_back_as_it_was) {
  const ScratchDirectory scratch;
  const Sample sample;
  const auto path = write_private_state(scratch.path() / "checkpoints", sample.state, sample.tensors());
  BOOST_REQUIRE(path);
  BOOST_TEST(path->filename() == "private-000006");
  BOOST_TEST((verify_private_state(*path).value() == sample.state));
  BOOST_TEST((peek_private_state(*path).value() == sample.state));
  std::vector<std::string> seen;
  std::vector<std::byte> memory(64);
  BOOST_REQUIRE(read_private_tensors(*path, [&](const TensorEntry& tensor) {
    seen.push_back(tensor.name + " " + std::string{to_string(tensor.type)});
    return std::span{memory}.subspan(seen.size() * 16, tensor.size_bytes());
  }));
  BOOST_TEST((seen == std::vector<std::string>{"exp_avg f32", "step i64", "rng u8"}));
  BOOST_TEST(std::memcmp(&memory[16], sample.moments.data(), 12) == 0);
  BOOST_TEST(std::memcmp(&memory[32], sample.count.data(), 8) == 0);
  BOOST_TEST(std::memcmp(&memory[48], sample.blob.data(), 11) == 0);
  const auto unknown = read_private_tensors(*path, [](const TensorEntry&) { return std::span<std::byte>{}; });
  BOOST_TEST(unknown.error().detail == path->string() + ": `exp_avg` is no private tensor of this trainer");
}

BOOST_AUTO_TEST_CASE(who_had_nothing_yet_says_so) {
  const ScratchDirectory scratch;
  Sample sample;
  sample.state.recorded = false;
  sample.state.late = true;
  const auto path = write_private_state(scratch.path(), sample.state, {}).value();
  BOOST_TEST((verify_private_state(path).value() == sample.state));
  BOOST_TEST(!fs::exists(path / "private.safetensors"));
}

BOOST_AUTO_TEST_CASE(every_flipped_byte_and_every_missing_file_is_noticed) {
  const ScratchDirectory scratch;
  const Sample sample;
  const auto path = write_private_state(scratch.path(), sample.state, sample.tensors()).value();
  for (const std::string file : {"private.json", "private.safetensors", "listing.json"}) {
    const auto whole = content_of(path / file);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      auto damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 1);
      put(path / file, damaged);
      const auto verified = verify_private_state(path);
      // The name of the writer is nobody's business.
      if (file == "listing.json" && whole.find("\"writer\"") < i && i < whole.size() - 2) continue;
      BOOST_REQUIRE_MESSAGE(!verified, file << " byte " << i);
      BOOST_TEST(verified.error().detail.starts_with(path.string() + ": "), verified.error().detail);
    }
    fs::remove(path / file);
    BOOST_TEST((verify_private_state(path).error().name == ErrorName::CheckpointCorrupt));
    put(path / file, whole);
  }
  put(path / "listing.json", R"({"schema": "prime.private/2", "writer": "prime 9.1.0"})");
  BOOST_TEST((verify_private_state(path).error().name == ErrorName::CheckpointFormat));
}

BOOST_AUTO_TEST_CASE(the_newest_are_kept) {
  const ScratchDirectory scratch;
  Sample sample;
  for (const std::uint64_t step : {2, 4, 1'000'000, 6}) {
    sample.state.outer_step = OuterStep{step};
    BOOST_REQUIRE(write_private_state(scratch.path(), sample.state, sample.tensors()));
  }
  put(scratch.path() / "private-7", "not ours");
  BOOST_REQUIRE(prune_private_states(scratch.path(), 2));
  auto names = names_in(scratch.path());
  std::ranges::sort(names);
  BOOST_TEST((names == std::vector<std::string>{"private-000006", "private-1000000", "private-7"}));
}

BOOST_AUTO_TEST_SUITE_END()
