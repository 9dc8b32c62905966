// Owns the command lines of what informs: `validate`, `explain`, `schema`, `completions`, `man`, `help`, `version`.
#include "cli/command_line/table.hpp"

namespace prime::cli {
namespace {

void add_validate(Table& table) {
  auto [validate, typed] = table.add<ValidateArguments>("validate", "check manifests; starts nothing", "Manifest and help");
  validate.add_option("FILE", typed.files, "run manifests")->required();
  validate.add_option("--set", typed.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
}

void add_explain(Table& table) {
  auto [explain, typed] = table.add<ExplainArguments>(
      "explain", "explain an error code (PR0703), a manifest key (sync.inner_steps) or a word (digest)", "Manifest and help");
  explain.add_option("WHAT", typed.what, "code, key or word; absent: list all");
}

void add_schema(Table& table) {
  auto [schema, typed] =
      table.add<SchemaArguments>("schema", "print the JSON schema of what a command prints, or of a manifest", "Manifest and help");
  schema.add_option("NAME", typed.name, "such as status, or run, which is of manifests; absent: list all")->check(named());
  schema.footer("Fields are added to what commands print, never changed or removed.");
}

void add_completions(Table& table) {
  auto [completions, typed] = table.add<CompletionsArguments>(
      "completions", "print the script that completes primectl's command lines in a shell", "Manifest and help");
  completions.add_option("SHELL", typed.shell, "bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  completions.footer("To have it now: eval \"$(primectl completions bash)\", the same in zsh, and primectl completions fish | source.");
}

void add_man(Table& table) { table.add<ManArguments>("man", "print the manual page, for `man -l -`", "Manifest and help"); }

void add_version(Table& table) {
  table.add<VersionArguments>("version", "print versions of program, protocol and libraries", "Manifest and help");
}

}  // namespace

void add_helping(Table& table) {
  add_validate(table);
  add_explain(table);
  add_schema(table);
  add_completions(table);
  add_man(table);
  table.add_help("Manifest and help");
  add_version(table);
}

}  // namespace prime::cli
