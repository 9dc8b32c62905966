// Owns one program that primectl waits for: it gets its job at once, and is heard line by line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace prime::launch {

/// Runs `arguments` (the program first) to its end with `input` as its stdin; its stderr is ours, and so are the terminal's signals.
/// `line` hears each line of its stdout, without the line break; false ends the program. Returns its wait status.
/// ProcessFailed: it could not be started, or wrote a line of more than 256 MiB.
Result<int> run_program(const std::vector<std::string>& arguments, const std::string& input,
                        const std::function<bool(std::string_view)>& line);

}  // namespace prime::launch
