#include "runtime/simulation/scenario_keys.hpp"

#include <algorithm>
#include <charconv>

#include "runtime/manifest/text_rules.hpp"
#include "runtime/simulation/probes.hpp"
#include "runtime/simulation/simulate.hpp"

namespace prime::sim {
namespace {

using manifest::Node;

constexpr std::uint64_t MANY = 100'000;
constexpr std::size_t MAX_TEXTS = 64;
constexpr auto LONGEST = std::chrono::hours{24};

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty() ? std::optional{number} : std::nullopt;
}

/// "A..B", or one value that is both ends.
template <class T, class Parse>
std::optional<Range<T>> parse_range(std::string_view text, Parse parse) {
  const auto dots = text.find("..");
  const std::optional<T> low = parse(text.substr(0, dots));
  const std::optional<T> high = dots == std::string_view::npos ? low : parse(text.substr(dots + 2));
  if (!low || !high || *low > *high) return std::nullopt;
  return Range<T>{*low, *high};
}

std::string json_list(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "\"" : ", \"") + word + "\"";
  return "[" + text + "]";
}

/// `at` gives the place in the target for a Range, or for an optional one.
template <class Target, class Access>
Key<Target> counts(std::string path, std::string meaning, std::uint64_t least, std::uint64_t most, std::string example, Access at) {
  return {.path = std::move(path),
          .meaning = std::move(meaning),
          .expected = "an integer from " + std::to_string(least) + " to " + std::to_string(most) + ", or a range of them such as `2..8`",
          .example = std::move(example),
          .schema = R"({"type": ["integer", "string"], "minimum": )" + std::to_string(least) + R"(, "maximum": )" + std::to_string(most) +
                    R"(, "pattern": "^[0-9]+\\.\\.[0-9]+$"})",
          .read = [=](const Node& node, Target& target) {
            const auto range = parse_range<std::uint64_t>(node.text, parse_count);
            if (node.quoted || !range || range->low < least || range->high > most) return false;
            at(target) = *range;
            return true;
          }};
}

template <class Target, class Access>
Key<Target> times(std::string path, std::string meaning, std::string example, Access at) {
  return {.path = std::move(path),
          .meaning = std::move(meaning),
          .expected = "a duration of at most 24h in whole units (ms, s, min, h), or a range of them such as `500ms..4s`",
          .example = std::move(example),
          .schema = R"({"type": "string", "pattern": "^[0-9]+(ms|s|min|h)(\\.\\.[0-9]+(ms|s|min|h))?$"})",
          .read = [=](const Node& node, Target& target) {
            const auto range = parse_range<Duration>(node.text, parse_duration);
            if (!range || range->high > LONGEST) return false;
            at(target) = *range;
            return true;
          }};
}

template <class Access>
Key<ScenarioFile> flag(std::string path, std::string meaning, Access at) {
  return {.path = std::move(path),
          .meaning = std::move(meaning),
          .expected = "`true` or `false`",
          .example = "true",
          .schema = R"({"type": "boolean"})",
          .read = [=](const Node& node, ScenarioFile& file) {
            if (node.quoted || (node.text != "true" && node.text != "false")) return false;
            at(file) = node.text == "true";
            return true;
          }};
}

Key<ScenarioFile> correlated_loss() {
  const std::vector<std::string> words{"continue", "pause", "rollback"};  // in the order of LossPolicy
  return {.path = "membership.correlated_loss",
          .meaning = "what follows the loss of a third at once, as in a manifest [continue]",
          .expected = listed(words),
          .example = "pause",
          .schema = R"({"enum": )" + json_list(words) + "}",
          .words = words,
          .read = [=](const Node& node, ScenarioFile& file) {
            const auto found = std::find(words.begin(), words.end(), node.text);
            if (found == words.end()) return false;
            file.on_correlated_loss = static_cast<coordinator::LossPolicy>(found - words.begin());
            return true;
          }};
}

Key<ScenarioFile> section(std::string path, std::string meaning) {
  return {.path = std::move(path),
          .meaning = std::move(meaning),
          .kind = Node::Kind::Map,
          .expected = "a map",
          .example = "{}",
          .schema = "{}",
          .read = [](const Node&, ScenarioFile&) { return true; }};
}

Key<ScenarioFile> percentage(std::string path, std::string meaning) {
  return {.path = std::move(path),
          .meaning = std::move(meaning),
          .expected = "a whole percentage from 0% to 100%",
          .example = "2%",
          .schema = R"({"type": "string", "pattern": "^[0-9]+%$"})",
          .read = [](const Node& node, ScenarioFile& file) {
            std::string_view text = node.text;
            if (!text.ends_with('%')) return false;
            text.remove_suffix(1);
            const auto number = parse_count(text);
            if (!number || *number > 100) return false;
            file.slow_messages = static_cast<double>(*number);
            return true;
          }};
}

template <class Access>
Key<ScenarioFile> texts(std::string path, std::string meaning, std::string expected, std::string example, std::vector<std::string> words,
                        Access at) {
  const auto item = words.empty() ? std::string{R"({"type": "string"})"} : R"({"enum": )" + json_list(words) + "}";
  return {.path = std::move(path),
          .meaning = std::move(meaning),
          .kind = Node::Kind::List,
          .expected = std::move(expected),
          .example = std::move(example),
          .schema = R"({"type": "array", "items": )" + item + R"(, "maxItems": )" + std::to_string(MAX_TEXTS) + "}",
          .words = words,
          .read = [=](const Node& node, ScenarioFile& file) {
            if (node.items.size() > MAX_TEXTS) return false;
            std::vector<std::string> result;
            for (const auto& text : node.items) {
              if (text.kind != Node::Kind::Scalar || text.text.empty()) return false;
              if (!words.empty() && std::find(words.begin(), words.end(), text.text) == words.end()) return false;
              result.push_back(text.text);
            }
            at(file) = std::move(result);
            return true;
          }};
}

std::vector<std::string> end_words() {
  std::vector<std::string> words{std::string{END_DONE}, std::string{END_COORDINATOR_KILLED}};
  for (const auto& row : error_table()) words.emplace_back(row.name);
  return words;
}

void add_head(std::vector<Key<ScenarioFile>>& t) {
  const auto version = std::to_string(SCENARIO_VERSION);
  t.push_back({.path = "version",
               .meaning = "version of the scenario format",
               .expected = version,
               .example = version,
               .schema = R"({"const": )" + version + "}",
               .read = [=](const Node& node, ScenarioFile&) { return !node.quoted && node.text == version; },
               .required = true});
  t.push_back({.path = "scenario",
               .meaning = "name of the scenario",
               .expected = std::string{manifest::RUN_RULE.expected},
               .example = "churn",
               .schema = R"({"type": "string", "pattern": "^[a-z0-9-]{1,40}$"})",
               .read =
                   [](const Node& node, ScenarioFile& file) {
                     file.name = node.text;
                     return manifest::is_run_name(node.text);
                   },
               .required = true});
  t.push_back(flag(
      "random", "everything but the keys beside this one is drawn from the seed", [](auto& f) -> auto& { return f.random; }));
  t.push_back(counts<ScenarioFile>(
      "peers", "how many arrive at the start; `--peers` overrides it [3]", 1, SIMULATED_PEERS_MAX, "3",
      [](auto& f) -> auto& { return f.peers; }));
  t.push_back(counts<ScenarioFile>(
      "outer_steps", "the whole run [10]", 1, MANY, "10", [](auto& f) -> auto& { return f.outer_steps; }));
}

void add_rules(std::vector<Key<ScenarioFile>>& t) {
  t.push_back(section("membership", "who may take part"));
  t.push_back(counts<ScenarioFile>(
      "membership.minimum", "contributors that an outer step needs [2, or 1 for a single peer]", 1, SIMULATED_PEERS_MAX, "2",
      [](auto& f) -> auto& { return f.minimum; }));
  t.push_back(counts<ScenarioFile>(
      "membership.quorum", "peers that begin the first outer step together [all of the start]", 1, SIMULATED_PEERS_MAX, "2",
      [](auto& f) -> auto& { return f.quorum; }));
  t.push_back(counts<ScenarioFile>(
      "membership.maximum", "members at once [all of the start, and all who join]", 1, SIMULATED_PEERS_MAX, "8",
      [](auto& f) -> auto& { return f.maximum; }));
  t.push_back(counts<ScenarioFile>(
      "membership.shards", "peers that make one replica, which all other numbers of peers here count [1]", 1, MAX_SHARDS, "2",
      [](auto& f) -> auto& { return f.shards; }));
  t.push_back(flag(
      "membership.stop_when_alone", "too few peers end the run at once [false]", [](auto& f) -> auto& { return f.stop_when_alone; }));
  t.push_back(correlated_loss());
  t.push_back(section("checkpoint", "what the run can be rolled back to"));
  t.push_back(counts<ScenarioFile>(
      "checkpoint.every", "outer steps between two; 0: none [0]", 0, MANY, "5", [](auto& f) -> auto& { return f.checkpoint_every; }));
  t.push_back(section("sync", "when an outer step closes"));
  t.push_back(counts<ScenarioFile>(
      "sync.quorum", "contributions that close it, as in a manifest; 0: those of all [0]", 0, SIMULATED_PEERS_MAX, "3",
      [](auto& f) -> auto& { return f.step_quorum; }));
  t.push_back(counts<ScenarioFile>(
      "sync.fragments", "parts of the state, each of which is reduced and committed by itself [1]", 1, FRAGMENTS_MAX, "2",
      [](auto& f) -> auto& { return f.fragments; }));
  t.push_back(counts<ScenarioFile>(
      "sync.in_flight", "parts that are reduced at once, at most [1]", 1, FRAGMENTS_MAX, "2",
      [](auto& f) -> auto& { return f.in_flight; }));
  t.push_back(counts<ScenarioFile>(
      "sync.overlap", "outer steps that are reduced while the next one is trained, as by `algorithm: delayed` of a manifest [0]", 0, 1, "1",
      [](auto& f) -> auto& { return f.overlap; }));
  t.push_back(counts<ScenarioFile>(
      "sync.streams",
      "fragments are published in turn, and a trainer goes on until so many are published whose commit it has not heard of, beside the "
      "last; "
      "absent: all are published at the end of an outer step",
      0, FRAGMENTS_MAX - 1, "1", [](auto& f) -> auto& { return f.streams; }));
  t.push_back(flag(
      "sync.decoupled",
      "nobody waits: whoever is due first opens a round of its fragment, as by `algorithm: decoupled` of a manifest [false]",
      [](auto& f) -> auto& { return f.decoupled; }));
  t.push_back(times<ScenarioFile>(
      "sync.grace", "for the others, once the quorum is there [0s]", "500ms", [](auto& f) -> auto& { return f.grace; }));
  t.push_back(section("limits", "how long is waited"));
  t.push_back(times<ScenarioFile>(
      "limits.dead_after", "silence that counts as death [10s]", "10s", [](auto& f) -> auto& { return f.dead_after; }));
  t.push_back(times<ScenarioFile>(
      "limits.deadline", "of a reduce or fetch of which nothing moves, and of the slowest behind the first [20s]", "20s",
      [](auto& f) -> auto& { return f.deadline; }));
  t.push_back(times<ScenarioFile>(
      "limits.wait", "for peers, before the run fails [40s]", "40s", [](auto& f) -> auto& { return f.wait_limit; }));
  t.push_back(times<ScenarioFile>(
      "limits.evaluate", "of the final evaluation, once the final state is saved [30s]", "30s",
      [](auto& f) -> auto& { return f.evaluate_limit; }));
  t.push_back(times<ScenarioFile>(
      "limits.doubt_after", "silence after which a peer that voted asks [5s]", "5s", [](auto& f) -> auto& { return f.doubt_after; }));
}

void add_world(std::vector<Key<ScenarioFile>>& t) {
  t.push_back(section("network", "how messages travel"));
  t.push_back(times<ScenarioFile>(
      "network.delay", "of each message [half below 5 ms, half below 200 ms]", "1ms..200ms", [](auto& f) -> auto& { return f.delay; }));
  t.push_back(percentage("network.slow_messages", "share that takes from 500ms up to `slowest` [0%]"));
  t.push_back(times<ScenarioFile>(
      "network.slowest", "of the slow messages [4s]", "4s", [](auto& f) -> auto& { return f.slowest; }));
  t.push_back(flag(
      "network.broken_link", "the first two peers never reach each other's lanes [false]", [](auto& f) -> auto& { return f.broken_link; }));
  t.push_back(flag(
      "network.uneven_links",
      "a link carries 0.1 to 100 MB/s or nothing, drawn anew every two minutes; the ring follows, as with `topology.ring: "
      "measured_bandwidth` in a manifest [false]",
      [](auto& f) -> auto& { return f.uneven_links; }));
  t.push_back(times<ScenarioFile>(
      "clock_skew", "how far each machine's clock is ahead or behind at most; then it runs up to 200 ppm too fast or too slow as well [0s]",
      "1h", [](auto& f) -> auto& { return f.clock_skew; }));
  t.push_back(section("timing", "drawn anew for each peer"));
  t.push_back(times<ScenarioFile>(
      "timing.arrive", "of those of the start [0s]", "0s..6s", [](auto& f) -> auto& { return f.arrive; }));
  t.push_back(times<ScenarioFile>(
      "timing.bind", "start of a trainer [500ms]", "100ms..3s", [](auto& f) -> auto& { return f.bind; }));
  t.push_back(times<ScenarioFile>(
      "timing.train", "inner steps of one outer step, on average [1s]", "300ms..3s", [](auto& f) -> auto& { return f.train; }));
  t.push_back(times<ScenarioFile>(
      "timing.fetch", "state fetch at most, at least half of it [300ms]", "20ms..1s", [](auto& f) -> auto& { return f.fetch; }));
  t.push_back(times<ScenarioFile>(
      "timing.reduce", "each one's part of a reduce [5ms..500ms, and of one in ten 1s..5s]", "100ms..400ms",
      [](auto& f) -> auto& { return f.reduce; }));
  t.push_back(counts<ScenarioFile>(
      "timing.slower", "the first peer trains so many times as long [1]", 1, 1000, "4", [](auto& f) -> auto& { return f.slower; }));
  t.push_back(flag(
      "same_start", "all trainers are born with equal values [true]", [](auto& f) -> auto& { return f.same_start; }));
}

void add_faults_and_claims(std::vector<Key<ScenarioFile>>& t) {
  t.push_back({.path = "faults",
               .meaning = "what goes wrong, and who comes and goes",
               .kind = Node::Kind::List,
               .expected = "a list of at most " + std::to_string(MAX_TEXTS) + " maps",
               .example = "[{kind: kill, at: 10s}]",
               .schema = "{}",
               .read = [](const Node& node, ScenarioFile&) { return node.items.size() <= MAX_TEXTS; }});
  t.push_back(texts(
      "ends",
      "how a run may end: done, coordinator_killed, or an error's name; one that ends otherwise, with no fewer peers, has failed [any]",
      "a list of `" + std::string{END_DONE} + "`, `" + std::string{END_COORDINATOR_KILLED} + "` and names of errors", "[done]", end_words(),
      [](auto& f) -> auto& { return f.ends; }));
  auto reaches = texts(
      "reaches", "branches that a few seeds together must take; `primectl simulate -o json` lists those that were (`probes_hit`)",
      "a list of names of probes, such as `fault kill`", "[fault kill]", probe_names(), [](auto& f) -> auto& { return f.reaches; });
  reaches.schema = probe_schema();
  t.push_back(std::move(reaches));
}

std::vector<std::string> kind_words() {
  std::vector<std::string> words;
  for (std::uint8_t kind = 0; kind < FAULT_KINDS; ++kind) words.push_back(word_of(static_cast<FaultKind>(kind)));
  return words;
}

/// Nobody enters the first phase: it is where a peer begins.
constexpr auto FIRST_PHASE = peer::Phase::Seating;

std::vector<std::string> phase_words() {
  std::vector<std::string> words;
  for (auto phase = FIRST_PHASE; phase != peer::Phase::Over; phase = static_cast<peer::Phase>(static_cast<int>(phase) + 1))
    words.emplace_back(to_string(phase));
  return words;
}

std::vector<Key<FaultPlan>> build_faults() {
  std::vector<Key<FaultPlan>> t;
  const auto kinds = kind_words();
  const auto phases = phase_words();
  t.push_back({.path = "kind",
               .meaning = "what happens to a peer that is drawn, or to the run",
               .expected = "one of " + listed(kinds),
               .example = "kill",
               .schema = R"({"enum": )" + json_list(kinds) + "}",
               .words = kinds,
               .read =
                   [=](const Node& node, FaultPlan& plan) {
                     const auto found = std::find(kinds.begin(), kinds.end(), node.text);
                     if (found == kinds.end()) return false;
                     plan.kind = static_cast<FaultKind>(found - kinds.begin());
                     return true;
                   },
               .required = true});
  t.push_back(counts<FaultPlan>(
      "count", "how many of them [1]", 0, 1000, "1..3", [](auto& p) -> auto& { return p.count; }));
  t.push_back(times<FaultPlan>(
      "at", "time since the start", "5s..40s", [](auto& p) -> auto& { return p.at; }));
  t.push_back(counts<FaultPlan>(
      "at_event", "how many events of the run come before it; ticks of clocks do not count", 0, 1'000'000'000, "100..900",
      [](auto& p) -> auto& { return p.at_event; }));
  t.push_back({.path = "at_phase",
               .meaning = "when a peer enters this phase, or one of several, of which one is drawn; most often it strikes this peer",
               .kind = Node::Kind::List,
               .expected = "a list of phases: " + listed(phases),
               .example = "[reducing, voted]",
               .schema = R"({"type": "array", "minItems": 1, "items": {"enum": )" + json_list(phases) + "}}",
               .words = phases,
               .read = [=](const Node& node, FaultPlan& plan) {
                 for (const auto& item : node.items) {
                   const auto found = std::find(phases.begin(), phases.end(), item.text);
                   if (found == phases.end()) return false;
                   plan.at_phase.push_back(static_cast<peer::Phase>(static_cast<int>(FIRST_PHASE) + (found - phases.begin())));
                 }
                 return !plan.at_phase.empty();
               }});
  t.push_back(counts<FaultPlan>(
      "occurrence", "which entry into the phase, of all peers together [1]", 1, 1'000'000, "1..20",
      [](auto& p) -> auto& { return p.occurrence; }));
  t.push_back(times<FaultPlan>(
      "hold", "how long a pause or another fault that passes lasts; absent: for ever", "500ms..15s",
      [](auto& p) -> auto& { return p.hold; }));
  return t;
}

}  // namespace

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "`" : i + 1 == words.size() ? " or `" : ", `") + words[i] + "`";
  return text;
}

std::string word_of(FaultKind kind) {
  std::string word{to_string(kind)};
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

const std::vector<Key<ScenarioFile>>& scenario_keys() {
  static const auto table = [] {
    std::vector<Key<ScenarioFile>> t;
    add_head(t);
    add_rules(t);
    add_world(t);
    add_faults_and_claims(t);
    return t;
  }();
  return table;
}

const std::vector<Key<FaultPlan>>& fault_keys() {
  static const auto table = build_faults();
  return table;
}

}  // namespace prime::sim
