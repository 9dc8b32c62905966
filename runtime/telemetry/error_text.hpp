// Owns the way back from an error's text, as journals hold it, to the error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "messages/events.hpp"

namespace prime::telemetry {

/// The inverse of to_string(Error); empty for other texts.
std::optional<Error> parse_error_text(std::string_view text);
/// The last error that a program has printed, in what its log holds.
std::optional<Error> last_error_in(std::string_view log);
/// Whether somebody wished for the end: a run that is stopped, a process that is interrupted.
bool is_stop(const Cause& cause);
/// Whether a run does not take a peer for what it is or brings: its model, its data, its key, its version.
bool is_refusal(const Cause& cause);
/// What a person needs of a reason in a narrow place: the error's detail, else its text; of other texts only the code at their end is
/// dropped.
std::string short_reason(std::string_view text);

}  // namespace prime::telemetry
