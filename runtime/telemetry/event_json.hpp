// Owns the one edge between events and journal lines: the renderer and the reader. Nothing else names a key of an event.
//
// Forms: counts, steps, epochs and revisions are numbers; durations are seconds (their keys end in `_s`); a PeerId is 16 and a Digest 32
// hexadecimal digits; an operation is "epoch.sequence", with "#tag" unless that is 0; an enum is its word, an error its text; a figure that
// is not finite is null; what is optional and absent has no key. A Who is `peer` and `name`, in a sharded run also `replica` and `shard`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "messages/events.hpp"
#include "messages/result.hpp"
#include "runtime/store/journal.hpp"

namespace prime::telemetry {

/// The event's own fields, as its line has them.
nlohmann::json fields_of(const JournalEvent& event);

/// What a line of this process's journal tells; nothing when this version knows no such event. A field that is missing stays as it is by
/// default, one that is unknown is passed over: so journals of other versions are read. StorageFailed names a field that is not of its
/// form.
Result<std::optional<JournalEvent>> read_event(JournalWriter writer, const store::JournalLine& line);
/// The same where a name and its fields are kept elsewhere.
Result<std::optional<JournalEvent>> read_event(JournalWriter writer, const std::string& name, const nlohmann::json& fields);

/// When it was written, on that machine's clock; empty where the line does not say.
std::string time_of(const store::JournalLine& line);

/// docs/EVENTS.md.
std::string events_page();

}  // namespace prime::telemetry
