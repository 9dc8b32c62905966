#include "cli/command_line/options.hpp"

#include <charconv>
#include <fmt/format.h>

#include "messages/units.hpp"
#include "runtime/manifest/text_rules.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::cli {

CLI::Validator named() {
  return {[](const std::string& word) { return word.empty() ? std::string{"it names nothing"} : std::string{}; }, ""};
}

CLI::Validator peer_name() {
  return {[](const std::string& word) {
            if (std::any_of(word.begin(), word.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }))
              return std::string{"a name has no control characters"};
            return word == "coordinator" ? std::string{"the coordinator has this name"} : std::string{};
          },
          ""};
}

CLI::Validator replica_name() {
  return {[](const std::string& word) {
            return net::is_run_id(word) && word.size() <= 60 ? std::string{}
                                                             : "the name of a replica has 1 to 60 of a-z, 0-9 and -, the first no -";
          },
          ""};
}

CLI::Validator whole(std::uint64_t least, std::uint64_t most) {
  return {[=](std::string& text) {
            std::uint64_t number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            if (error != std::errc{} || rest != end || number < least || number > most)
              return "`" + text + "` is no whole number from " + std::to_string(least) + " to " + std::to_string(most);
            text = std::to_string(number);
            return std::string{};
          },
          ""};
}

CLI::Validator real(double least, double most) {
  return {[=](const std::string& text) {
            double number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            const bool good = error == std::errc{} && rest == end && number >= least && number <= most;
            return good ? std::string{} : fmt::format("`{}` is no number from {} to {}", text, least, most);
          },
          ""};
}

void add_common(CLI::App& command, CommonArguments& common) {
  add_choice(command, "-o,--output", common.format, "what stdout carries: a text for people, or JSON", {"table", "json"})->group("Output");
  add_choice(command, "--color", common.colour, "colour on a terminal; NO_COLOR and TERM=dumb switch it off", {"auto", "always", "never"})
      ->group("Output");
  command.add_flag("-q,--quiet", common.quiet, "no progress on stderr")->group("Output");
  command.add_option("--state-dir", common.state_dir, "where runs keep their files [$XDG_STATE_HOME/primectl]")
      ->type_name("DIR")
      ->group("Output");
}

void add_log_level(CLI::App& command, CommonArguments& common) {
  add_choice(command, "--log-level", common.log_level,
             "what the processes' logs say: `debug` adds the reason of each decision [$PRIME_LOG_LEVEL]", {"info", "debug"})
      ->group("Output");
}

void add_device(CLI::App& command, std::string& device) {
  const auto is_wrong = [](const std::string& word) {
    return manifest::is_device(word) ? std::string{}
                                     : "`" + word + "` is no device: it must be " + std::string{manifest::DEVICE_RULE.expected};
  };
  command.add_option("--device", device, "where the model computes: cpu, cuda, cuda:N, or auto, which takes a GPU if it can [cpu]")
      ->type_name("D")
      ->check(CLI::Validator{is_wrong, ""});
}

}  // namespace prime::cli
