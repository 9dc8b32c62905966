// Owns `primectl bench`: which cases are measured, and the table or the lines of JSON.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <poll.h>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/inference.hpp"
#include "cli/programs.hpp"
#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"
#include "cli/terminal.hpp"
#include "messages/units.hpp"
#include "runtime/bench/allreduce_bench.hpp"
#include "runtime/bench/kernels_bench.hpp"
#include "runtime/bench/median.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

constexpr std::array<std::uint64_t, 5> SIZES{4ULL << 10, 64ULL << 10, 1ULL << 20, 16ULL << 20, 256ULL << 20};

/// The value whose name is `word`; the parser has let only names through.
template <class Enumeration>
Enumeration named(const std::string& word, std::uint8_t count) {
  for (std::uint8_t value = 0; value < count; ++value)
    if (to_string(static_cast<Enumeration>(value)) == word) return static_cast<Enumeration>(value);
  return {};
}

std::vector<bench::Case> cases_of(const BenchArguments& arguments) {
  auto sizes = arguments.sizes;
  if (sizes.empty()) sizes.assign(SIZES.begin(), SIZES.end());
  const bool all_lanes = arguments.what == "lanes";
  const auto peers_asked = !arguments.peers.empty() ? arguments.peers : all_lanes ? std::vector{2U} : std::vector{2U, 4U};
  const auto lanes = !arguments.lanes.empty() ? arguments.lanes
                     : all_lanes              ? std::vector<std::string>{"tcp", "tls", "shm"}
                                              : std::vector<std::string>{"tcp"};
  const std::vector<std::string> own{"own"};
  std::vector<bench::Case> cases;
  for (const auto peers : peers_asked)
    for (const auto bytes : sizes)
      for (const auto& lane : lanes)
        for (const auto& codec : arguments.codecs)
          for (const auto& schedule : arguments.schedules)
            for (const auto tags : arguments.tags)
              for (const auto& place : arguments.places)
                for (const auto& tensors : lane == "shm" ? arguments.tensors : own)
                  cases.push_back({peers, bytes, tags, named<Codec>(codec, CODECS), named<bench::Lane>(lane, 3),
                                   named<Schedule>(schedule, 4), place == "in", tensors == "allocated"});
  return cases;
}

const char* tensors_of(const bench::Row& row) { return row.what.allocated ? "allocated" : "own"; }

nlohmann::ordered_json to_json(const bench::Row& row) {
  return {{"schema", "primectl.bench/1"},
          {"peers", row.what.peers},
          {"bytes", row.what.bytes},
          {"codec", to_string(row.what.codec)},
          {"lane", to_string(row.what.lane)},
          {"schedule", to_string(row.what.schedule)},
          {"tags", row.what.tags},
          {"in_place", row.what.in_place},
          {"tensors", tensors_of(row)},
          {"time_s", {{"min", row.time_s.min}, {"median", row.time_s.median}, {"max", row.time_s.max}}},
          {"bus_bytes_per_s", row.bus_bytes_per_s},
          {"cpu_s_per_gb", row.cpu_s_per_gb},
          {"extra_bytes_peak", row.extra_bytes_peak},
          {"limit_share", row.limit_share}};
}

std::string fixed(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::string table_of(const std::vector<bench::Row>& rows) {
  std::vector<std::vector<std::string>> cells;
  cells.reserve(rows.size());
  for (const auto& row : rows)
    cells.push_back(
        {std::to_string(row.what.peers), bytes_figure(row.what.bytes), std::to_string(row.what.tags), std::string(to_string(row.what.lane)),
         std::string(to_string(row.what.codec)), std::string(to_string(row.what.schedule)), row.what.in_place ? "in" : "out",
         tensors_of(row), short_time_figure(row.time_s.median), short_time_figure(row.time_s.min), short_time_figure(row.time_s.max),
         fixed(row.bus_bytes_per_s / 1e9), fixed(row.cpu_s_per_gb), bytes_figure(row.extra_bytes_peak), fixed(row.limit_share)});
  return columns({{"peers", Align::Right},
                  {"bytes", Align::Right},
                  {"tags", Align::Right},
                  {"lane"},
                  {"codec"},
                  {"schedule"},
                  {"place"},
                  {"tensors"},
                  {"median", Align::Right},
                  {"min", Align::Right},
                  {"max", Align::Right},
                  {"bus GB/s", Align::Right},
                  {"CPU s/GB", Align::Right},
                  {"extra", Align::Right},
                  {"of limit", Align::Right}},
                 cells);
}

nlohmann::ordered_json to_json(const bench::KernelRow& row) {
  return {{"schema", "primectl.bench.kernels/1"},
          {"kernel", row.kernel},
          {"codec", row.codec},
          {"path", row.path},
          {"bytes_touched_per_s", row.bytes_touched_per_s},
          {"memcpy_share", row.memcpy_share}};
}

std::string table_of(const std::vector<bench::KernelRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  cells.reserve(rows.size());
  for (const auto& row : rows)
    cells.push_back({row.kernel, row.codec, row.path, fixed(row.bytes_touched_per_s / 1e9), fixed(row.memcpy_share)});
  return columns({{"kernel"}, {"codec or type"}, {"path"}, {"GB/s touched", Align::Right}, {"of memcpy", Align::Right}}, cells);
}

template <class Row>
int print_rows(const std::vector<Row>& rows, Terminal& terminal) {
  if (!terminal.json()) terminal.print(table_of(rows));
  else
    for (const auto& row : rows) terminal.print(telemetry::dump(to_json(row)) + "\n");
  return 0;
}

/// One model and batch, as medians over rounds.
struct InferenceRow {
  std::string dtype;
  unsigned dim = 0;
  unsigned batch = 0;
  unsigned tokens = 0;  ///< written in all
  double generate_s = 0;
  double proving_share = 0;
  double verify_s = 0;
  double comparing_share = 0;
  double decode_products_s = 0, prefill_products_s = 0;  ///< the products with the model's matrices alone
};

nlohmann::ordered_json to_json(const InferenceRow& row) {
  return {{"schema", "primectl.bench.inference/1"},
          {"dtype", row.dtype},
          {"dim", row.dim},
          {"batch", row.batch},
          {"tokens", row.tokens},
          {"generate_s", row.generate_s},
          {"proving_share", row.proving_share},
          {"verify_s", row.verify_s},
          {"comparing_share", row.comparing_share},
          {"generate_per_verify", row.generate_s / row.verify_s},
          {"decode_products_s", row.decode_products_s},
          {"prefill_products_s", row.prefill_products_s},
          {"decode_per_prefill", row.decode_products_s / row.prefill_products_s}};
}

std::string table_of(const std::vector<InferenceRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : rows)
    cells.push_back({row.dtype, std::to_string(row.dim), std::to_string(row.batch), std::to_string(row.tokens),
                     short_time_figure(row.generate_s), fixed(100 * row.proving_share), short_time_figure(row.verify_s),
                     fixed(100 * row.comparing_share), fixed(row.generate_s / row.verify_s), short_time_figure(row.decode_products_s),
                     short_time_figure(row.prefill_products_s), fixed(row.decode_products_s / row.prefill_products_s)});
  return columns({{"type"},
                  {"width", Align::Right},
                  {"batch", Align::Right},
                  {"tokens", Align::Right},
                  {"generate", Align::Right},
                  {"proving %", Align::Right},
                  {"verify", Align::Right},
                  {"comparing %", Align::Right},
                  {"generate/verify", Align::Right},
                  {"products: decode", Align::Right},
                  {"prefill", Align::Right},
                  {"decode/prefill", Align::Right}},
                 cells);
}

constexpr unsigned INFERENCE_TOKENS = 256;

/// 4 blocks of width 512 and 1024, prompts of 64 tokens, 256 written. One thread, and the processor's time: two that wait for each
/// other on a busy machine measure that machine.
Result<InferenceRow> measure_inference(const BenchArguments& arguments, const char* dtype, unsigned dim, unsigned batch,
                                       Terminal& terminal) {
  const nlohmann::json job{{"command", "bench"},
                           {"dtype", dtype},
                           {"threads", 1},
                           {"layers", 4},
                           {"dim", dim},
                           {"heads", dim / 64},
                           {"ffn", 3 * dim},
                           {"vocab", 4096},
                           {"prompt", 64},
                           {"tokens", INFERENCE_TOKENS},
                           {"batch", batch},
                           {"repeat", arguments.repeat},
                           {"device", arguments.device}};
  std::vector<double> generate, proving, verify, comparing, decode, prefill;
  std::uint64_t refused = 0;
  terminal.say("Measuring",
               std::string{dtype} + ", a model of width " + std::to_string(dim) + ", " + std::to_string(batch) + " prompts at a time");
  PRIME_CHECK(run_inference(job, terminal, "Measuring", [&](const nlohmann::json& event) {
    if (event["event"] != "round") return true;
    generate.push_back(event["generate_seconds"].get<double>());
    verify.push_back(event["verify_seconds"].get<double>());
    proving.push_back(event["proving_seconds"].get<double>() / generate.back());
    comparing.push_back(event["comparing_seconds"].get<double>() / verify.back());
    decode.push_back(event["decode_products_seconds"].get<double>());
    prefill.push_back(event["prefill_products_seconds"].get<double>());
    refused += event["refused"].get<std::uint64_t>();
    return true;
  }));
  if (generate.empty()) return fail(ErrorName::ProcessFailed, inference_program() + " measured nothing");
  if (refused > 0) return fail(ErrorName::ProofRefused, std::to_string(refused) + " of its own tokens and proofs");
  return InferenceRow{dtype,
                      dim,
                      batch,
                      INFERENCE_TOKENS * batch,
                      bench::median(generate),
                      bench::median(proving),
                      bench::median(verify),
                      bench::median(comparing),
                      bench::median(decode),
                      bench::median(prefill)};
}

Result<std::vector<InferenceRow>> measure_inference(const BenchArguments& arguments, Terminal& terminal) {
  std::vector<InferenceRow> rows;
  for (const auto* const dtype : {"f32", "bf16"})
    for (const unsigned dim : {512U, 1024U})
      for (const unsigned batch : {1U, 8U}) {
        PRIME_TRY(auto row, measure_inference(arguments, dtype, dim, batch, terminal));
        rows.push_back(std::move(row));
      }
  return rows;
}

/// Waits for a whole line of standard input, and takes no byte behind it.
bool line_came() {
  char byte = 0;
  for (;;) {
    const auto count = ::read(STDIN_FILENO, &byte, 1);
    if (count == 1 && byte == '\n') return true;
    if (count == 1 || (count < 0 && errno == EINTR)) continue;
    pollfd readable{STDIN_FILENO, POLLIN, 0};
    if (count == 0 || errno != EAGAIN || ::poll(&readable, 1, -1) < 0) return false;
  }
}

}  // namespace

int run_command(const BenchArguments& arguments, Terminal& terminal) {
  if (arguments.what == "inference") {
    const auto rows = measure_inference(arguments, terminal);
    return rows ? print_rows(*rows, terminal) : terminal.complain(rows.error());
  }
  if (arguments.device != "cpu")
    return terminal.complain(Error{ErrorName::Usage, "--device is for inference; `./dev bench gpu` measures reduces and kernels of a GPU"});
  if (arguments.what == "kernels") {
    if (arguments.paced || !arguments.peers.empty() || !arguments.lanes.empty())
      return terminal.complain(
          Error{ErrorName::Usage, "--paced, --peers and --lane are for allreduce and lanes: kernels run on one thread"});
    bench::KernelsBenchOptions options;
    options.reference = false;  // they take minutes, and serve the tests
    if (!arguments.sizes.empty()) options.values = arguments.sizes.front() / sizeof(float);
    options.repeats = std::max<std::size_t>(options.repeats, arguments.repeat);
    options.begins = [&](const std::string& kernel, const std::string& codec) { terminal.say("Measuring", kernel + " of " + codec); };
    try {
      return print_rows(bench::bench_kernels(options), terminal);
    } catch (const std::bad_alloc&) {
      return terminal.complain(Error{ErrorName::MemoryUnavailable, "for tensors of " + std::to_string(options.values) + " values"});
    }
  }
  const auto begins = [&](auto peers, auto round) -> Result<void> {
    const auto at = round == 0 ? std::string{"warming up"} : "round " + std::to_string(round) + " of " + std::to_string(arguments.repeat);
    terminal.say("Measuring", std::to_string(peers) + " peers, " + at);
    if (arguments.paced && !line_came()) return fail(ErrorName::Usage, "--paced: standard input ended before " + at);
    return {};
  };
  const auto timeout = parse_duration(arguments.timeout);
  if (!timeout || *timeout <= Duration{})
    return terminal.complain(Error{ErrorName::Usage, "`--timeout " + arguments.timeout + "` is no duration such as 30s or 2min"});
  const auto rows =
      bench::measure_reduces(cases_of(arguments), arguments.repeat, begins, std::chrono::ceil<std::chrono::milliseconds>(*timeout));
  return rows ? print_rows(*rows, terminal) : terminal.complain(rows.error());
}

}  // namespace prime::cli
