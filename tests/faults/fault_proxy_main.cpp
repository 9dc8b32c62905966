// Owns fault-proxy: a FaultProxy that lines of its input command. It says where it listens, answers each line, and ends with its input,
// so that it never outlives who started it.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <map>
#include <unistd.h>

#include "runtime/net/run_key.hpp"
#include "tests/faults/fault_proxy.hpp"

namespace prime::faults {
namespace {

constexpr std::size_t MAX_LINE_BYTES = 256;
constexpr const char* COMMANDS = "cut, hold up|down|both, release, forget, refuse, accept, drop-after BYTES|off, count";

std::string count_line(const FaultProxy& proxy) {
  const auto counts = proxy.counts();
  const auto [up, down] = counts.forwarded;
  return "accepted " + std::to_string(counts.accepted) + " refused " + std::to_string(counts.refused) + " open " +
         std::to_string(counts.open) + " up " + std::to_string(up) + " down " + std::to_string(down);
}

std::string answer(FaultProxy& proxy, const std::string& line) {
  static const std::map<std::string, void (*)(FaultProxy&)> WORDS = {
      {"cut", [](FaultProxy& to) { to.cut(); }},
      {"hold up", [](FaultProxy& to) { to.hold(Direction::Up); }},
      {"hold down", [](FaultProxy& to) { to.hold(Direction::Down); }},
      {"hold both",
       [](FaultProxy& to) {
         to.hold(Direction::Up);
         to.hold(Direction::Down);
       }},
      {"release", [](FaultProxy& to) { to.release(); }},
      {"forget", [](FaultProxy& to) { to.forget(); }},
      {"refuse", [](FaultProxy& to) { to.refuse(); }},
      {"accept", [](FaultProxy& to) { to.accept(); }},
      {"drop-after off", [](FaultProxy& to) { to.drop_after(std::nullopt); }},
  };
  constexpr std::string_view DROP_AFTER = "drop-after ";
  if (line == "count") return count_line(proxy);
  if (const auto word = WORDS.find(line); word != WORDS.end()) {
    word->second(proxy);
    return "ok";
  }
  std::uint64_t bytes = 0;
  const char* const end = line.data() + line.size();
  if (line.starts_with(DROP_AFTER) && std::from_chars(line.data() + DROP_AFTER.size(), end, bytes).ptr == end && bytes > 0) {
    proxy.drop_after(bytes);
    return "ok";
  }
  return "error: '" + line + "' is no command; there are " + COMMANDS;
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

/// False when the input has ended.
bool obey_input(FaultProxy& proxy, std::string& input) {
  std::array<char, MAX_LINE_BYTES> bytes;
  const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count <= 0) return false;
  input.append(bytes.data(), static_cast<std::size_t>(count));
  for (auto end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
    say(answer(proxy, input.substr(0, end)));
    input.erase(0, end + 1);
  }
  return input.size() < MAX_LINE_BYTES;
}

Result<Endpoint> endpoint(const std::string& flag, const std::string& text) {
  auto parsed = net::parse_endpoint(text);
  if (!parsed) return fail(ErrorName::Usage, flag + " " + text + ": " + parsed.error().detail);
  return parsed;
}

Result<int> run(const std::string& listen, const std::string& target, const Shape& shape) {
  FaultProxyOptions options;
  PRIME_TRY(options.listen, endpoint("--listen", listen));
  PRIME_TRY(options.target, endpoint("--target", target));
  options.up = options.down = shape;
  options.report = [](const std::string& what) { std::fprintf(stderr, "fault-proxy: %s\n", what.c_str()); };
  PRIME_TRY(auto proxy, FaultProxy::open(std::move(options)));
  say("listening at " + net::format_endpoint(proxy->address()));
  std::string input;
  while (!proxy->step(1s, STDIN_FILENO) || obey_input(*proxy, input)) continue;
  return 0;
}

}  // namespace
}  // namespace prime::faults

int main(int count, char** arguments) {
  using namespace prime;
  std::string listen;
  std::string target;
  faults::Shape shape;
  std::uint32_t delay_ms = 0;
  CLI::App app("Forwards TCP connections, and slows, delays, silences or cuts them. Commands, one a line: " +
               std::string(faults::COMMANDS));
  app.add_option("--listen", listen, "HOST:PORT; port 0 takes a free one")->required();
  app.add_option("--target", target, "HOST:PORT")->required();
  app.add_option("--rate", shape.rate_bytes_per_s, "bytes/s of each connection and direction; 0: no cap");
  app.add_option("--delay-ms", delay_ms, "of each direction");
  app.add_option("--buffer", shape.buffer_bytes, "bytes that may wait in each direction besides rate x delay");
  CLI11_PARSE(app, count, arguments);
  shape.delay = std::chrono::milliseconds(delay_ms);
  const auto ended = faults::run(listen, target, shape);
  if (!ended) std::fprintf(stderr, "fault-proxy: error: %s\n", to_string(ended.error()).c_str());
  return ended ? *ended : info(ended.error().name).exit_code;
}
