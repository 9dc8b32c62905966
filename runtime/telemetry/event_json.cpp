#include "runtime/telemetry/event_json.hpp"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "runtime/telemetry/error_text.hpp"

namespace prime::telemetry {
namespace {

using nlohmann::json;
using Seconds = std::chrono::duration<double>;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsNumber : std::false_type {};
template <class Tag>
struct IsNumber<Number<Tag>> : std::true_type {};

// To a line ------------------------------------------------------------------------------------------------------------------

template <class T>
json form_of(const T& value) {
  if constexpr (std::is_same_v<T, double>) return std::isfinite(value) ? json(value) : json(nullptr);
  else if constexpr (std::is_same_v<T, Duration>) return json(std::chrono::duration_cast<Seconds>(value).count());
  else if constexpr (std::is_same_v<T, PeerId> || std::is_same_v<T, Digest> || std::is_same_v<T, OperationId>)
    return json(to_string(value));
  else if constexpr (IsNumber<T>::value) return json(value.value);
  else if constexpr (Worded<T>) return json(to_string(value));
  else if constexpr (std::is_same_v<T, Cause>) return json(value.text);
  else return json(value);
}

template <class T>
json form_of(const std::vector<T>& values) {
  auto list = json::array();
  for (const auto& value : values) list.push_back(form_of(value));
  return list;
}

struct Writing {
  json& fields;

  template <class T>
  void operator()(std::string_view key, const T& value) const {
    if constexpr (IsOptional<T>::value) {
      if (value) fields[std::string{key}] = form_of(*value);
    } else {
      fields[std::string{key}] = form_of(value);
    }
  }
  void operator()(std::string_view, const Who& who) const {
    fields["peer"] = form_of(who.peer);
    fields["name"] = who.name;
    if (who.replica.empty()) return;
    fields["replica"] = who.replica;
    fields["shard"] = who.shard;
  }
};

// From a line ----------------------------------------------------------------------------------------------------------------

/// Beyond it a duration of nanoseconds has no room.
constexpr double SECONDS_MAX = 9e9;

std::optional<OperationId> parse_operation(const std::string& text) {
  OperationId op;
  char* end = nullptr;
  op.epoch.value = std::strtoull(text.c_str(), &end, 10);
  if (*end != '.') return std::nullopt;
  op.sequence.value = std::strtoull(end + 1, &end, 10);
  if (*end == '#') op.tag.value = std::strtoull(end + 1, &end, 10);
  return *end == '\0' && to_string(op) == text ? std::optional{op} : std::nullopt;
}

template <class T>
bool take(std::optional<T> parsed, T& value) {
  if (parsed) value = *std::move(parsed);
  return parsed.has_value();
}

/// Whether it is of its form; else the value stays as it is.
template <class T>
bool read(const json& form, T& value) {
  if constexpr (IsOptional<T>::value) {
    typename T::value_type found{};
    if (!read(form, found)) return false;
    value = std::move(found);
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    return form.is_boolean() && (value = form.get<bool>(), true);
  } else if constexpr (std::is_unsigned_v<T>) {
    return form.is_number_unsigned() && form.get<std::uint64_t>() <= std::numeric_limits<T>::max() && (value = form.get<T>(), true);
  } else if constexpr (std::is_same_v<T, double>) {
    if (!form.is_number() && !form.is_null()) return false;
    value = form.is_null() ? std::nan("") : form.get<double>();
    return true;
  } else if constexpr (std::is_same_v<T, Duration>) {
    if (!form.is_number() || !(std::abs(form.get<double>()) < SECONDS_MAX)) return false;
    value = std::chrono::round<Duration>(Seconds{form.get<double>()});
    return true;
  } else if constexpr (IsNumber<T>::value && !std::is_same_v<T, PeerId>) {
    return read(form, value.value);
  } else if (!form.is_string()) {
    return false;
  } else if constexpr (std::is_same_v<T, PeerId>) {
    return take(parse_peer_id(form.get<std::string>()), value);
  } else if constexpr (std::is_same_v<T, Digest>) {
    return take(parse_digest(form.get<std::string>()), value);
  } else if constexpr (std::is_same_v<T, OperationId>) {
    return take(parse_operation(form.get<std::string>()), value);
  } else if constexpr (Worded<T>) {
    // A word of a newer version is no damage.
    value = find_word<T>(form.get<std::string>()).value_or(value);
    return true;
  } else if constexpr (std::is_same_v<T, Cause>) {
    value = Cause{form.get<std::string>()};
    if (const auto error = parse_error_text(value.text)) value.name = error->name;
    return true;
  } else {
    value = form.get<std::string>();
    return true;
  }
}

template <class T>
bool read(const json& form, std::vector<T>& list) {
  if (!form.is_array()) return false;
  list.clear();
  for (const auto& item : form)
    if (!read(item, list.emplace_back())) return false;
  return true;
}

struct Reading {
  const json& fields;
  std::string& ill_formed;  ///< the first such key

  template <class T>
  void operator()(std::string_view key, T& value) const {
    const auto found = fields.find(key);
    if (found != fields.end() && !read(*found, value) && ill_formed.empty()) ill_formed = key;
  }
  void operator()(std::string_view, Who& who) const {
    (*this)("peer", who.peer);
    (*this)("name", who.name);
    (*this)("replica", who.replica);
    (*this)("shard", who.shard);
  }
};

using Reader = JournalEvent (*)(const Reading&);
constexpr Reader READERS[] = {
#define EVENT(Struct, name, writer, durability, fields, meaning) \
  [](const Reading& reading) -> JournalEvent {                   \
    events::Struct event;                                        \
    for_each_field(event, reading);                              \
    return event;                                                \
  },
#include "messages/events.def"
#undef EVENT
};

// The page -------------------------------------------------------------------------------------------------------------------

template <class T>
std::string type_text() {
  if constexpr (IsOptional<T>::value) return type_text<typename T::value_type>();
  else if constexpr (std::is_same_v<T, bool>) return "true or false";
  else if constexpr (std::is_same_v<T, double>) return "figure";
  else if constexpr (std::is_same_v<T, Duration>) return "seconds";
  else if constexpr (std::is_same_v<T, PeerId>) return "peer";
  else if constexpr (std::is_same_v<T, Digest>) return "digest";
  else if constexpr (std::is_same_v<T, OperationId>) return "operation";
  else if constexpr (std::is_same_v<T, Cause>) return "cause";
  else if constexpr (std::is_same_v<T, std::vector<PeerId>>) return "peers";
  else if constexpr (std::is_same_v<T, std::vector<std::string>>) return "texts";
  else if constexpr (std::is_same_v<T, std::vector<std::uint64_t>>) return "counts";
  else if constexpr (std::is_same_v<T, std::vector<Revision>>) return "counts";
  else if constexpr (std::is_same_v<T, std::string>) return "text";
  else if constexpr (Worded<T>) {
    std::string words;
    for (const auto word : WORDS<T>) words += (words.empty() ? "" : ", ") + std::string{word};
    return words;
  } else return "count";
}

struct Describing {
  std::string& cell;

  template <class T>
  void operator()(std::string_view key, const T&) const {
    add(key, type_text<T>(), IsOptional<T>::value);
  }
  void operator()(std::string_view, const Who&) const {
    add("peer", "peer", false);
    add("name", "text", false);
    add("replica", "text", true);
    add("shard", "count", true);
  }
  void add(std::string_view key, const std::string& type, bool optional) const {
    cell += (cell.empty() ? "`" : "; `") + std::string{key} + "`" + (optional ? "?" : "") + " " + type;
  }
};

std::string table_of(JournalWriter writer) {
  std::string text = "| event | means | fields |\n|---|---|---|\n";
#define EVENT(Struct, name, by, durability, fields, meaning)                                                              \
  if (JournalWriter::by == writer) {                                                                                      \
    std::string cell;                                                                                                     \
    const events::Struct event;                                                                                           \
    for_each_field(event, Describing{cell});                                                                              \
    text += std::string{"| `" #name "` | " meaning} +                                                                     \
            (Durability::durability == Durability::Durable ? "; on disk before it is told" : "") + " | " + cell + " |\n"; \
  }
#include "messages/events.def"
#undef EVENT
  return text;
}

}  // namespace

json fields_of(const JournalEvent& event) {
  auto fields = json::object();
  std::visit([&](const auto& one) { for_each_field(one, Writing{fields}); }, event);
  return fields;
}

Result<std::optional<JournalEvent>> read_event(JournalWriter writer, const std::string& name, const json& fields) {
  for (std::size_t i = 0; i < std::size(EVENTS); ++i) {
    if (EVENTS[i].name != name || (EVENTS[i].writer != writer && EVENTS[i].writer != JournalWriter::Process)) continue;
    std::string ill_formed;
    auto event = READERS[i](Reading{fields, ill_formed});
    if (!ill_formed.empty()) return fail(ErrorName::StorageFailed, "a line of a journal is damaged: `" + ill_formed + "` of " + name);
    return std::optional{std::move(event)};
  }
  return std::optional<JournalEvent>{};
}

Result<std::optional<JournalEvent>> read_event(JournalWriter writer, const store::JournalLine& line) {
  return read_event(writer, line.event, line.fields);
}

std::string time_of(const store::JournalLine& line) {
  const auto found = line.fields.find("t");
  return found != line.fields.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::string events_page() {
  return R"(# Events

<!-- Generated from messages/events.def; `PRIME_RECORD=1 ./dev test -R runtime_telemetry` writes it anew. -->

Each process of a run has a journal, `journal.jsonl`: one JSON object for each event. Every line begins with `t`, the time on that machine's clock
(UTC), `seq`, which counts the lines from 1, and `event`, the name. `primectl logs -o json` prints them. Events and fields are only ever added.

A *peer* is 16 hexadecimal digits, a *digest* 32; an *operation* is "epoch.sequence"; *seconds* are a number; a *figure* that is no number (not
finite) is null; a *cause* is the text of an error, with its code (docs/ERRORS.md), or a few words for people. A field with "?" may be absent.

## The coordinator's

)" + table_of(JournalWriter::Coordinator) +
         "\n## An agent's\n\n" + table_of(JournalWriter::Agent) + "\n## Both\n\n" + table_of(JournalWriter::Process);
}

}  // namespace prime::telemetry
