#include "runtime/manifest/document.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>
#include <utility>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "runtime/manifest/source_text.hpp"

namespace prime::manifest {
namespace {

/// Deeper than any manifest; keeps recursion on hostile texts shallow.
constexpr std::size_t MAX_DEPTH = 16;

struct TooDeep {
  Place place;
};

/// The places of one text; for an override they are all the override itself.
class Locator {
 public:
  Locator(std::string_view text, std::optional<std::size_t> override_index) : text_(text), override_index_(override_index) {}

  [[nodiscard]] Place at(const YAML::Mark& mark, std::size_t length) const {
    if (override_index_) return {.override_index = override_index_};
    if (mark.is_null()) return {};
    return place_of(text_, static_cast<std::size_t>(mark.line), static_cast<std::size_t>(mark.column), length);
  }
  /// Of a scalar: as long as it was written, quotes included, within its line.
  [[nodiscard]] Place at_scalar(const YAML::Mark& mark, const std::string& value) const {
    if (override_index_ || mark.is_null()) return at(mark, 1);
    const auto line = line_of(text_, static_cast<std::size_t>(mark.line));
    const auto rest = line.substr(std::min(line.size(), static_cast<std::size_t>(mark.column)));
    if (rest.empty()) return at(mark, 1);
    if (rest.front() == '"' || rest.front() == '\'') return at(mark, quoted_length(rest));
    if (rest.front() == '|' || rest.front() == '>') return at(mark, 1);
    return at(mark, std::clamp<std::size_t>(value.size(), 1, rest.size()));
  }

 private:
  static std::size_t quoted_length(std::string_view rest) {
    for (std::size_t i = 1; i < rest.size(); ++i) {
      if (rest.front() == '"' && rest[i] == '\\') ++i;
      else if (rest[i] == rest.front()) return i + 1;
    }
    return rest.size();
  }

  std::string_view text_;
  std::optional<std::size_t> override_index_;
};

/// Builds the tree from yaml-cpp's events, which carry marks for keys too, unlike its nodes.
class Builder final : public YAML::EventHandler {
 public:
  Builder(const Locator& locator, Report& report) : locator_(locator), report_(report) {}
  [[nodiscard]] Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { accept({.kind = Node::Kind::Null, .place = locator_.at(mark, 1)}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(locator_.at(mark, 1), "anchors and aliases (`&name`, `*name`) are not part of a " + report_.noun(),
           "write the value out, or put quotes round a text that begins with `*`");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    const auto place = locator_.at_scalar(mark, value);
    if (!plain(tag, anchor)) return refuse_properties(place);
    accept({.kind = Node::Kind::Scalar, .text = value, .quoted = tag == "!", .place = place});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Node::Kind::List, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Node::Kind::Map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Key {
    std::string text;
    Place place;
    bool usable = true;
  };
  struct Frame {
    Node node;
    std::optional<Key> key;
  };

  static bool plain(const std::string& tag, YAML::anchor_t anchor) { return anchor == 0 && (tag.empty() || tag == "?" || tag == "!"); }
  void refuse(const Place& place, std::string message, std::string hint) {
    report_.add(ErrorName::ManifestSyntax, place, std::move(message), std::move(hint));
    accept({.kind = Node::Kind::Broken, .place = place});
  }
  void refuse_properties(const Place& place) {
    refuse(place, "anchors (`&name`) and tags (`!name`) are not part of a " + report_.noun(),
           "remove it; put quotes round a text that begins with `&` or `!`");
  }
  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const auto place = locator_.at(mark, 1);
    if (stack_.size() >= MAX_DEPTH) throw TooDeep{place};
    if (!plain(tag, anchor))
      report_.add(ErrorName::ManifestSyntax, place, "anchors (`&name`) and tags (`!name`) are not part of a " + report_.noun(),
                  "remove it");
    stack_.push_back({.node = {.kind = kind, .place = place}, .key = std::nullopt});
  }
  void close() {
    auto node = std::move(stack_.back().node);
    stack_.pop_back();
    accept(std::move(node));
  }
  void accept(Node node) {
    if (stack_.empty()) root_ = std::move(node);
    else if (stack_.back().node.kind == Node::Kind::List) stack_.back().node.items.push_back(std::move(node));
    else if (!stack_.back().key) accept_key(stack_.back(), node);
    else accept_value(stack_.back(), std::move(node));
  }
  void accept_key(Frame& frame, const Node& node) {
    const bool usable = node.kind == Node::Kind::Scalar;
    if (!usable && node.kind != Node::Kind::Broken)
      report_.add(ErrorName::ManifestSyntax, node.place, "a key must be a word, found " + shown(node), "write `key: value`");
    frame.key = Key{node.text, node.place, usable};
  }
  void accept_value(Frame& frame, Node value) {
    auto key = *std::exchange(frame.key, std::nullopt);
    if (!key.usable) return;
    auto& entries = frame.node.entries;
    const auto first = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key.text; });
    if (first != entries.end()) {
      const auto where = first->place.line == 0 ? std::string{} : ", first on line " + std::to_string(first->place.line);
      report_.add(ErrorName::ManifestSyntax, key.place, "`" + shown(key.text) + "` is given twice" + where, "keep one of them");
      return;
    }
    entries.push_back({.key = std::move(key.text), .place = key.place, .value = std::move(value)});
  }

  const Locator& locator_;
  Report& report_;
  Node root_;
  std::vector<Frame> stack_;
};

std::string_view syntax_hint(std::string_view message) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> HINTS = {{
      {"end of map flow not found", "close the brace `{`, or a quote, before this place, and put a comma between two keys"},
      {"end of sequence flow not found", "close the bracket `[`, or a quote, before this place, and put a comma between two items"},
      {"end of map not found", "align this line with the keys of its section"},
      {"illegal map value", "put quotes round a text with a colon, and each key on a line of its own"},
      {"illegal EOF in scalar", "close the quotes"},
      {"the referenced anchor is not defined", "put quotes round a text that begins with `*`"},
  }};
  for (const auto& [text, hint] : HINTS)
    if (text == message) return hint;
  return "";
}

/// yaml-cpp throws what it cannot read; the exceptions end here.
Node parse(std::string_view text, const Locator& locator, Report& report) {
  Builder builder{locator, report};
  try {
    std::istringstream stream{std::string{text}};
    YAML::Parser parser{stream};
    if (!parser.HandleNextDocument(builder)) return {};
    auto root = builder.take();
    Builder second{locator, report};
    if (parser.HandleNextDocument(second)) {
      report.add(ErrorName::ManifestSyntax, second.take().place, "a second document begins here",
                 "keep one " + report.noun() + " in a file; remove `---`");
      return {.kind = Node::Kind::Broken};
    }
    return root;
  } catch (const TooDeep& error) {
    report.add(ErrorName::ManifestSyntax, error.place, "nested too deeply: more than " + std::to_string(MAX_DEPTH) + " levels",
               "a " + report.noun() + " needs five");
  } catch (const YAML::Exception& error) {
    report.add(ErrorName::ManifestSyntax, locator.at(error.mark, 1), "not valid YAML: " + shown(error.msg),
               std::string{syntax_hint(error.msg)});
  } catch (const std::exception& error) {
    report.add(ErrorName::ManifestSyntax, {}, std::string{"not valid YAML: "} + shown(error.what()));
  }
  return {.kind = Node::Kind::Broken};
}

Node& child(Node& map, std::string_view key, const Place& place) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found != map.entries.end()) return found->value;
  map.entries.push_back({.key = std::string{key}, .place = place, .value = {.kind = Node::Kind::Map, .place = place}});
  return map.entries.back().value;
}

/// Flow collections and quoted texts are YAML; anything else is the text itself, so that `--set data.include=*.h` means what it says.
Node override_value(std::string_view text, const Place& place, Report& report) {
  if (text.empty() || text == "~" || text == "null") return {.kind = Node::Kind::Null, .place = place};
  if (std::string_view{"{[\"'"}.find(text.front()) == std::string_view::npos)
    return {.kind = Node::Kind::Scalar, .text = std::string{text}, .place = place};
  return parse(text, Locator{text, place.override_index}, report);
}

}  // namespace

void Report::add(ErrorName name, const Place& place, std::string message, std::string hint) {
  Diagnostic problem{.name = name, .file = std::string{source_name_}, .message = std::move(message), .hint = std::move(hint)};
  if (place.override_index) problem.file = "--set " + shown(overrides_[*place.override_index]);
  else std::tie(problem.line, problem.column, problem.length) = std::tuple{place.line, place.column, place.length};
  problems_.push_back(std::move(problem));
}

std::vector<Diagnostic> Report::take() {
  std::stable_sort(problems_.begin(), problems_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return std::tie(a.line, a.column) < std::tie(b.line, b.column); });
  return std::move(problems_);
}

std::optional<std::string> read_file(const std::string& path, Report& report) {
  const auto unreadable = [&](const std::string& why) {
    report.add(ErrorName::ManifestUnreadable, {}, "the " + report.noun() + " cannot be read: " + why);
    return std::nullopt;
  };
  // A pipe or a terminal would be waited for, without a limit.
  std::error_code error;
  if (const auto kind = std::filesystem::status(path, error).type(); kind == std::filesystem::file_type::not_found || error)
    return unreadable(error ? error.message() : "no such file");
  else if (kind != std::filesystem::file_type::regular) return unreadable("it is not a regular file");
  std::ifstream file{path, std::ios::binary};
  if (!file) return unreadable("no permission");
  // One byte more than allowed is enough to see that it is too much, whatever the path names.
  std::string text(MAX_MANIFEST_BYTES + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) return unreadable("it is not a file");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

Node read_document(std::string_view text, Report& report) {
  if (auto fault = text_fault(text)) {
    report.add(ErrorName::ManifestSyntax, fault->place, std::move(fault->message), std::move(fault->hint));
    return {.kind = Node::Kind::Broken};
  }
  auto root = parse(text, Locator{text, std::nullopt}, report);
  if (root.kind == Node::Kind::Map || root.kind == Node::Kind::Broken) return root;
  if (root.kind == Node::Kind::Null)
    report.add(ErrorName::ManifestMissingKey, {}, "the " + report.noun() + " is empty", "start from " + report.beginning());
  else
    report.add(ErrorName::ManifestSyntax, root.place, "a " + report.noun() + " must be a map, found " + shown(root),
               "begin with `version: 1`");
  return {.kind = Node::Kind::Broken};
}

void apply_override(Node& root, std::string_view assignment, std::size_t index, Report& report) {
  const Place place{.override_index = index};
  const auto equals = assignment.find('=');
  const auto path = assignment.substr(0, equals);
  const bool dotted = !path.empty() && path.front() != '.' && path.back() != '.' && path.find("..") == std::string_view::npos;
  if (equals == std::string_view::npos || !dotted || text_fault(assignment)) {
    report.add(ErrorName::Usage, place, "an override must be KEY=VALUE, found `" + shown(assignment) + "`",
               "for example `--set train.outer_steps=50`");
    return;
  }
  Node* node = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    if (node->kind == Node::Kind::Broken) return;
    // The override wins: what it goes into is a map, and is refused as one if it must be something else.
    if (node->kind != Node::Kind::Map) *node = {.kind = Node::Kind::Map, .place = place};
    const auto end = std::min(path.find('.', begin), path.size());
    node = &child(*node, path.substr(begin, end - begin), place);
    begin = end + 1;
  }
  *node = override_value(assignment.substr(equals + 1), place, report);
}

std::string shown(std::string_view text) {
  constexpr std::size_t LIMIT = 60;
  const auto clean = printable(text);
  return characters(clean) > LIMIT ? std::string{slice(clean, 0, LIMIT)} + "…" : clean;
}

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Null: return "nothing";
    case Node::Kind::Scalar: return node.quoted ? "\"" + shown(node.text) + "\"" : "`" + shown(node.text) + "`";
    case Node::Kind::List: return "a list";
    case Node::Kind::Map: return "a map";
    case Node::Kind::Broken: return "something unreadable";
  }
  return {};
}

}  // namespace prime::manifest
