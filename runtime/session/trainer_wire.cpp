#include "runtime/session/trainer_wire.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "messages/membership.hpp"
#include "runtime/session/packet_socket.hpp"
#include "runtime/session/wire_fields.hpp"

namespace prime::wire {

namespace {

using nlohmann::json;

constexpr std::uint64_t ANY_NUMBER = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t ANY_SMALL_NUMBER = std::numeric_limits<std::uint32_t>::max();
constexpr double NOT_FINITE = std::numeric_limits<double>::quiet_NaN();

json real_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json error_json(const Error& error) {
  json context = json::array();
  for (const auto& line : error.context) {
    if (context.size() == MAX_CONTEXT_LINES) break;
    context.push_back(clipped_text(line, MAX_TEXT_BYTES));
  }
  return {{"name", info(error.name).name}, {"detail", clipped_text(error.detail, MAX_TEXT_BYTES)}, {"context", std::move(context)}};
}

Error read_error(Fields& fields) {
  Error error;
  const auto name = fields.text("name", MAX_TEXT_BYTES);
  const auto row = std::ranges::find(error_table(), std::string_view(name), &ErrorInfo::name);
  if (row == error_table().end()) fields.refuse("name", "is no error's name");
  else error.name = static_cast<ErrorName>(row - error_table().begin());
  error.detail = fields.text("detail", MAX_TEXT_BYTES);
  fields.each("context", MAX_CONTEXT_LINES, [&](const json& line) {
    if (!line.is_string() || line.get_ref<const std::string&>().size() > MAX_TEXT_BYTES) return false;
    error.context.push_back(line.get<std::string>());
    return true;
  });
  return error;
}

// One pair of functions for each message: what it says as JSON, and what JSON must say to be it.

json to_json(const Welcome& m) {
  return {{"type", "welcome"}, {"run", m.run},     {"peer", to_string(m.peer)}, {"name", m.name},     {"manifest", m.manifest},
          {"local", m.local},  {"fresh", m.fresh}, {"shard", m.shard},          {"shards", m.shards}, {"replica", m.replica}};
}
Welcome read_welcome(Fields& f) {
  Welcome welcome{f.text("run", MAX_TEXT_BYTES),
                  f.parsed<PeerId>("peer", parse_peer_id),
                  f.text("name", MAX_TEXT_BYTES),
                  f.text("manifest", MAX_MANIFEST_BYTES),
                  f.text("local", MAX_MANIFEST_BYTES),
                  f.flag("fresh"),
                  f.small_number("shard", 0, MAX_SHARDS - 1),
                  f.small_number("shards", 1, MAX_SHARDS),
                  f.text("replica", MAX_TEXT_BYTES)};
  if (welcome.shard >= welcome.shards) f.refuse("shard", "is not below the count of shards");
  return welcome;
}

json to_json(const Segments& m) {
  return {{"type", "segments"},
          {"elements", m.elements},
          {"capacity_bytes", m.elements * sizeof(float)},
          {"fragments", m.division.count},
          {"pattern", to_string(m.division.pattern)},
          {"spread", m.offsets == Offsets::Spread},
          {"overlap", m.overlap},
          {"mix", m.mix},
          {"eager", m.eager},
          {"decoupled", m.decoupled},
          {"by_throughput", m.by_throughput},
          {"record_bytes", m.record_bytes},
          {"record_every", m.record_every},
          {"record_place", m.record_place},
          {"in_place", m.in_place}};
}
Segments read_segments(Fields& f) {
  const Segments segments{f.number("elements", 1, MODEL_LIMITS.elements),
                          {f.small_number("fragments", 1, MAX_FRAGMENTS), f.parsed<FragmentPattern>("pattern", parse_pattern)},
                          f.flag("spread") ? Offsets::Spread : Offsets::End,
                          f.small_number("overlap", 0, ANY_SMALL_NUMBER),
                          f.positive_real("mix"),
                          f.flag("eager"),
                          f.flag("decoupled"),
                          f.flag("by_throughput"),
                          f.number("record_bytes", 0, ANY_NUMBER),
                          f.small_number("record_every", 0, ANY_SMALL_NUMBER),
                          f.small_number("record_place", 0, RECORDS - 1),
                          f.flag("in_place")};
  const auto capacity_bytes = f.number("capacity_bytes", 0, ANY_NUMBER);
  if (capacity_bytes != segments.elements * sizeof(float)) f.refuse("capacity_bytes", "does not fit the elements");
  return segments;
}

json places_json(const Places& places) {
  auto list = json::array();
  for (const auto& place : places) list.push_back({place.block, place.version.value});
  return list;
}
Places read_places(Fields& f) {
  Places places;
  f.each("places", MAX_FRAGMENTS, [&](const json& item) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_number_unsigned() || !item[1].is_number_unsigned()) return false;
    if (item[0].get<std::uint64_t>() >= std::uint64_t{MAX_FRAGMENTS} * OUTER_REVISIONS) return false;
    places.push_back({item[0].get<std::uint32_t>(), OuterStep{item[1].get<std::uint64_t>()}});
    return true;
  });
  return places;
}

Fragments read_fragments(Fields& f, const char* key) {
  Fragments fragments;
  f.each(key, MAX_FRAGMENTS, [&](const json& item) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() >= MAX_FRAGMENTS) return false;
    const auto fragment = item.get<std::uint32_t>();
    if (!fragments.empty() && fragment <= fragments.back()) return false;
    fragments.push_back(fragment);
    return true;
  });
  return fragments;
}

json share_json(const EvaluationShare& share) { return {{"index", share.index}, {"of", share.of}}; }
EvaluationShare read_share(Fields& f) {
  EvaluationShare share;
  f.object_or_null("evaluate", [&](Fields& inner) {
    share = {inner.small_number("index", 0, MAX_PEERS - 1), inner.small_number("of", 0, MAX_PEERS)};
    if (share.of > 0 && share.index >= share.of) inner.refuse("index", "is not below the count of parts");
  });
  return share;
}

json held_out_json(const std::optional<HeldOut>& held_out) {
  if (!held_out || held_out->tokens == 0 || !std::isfinite(held_out->loss)) return nullptr;
  return {{"loss", held_out->loss}, {"tokens", held_out->tokens}};
}
std::optional<HeldOut> read_held_out(Fields& f) {
  std::optional<HeldOut> held_out;
  f.object_or_null("held_out", [&](Fields& inner) {
    held_out = HeldOut{inner.real_or_null("loss").value_or(NOT_FINITE), inner.number("tokens", 1, ANY_NUMBER)};
  });
  return held_out;
}

json wait_json(const std::optional<double>& wait_s) { return wait_s ? real_or_null(*wait_s) : json(nullptr); }

json totals_json(const Totals& m) {
  return {{"made", m.made},
          {"loss_sum", real_or_null(m.loss_sum)},
          {"tokens", m.tokens},
          {"samples", m.samples},
          {"held_out", held_out_json(m.held_out)},
          {"seconds", m.seconds},
          {"data_wait_s", wait_json(m.data_wait_s)}};
}
Totals read_totals(Fields& f) {
  return {f.small_number("made", 1, ANY_SMALL_NUMBER),
          f.real_or_null("loss_sum").value_or(NOT_FINITE),
          f.number("tokens", 0, ANY_NUMBER),
          f.number("samples", 0, ANY_NUMBER),
          read_held_out(f),
          f.positive_real("seconds"),
          f.real_or_null("data_wait_s")};
}

json resume_json(const std::optional<Resume>& resume) {
  if (!resume) return nullptr;
  return {{"place", resume->place}, {"within", resume->within ? totals_json(*resume->within) : json(nullptr)}};
}
std::optional<Resume> read_resume(Fields& f) {
  std::optional<Resume> resume;
  f.object_or_null("resume", [&](Fields& inner) {
    resume = Resume{inner.small_number("place", 0, RECORDS - 1), {}};
    inner.object_or_null("within", [&](Fields& totals) { resume->within = read_totals(totals); });
  });
  return resume;
}

json to_json(const Recorded& m) { return {{"type", "recorded"}, {"place", m.place}}; }
Recorded read_recorded(Fields& f) { return {f.small_number("place", 0, RECORDS - 1)}; }

json to_json(const Begin& m) {
  const auto& p = m.plan;
  return {{"type", "begin"},
          {"step", p.step.value},
          {"base", p.base.value},
          {"rank", p.rank},
          {"peers", p.peers},
          {"first_sample", p.first_sample},
          {"batch", p.batch},
          {"inner_steps", p.inner_steps},
          {"total_steps", p.total_steps},
          {"evaluate", share_json(p.evaluate)},
          {"state", to_string(m.state)},
          {"places", places_json(m.places)},
          {"record_place", m.record_place},
          {"resume", resume_json(m.resume)},
          {"copied", m.copied},
          {"in_flight", m.in_flight},
          {"published", m.published}};
}
Begin read_begin(Fields& f) {
  Begin begin;
  auto& plan = begin.plan;
  plan.step.value = f.number("step", 1, ANY_NUMBER);
  plan.base.value = f.number("base", 0, ANY_NUMBER);
  plan.peers = f.small_number("peers", 1, MAX_PEERS);
  plan.rank = f.small_number("rank", 0, MAX_PEERS - 1);
  if (plan.rank >= plan.peers) f.refuse("rank", "is not below the count of peers");
  plan.first_sample = f.number("first_sample", 0, ANY_NUMBER);
  plan.batch = f.small_number("batch", 1, ANY_SMALL_NUMBER);
  plan.inner_steps = f.small_number("inner_steps", 1, ANY_SMALL_NUMBER);
  plan.total_steps = f.small_number("total_steps", 1, ANY_SMALL_NUMBER);
  plan.evaluate = read_share(f);
  begin.state = f.parsed<Digest>("state", parse_digest);
  begin.places = read_places(f);
  begin.record_place = f.small_number("record_place", 0, RECORDS - 1);
  begin.resume = read_resume(f);
  begin.copied = f.flag("copied");
  begin.in_flight = read_fragments(f, "in_flight");
  begin.published = read_fragments(f, "published");
  return begin;
}

json to_json(const Publish& m) { return {{"type", "publish"}, {"fragment", m.fragment}, {"version", m.version.value}}; }
Publish read_publish(Fields& f) { return {f.small_number("fragment", 0, MAX_FRAGMENTS - 1), {f.number("version", 1, ANY_NUMBER)}}; }

json to_json(const StepCommitted& m) {
  const auto& c = m.committed;
  return {{"type", "committed"}, {"step", c.step.value},        {"revision", c.revision.value},
          {"peers", c.peers},    {"state", to_string(c.state)}, {"places", places_json(m.places)}};
}
StepCommitted read_committed(Fields& f) {
  return {{{f.number("step", 0, ANY_NUMBER)},
           {f.number("revision", 1, ANY_NUMBER)},
           f.parsed<Digest>("state", parse_digest),
           f.small_number("peers", 1, MAX_PEERS)},
          read_places(f)};
}

json to_json(const Finish& m) {
  return {{"type", "finish"},
          {"evaluate", share_json(m.plan.evaluate)},
          {"sample", m.plan.sample},
          {"step", m.step.value},
          {"revision", m.revision.value},
          {"state", to_string(m.state)},
          {"places", places_json(m.places)}};
}
Finish read_finish(Fields& f) {
  return {{read_share(f), f.flag("sample")},
          {f.number("step", 0, ANY_NUMBER)},
          {f.number("revision", 0, ANY_NUMBER)},
          f.parsed<Digest>("state", parse_digest),
          read_places(f)};
}

json to_json(const Stop& m) { return {{"type", "stop"}, {"error", m.error ? error_json(*m.error) : json(nullptr)}}; }
Stop read_stop(Fields& f) {
  Stop stop;
  f.object_or_null("error", [&](Fields& inner) { stop.error = read_error(inner); });
  return stop;
}

std::optional<DataType> type_of(const json& name) {
  if (!name.is_string()) return std::nullopt;
  for (std::uint8_t type = 0; type < DATA_TYPES; ++type)
    if (to_string(DataType{type}) == name.get_ref<const std::string&>()) return DataType{type};
  return std::nullopt;
}

constexpr std::array<std::pair<Role, std::string_view>, 3> ROLES{
    {{Role::Averaged, "averaged"}, {Role::Private, "private"}, {Role::Copied, "copied"}}};
std::string_view name_of(Role role) { return std::ranges::find(ROLES, role, &std::pair<Role, std::string_view>::first)->second; }
std::optional<Role> role_of(const json& name) {
  for (const auto& [role, text] : ROLES)
    if (name.is_string() && text == name.get_ref<const std::string&>()) return role;
  return std::nullopt;
}

json to_json(const Bind& m) {
  json tensors = json::array();
  for (const auto& [shape, type, role] : m.tensors)
    tensors.push_back({{"name", shape.name}, {"shape", shape.shape}, {"type", to_string(type)}, {"role", name_of(role)}});
  return {{"type", "bind"},
          {"tensors", std::move(tensors)},
          {"last", m.last},
          {"device", clipped_text(m.device, MAX_DEVICE_BYTES)},
          {"shared", m.shared}};
}
Bind read_bind(Fields& f) {
  Bind bind;
  f.each("tensors", MAX_BIND_TENSORS, [&](const json& item) {
    for (const auto* key : {"name", "shape", "type", "role"})
      if (!item.is_object() || !item.contains(key)) return false;
    const auto& name = item["name"];
    const auto& shape = item["shape"];
    const auto type = type_of(item["type"]);
    const auto role = role_of(item["role"]);
    if (!type || !role) return false;
    if (!name.is_string() || !shape.is_array() || shape.size() > MODEL_LIMITS.dimensions) return false;
    if (!std::ranges::all_of(shape, [](const json& extent) {
          return extent.is_number_unsigned() && extent.get<std::uint64_t>() <= MODEL_LIMITS.elements;
        })) {
      return false;
    }
    bind.tensors.push_back({{name.get<std::string>(), shape.get<std::vector<std::int64_t>>()}, *type, *role});
    return count_elements(bind.tensors.back().shape).has_value() && check_type(bind.tensors.back()).has_value();
  });
  bind.last = f.flag("last");
  bind.device = f.text("device", MAX_DEVICE_BYTES);
  bind.shared = f.flag("shared");
  if (bind.shared && !bind.last) f.refuse("shared", "comes with the last tensors");
  return bind;
}

json to_json(const Export& m) { return {{"type", "export"}, {"name", m.name}}; }
Export read_export(Fields& f) {
  Export exported{f.text("name", EXPORT_NAME_BYTES_MAX)};
  if (!is_export_name(exported.name)) f.refuse("name", "is no plain file name, or that of a file of the checkpoint itself");
  return exported;
}

json to_json(const Data& m) {
  return {{"type", "data"},
          {"digest", to_string(m.data.digest)},
          {"summary", clipped_text(m.data.summary, MAX_DATA_SUMMARY_BYTES)},
          {"listing", clipped_text(m.data.listing, MAX_DATA_LISTING_BYTES)}};
}
Data read_data(Fields& f) {
  Data data{
      {f.parsed<Digest>("digest", parse_digest), f.text("summary", MAX_DATA_SUMMARY_BYTES), f.text("listing", MAX_DATA_LISTING_BYTES)}};
  if (!data.data.told()) f.refuse("digest", "is 0");
  return data;
}

json to_json(const Initial&) { return {{"type", "initial"}}; }
Initial read_initial(Fields&) { return {}; }

json to_json(const Inner& m) {
  return {{"type", "inner"},    {"step", m.step.value}, {"inner_steps", m.inner_steps}, {"loss", real_or_null(m.loss)},
          {"tokens", m.tokens}, {"samples", m.samples}};
}
Inner read_inner(Fields& f) {
  return {{f.number("step", 1, ANY_NUMBER)},
          f.small_number("inner_steps", 0, ANY_SMALL_NUMBER),
          f.real_or_null("loss").value_or(NOT_FINITE),
          f.number("tokens", 0, ANY_NUMBER),
          f.number("samples", 0, ANY_NUMBER)};
}

json to_json(const Alive& m) { return {{"type", "alive"}, {"waits_for", clipped_text(m.waits_for, MAX_TEXT_BYTES)}}; }
Alive read_alive(Fields& f) { return {f.text("waits_for", MAX_TEXT_BYTES)}; }

json to_json(const Record& m) { return {{"type", "record"}, {"step", m.step.value}, {"totals", totals_json(m.totals)}}; }
Record read_record(Fields& f) {
  Record record{{f.number("step", 1, ANY_NUMBER)}, {}};
  f.object_or_null("totals", [&](Fields& totals) { record.totals = read_totals(totals); });
  if (record.totals.made == 0) f.refuse("totals", "tell of no inner step");
  return record;
}

json to_json(const Contribute& m) {
  return {{"type", "contribute"},     {"step", m.step.value},         {"weight", m.weight},
          {"samples", m.samples},     {"loss", real_or_null(m.loss)}, {"held_out", held_out_json(m.held_out)},
          {"seconds", m.seconds},     {"diverged_at", m.diverged_at}, {"recorded", m.recorded},
          {"fragments", m.fragments}, {"tokens", m.tokens},           {"data_wait_s", wait_json(m.data_wait_s)}};
}
Contribute read_contribute(Fields& f) {
  return {{f.number("step", 1, ANY_NUMBER)},
          f.number("weight", 0, ANY_NUMBER),
          f.number("samples", 0, ANY_NUMBER),
          f.real_or_null("loss").value_or(NOT_FINITE),
          read_held_out(f),
          f.positive_real("seconds"),
          f.small_number("diverged_at", 0, ANY_SMALL_NUMBER),
          f.flag("recorded"),
          read_fragments(f, "fragments"),
          f.number("tokens", 0, ANY_NUMBER),
          f.real_or_null("data_wait_s")};
}

json to_json(const LeaseUsed& m) { return {{"type", "used"}, {"step", m.step.value}}; }
LeaseUsed read_used(Fields& f) { return {{f.number("step", 1, ANY_NUMBER)}}; }

json to_json(const Final& m) {
  return {{"type", "final"}, {"held_out", held_out_json(m.answer.held_out)}, {"sample", clipped_text(m.answer.sample, MAX_SAMPLE_BYTES)}};
}
Final read_final(Fields& f) { return {{read_held_out(f), f.text("sample", MAX_SAMPLE_BYTES)}}; }

json to_json(const Leave&) { return {{"type", "leave"}}; }
Leave read_leave(Fields&) { return {}; }

json to_json(const Failure& m) {
  json object = error_json(m.error);
  object["type"] = "error";
  return object;
}
Failure read_failure(Fields& f) { return {read_error(f)}; }

template <class Variant>
struct Kind {
  std::string_view type;
  Variant (*read)(Fields&);
};

template <class Variant, std::size_t COUNT>
Result<Variant> decode(std::string_view packet, const Kind<Variant> (&kinds)[COUNT]) {
  static_assert(COUNT == std::variant_size_v<Variant>, "every message has a reader");
  if (packet.size() > MAX_PACKET_BYTES) return fail(ErrorName::TrainerProtocol, "a packet is too long");
  const json object = json::parse(packet, nullptr, false);
  if (!object.is_object()) return fail(ErrorName::TrainerProtocol, "a packet is not a JSON object");
  Fields fields(object);
  if (const auto version = fields.number("v", 0, ANY_NUMBER); !fields.error() && version != VERSION)
    return fail(ErrorName::TrainerProtocol, "the other side speaks version " + std::to_string(version) +
                                                " of the trainer's protocol, and not " + std::to_string(VERSION) +
                                                ": build the trainer against the prime whose agent it serves");
  const auto type = fields.text("type", MAX_TEXT_BYTES);
  if (fields.error()) return fail(*fields.error());
  const auto kind = std::ranges::find(kinds, std::string_view(type), &Kind<Variant>::type);
  if (kind == std::end(kinds)) return fail(ErrorName::TrainerProtocol, "a packet of an unknown type");
  Variant message = kind->read(fields);
  if (fields.error()) return fail(Error(*fields.error()).with_context("reading `" + type + "`"));
  return message;
}

/// What the sender lets through is by construction what the receiver accepts.
template <class Variant>
Result<std::string> encode_checked(const Variant& message, Result<Variant> (*decode_back)(std::string_view)) {
  json object = std::visit([](const auto& m) { return to_json(m); }, message);
  object["v"] = VERSION;
  auto packet = object.dump(-1, ' ', false, json::error_handler_t::replace);
  PRIME_CHECK(decode_back(packet));
  return packet;
}

}  // namespace

Result<ToTrainer> decode_to_trainer(std::string_view packet) {
  static constexpr Kind<ToTrainer> KINDS[] = {
      {"welcome", [](Fields& f) -> ToTrainer { return read_welcome(f); }},
      {"segments", [](Fields& f) -> ToTrainer { return read_segments(f); }},
      {"begin", [](Fields& f) -> ToTrainer { return read_begin(f); }},
      {"recorded", [](Fields& f) -> ToTrainer { return read_recorded(f); }},
      {"publish", [](Fields& f) -> ToTrainer { return read_publish(f); }},
      {"committed", [](Fields& f) -> ToTrainer { return read_committed(f); }},
      {"finish", [](Fields& f) -> ToTrainer { return read_finish(f); }},
      {"stop", [](Fields& f) -> ToTrainer { return read_stop(f); }},
  };
  return decode(packet, KINDS);
}

Result<ToAgent> decode_to_agent(std::string_view packet) {
  static constexpr Kind<ToAgent> KINDS[] = {
      {"bind", [](Fields& f) -> ToAgent { return read_bind(f); }},
      {"export", [](Fields& f) -> ToAgent { return read_export(f); }},
      {"data", [](Fields& f) -> ToAgent { return read_data(f); }},
      {"initial", [](Fields& f) -> ToAgent { return read_initial(f); }},
      {"inner", [](Fields& f) -> ToAgent { return read_inner(f); }},
      {"alive", [](Fields& f) -> ToAgent { return read_alive(f); }},
      {"record", [](Fields& f) -> ToAgent { return read_record(f); }},
      {"contribute", [](Fields& f) -> ToAgent { return read_contribute(f); }},
      {"used", [](Fields& f) -> ToAgent { return read_used(f); }},
      {"final", [](Fields& f) -> ToAgent { return read_final(f); }},
      {"leave", [](Fields& f) -> ToAgent { return read_leave(f); }},
      {"error", [](Fields& f) -> ToAgent { return read_failure(f); }},
  };
  return decode(packet, KINDS);
}

Result<std::string> encode(const ToTrainer& message) { return encode_checked(message, &decode_to_trainer); }
Result<std::string> encode(const ToAgent& message) { return encode_checked(message, &decode_to_agent); }

std::size_t descriptor_count(const ToTrainer& message) {
  const auto* segments = std::get_if<Segments>(&message);
  if (segments == nullptr) return 0;
  return segments->record_bytes > 0 ? 3 : 2;
}
std::size_t descriptor_count(const ToAgent& message) {
  const auto* bind = std::get_if<Bind>(&message);
  return std::holds_alternative<Export>(message) || (bind != nullptr && bind->shared) ? 1 : 0;
}

std::uint64_t block_size(const Layout& layout) {
  constexpr std::uint64_t PAGE = 4096 / sizeof(float);
  return (layout.largest_fragment() + PAGE - 1) / PAGE * PAGE;
}
std::uint32_t block_count(const Layout& layout) { return layout.fragments() * OUTER_REVISIONS; }
std::uint64_t outer_elements(const Layout& layout) { return block_size(layout) * block_count(layout); }

}  // namespace prime::wire
