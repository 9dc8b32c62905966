// Owns the canonical text: exact round trips for random manifests, and a digest that sees exactly the shared half.
#include "runtime/manifest/canonical.hpp"

#include <random>

#include "runtime/manifest/continuation.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/manifest/values.hpp"
#include "tests/runtime/manifest/support.hpp"

using namespace prime;
using namespace prime::manifest;

namespace {

using Random = std::mt19937_64;

std::uint64_t draw(Random& random, std::uint64_t least, std::uint64_t most) {
  return std::uniform_int_distribution<std::uint64_t>{least, most}(random);
}

/// Any double of the interval, with all its bits, bounds included now and then.
double draw(Random& random, const Interval& range) {
  const auto inside = std::uniform_real_distribution<double>{range.minimum, range.maximum}(random);
  if (draw(random, 0, 3) == 0 && !range.above) return range.minimum;
  return inside > range.minimum ? inside : range.maximum / 2;
}

std::string draw_text(Random& random, const TextRule& rule) {
  static const std::vector<std::string> TEXTS = {
      "a",       "null", "~", "true", "1",  "*",  "a \"b\" \\c", "été/文", "{x: [1]}", "a: b # c",     "127.0.0.1:7",      "[::1]:80",
      "- x",     " x ",  "'", "|",    "&a", "!b", "%c",          "@d",     "`e",       "http://a.b:1", "https://[::1]:80", "auto",
      "cuda:12", "ACGTN"};
  for (;;)
    if (const auto& text = TEXTS[draw(random, 0, TEXTS.size() - 1)]; rule.accepts(text)) return text;
}

/// A slot that differs from `manifest`'s, if the field has a second value at all.
void change(const Field& field, Manifest& manifest, Random& random) {
  auto& data = manifest.shared.data;
  // What has no place of its own needs what it stands in.
  if (field.path.starts_with("data.sources") && data.sources.empty()) data.sources.emplace_back().paths = {"/one", "/two"};
  if (field.path == "data.tokenizer.sentencepiece") data.tokenizer.file.reset();
  else if (field.path.starts_with("data.tokenizer.")) data.tokenizer = {"/t.json", data.tokenizer.end_of_document};
  // And a key of an alternative needs that alternative.
  for (auto path = field.path; !path.empty(); path = parent_path(path)) {
    const auto* parent = find_field(parent_path(path));
    const auto* alternative = parent == nullptr ? nullptr : std::get_if<Alternative>(&parent->type);
    if (alternative == nullptr) continue;
    const auto word = std::ranges::find(alternative->words, last_key(path));
    const auto index = static_cast<std::size_t>(word - alternative->words.begin());
    if (alternative->get(manifest) != index) alternative->set(manifest, index);
  }
  std::visit(
      overloaded{
          [](const Section&) {},
          [](const Sources&) {},
          [&](const WordOrSection& type) { type.set(manifest, draw(random, 0, type.words.size() - 1)); },
          [&](const Integer& type) {
            if (auto* slot = type.slot.write(manifest)) *slot = static_cast<std::uint32_t>(draw(random, type.minimum, type.maximum));
          },
          [&](const Decimal& type) {
            if (auto* slot = type.slot.write(manifest)) *slot = draw(random, type.range);
          },
          [&](const Weights& type) {
            auto& weight = *type.slot.write(manifest);
            weight = draw(random, type.range);
            const auto at = draw(random, 0, type.last_sample - 1);
            if (draw(random, 0, 1) == 0) weight.points = {{at, draw(random, type.range)}, {draw(random, at + 1, type.last_sample), 0.5}};
          },
          [&](const DecimalPair& type) {
            if (auto* slot = type.slot.write(manifest)) *slot = {draw(random, type.range), draw(random, type.range)};
          },
          [&](const Percentage& type) {
            if (auto* slot = type.slot.write(manifest)) *slot = draw(random, type.range);
          },
          [&](const Flag& type) {
            if (auto* slot = type.slot.write(manifest)) *slot = !*slot;
          },
          [&](const Choice& type) { type.set(manifest, draw(random, 0, type.words.size() - 1)); },
          [&](const Alternative& type) { type.set(manifest, draw(random, 0, type.words.size() - 1)); },
          [&](const Text& type) { *type.slot.write(manifest) = draw_text(random, type.rule); },
          [&](const OptionalText& type) { *type.slot.write(manifest) = draw_text(random, type.rule); },
          [&](const TextList& type) {
            *type.slot.write(manifest) = {draw_text(random, type.rule), draw_text(random, type.rule)};
          },
          [&](const ByteCount& type) { *type.slot.write(manifest) = draw(random, type.minimum, type.maximum); },
          [&](const OptionalBitRate& type) { *type.slot.write(manifest) = draw(random, type.minimum / 1000, type.maximum / 1000) * 1000; },
          [&](const TimeSpan& type) {
            *type.slot.write(manifest) = std::chrono::milliseconds{
                draw(random, static_cast<std::uint64_t>(type.minimum / 1ms), static_cast<std::uint64_t>(type.maximum / 1ms))};
          },
          [&](const Peers& type) {
            const auto least = static_cast<std::uint32_t>(draw(random, 1, type.maximum));
            *type.slot.write(manifest) = {least, static_cast<std::uint32_t>(draw(random, least, type.maximum))};
          },
      },
      field.type);
}

Manifest valid(std::string_view text = "version: 1\nrun: x\n") { return parse_manifest(text, "x.yaml").manifest.value(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(canonical_text)

BOOST_AUTO_TEST_CASE(a_random_manifest_comes_back_from_its_text_bit_for_bit) {
  Random random{20240607};
  int whole = 0;
  for (int round = 0; round < 500; ++round) {
    auto manifest = valid();
    // One to four fields at once, so that many of the manifests also meet the rules between keys.
    for (auto count = draw(random, 1, 4); count > 0; --count) change(fields()[draw(random, 0, fields().size() - 1)], manifest, random);
    const auto text = shared_yaml(manifest) + local_yaml(manifest);
    const auto outcome = parse_manifest(text, "x.yaml");
    if (!outcome.manifest) {
      // Only the rules between keys may refuse values that are right each for itself.
      static constexpr std::string_view RULES[] = {"`model.",
                                                   "`data.",
                                                   "`train.evaluate.",
                                                   "`train.optimizer.sgd.nesterov`",
                                                   "dead_after",
                                                   "`sync.quorum`",
                                                   "`sync.grace`",
                                                   "`sync.overlap`",
                                                   "`sync.eager`",
                                                   "`sync.merge`",
                                                   "`sync.weight: ",
                                                   "`sync.wire.",
                                                   "`sync.outer`",
                                                   "`membership.shards`",
                                                   "`membership.correlated_loss",
                                                   "`membership.standby.lease"};
      for (const auto& problem : outcome.problems)
        BOOST_TEST(std::ranges::any_of(RULES, [&](auto rule) { return problem.message.find(rule) != std::string::npos; }), render(outcome));
      continue;
    }
    ++whole;
    BOOST_TEST((*outcome.manifest == manifest), text);
    BOOST_TEST(shared_yaml(*outcome.manifest) + local_yaml(*outcome.manifest) == text);
  }
  BOOST_TEST(whole > 200);
}

BOOST_AUTO_TEST_CASE(the_digest_changes_exactly_with_the_shared_half) {
  Random random{7};
  const auto original = valid();
  const auto digest = run_digest(original);
  for (const auto& field : fields()) {
    for (int round = 0; round < 10; ++round) {
      auto changed = original;
      change(field, changed, random);
      BOOST_TEST_CONTEXT(field.path) { BOOST_TEST((run_digest(changed) == digest) == (changed.shared == original.shared)); }
      if (is_local(field.path)) BOOST_TEST_CONTEXT(field.path) {
          BOOST_TEST((changed.shared == original.shared));
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_goes_on_keeps_what_its_state_depends_on) {
  const auto kept = valid().shared;
  auto wanted = valid("version: 1\nrun: y\ntrain: {outer_steps: 99, schedule: {constant: {}}}\nsync: {inner_steps: 7}\ndata: {seed: 9}\n");
  BOOST_TEST(state_changes(kept, wanted.shared).empty());
  // `ffn` follows `dim` in both; who changes `dim` back has changed it back, too.
  wanted = valid("version: 1\nrun: x\nmodel: {dim: 128, tie_embeddings: true}\n");
  BOOST_TEST(wanted.shared.model.ffn != kept.model.ffn);
  BOOST_TEST((state_changes(kept, wanted.shared) ==
              std::vector<StateChange>{{"model.dim", "96", "128"}, {"model.tie_embeddings", "false", "true"}}));
  wanted = valid("version: 1\nrun: x\nmodel: {ffn: 512}\n");
  BOOST_TEST((state_changes(kept, wanted.shared) == std::vector<StateChange>{{"model.ffn", "256", "512"}}));
  Random random{3};
  for (const auto& field : fields()) {
    auto changed = valid();
    if (field.path.starts_with("model.") && print(field, changed)) {
      while (changed.shared == kept && !std::holds_alternative<Choice>(field.type)) change(field, changed, random);
      BOOST_TEST_CONTEXT(field.path) { BOOST_TEST(state_changes(kept, changed.shared).empty() == (changed.shared == kept)); }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_changeable_key_reaches_the_struct_and_the_text) {
  Random random{11};
  for (const auto& field : fields()) {
    const auto* choice = std::get_if<Choice>(&field.type);
    const auto* alternative = std::get_if<Alternative>(&field.type);
    const bool fixed = field.path == "version" || std::holds_alternative<Section>(field.type) ||
                       std::holds_alternative<WordOrSection>(field.type) || (choice && choice->words.size() == 1) ||
                       (alternative && alternative->words.size() == 1);
    if (fixed) continue;
    const auto original = valid();
    auto changed = original;
    for (int round = 0; round < 100 && changed == original; ++round) change(field, changed, random);
    BOOST_TEST_CONTEXT(field.path) {
      BOOST_TEST((changed != original));
      BOOST_TEST((shared_yaml(changed) != shared_yaml(original) || local_yaml(changed) != local_yaml(original)));
      BOOST_TEST((local_yaml(changed) != local_yaml(original)) == is_local(field.path));
    }
  }
}

BOOST_AUTO_TEST_CASE(spelling_order_and_comments_do_not_change_the_digest) {
  const auto one = valid("version: 1\nrun: x\nsync: {deadline: 120s}\ndata: {per_file: 32KiB}\n");
  const auto two = valid("# same\ndata:\n  per_file: 32768B\nrun: \"x\"\nsync: {deadline: 2min}\nversion: 1\nlocal: {threads: 3}\n");
  BOOST_TEST((run_digest(one) == run_digest(two)));
}

BOOST_AUTO_TEST_CASE(the_digest_of_a_manifest_is_the_same_on_every_machine_and_in_every_build) {
  // A change here means that peers of two versions no longer recognise each other's runs: raise PROTOCOL_VERSION.
  BOOST_TEST(to_string(run_digest(valid())) == "ab7abe8ed14f41315222b910349ac813");
}

BOOST_AUTO_TEST_SUITE_END()
