// Owns the command lines of what informs: `validate`, `plan`, `explain`, `schema`, `completions`, `man`, `help`, `version`.
#include "cli/command_line/table.hpp"
#include "messages/membership.hpp"

namespace prime::cli {
namespace {

void add_validate(Table& table) {
  auto [validate, typed] = table.add<ValidateArguments>("validate", "check manifests; starts nothing", "Manifest and help");
  validate.add_option("FILE", typed.files, "run manifests")->required();
  validate.add_option("--set", typed.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
}

/// An option whose word is a quantity with its unit, above zero.
template <class Quantity, class Parse>
CLI::Option* add_quantity(CLI::App& command, const char* name, std::optional<Quantity>& value, const char* help, const char* examples,
                          Parse parse) {
  return command.add_option_function<std::string>(
      name,
      [&value, name, examples, parse](const std::string& text) {
        value = parse(text);
        if (!value || *value <= Quantity{})
          throw CLI::ValidationError(name, "`" + text + "` is no " + examples + ": a whole number above 0 and its unit");
      },
      help);
}

void add_plan(Table& table) {
  auto [plan, typed] = table.add<PlanArguments>("plan", "say what a run will cost: memory, bytes, the link it needs", "Manifest and help");
  plan.add_option("FILE", typed.file, "run manifest")->required();
  plan.add_option("--set", typed.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
  plan.add_option("--peers", typed.peers, "peers of the run; of a sharded run, replicas [the most that membership.peers admits]")
      ->type_name("N")
      ->transform(whole(1, MAX_PEERS));
  add_quantity(plan, "--link", typed.link_bits_per_s, "what each peer can send [local.network.cap]", "rate such as 40Mbit/s or 1Gbit/s",
               parse_bit_rate)
      ->type_name("RATE");
  const auto duration = [&](const char* name, std::optional<Duration>& value, const char* help) {
    return add_quantity(plan, name, value, help, "duration such as 250ms, 30s, 10min or 2h", parse_duration)->type_name("DURATION");
  };
  duration("--step-time", typed.step_time, "what an inner step of a peer takes: tokens of a step / its TOK/S in `status`");
  auto* const mtbf = duration("--mtbf", typed.mtbf, "mean time between two failures of one peer");
  duration("--recovery", typed.recovery, "how long a failure holds up the run [membership.heartbeat.dead_after]")->needs(mtbf);
  plan.footer(
      "Nothing is started or measured. Without --link it says which link would be needed; without --step-time, what does not depend on\n"
      "it. A run's own figures: `wire` and `tok/s` of its table, `wire_bytes` and `reduce_s` in its journal.");
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
  add_plan(table);
  add_explain(table);
  add_schema(table);
  add_completions(table);
  add_man(table);
  table.add_help("Manifest and help");
  add_version(table);
}

}  // namespace prime::cli
