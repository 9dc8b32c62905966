// Owns the two streams of a command: data on stdout, progress and complaints on stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/render/style.hpp"
#include "messages/errors.hpp"
#include "messages/result.hpp"

namespace prime::cli {

class Terminal {
 public:
  /// `command`: whose help explains wrong usage; empty: that of the whole program.
  explicit Terminal(const CommonArguments& common, std::string_view command = {});

  /// Data. False when it cannot be written: nobody reads it any more, or see output_error. JSON stays as it is; of all other text, here and
  /// below, nothing reaches a terminal that could change it (`harmless_page`), wherever it comes from.
  bool print(std::string_view text);
  /// On an empty screen.
  bool print_page(std::string_view text);
  /// Why data was not written, if not for want of a reader.
  [[nodiscard]] std::optional<Error> output_error() const;
  /// The exit code of a command whose own is `exit_code`: data that was not written is an error.
  int finish(int exit_code);
  /// "   Starting 3 peers": one line of progress; nothing with --quiet.
  void say(std::string_view word, std::string_view text, Role role = Role::Good);
  /// One line of what may be wrong, also with --quiet.
  void warn(std::string_view text);
  /// The error with its hint, or with a better one of the caller, which may be empty; returns its exit code.
  int complain(const Error& error, const std::optional<std::string>& hint = std::nullopt);
  /// Several lines that are rendered already.
  void complain(std::string_view text);

  [[nodiscard]] bool json() const { return json_; }
  /// Of stdout.
  [[nodiscard]] const Style& style() const { return out_; }
  [[nodiscard]] bool is_terminal() const { return terminal_; }

 private:
  bool write_out(std::string_view text);

  Style out_;
  Style err_;
  bool json_;
  bool quiet_;
  bool terminal_;
  std::string command_;
  int output_errno_ = 0;  ///< of the first failure
};

}  // namespace prime::cli
