// Proves that a checkpoint comes back exactly, that any damage is named, and that a full disk or a kill leaves nothing half-written.
#include "runtime/store/checkpoint.hpp"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sys/stat.h>

#include "runtime/store/atomic_file.hpp"
#include "scratch.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint)

using namespace prime;
using namespace prime::store;
namespace fs = std::filesystem;

namespace {

/// A small model and its momentum, with everything that a checkpoint keeps.
struct Sample {
  explicit Sample(std::uint64_t step = 60, std::size_t elements = 3000) : weights(elements), momentum(elements + 2) {
    std::iota(weights.begin(), weights.end(), 0.5F);
    std::iota(momentum.begin(), momentum.end(), -7.25F);
    content.state = {"run-1", Revision{step}, OuterStep{step}, 1234, 56789, Digest{step, 42}};
    content.parameters = {{"model.weight", {static_cast<std::int64_t>(elements), 1}, weights}, {"model.bias", {2}, bias}};
    const std::span all{momentum};
    content.momentum = {{"model.weight", content.parameters[0].shape, all.first(elements)}, {"model.bias", {2}, all.subspan(elements)}};
    content.manifest = "run: quickstart\n";
    content.export_files = {{"config.json", "{}\n"}};
  }
  std::vector<float> weights;
  std::vector<float> bias{1.0F, 2.0F};
  std::vector<float> momentum;
  CheckpointContent content;
};

std::string damage_of(const fs::path& checkpoint) {
  const auto verified = verify_checkpoint(checkpoint);
  BOOST_REQUIRE(!verified);
  BOOST_TEST((verified.error().name == ErrorName::CheckpointCorrupt));
  return verified.error().detail;
}

}  // namespace

BOOST_AUTO_TEST_CASE(copied_tensors_stand_behind_the_parameters_of_the_model) {
  const ScratchDirectory scratch;
  Sample sample;
  const std::vector<float> mean{3.0F, std::nanf("")};
  const std::int64_t tracked = 77;
  sample.content.copied = {{"bn.mean", {2}, mean}, {"bn.tracked", {}, TensorData{DataType::I64, std::as_bytes(std::span{&tracked, 1})}}};
  sample.content.state.copied = 2;
  const auto path = write_checkpoint(scratch.path() / "checkpoints", sample.content);
  BOOST_REQUIRE(path);
  const auto loaded = load_checkpoint(*path);
  BOOST_REQUIRE(loaded);
  BOOST_TEST((loaded->state == sample.content.state));
  BOOST_TEST(loaded->layout.size() == 2U);
  BOOST_REQUIRE(loaded->copied.size() == 2U);
  BOOST_TEST((loaded->copied[0].name == "bn.mean" && loaded->copied[1].name == "bn.tracked" && loaded->copied[1].type == DataType::I64));
  auto expected = std::vector<std::byte>(16);
  std::memcpy(expected.data(), mean.data(), 8);
  std::memcpy(expected.data() + 8, &tracked, 8);
  BOOST_TEST((loaded->copied_bytes == expected));
  sample.content.state.copied = 5;  // more than there are
  const auto damaged = write_checkpoint(scratch.path() / "damaged", sample.content);
  BOOST_REQUIRE(damaged);
  BOOST_TEST((load_checkpoint(*damaged).error().name == ErrorName::CheckpointCorrupt));
  auto twice = sample.content;
  twice.copied[0].name = "model.weight";
  BOOST_TEST((write_checkpoint(scratch.path() / "twice", twice).error().name == ErrorName::LayoutUnusable));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_comes_back_as_it_was) {
  const ScratchDirectory scratch;
  const Sample sample;
  const auto path = write_checkpoint(scratch.path() / "checkpoints", sample.content);
  BOOST_REQUIRE(path);
  BOOST_TEST(path->filename() == "step-000060");
  const auto loaded = load_checkpoint(*path);
  BOOST_REQUIRE(loaded);
  BOOST_TEST((loaded->state == sample.content.state));
  BOOST_TEST(loaded->manifest == sample.content.manifest);
  BOOST_TEST(loaded->layout.at(0).name == "model.weight");
  BOOST_TEST(loaded->layout.at(1).name == "model.bias");
  auto expected = sample.weights;
  expected.insert(expected.end(), sample.bias.begin(), sample.bias.end());
  BOOST_TEST((loaded->parameters == expected));
  BOOST_TEST(loaded->copied.empty());
  BOOST_TEST((loaded->momentum == sample.momentum));
  BOOST_TEST(content_of(*path / "config.json") == "{}\n");
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_tried_out_beforehand_and_leaves_nothing) {
  const ScratchDirectory scratch;
  const Sample sample;
  BOOST_REQUIRE(rehearse_checkpoint(scratch.path() / "new", OuterStep{60}, sample.content.parameters));
  BOOST_TEST(names_in(scratch.path()).empty());
  const auto problem = [&](const fs::path& directory, const std::vector<NamedTensor>& tensors) {
    const auto done = rehearse_checkpoint(directory, OuterStep{60}, tensors);
    return done ? std::string{} : to_string(done.error());
  };
  BOOST_TEST(problem(scratch.path(), {{"twice", {1}, {}}, {"twice", {1}, {}}}).find("two tensors are called `twice`") != std::string::npos);
  // The directory itself fits into the longest path; the file of the momentum does not.
  auto deep = scratch.path();
  while (deep.native().size() < 4000) deep /= std::string(std::min<std::size_t>(200, 4050 - deep.native().size()), 'd');
  fs::create_directories(deep);
  BOOST_TEST(problem(deep, sample.content.parameters).find("File name too long") != std::string::npos);
  put(scratch.path() / "file", "");
  BOOST_TEST(problem(scratch.path() / "file" / "x", sample.content.parameters).find("Not a directory") != std::string::npos);
  BOOST_TEST(!fs::exists(scratch.path() / "step-000060"));
}

BOOST_AUTO_TEST_CASE(a_part_of_a_model_says_which_it_is_and_a_whole_one_says_nothing) {
  auto state = Sample{}.content.state;
  BOOST_TEST(format_state(state).find("shard") == std::string::npos);
  BOOST_TEST((parse_state(format_state(state)) == state));
  state.shard = 63;
  state.shards = 64;
  BOOST_TEST((parse_state(format_state(state)) == state));
  for (const auto& [shard, shards] : {std::pair{2U, 2U}, {0U, 65U}}) {
    state.shard = shard;
    state.shards = shards;
    BOOST_TEST(!parse_state(format_state(state)).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_says_of_whom_it_is_and_which_samples_nobody_has_and_one_of_an_earlier_form_says_nothing_of_that) {
  auto state = Sample{}.content.state;
  state.given_back = {64, 640};
  state.members = {{PeerId{7}, "calm-heron"}, {PeerId{8}, "brave-otter"}};
  state.private_state = true;
  const auto text = format_state(state);
  BOOST_TEST((parse_state(text) == state));
  auto wrong = nlohmann::json::parse(text);
  wrong["given_back"] = {-1};
  BOOST_TEST(!parse_state(wrong.dump()).has_value());
  wrong = nlohmann::json::parse(text);
  wrong["members"][0]["peer"] = "nobody";
  BOOST_TEST(!parse_state(wrong.dump()).has_value());
  auto earlier = nlohmann::json::parse(format_state(Sample{}.content.state));
  earlier["schema"] = "prime.state/2";
  BOOST_TEST((parse_state(earlier.dump()) == Sample{}.content.state));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_says_what_it_was_trained_on_where_that_was_told) {
  auto state = Sample{}.content.state;
  BOOST_TEST(format_state(state).find("data") == std::string::npos);
  state.data = {Digest{9, 8}, "12 files", "1 2 00000003 a\n"};
  BOOST_TEST((parse_state(format_state(state)) == state));
}

BOOST_AUTO_TEST_CASE(a_divided_state_keeps_its_division_and_the_version_of_each_fragment) {
  auto state = Sample{}.content.state;
  BOOST_TEST(format_state(state).find("fragments") == std::string::npos);
  state.division = {3, FragmentPattern::Sequential};
  state.versions = {OuterStep{8}, OuterStep{7}, OuterStep{7}};
  BOOST_TEST((parse_state(format_state(state)) == state));
  const auto refused = [&](const std::string& from, const std::string& to) {
    auto text = format_state(state);
    const auto at = text.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    return !parse_state(text.replace(at, from.size(), to));
  };
  BOOST_TEST(refused("\"count\": 3", "\"count\": 2"));
  BOOST_TEST(refused("\"count\": 3", "\"count\": 0"));
  BOOST_TEST(refused("sequential", "woven"));
}

BOOST_AUTO_TEST_CASE(a_run_without_outer_momentum_has_none_in_its_checkpoint) {
  const ScratchDirectory scratch;
  Sample sample;
  sample.content.momentum = {};
  const auto path = write_checkpoint(scratch.path(), sample.content);
  BOOST_REQUIRE(path);
  BOOST_TEST(!fs::exists(*path / "prime" / "outer_momentum.safetensors"));
  const auto loaded = load_checkpoint(*path);
  BOOST_REQUIRE(loaded);
  BOOST_TEST(loaded->momentum.empty());
}

BOOST_AUTO_TEST_CASE(every_flipped_byte_of_every_file_is_noticed) {
  const ScratchDirectory scratch;
  const Sample sample{60, 20};
  const auto path = write_checkpoint(scratch.path(), sample.content);
  BOOST_REQUIRE(path);
  for (const std::string file :
       {"model.safetensors", "config.json", "prime/state.json", "prime/manifest.yaml", "prime/outer_momentum.safetensors"}) {
    const auto original = content_of(*path / file);
    for (std::size_t i = 0; i < original.size(); i += 3) {
      auto damaged = original;
      damaged[i] = static_cast<char>(damaged[i] ^ 1);
      put(*path / file, damaged);
      BOOST_TEST(damage_of(*path).find(file + " has other bytes") != std::string::npos);
    }
    put(*path / file, original);
  }
  BOOST_REQUIRE(verify_checkpoint(*path));
}

BOOST_AUTO_TEST_CASE(all_damaged_parts_are_named_at_once) {
  const ScratchDirectory scratch;
  const auto path = write_checkpoint(scratch.path(), Sample{}.content);
  BOOST_REQUIRE(path);
  fs::remove(*path / "config.json");
  fs::resize_file(*path / "model.safetensors", 100);
  const auto damage = damage_of(*path);
  BOOST_TEST(damage.find("config.json cannot be read") != std::string::npos);
  BOOST_TEST(damage.find("model.safetensors has another size") != std::string::npos);
  BOOST_TEST(!load_checkpoint(*path));
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_named_and_not_waited_for) {
  const ScratchDirectory scratch;
  const auto path = write_checkpoint(scratch.path(), Sample{}.content);
  BOOST_REQUIRE(path);
  for (const std::string file : {"model.safetensors", "prime/checkpoint.json"}) {
    fs::remove(*path / file);
    BOOST_REQUIRE(::mkfifo((*path / file).c_str(), 0600) == 0);
    BOOST_TEST(damage_of(*path).find(file + " cannot be read") != std::string::npos);
    BOOST_TEST(!load_checkpoint(*path));
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_or_lying_listing_is_refused) {
  const ScratchDirectory scratch;
  const auto path = write_checkpoint(scratch.path(), Sample{}.content);
  BOOST_REQUIRE(path);
  const auto listing = *path / "prime" / "checkpoint.json";
  const auto original = content_of(listing);
  put(listing, original.substr(0, original.size() / 2));
  BOOST_TEST(damage_of(*path).find("checkpoint.json is damaged") != std::string::npos);
  auto outside = original;
  outside.replace(outside.find("config.json"), std::string{"config.json"}.size(), "../outside");
  put(listing, outside);
  BOOST_TEST(damage_of(*path).find("checkpoint.json is damaged") != std::string::npos);
  put(listing, R"({"schema":"prime.checkpoint/1","files":[]})");
  BOOST_TEST(damage_of(*path).find("checkpoint.json is damaged") != std::string::npos);
  fs::remove(listing);
  BOOST_TEST(damage_of(*path).find("checkpoint.json cannot be read") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_format_is_named_as_that_and_kept) {
  const ScratchDirectory scratch;
  for (const std::uint64_t step : {1, 2, 3}) BOOST_REQUIRE(write_checkpoint(scratch.path(), Sample{step, 10}.content));
  const auto newest = scratch.path() / "step-000003";
  const auto listing = newest / "prime" / "checkpoint.json";
  const auto ours = content_of(listing);
  BOOST_TEST(ours.find(R"("writer": "prime )") != std::string::npos, "who wrote it can be told later");
  const auto says = [&](const std::string& file, const std::string& text) {
    put(newest / "prime" / file, text);
    for (const auto& error : {verify_checkpoint(newest).error(), load_checkpoint(newest).error()}) {
      BOOST_TEST((error.name == ErrorName::CheckpointFormat), to_string(error));
      BOOST_TEST(error.detail.starts_with(newest.string() + ": prime/" + file + " is of format "), error.detail);
    }
    return verify_checkpoint(newest).error().detail;
  };
  const auto later = says("checkpoint.json", R"({"schema": "prime.checkpoint/2", "writer": "prime 9.1.0", "chunks": []})");
  BOOST_TEST(later.find("prime.checkpoint/2, written by prime 9.1.0; this is prime ") != std::string::npos, later);
  BOOST_TEST(later.find(", which reads prime.checkpoint/1") != std::string::npos, later);
  BOOST_TEST(says("checkpoint.json", R"({"schema": "prime.checkpoint/0"})").find("prime.checkpoint/0; this is") != std::string::npos);
  BOOST_REQUIRE(prune_checkpoints(scratch.path(), 1));
  BOOST_TEST(fs::exists(newest), "it is not this program's to remove");
  BOOST_TEST(names_in(scratch.path()).size() == 2u);
  for (const std::string other : {"prime.checkpoint/", "prime.checkpoint/x", "prime.checkpoints/2", "else"}) {
    put(listing, R"({"schema": ")" + other + R"("})");
    BOOST_TEST(damage_of(newest).find("checkpoint.json is damaged") != std::string::npos);
  }
  // Written by the same rules, with a state that only a later release knows.
  const auto state = R"({"schema": "prime.state/4"})" + std::string{"\n"};
  put(newest / "prime" / "state.json", state);
  const auto summary = summarize_file(newest / "prime" / "state.json").value();
  auto entries = nlohmann::json::parse(ours);
  for (auto& file : entries["files"])
    if (file["path"] == "prime/state.json") file.update({{"bytes", summary.bytes}, {"xxh3_128_chunked", to_string(summary.digest)}});
  put(listing, entries.dump());
  BOOST_TEST(says("state.json", state).find("prime/state.json is of format prime.state/4; this is") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(exported_files_cannot_leave_the_directory_or_replace_ours) {
  const ScratchDirectory scratch;
  for (const std::string name : {"../config.json", "/etc/x", "prime", "model.safetensors", ".hidden", "..", "", "a/b"}) {
    Sample sample;
    sample.content.export_files = {{name, "x"}};
    const auto written = write_checkpoint(scratch.path(), sample.content);
    BOOST_REQUIRE(!written);
    BOOST_TEST((written.error().name == ErrorName::TrainerProtocol));
    BOOST_TEST(names_in(scratch.path()).empty());
  }
}

BOOST_AUTO_TEST_CASE(momentum_of_another_length_is_refused) {
  const ScratchDirectory scratch;
  Sample sample;
  sample.content.momentum[1].data = TensorData{DataType::F32, sample.content.momentum[1].data.bytes().first(4)};
  BOOST_REQUIRE(!write_checkpoint(scratch.path(), sample.content));
  BOOST_TEST(names_in(scratch.path()).empty());
}

BOOST_AUTO_TEST_CASE(the_latest_is_the_highest_complete_step_and_pruning_keeps_the_newest) {
  const ScratchDirectory scratch;
  for (const std::uint64_t step : {9, 10, 100, 1'000'000}) BOOST_REQUIRE(write_checkpoint(scratch.path(), Sample{step}.content));
  fs::create_directory(scratch.path() / "step-2000000");
  fs::create_directory(scratch.path() / "step-11");
  fs::resize_file(scratch.path() / "step-1000000" / "model.safetensors", 10);
  BOOST_TEST(list_checkpoints(scratch.path()).back().outer_step.value == 100u);
  const auto removed = prune_checkpoints(scratch.path(), 2);
  BOOST_REQUIRE(removed);
  BOOST_REQUIRE(removed->size() == 1u);
  BOOST_TEST(removed->front().filename() == "step-000009");
  BOOST_TEST(!fs::exists(removed->front()));
  BOOST_TEST(list_checkpoints(scratch.path()).size() == 2u);
  BOOST_REQUIRE(prune_checkpoints(scratch.path(), 0));
  BOOST_TEST(list_checkpoints(scratch.path()).size() == 1u);
  BOOST_TEST(list_checkpoints(scratch.path() / "missing").empty());
}

BOOST_AUTO_TEST_CASE(a_step_written_again_replaces_the_older_one) {
  const ScratchDirectory scratch;
  BOOST_REQUIRE(write_checkpoint(scratch.path(), Sample{5, 10}.content));
  BOOST_REQUIRE(write_checkpoint(scratch.path(), Sample{5, 20}.content));
  const auto loaded = load_checkpoint(scratch.path() / "step-000005");
  BOOST_REQUIRE(loaded);
  BOOST_TEST(loaded->parameters.size() == 22u);
  BOOST_TEST(names_in(scratch.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_quota_that_is_reached_is_storage_failed_and_leaves_nothing) {
  const ScratchDirectory scratch;
  BOOST_REQUIRE(write_checkpoint(scratch.path(), Sample{1, 10}.content));
  {
    const FileSizeLimit limit{100'000};
    const auto written = write_checkpoint(scratch.path(), Sample{2, 1'000'000}.content);
    BOOST_REQUIRE(!written);
    BOOST_TEST((written.error().name == ErrorName::StorageFailed));
    BOOST_TEST(written.error().detail.find("model.safetensors") != std::string::npos);
  }
  BOOST_TEST(names_in(scratch.path()) == std::vector<std::string>{"step-000001"}, boost::test_tools::per_element());
  BOOST_REQUIRE(verify_checkpoint(scratch.path() / "step-000001"));
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_storage_failed_and_leaves_nothing) {
  const ScratchDirectory scratch;
  enum Outcome { Right, NotPermitted, Wrong };
  const int outcome = run_in_child([&] {
    if (!mount_small_disk(scratch.path(), "256k")) return NotPermitted;
    const bool small_fits = write_checkpoint(scratch.path(), Sample{1, 10}.content).has_value();
    const auto large = write_checkpoint(scratch.path(), Sample{2, 60'000}.content);
    const bool named = !large && large.error().name == ErrorName::StorageFailed &&
                       large.error().detail.find("No space left on device") != std::string::npos;
    return small_fits && named && names_in(scratch.path()).size() == 1 && verify_checkpoint(scratch.path() / "step-000001") ? Right : Wrong;
  });
  if (outcome == NotPermitted) BOOST_TEST_MESSAGE("a small disk can be mounted only by root; the quota test covers the rest");
  BOOST_TEST(outcome != Wrong);
}

BOOST_AUTO_TEST_CASE(a_writer_killed_at_any_moment_leaves_only_whole_checkpoints) {
  const ScratchDirectory scratch;
  for (std::uint64_t round = 1; round <= 4; ++round) {
    kill_once_reached([&](const auto& reached) {
      for (std::uint64_t step = 1;; ++step) {
        if (step == round) reached();
        if (!write_checkpoint(scratch.path(), Sample{round * 1000 + step, 200'000}.content)) ::_exit(1);
      }
    });
    for (const auto& name : names_in(scratch.path()))
      if (name.starts_with("step-")) BOOST_REQUIRE(verify_checkpoint(scratch.path() / name));
  }
  BOOST_REQUIRE(write_checkpoint(scratch.path(), Sample{1, 10}.content));
  for (const auto& name : names_in(scratch.path())) BOOST_TEST(name.starts_with("step-"), name);
}

BOOST_AUTO_TEST_SUITE_END()
