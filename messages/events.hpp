// Owns the events of the journals as typed structs, one for each row of events.def. Free of JSON: runtime/telemetry renders and reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "messages/errors.hpp"
#include "messages/ids.hpp"
#include "messages/phases.hpp"
#include "messages/units.hpp"

namespace prime {

/// The peer that an event is about. `replica` is empty where there are no shards.
struct Who {
  PeerId peer;
  std::string name;
  std::string replica = {};
  std::uint32_t shard = 0;
  friend bool operator==(const Who&, const Who&) = default;
};

/// Why something ended: an error by its name, where this version knows it, and its words, which nothing but people read.
struct Cause {
  std::optional<ErrorName> name;
  std::string text;

  Cause() = default;
  Cause(const Error& error) : name(error.name), text(to_string(error)) {}  // NOLINT(google-explicit-constructor): an error is a cause
  explicit Cause(std::string words) : text(std::move(words)) {}
  friend bool operator==(const Cause&, const Cause&) = default;
};

namespace events {
#define FIELD(type, name) type name{};
#define FIELD_AS(type, name, key) type name{};
#define EVENT(Struct, name, writer, durability, fields, meaning)           \
  struct Struct {                                                          \
    fields friend bool operator==(const Struct&, const Struct&) = default; \
  };
#include "messages/events.def"
#undef EVENT
#undef FIELD
#undef FIELD_AS
}  // namespace events

namespace detail {
template <class Skipped, class... Events>
using VariantAfter = std::variant<Events...>;
}

/// Any event. A visitor without a catch-all does not compile when it forgets one.
using JournalEvent = detail::VariantAfter<void
#define EVENT(Struct, name, writer, durability, fields, meaning) , events::Struct
#include "messages/events.def"
#undef EVENT
                                          >;

/// Whose journal has the event; `Process`: that of each.
enum class JournalWriter : std::uint8_t { Coordinator, Agent, Process };
/// `Durable`: on disk before anything that follows it is told to anybody (DESIGN law 8).
enum class Durability : std::uint8_t { Written, Durable };

/// One row of events.def.
struct EventInfo {
  std::string_view name;
  JournalWriter writer;
  Durability durability;
  std::string_view meaning;
};
/// All rows, in the order of the alternatives of JournalEvent.
inline constexpr EventInfo EVENTS[] = {
#define EVENT(Struct, name, writer, durability, fields, meaning) {#name, JournalWriter::writer, Durability::durability, meaning},
#include "messages/events.def"
#undef EVENT
};
inline const EventInfo& info(const JournalEvent& event) { return EVENTS[event.index()]; }

/// Calls `visit(key, member)` for each field, in the order of the table.
#define FIELD(type, name) visit(std::string_view{#name}, event.name);
#define FIELD_AS(type, name, key) visit(std::string_view{#key}, event.name);
#define EVENT(Struct, name, writer, durability, fields, meaning)      \
  template <class Event, class Visit>                                 \
  requires std::is_same_v<std::remove_const_t<Event>, events::Struct> \
  void for_each_field(Event& event, Visit&& visit) { fields }
#include "messages/events.def"
#undef EVENT
#undef FIELD
#undef FIELD_AS

/// In a visitor: `[](const OneOf<events::A, events::B> auto&) {}` names those that it has no use for.
template <class Event, class... Events>
concept OneOf = (std::is_same_v<std::remove_cvref_t<Event>, Events> || ...);

}  // namespace prime
