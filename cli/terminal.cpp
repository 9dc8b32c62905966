#include "cli/terminal.hpp"

#include <cerrno>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/store/file_io.hpp"

namespace prime::cli {
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string locale() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (auto value = from_environment(name); !value.empty()) return value;
  return {};
}

std::size_t width_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Style style_of(int descriptor, Colour colour) {
  return choose_style({colour, ::isatty(descriptor) == 1, from_environment("NO_COLOR"), from_environment("CLICOLOR_FORCE"),
                       from_environment("TERM"), locale(), width_of(descriptor)});
}

/// 0, or the number of the error.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace

Terminal::Terminal(const CommonArguments& common, std::string_view command)
    : out_(style_of(STDOUT_FILENO, common.colour)),
      err_(style_of(STDERR_FILENO, common.colour)),
      json_(common.format == Format::Json),
      quiet_(common.quiet),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      command_(command) {}

bool Terminal::print(std::string_view text) { return write_out(json_ ? std::string{text} : harmless_page(text)); }

bool Terminal::print_page(std::string_view text) { return write_out("\x1b[H\x1b[J" + harmless_page(text)); }

bool Terminal::write_out(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (output_errno_ == 0) output_errno_ = error;
  return error == 0;
}

std::optional<Error> Terminal::output_error() const {
  if (output_errno_ == 0 || output_errno_ == EPIPE) return std::nullopt;
  return store::storage_error("write", "the output", output_errno_);
}

int Terminal::finish(int exit_code) {
  const auto error = output_error();
  if (!error) return exit_code;
  const int failed = complain(*error);
  return exit_code == 0 ? failed : exit_code;
}

void Terminal::warn(std::string_view text) {
  write_all(STDERR_FILENO, paint(err_, Role::Degraded, "warning:") + " " + harmless(text) + "\n");
}

void Terminal::say(std::string_view word, std::string_view text, Role role) {
  if (!quiet_) write_all(STDERR_FILENO, harmless_page(verb(err_, role, word) + std::string{text} + "\n"));
}

int Terminal::complain(const Error& given, const std::optional<std::string>& hint) {
  auto error = given;
  error.detail = harmless(error.detail);  // it may quote a stranger's file
  auto text = render(error);
  const std::string own = "hint: " + std::string{info(error.name).hint} + "\n";
  if (hint && text.ends_with(own)) text.resize(text.size() - own.size());
  if (hint && !hint->empty()) text += "hint: " + harmless(*hint) + "\n";
  constexpr std::string_view WHOLE_HELP = "`primectl --help`";
  if (const auto place = text.rfind(WHOLE_HELP); error.name == ErrorName::Usage && !command_.empty() && place != std::string::npos)
    text.replace(place, WHOLE_HELP.size(), "`primectl " + command_ + " --help`");
  constexpr std::string_view PREFIX = "error:";
  if (text.starts_with(PREFIX)) text.replace(0, PREFIX.size(), paint(err_, Role::Bad, PREFIX));
  complain(text);
  return info(error.name).exit_code;
}

void Terminal::complain(std::string_view text) { write_all(STDERR_FILENO, harmless_page(text)); }

}  // namespace prime::cli
