// Owns the two streams of a command: data on stdout, progress and complaints on stderr.
#pragma once

#include <string>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/render/style.hpp"
#include "messages/errors.hpp"
#include "messages/result.hpp"

namespace prime::cli {

class Terminal {
 public:
  explicit Terminal(const CommonArguments& common);

  /// Data. False when nobody reads it any more.
  bool print(std::string_view text);
  /// "   Starting 3 peers": one line of progress; nothing with --quiet.
  void say(std::string_view word, std::string_view text, Role role = Role::Good);
  /// The error with its hint; returns its exit code.
  int complain(const Error& error);
  /// Several lines that are rendered already.
  void complain(std::string_view text);

  [[nodiscard]] bool json() const { return json_; }
  /// Of stdout.
  [[nodiscard]] const Style& style() const { return out_; }
  [[nodiscard]] bool is_terminal() const { return terminal_; }

 private:
  Style out_;
  Style err_;
  bool json_;
  bool quiet_;
  bool terminal_;
};

}  // namespace prime::cli
