// Owns `primectl explain`: an error code, a manifest key or a word of the tables, in words.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/glossary.hpp"
#include "cli/render/columns.hpp"
#include "cli/terminal.hpp"
#include "runtime/manifest/describe.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view class_text(ErrorClass klass) {
  switch (klass) {
    case ErrorClass::Retry: return "try it again: it may succeed later";
    case ErrorClass::Rejoin: return "join again, as a new peer";
    case ErrorClass::User: return "follow the hint: it fails again as long as nothing is changed";
    case ErrorClass::Fatal: return "do not try it again: it cannot succeed";
  }
  return "";
}

/// One thing that can be explained, as a text for people and as JSON.
struct Page {
  std::string text;
  Json json;
};

Page page_of(const ErrorInfo& row) {
  std::string text = std::string{row.code} + " " + std::string{row.name} + ": " + std::string{row.text} + "\n";
  text += "  what now:  " + std::string{class_text(row.klass)} + "\n";
  if (!row.hint.empty()) text += "  hint:      " + std::string{row.hint} + "\n";
  text += "  exit code: " + std::to_string(row.exit_code) + "\n";
  return {std::move(text),
          {{"schema", "primectl.error/1"},
           {"code", row.code},
           {"name", row.name},
           {"exit_code", row.exit_code},
           {"text", row.text},
           {"hint", row.hint}}};
}

Page page_of_key(const std::string& key, const std::string& description) {
  return {description, {{"schema", "primectl.key/1"}, {"key", key}, {"text", description}}};
}

Page page_of(const Word& entry) {
  return {std::string{entry.word} + ": " + std::string{entry.meaning} + "\n",
          {{"schema", "primectl.word/1"}, {"word", entry.word}, {"text", entry.meaning}}};
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::vector<Page> find_pages(const std::string& what) {
  std::vector<Page> pages;
  for (const auto& row : error_table())
    if (same_letters(row.code, what) || same_letters(row.name, what)) pages.push_back(page_of(row));
  if (const auto description = manifest::describe(what)) pages.push_back(page_of_key(what, *description));
  for (const auto& entry : find_words(what)) pages.push_back(page_of(entry));
  return pages;
}

std::vector<Page> all_pages() {
  std::vector<Page> pages;
  for (const auto& row : error_table()) pages.push_back(page_of(row));
  for (const auto& key : manifest::key_paths()) pages.push_back(page_of_key(key, manifest::describe(key).value_or("")));
  for (const auto& group : glossary())
    for (const auto& entry : group.words) pages.push_back(page_of(entry));
  return pages;
}

std::string index() {
  std::vector<std::vector<std::string>> codes;
  for (const auto& row : error_table())
    codes.push_back({std::string{row.code}, std::string{row.name}, std::to_string(row.exit_code), std::string{row.text}});
  std::vector<std::vector<std::string>> keys;
  for (const auto& key : manifest::key_paths()) {
    const auto description = manifest::describe(key).value_or("");
    keys.push_back({key, description.substr(key.size() + 2, description.find('\n') - key.size() - 2)});
  }
  std::vector<std::vector<std::string>> words;
  for (const auto& group : glossary())
    for (const auto& entry : group.words) words.push_back({std::string{entry.word}, std::string{entry.meaning}});
  return columns({{"CODE"}, {"NAME"}, {"EXIT", Align::Right}, {"TEXT"}}, codes) + "\n" + columns({{"MANIFEST KEY"}, {"MEANING"}}, keys) +
         "\n" + columns({{"WORD"}, {"MEANING"}}, words);
}

Error unknown(const std::string& what) {
  auto near = manifest::nearest_keys(what);
  std::vector<std::string_view> others;
  for (const auto& row : error_table()) others.push_back(row.name);
  for (const auto& group : glossary())
    for (const auto& entry : group.words) others.push_back(entry.word);
  if (const auto found = manifest::nearest(what, others)) near.emplace_back(*found);
  std::string names;
  for (const auto& name : near) names += (names.empty() ? "; did you mean `" : ", `") + name + "`";
  if (!names.empty()) names += "?";
  return Error{ErrorName::Usage, "no error code, manifest key or word is called `" + what + "`" +
                                     (names.empty() ? "; `primectl explain` lists them all" : names)};
}

}  // namespace

int run_command(const ExplainArguments& arguments, Terminal& terminal) {
  std::string what;
  for (const auto& word : arguments.what) what += (what.empty() ? "" : " ") + word;
  if (what.empty() && !terminal.json()) {
    terminal.print(index());
    return 0;
  }
  const auto pages = what.empty() ? all_pages() : find_pages(what);
  if (pages.empty()) return terminal.complain(unknown(what));
  for (const auto& page : pages) terminal.print(terminal.json() ? telemetry::dump(page.json) + "\n" : page.text);
  return 0;
}

}  // namespace prime::cli
