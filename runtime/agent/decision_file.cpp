#include "runtime/agent/decision_file.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include "runtime/clock.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/telemetry/event_json.hpp"

namespace prime {
namespace {

using nlohmann::json;

/// For a descriptor.
constexpr Duration LOOK_FOR_ONE_EVERY = 250ms;
constexpr const char* SCHEMA = "prime.decisions/8";
/// Far above what MAX_PEERS members take.
constexpr std::size_t TEXT_BYTES_MAX = 16 * MIB;

json to_json(const Error& error) { return {{"name", info(error.name).name}, {"detail", error.detail}, {"context", error.context}}; }

json to_json(const OperationId& op) { return {{"epoch", op.epoch.value}, {"sequence", op.sequence.value}, {"tag", op.tag.value}}; }

/// A figure that no JSON number can be is one by its bits: what is written again is what was.
json to_json(const JournalEvent& event) {
  const auto told = telemetry::fields_of(event);
  json fields = json::array();
  for (const auto& [key, value] : told.items()) {
    const double real = value.is_null() ? std::nan("") : value.is_number_float() ? value.get<double>() : 0;
    if (value.is_null() || value.is_number_float()) fields.push_back({key, "real", std::bit_cast<std::uint64_t>(real)});
    else fields.push_back({key, "plain", value});
  }
  return {{"event", info(event).name}, {"fields", std::move(fields)}};
}

Error error_of(const json& object) {
  Error error{find_error(object.at("name").get<std::string>()).value_or(ErrorName::InternalError), object.at("detail").get<std::string>()};
  error.context = object.at("context").get<std::vector<std::string>>();
  return error;
}

OperationId operation_of(const json& object) {
  return {Epoch{object.at("epoch").get<std::uint64_t>()}, Sequence{object.at("sequence").get<std::uint64_t>()},
          Tag{object.at("tag").get<std::uint64_t>()}};
}

Digest digest_of(const json& text) { return parse_digest(text.get<std::string>()).value(); }

JournalEvent line_of(const json& object) {
  auto fields = json::object();
  for (const auto& field : object.at("fields")) {
    const auto& value = field.at(2);
    const auto real = field.at(1) == "real" ? std::optional{std::bit_cast<double>(value.get<std::uint64_t>())} : std::nullopt;
    fields[field.at(0).get<std::string>()] = !real ? value : std::isfinite(*real) ? json(*real) : json();
  }
  return telemetry::read_event(JournalWriter::Coordinator, object.at("event").get<std::string>(), fields).value().value();
}

template <class Value, class Read>
std::optional<Value> optional_of(const json& value, Read read) {
  return value.is_null() ? std::nullopt : std::optional<Value>{read(value)};
}

json to_json(const Addresses& addresses) {
  auto list = json::array();
  for (const auto& each : addresses.list) list.push_back({{"host", each.host}, {"port", each.port}});
  return list;
}

Addresses addresses_of(const json& list) {
  Addresses addresses;
  for (const auto& each : list) addresses.list.push_back({each.at("host").get<std::string>(), each.at("port").get<std::uint16_t>()});
  return addresses;
}

json to_json(const Member& member) {
  return {{"peer", member.id.value}, {"name", member.name}, {"lanes", to_json(member.lanes)}, {"ordinal", member.ordinal}};
}

Member member_of(const json& object) {
  return {PeerId{object.at("peer").get<std::uint64_t>()}, object.at("name").get<std::string>(), addresses_of(object.at("lanes")),
          object.at("ordinal").get<std::uint64_t>()};
}

json to_json(const coordinator::Snapshot::Owed& owed) {
  return {{"fragments", owed.fragments},
          {"begun", owed.begun.value},
          {"base", owed.base.value},
          {"first_sample", owed.first_sample},
          {"taken", owed.taken}};
}

coordinator::Snapshot::Owed owed_of(const json& object) {
  return {object.at("fragments").get<std::vector<std::uint32_t>>(), OuterStep{object.at("begun").get<std::uint64_t>()},
          Revision{object.at("base").get<std::uint64_t>()}, object.at("first_sample").get<std::uint64_t>(), object.at("taken").get<bool>()};
}

json to_json(const coordinator::Lease& lease) {
  return {{"step", lease.step.value}, {"first_sample", lease.first_sample}, {"taken", lease.taken}};
}

coordinator::Lease lease_of(const json& object) {
  return {OuterStep{object.at("step").get<std::uint64_t>()}, object.at("first_sample").get<std::uint64_t>(),
          object.at("taken").get<bool>()};
}

json kept_json(const coordinator::Snapshot::Kept& kept) {
  auto leases = json::array();
  for (const auto& lease : kept.leases) leases.push_back(to_json(lease));
  return {{"member", to_json(kept.member)},
          {"pid", kept.pid},
          {"trainer_pid", kept.trainer_pid},
          {"owed", to_json(kept.owed)},
          {"closed", to_json(kept.closed)},
          {"leases", std::move(leases)},
          {"shard", kept.shard},
          {"replica", kept.replica}};
}

coordinator::Snapshot::Kept kept_of(const json& object) {
  coordinator::Snapshot::Kept kept;
  kept.member = member_of(object.at("member"));
  kept.pid = object.at("pid").get<std::uint32_t>();
  kept.trainer_pid = object.at("trainer_pid").get<std::uint32_t>();
  kept.owed = owed_of(object.at("owed"));
  kept.closed = owed_of(object.at("closed"));
  for (const auto& lease : object.at("leases")) kept.leases.push_back(lease_of(lease));
  kept.shard = object.at("shard").get<std::uint32_t>();
  kept.replica = object.at("replica").get<std::string>();
  return kept;
}

json to_json(const std::vector<Digest>& digests) {
  auto list = json::array();
  for (const auto& digest : digests) list.push_back(to_string(digest));
  return list;
}

std::vector<Digest> digests_of(const json& list) {
  std::vector<Digest> digests;
  for (const auto& digest : list) digests.push_back(digest_of(digest));
  return digests;
}

json to_json(const membership::Shard& shard) {
  return {{"layout", shard.layout ? json(to_string(*shard.layout)) : json{}},
          {"elements", shard.elements},
          {"digest", shard.state ? json(to_string(*shard.state)) : json{}},
          {"parts", to_json(shard.parts)}};
}

membership::Shard shard_of(const json& object) {
  return {optional_of<Digest>(object.at("layout"), digest_of), object.at("elements").get<std::uint64_t>(),
          optional_of<Digest>(object.at("digest"), digest_of), digests_of(object.at("parts"))};
}

coordinator::Origin origin_of(const json& object) {
  coordinator::Origin origin{Revision{object.at("revision").get<std::uint64_t>()}, OuterStep{object.at("outer_step").get<std::uint64_t>()},
                             digest_of(object.at("digest")), object.at("next_sample").get<std::uint64_t>(),
                             object.at("tokens").get<std::uint64_t>()};
  origin.given_back = object.at("given_back").get<std::set<std::uint64_t>>();
  origin.shards = digests_of(object.at("shards"));
  return origin;
}

json to_json(const coordinator::Origin& origin) {
  return {{"revision", origin.revision.value}, {"outer_step", origin.step.value}, {"digest", to_string(origin.state)},
          {"next_sample", origin.next_sample}, {"tokens", origin.tokens},         {"given_back", origin.given_back},
          {"shards", to_json(origin.shards)}};
}

coordinator::Decided decided_of(const json& object) {
  coordinator::Decided decided{
      Commit{operation_of(object.at("operation")), OuterStep{object.at("outer_step").get<std::uint64_t>()},
             Revision{object.at("revision").get<std::uint64_t>()}, digest_of(object.at("digest")),
             object.at("fragment").get<std::uint32_t>(), digest_of(object.at("part")), object.at("completes").get<bool>(),
             object.at("given_back").get<std::vector<std::uint64_t>>(), object.at("tokens").get<std::uint64_t>()},
      {}};
  for (const auto& line : object.at("lines")) decided.lines.push_back(line_of(line));
  for (const auto& held : object.at("shards")) decided.shards.push_back({digest_of(held.at("digest")), digest_of(held.at("part"))});
  return decided;
}

json to_json(const coordinator::Decided& decided) {
  const auto& commit = decided.commit;
  auto lines = json::array();
  for (const auto& line : decided.lines) lines.push_back(to_json(line));
  auto shards = json::array();
  for (const auto& held : decided.shards) shards.push_back({{"digest", to_string(held.state)}, {"part", to_string(held.part)}});
  return {{"operation", to_json(commit.op)},   {"outer_step", commit.step.value}, {"revision", commit.revision.value},
          {"digest", to_string(commit.state)}, {"fragment", commit.fragment},     {"part", to_string(commit.part)},
          {"completes", commit.completes},     {"given_back", commit.given_back}, {"tokens", commit.tokens},
          {"lines", std::move(lines)},         {"shards", std::move(shards)}};
}

coordinator::Snapshot snapshot_of(const json& object) {
  const auto count = [&](const char* key) { return object.at(key).get<std::uint64_t>(); };
  coordinator::Snapshot snapshot;
  snapshot.epoch = Epoch{count("epoch")};
  for (const auto& member : object.at("members")) snapshot.members.push_back(kept_of(member));
  snapshot.next_ordinal = count("next_ordinal");
  snapshot.phase =
      static_cast<coordinator::Phase>(std::min<std::uint64_t>(count("phase"), static_cast<std::uint64_t>(coordinator::Phase::Over)));
  snapshot.paused_for =
      optional_of<std::uint32_t>(object.value("paused_for", json{}), [](const json& count) { return count.get<std::uint32_t>(); });
  snapshot.paused_by_owner = object.value("paused_by_owner", false);
  snapshot.checkpoint = optional_of<coordinator::Origin>(object.value("checkpoint", json{}), origin_of);
  snapshot.restoring = object.value("restoring", false);
  snapshot.end_cause = optional_of<Error>(object.at("end_cause"), error_of);
  snapshot.finalist = optional_of<PeerId>(object.at("finalist"), [](const json& id) { return PeerId{id.get<std::uint64_t>()}; });
  if (object.contains("data")) {
    const auto& data = object["data"];
    snapshot.data = {digest_of(data.at("digest")), data.at("summary").get<std::string>(), data.value("listing", std::string{})};
  }
  snapshot.digest = optional_of<Digest>(object.at("digest"), digest_of);
  snapshot.revision = Revision{count("revision")};
  for (const auto& version : object.at("versions")) snapshot.versions.emplace_back(version.get<std::uint64_t>());
  for (const auto& shard : object.at("shards")) snapshot.shards.push_back(shard_of(shard));
  snapshot.cursor = count("next_sample");
  snapshot.given_back = object.at("given_back").get<std::set<std::uint64_t>>();
  snapshot.unused = object.at("unused").get<std::vector<std::uint64_t>>();
  snapshot.step_begun = object.at("step_begun").get<bool>();
  snapshot.step_span = count("step_span");
  snapshot.closed_span = count("closed_span");
  snapshot.tokens = count("tokens");
  snapshot.sequence = Sequence{count("sequence")};
  snapshot.operation = operation_of(object.at("operation"));
  for (const auto& decided : object.at("commits")) snapshot.commits.push_back(decided_of(decided));
  for (const auto& kept : snapshot.members) (void)snapshot.shards.at(kept.shard);  // throws, as do the others where something is not there
  return snapshot;
}

}  // namespace

std::string format_snapshot(const coordinator::Snapshot& s) {
  json members = json::array();
  for (const auto& kept : s.members) members.push_back(kept_json(kept));
  auto shards = json::array();
  for (const auto& shard : s.shards) shards.push_back(to_json(shard));
  auto commits = json::array();
  for (const auto& decided : s.commits) commits.push_back(to_json(decided));
  auto versions = json::array();
  for (const auto version : s.versions) versions.push_back(version.value);
  const json object{{"schema", SCHEMA},
                    {"epoch", s.epoch.value},
                    {"members", std::move(members)},
                    {"next_ordinal", s.next_ordinal},
                    {"phase", static_cast<std::uint64_t>(s.phase)},
                    {"paused_for", s.paused_for ? json(*s.paused_for) : json{}},
                    {"paused_by_owner", s.paused_by_owner},
                    {"checkpoint", s.checkpoint ? to_json(*s.checkpoint) : json{}},
                    {"restoring", s.restoring},
                    {"end_cause", s.end_cause ? to_json(*s.end_cause) : json{}},
                    {"finalist", s.finalist ? json(s.finalist->value) : json{}},
                    {"data", {{"digest", to_string(s.data.digest)}, {"summary", s.data.summary}, {"listing", s.data.listing}}},
                    {"digest", s.digest ? json(to_string(*s.digest)) : json{}},
                    {"revision", s.revision.value},
                    {"versions", std::move(versions)},
                    {"shards", std::move(shards)},
                    {"next_sample", s.cursor},
                    {"given_back", s.given_back},
                    {"unused", s.unused},
                    {"step_begun", s.step_begun},
                    {"step_span", s.step_span},
                    {"closed_span", s.closed_span},
                    {"tokens", s.tokens},
                    {"sequence", s.sequence.value},
                    {"operation", to_json(s.operation)},
                    {"commits", std::move(commits)}};
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<coordinator::Snapshot> parse_snapshot(const std::string& text) try {
  const auto object = json::parse(text);
  if (object.at("schema") != SCHEMA) return std::nullopt;
  return snapshot_of(object);
} catch (const std::exception&) {  // of the JSON library, or of a digest that is none
  return std::nullopt;
}

/// Descriptors come back by themselves, or by whoever raises the limit: until then nothing that is decided is told, as with a slow disk.
void DecisionFile::keep(const coordinator::Snapshot& snapshot) {
  const auto text = format_snapshot(snapshot);
  const auto note = [this](std::string lack) {
    const std::lock_guard lock{mutex_};
    lack_ = std::move(lack);
  };
  auto kept = store::write_file_atomically(path_, text);
  for (const auto until = monotonic_now() + patience_;
       !kept && kept.error().name == ErrorName::MemoryUnavailable && monotonic_now() < until;
       kept = store::write_file_atomically(path_, text)) {
    note(kept.error().detail + " (`prlimit --pid " + std::to_string(::getpid()) + " --nofile=MORE` allows more at once)");
    std::this_thread::sleep_for(LOOK_FOR_ONE_EVERY);
  }
  note({});
  if (!kept) {
    std::fputs(render(kept.error()).c_str(), stderr);
    std::_Exit(info(kept.error().name).exit_code);
  }
}

std::string DecisionFile::place() const {
  const std::lock_guard lock{mutex_};
  return lack_.empty() ? "the disk of " + path_.string() + TAKES_NO_ENTRY : "a file descriptor for the coordinator's ledger: " + lack_;
}

Result<std::optional<coordinator::Snapshot>> DecisionFile::read() const {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return std::nullopt;
  PRIME_TRY(const auto text, store::read_file(path_, TEXT_BYTES_MAX));
  auto snapshot = parse_snapshot(text);
  if (snapshot) return snapshot;
  const auto object = json::parse(text, nullptr, false);
  const auto schema = object.is_object() && object.contains("schema") ? object["schema"] : json{};
  if (schema.is_string() && schema != SCHEMA)
    return fail(ErrorName::StorageFailed, path_.string() + " is of format " + schema.get<std::string>().substr(0, 64) +
                                              ", and this program reads " + SCHEMA + ": let the release that wrote it serve this run");
  return fail(ErrorName::StorageFailed, path_.string() + " is damaged: another copy of it is needed");
}

}  // namespace prime
