#include "cli/inference.hpp"

#include <cstdlib>

#include "cli/programs.hpp"
#include "runtime/launch/foreground_program.hpp"
#include "runtime/launch/launched_process.hpp"

namespace prime::cli {
namespace {

using nlohmann::json;

/// A line for each tenth.
class Tenths {
 public:
  Tenths(Terminal& terminal, const char* verb) : terminal_(terminal), verb_(verb) {}
  void operator()(std::uint64_t done, std::uint64_t of) {
    const std::uint64_t tenth = of == 0 ? 10 : done * 10 / of;
    if (tenth == last_) return;
    last_ = tenth;
    terminal_.say(verb_, std::to_string(done) + " of " + std::to_string(of));
  }

 private:
  Terminal& terminal_;
  const char* verb_;
  std::uint64_t last_ = 0;
};

}  // namespace

Result<void> run_inference(const json& job, Terminal& terminal, const char* verb, const std::function<bool(const json&)>& hear) {
  std::optional<Error> failure;
  bool wanted = true;
  Tenths tenths(terminal, verb);
  const auto line = [&](std::string_view text) {
    const auto event = json::parse(text, nullptr, false);
    if (!event.is_object() || !event.contains("event")) return true;  // a library's chatter
    const auto& kind = event["event"];
    if (kind == "progress") tenths(event["done"].get<std::uint64_t>(), event["of"].get<std::uint64_t>());
    else if (kind == "device" && job["device"] == "auto") terminal.say("Computing", "on " + event["device"].get<std::string>());
    else if (kind == "error")
      failure = Error{find_error(event["name"].get<std::string>()).value_or(ErrorName::InternalError), event["detail"].get<std::string>()};
    else wanted = hear(event);
    return wanted;
  };
  // Its threads sleep while they wait for each other. Those of libgomp spin, and where others are at work they take the processor from
  // whom they wait for: a verification of one second took twenty.
  ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  const auto program = inference_program();
  PRIME_TRY(const int status, launch::run_program({program}, job.dump(-1, ' ', false, json::error_handler_t::replace), line));
  if (failure) return fail(*std::move(failure));
  if (wanted && status != 0) return fail(ErrorName::ProcessFailed, program + ": " + launch::describe_wait_status(status));
  return {};
}

}  // namespace prime::cli
