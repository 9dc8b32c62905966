// Owns the command lines of what tries this program out: `bench`, `simulate`.
#include <charconv>
#include <fmt/ranges.h>

#include "cli/command_line/table.hpp"
#include "messages/data_types.hpp"

namespace prime::cli {
namespace {

constexpr std::uint64_t MAX_TENSOR_BYTES = 1ULL << 50;  // no machine has more

/// Replaces "64K" by "65536"; returns what is wrong with it, or nothing: it must be whole f32 values, one at least.
std::string as_bytes_of_f32(std::string& text) {
  const auto typed = text;
  try {
    if (!CLI::AsSizeValue{false}(text).empty()) text.clear();
  } catch (const CLI::Error&) {
    text.clear();  // it explains a wrong unit by a list of all that it knows
  }
  if (text.empty()) return "`" + typed + "` is no size such as 4096, 64K, 16M or 1G";
  const auto bytes = std::strtoull(text.c_str(), nullptr, 10);
  const bool whole = bytes > 0 && bytes <= MAX_TENSOR_BYTES && bytes % sizeof(float) == 0 && text.front() != '-';
  return whole ? std::string{} : "`" + typed + "` bytes are no f32 values: 4 for each, such as 4096, 64K, 16M or 1G";
}

/// "7..9"; empty when it is none.
std::optional<SeedRange> parse_seeds(const std::string& text) {
  SeedRange range;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc{} || !std::string_view{first.ptr, end}.starts_with("..")) return std::nullopt;
  const auto last = std::from_chars(first.ptr + 2, end, range.last);
  if (last.ec != std::errc{} || last.ptr != end || range.last < range.first) return std::nullopt;
  return range;
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (std::uint8_t codec = 0; codec < CODECS; ++codec) names.emplace_back(to_string(static_cast<Codec>(codec)));
  return names;
}

void add_bench(Table& table) {
  auto [bench, typed] = table.add<BenchArguments>(
      "bench", "measure reduces and lanes between processes of this machine, its kernels, or models", "Manifest and help");
  bench
      .add_option("WHAT", typed.what,
                  "allreduce, lanes (all kinds, between two), kernels (one thread, beside memcpy),\ninference (writing with proofs "
                  "beside verifying it)")
      ->type_name("allreduce|lanes|kernels|inference")
      ->required()
      ->check(CLI::IsMember({"allreduce", "lanes", "kernels", "inference"}).description(""));
  const auto list = [&](const char* names, auto& values, const std::string& help, const char* type) {
    return bench.add_option(names, values, help)->delimiter(',')->type_name(type)->allow_extra_args(false);
  };
  list("--peers", typed.peers, "how many processes reduce together [2,4; lanes: 2]", "N,N")->transform(whole(0, UINT32_MAX));
  list("--size", typed.sizes, "bytes of f32 to reduce, such as 4K,256M [4K,64K,1M,16M,256M]", "SIZE,SIZE")
      ->transform(CLI::Validator{as_bytes_of_f32, ""});
  list("--codec", typed.codecs, "how values travel: " + fmt::to_string(fmt::join(codec_names(), ", ")) + " [none]", "CODEC,CODEC")
      ->check(CLI::IsMember(codec_names()).description(""));
  list("--lane", typed.lanes, "what carries them: tcp, tls, shm [tcp; lanes: all]", "LANE,LANE")
      ->check(CLI::IsMember({"tcp", "tls", "shm"}).description(""));
  list("--schedule", typed.schedules, "auto, direct, ring, whole [auto]", "SCHEDULE")
      ->check(CLI::IsMember({"auto", "direct", "ring", "whole"}).description(""));
  list("--tags", typed.tags, "reduces at once, among which the size is divided [1]", "N,N")->transform(whole(1, 1024));
  list("--place", typed.places, "where results go: out (tensors of their own), in (those of the inputs) [out]", "out,in")
      ->check(CLI::IsMember({"out", "in"}).description(""));
  list("--tensors", typed.tensors,
       "where they lie for shm: allocated (by the group, so that members read them there), own (memory of the caller's) [allocated]",
       "allocated,own")
      ->check(CLI::IsMember({"allocated", "own"}).description(""));
  bench.add_flag("--paced", typed.paced,
                 "each round, the two that warm up included, waits for a line of standard input: for turns with another program");
  bench.add_option("--timeout", typed.timeout, "of each reduce; a process that stands still for twice as long ends the measurement [30s]")
      ->type_name("DURATION");
  add_device(bench, typed.device);
  bench.add_option("--repeat", typed.repeat, "measured rounds [7]")->type_name("N")->transform(whole(1, 1000));
}

void add_simulate(Table& table) {
  auto [simulate, typed] = table.add<SimulateArguments>(
      "simulate", "run a scenario on virtual time, with the machines that runs are made of, and judge it", "Manifest and help");
  simulate.add_option("SCENARIO", typed.file, "scenario file, such as those of manifests/scenarios")->required();
  const auto set_seeds = [&typed = typed](SeedRange seeds, bool range) {
    typed.seeds = seeds;
    typed.range = range;
  };
  auto* seed = simulate
                   .add_option_function<std::string>(
                       "--seed",
                       [=](const std::string& text) {
                         const auto seeds = parse_seeds(text + ".." + text);
                         if (!seeds) throw CLI::ValidationError("--seed", "`" + text + "` is no number from 0 to 18446744073709551615");
                         set_seeds(*seeds, false);
                       },
                       "what all chance is drawn from [1]")
                   ->type_name("S");
  simulate
      .add_option_function<std::string>(
          "--seeds",
          [=](const std::string& text) {
            const auto seeds = parse_seeds(text);
            if (!seeds) throw CLI::ValidationError("--seeds", "`" + text + "` is no range such as 1..200");
            set_seeds(*seeds, true);
          },
          "one run for each of them")
      ->type_name("A..B")
      ->excludes(seed);
  simulate.add_option("--peers", typed.peers, "peers of the start [the scenario's]")->type_name("N")->transform(whole(1, 1024));
  simulate.footer(
      "Exits with 1 when an invariant (docs/INVARIANTS.md) breaks or a run ends as the scenario does not allow; what is printed then\n"
      "replays it: equal scenario, seed and peers are the same run, event for event.");
}

}  // namespace

void add_measuring(Table& table) {
  add_bench(table);
  add_simulate(table);
}

}  // namespace prime::cli
