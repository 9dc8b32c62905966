// Owns links: one member of a group that averages fp32 over a link. Rank 0 prints one line of JSON with the times of its reduces.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "prime/group.hpp"

namespace {

using prime::Group;
using prime::Result;

/// A reduce of nothing to speak of, in a tag of its own: all begin the measured one together, over lanes that are open.
constexpr std::uint64_t MEETING_TAG = 1;

struct Arguments {
  prime::GroupOptions group;
  std::uint64_t bytes = 64 << 20;
  std::uint32_t repeat = 3;
  std::uint32_t timeout_s = 120;
};

/// The sorted times of the reduces, in seconds.
Result<std::vector<double>> measure(Group& group, const Arguments& arguments) {
  const std::vector<float> input(arguments.bytes / sizeof(float), 1.0F + static_cast<float>(group.rank()));
  std::vector<float> output(input.size());
  std::vector<double> seconds;
  for (std::uint32_t turn = 0; turn < arguments.repeat; ++turn) {
    prime::ReduceOptions meeting;
    meeting.tag = MEETING_TAG;
    PRIME_CHECK(group.reduce(std::span(input).first(1), std::span(output).first(1), meeting));
    PRIME_TRY(const auto reduced, group.reduce(input, output));
    seconds.push_back(std::chrono::duration<double>(reduced.elapsed).count());
    const float mean = static_cast<float>(group.size() + 1) / 2;
    if (!std::ranges::all_of(output, [mean](float each) { return each == mean; }))
      return prime::fail(prime::ErrorName::ParityBroken, "the mean is not " + std::to_string(mean));
  }
  std::ranges::sort(seconds);
  return seconds;
}

Result<void> run(const Arguments& arguments) {
  PRIME_TRY(auto group, Group::form(arguments.group));
  PRIME_TRY(const auto seconds, measure(group, arguments));
  if (group.rank() != 0) return {};
  const nlohmann::ordered_json line{
      {"bytes", arguments.bytes},
      {"time_s", {{"min", seconds.front()}, {"median", seconds[seconds.size() / 2]}, {"max", seconds.back()}}},
  };
  std::puts(line.dump().c_str());
  return {};
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  arguments.group.key = "a benchmark over links of one machine";
  arguments.group.plain = true;
  arguments.group.memory = false;
  CLI::App app("One member of a group that reduces over a link.");
  app.add_option("--rank", arguments.group.rank)->required();
  app.add_option("--members", arguments.group.members, "HOST:PORT of each rank")->required()->delimiter(',');
  app.add_option("--bytes", arguments.bytes, "of fp32, at least 4")->check(CLI::Range(std::uint64_t{4}, std::uint64_t{16} << 30));
  app.add_option("--repeat", arguments.repeat)->check(CLI::Range(1, 1000));
  app.add_option("--streams", arguments.group.streams, "connections between two members");
  app.add_option("--timeout-s", arguments.timeout_s, "of each reduce");
  CLI11_PARSE(app, count, words);
  arguments.group.timeout = std::chrono::seconds(arguments.timeout_s);
  const auto done = run(arguments);
  if (!done) std::fputs(prime::render(done.error()).c_str(), stderr);
  return done ? 0 : info(done.error().name).exit_code;
}
