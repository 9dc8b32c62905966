// Owns the table of commands. The only file that includes CLI11.
#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>

#include "kernels/commitment/commitment.hpp"
#include "messages/data_types.hpp"
#include "messages/membership.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/text_rules.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::cli {
namespace {

/// An empty word, as an unset variable of a shell leaves it, would be a prefix of everything.
const CLI::Validator NAMED{[](const std::string& word) { return word.empty() ? std::string{"it names nothing"} : std::string{}; }, ""};
/// Of a peer, as everybody will read it; `logs coordinator` means the coordinator.
const CLI::Validator PEER_NAME{[](const std::string& word) {
                                 if (std::any_of(word.begin(), word.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }))
                                   return std::string{"a name has no control characters"};
                                 return word == "coordinator" ? std::string{"the coordinator has this name"} : std::string{};
                               },
                               ""};
/// A part of the names of its peers.
const CLI::Validator REPLICA_NAME{[](const std::string& word) {
                                    return net::is_run_id(word) && word.size() <= 60
                                               ? std::string{}
                                               : "the name of a replica has 1 to 60 of a-z, 0-9 and -, the first no -";
                                  },
                                  ""};
constexpr const char* THRESHOLDS_HELP =
    "toploc-bf16, exact-f32, or MISMATCHES/MEAN/MEDIAN such as 6/0.5/0 [bf16, f16: toploc-bf16; f32, f64: exact-f32]";
const std::vector<std::string> DTYPES{"f32", "bf16", "f16", "f64"};
constexpr unsigned K_MAXIMUM = kernels::COMMITTED_MAXIMUM;
constexpr const char* RUN_HELP = "run id or a unique prefix of it; absent: the only run that is active";
constexpr const char* SET_HELP = "override a manifest key, such as train.outer_steps=20; may be given several times";

/// CLI11 reads `-1`, `010` and what no number of 64 bits holds as some other number. Leading zeros are dropped: it would take them for
/// octal.
CLI::Validator whole(std::uint64_t least, std::uint64_t most) {
  return {[=](std::string& text) {
            std::uint64_t number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            if (error != std::errc{} || rest != end || number < least || number > most)
              return "`" + text + "` is no whole number from " + std::to_string(least) + " to " + std::to_string(most);
            text = std::to_string(number);
            return std::string{};
          },
          ""};
}
/// Finite, and in plain digits.
CLI::Validator real(double least, double most) {
  return {[=](const std::string& text) {
            double number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            const bool good = error == std::errc{} && rest == end && number >= least && number <= most;
            return good ? std::string{} : fmt::format("`{}` is no number from {} to {}", text, least, most);
          },
          ""};
}

/// An option whose words stand for the values of an enumeration, in its order.
template <class Enumeration>
void add_choice(CLI::App& command, const char* names, Enumeration& value, const char* help, const std::vector<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : "|") + word;
  command
      .add_option_function<std::string>(
          names,
          [&value, words, list, names](const std::string& word) {
            const auto found = std::find(words.begin(), words.end(), word);
            if (found == words.end()) throw CLI::ValidationError(names, "`" + word + "` is none of " + list);
            value = static_cast<Enumeration>(found - words.begin());
          },
          help)
      ->type_name(list)
      ->group("Output");
}

void add_common(CLI::App& command, CommonArguments& common) {
  add_choice(command, "-o,--output", common.format, "what stdout carries: a text for people, or JSON", {"table", "json"});
  add_choice(command, "--color", common.colour, "colour on a terminal; NO_COLOR and TERM=dumb switch it off", {"auto", "always", "never"});
  command.add_flag("-q,--quiet", common.quiet, "no progress on stderr")->group("Output");
  command.add_option("--state-dir", common.state_dir, "where runs keep their files [$XDG_STATE_HOME/primectl]")
      ->type_name("DIR")
      ->group("Output");
}

/// Of commands that start processes.
void add_log_level(CLI::App& command, CommonArguments& common) {
  add_choice(command, "--log-level", common.log_level,
             "what the processes' logs say: `debug` adds the reason of each decision [$PRIME_LOG_LEVEL]", {"info", "debug"});
}

constexpr std::uint64_t MAX_TENSOR_BYTES = 1ULL << 50;  // no machine has more

/// Replaces "64K" by "65536"; returns what is wrong with it, or nothing: it must be whole f32 values, one at least.
std::string as_bytes_of_f32(std::string& text) {
  const auto typed = text;
  try {
    if (!CLI::AsSizeValue{false}(text).empty()) text.clear();
  } catch (const CLI::Error&) {
    text.clear();  // it explains a wrong unit by a list of all that it knows
  }
  if (text.empty()) return "`" + typed + "` is no size such as 4096, 64K, 16M or 1G";
  const auto bytes = std::strtoull(text.c_str(), nullptr, 10);
  const bool whole = bytes > 0 && bytes <= MAX_TENSOR_BYTES && bytes % sizeof(float) == 0 && text.front() != '-';
  return whole ? std::string{} : "`" + typed + "` bytes are no f32 values: 4 for each, such as 4096, 64K, 16M or 1G";
}

/// "7..9"; empty when it is none.
std::optional<SeedRange> parse_seeds(const std::string& text) {
  SeedRange range;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc{} || !std::string_view{first.ptr, end}.starts_with("..")) return std::nullopt;
  const auto last = std::from_chars(first.ptr + 2, end, range.last);
  if (last.ec != std::errc{} || last.ptr != end || range.last < range.first) return std::nullopt;
  return range;
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (std::uint8_t codec = 0; codec < CODECS; ++codec) names.emplace_back(to_string(static_cast<Codec>(codec)));
  return names;
}

/// Holds the tree of commands and what they write into while a line is parsed.
class Table {
 public:
  Table() : app_("Train one model together, on machines that may come and go.", "primectl") {
    app_.require_subcommand(1);
    app_.get_formatter()->column_width(36);
    start_group();
    observe_group();
    proof_group();
    meta_group();
    hidden_group();
    // Set after the commands were made: they would inherit it.
    app_.footer(
        "Exit codes: 0 done, 1 failed, 2 usage or manifest, 3 no such run, 4 refused, 5 unhealthy (`status --check`) or not proved\n"
        "(`commitment check`, `verify`), 6 timed out, 130 interrupted, 143 ended by SIGTERM. `status` answers with 0 also for a run that "
        "failed.");
  }

  CLI::App& app() { return app_; }
  [[nodiscard]] std::optional<Arguments> chosen() const { return chosen_; }

 private:
  template <class T>
  CLI::App& add(const char* name, const char* help, const char* group, T& arguments) {
    auto& command = *app_.add_subcommand(name, help);
    command.group(group);
    command.callback([this, &arguments] { chosen_ = arguments; });
    if constexpr (requires { arguments.common; }) add_common(command, arguments.common);
    if constexpr (requires { arguments.detach; }) add_log_level(command, arguments.common);
    return command;
  }

  void start_group() {
    auto& up = add("up", "start a run: a coordinator and peers on this machine", "Start", up_);
    up.add_option("FILE", up_.file, "run manifest")->required();
    up.add_option("--local", up_.local, "peers to start on this machine; of a sharded run, replicas [1]")
        ->type_name("N")
        ->transform(whole(1, 64));
    up.add_option("--quorum", up_.quorum,
                  "peers that begin the first outer step together; of a sharded run, replicas [N, at least the manifest's minimum]")
        ->type_name("N")
        ->transform(whole(1, 1024));
    up.add_flag("-d,--detach", up_.detach, "return when all have started; they go on in the background");
    up.add_option("--set", up_.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
    up.footer(
        "In the foreground it ends with its run; SIGINT, SIGTERM, SIGQUIT and SIGHUP let the peers leave and end the run.\n"
        "One that is killed (SIGKILL) leaves the run as --detach would: `primectl status` shows it, `primectl down` ends it.");
    up.add_option("--from", up_.from, "go on from a checkpoint, or from the newest one that a run left")->type_name("PATH|RUN");
    up.add_option("--listen", up_.listen, "address of the coordinator [the manifest's local.network.listen]")->type_name("HOST:PORT");

    auto& join = add("join", "become a peer of a run, with nothing but its invite", "Start", join_);
    join.add_option("INVITE", join_.invite, "as `primectl up` printed it; may come from $PRIMECTL_INVITE instead");
    auto* detach = join.add_flag("-d,--detach", join_.detach, "return when the run has welcomed this peer; it goes on in the background");
    join.add_option("--name", join_.name, "readable name of this peer [drawn]")->check(PEER_NAME);
    join.add_option("--local-manifest", join_.local_manifest, "manifest whose `local:` half this peer uses")->type_name("FILE");
    join.add_option("--set", join_.overrides, "override a key of the local half, such as local.threads=4")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    auto* replica =
        join.add_option("--replica", join_.replica, "of a sharded run: which model this peer holds a part of; a name that its peers share")
            ->type_name("NAME")
            ->check(REPLICA_NAME);
    auto* shard = join.add_option("--shard", join_.shard, "of a sharded run: which part, from 0")
                      ->type_name("I")
                      ->transform(whole(0, MAX_SHARDS - 1))
                      ->needs(replica);
    join.add_option("--shards", join_.shards, "of a sharded run: start a whole replica, so many peers, in the background [of a drawn name]")
        ->type_name("S")
        ->transform(whole(2, MAX_SHARDS))
        ->excludes(shard)
        ->needs(detach);
    join.add_option("--trainer-fd", join_.trainer_descriptor, "socket of the trainer that started this agent")->group("");

    auto& standby = add("standby", "take a run's coordinator over when the machine that has it is gone", "Start", standby_);
    standby.add_option("INVITE", standby_.invite, "as `primectl up` printed it; may come from $PRIMECTL_INVITE instead");
    standby.add_option("--etcd", standby_.etcd, "as the run's manifest names it in membership.standby.etcd")
        ->type_name("URL,URL")
        ->delimiter(',')
        ->required()
        ->allow_extra_args(false);
    standby
        .add_option("--listen", standby_.listen,
                    "address that the peers then find it at [any free port; this machine only, unless the run is elsewhere]")
        ->type_name("HOST:PORT");
    standby.add_option("--set", standby_.overrides, "a key of the local half, such as local.etcd.authority=/etc/etcd/ca.pem")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    standby.add_flag("-d,--detach", standby_.detach, "return when it stands by; it goes on in the background");
    standby.footer(
        "SIGINT and SIGTERM end it while it stands by, and the run when it leads it; `primectl status` says which, and\n"
        "`primectl down` does the same.");

    auto& doctor = add("doctor", "examine this machine, and the way from it to a run", "Start", doctor_);
    doctor.add_option("INVITE", doctor_.invite, "of the run; absent: this machine alone");
    doctor.add_option("--set", doctor_.overrides, "a key of `local.network` that a peer here would have")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    doctor.footer(
        "With an invite the run's coordinator looks back: at the addresses that a peer here would tell, at the clocks, at packets of full\n"
        "size. Exits with 5 when something is found that would stop a run.");

    auto& leave = add("leave", "let peers of this machine leave a run; the others see `left`", "Start", leave_);
    leave.add_option("PEER", leave_.peer, "name or id, or a unique prefix; absent: all peers that run here")->check(NAMED);
    leave.add_option("--run", leave_.run, RUN_HELP)->check(NAMED);

    auto& down = add("down", "end what runs here of a run; what was trained is saved", "Start", down_);
    down.add_option("RUN", down_.run, RUN_HELP)->check(NAMED);
    down.footer(
        "A run that another machine or container has in the same state directory is left alone (PR0406), and ends by `down` there.");

    auto& remove = add("remove", "delete the files of runs that have ended, checkpoints with them", "Start", remove_);
    remove.add_option("RUN", remove_.runs, "run id or a unique prefix of it")->required()->check(NAMED);
    remove.footer("What may live, here or on another machine or container that shares the state directory, is refused by name.");
  }

  void observe_group() {
    auto& status = add("status", "show a run and its peers; works from the journals when it has ended", "Observe", status_);
    status.add_option("RUN", status_.run, RUN_HELP)->check(NAMED);
    status.add_flag("-w,--watch", status_.watch, "show again whenever something changes, until the run ends");
    status.add_flag("--check", status_.check, "exit with 5 when a run that is shown has failed, or waits for peers");

    auto& logs = add("logs", "show what the processes of a run did, merged by time", "Observe", logs_);
    logs.add_option("WHO", logs_.who, "a peer's name or id, or `coordinator`; absent: all");
    logs.add_option("--run", logs_.run, RUN_HELP)->check(NAMED);
    logs.add_flag("-f,--follow", logs_.follow, "go on while the run lasts");
    logs.add_option("--since", logs_.since, "only what is younger, such as 10min")->type_name("DURATION");
  }

  void proof_group() {
    auto& generate = add("generate", "let a model write, and prove that it did", "Prove", generate_);
    generate.add_option("MODEL", generate_.model, "a checkpoint, or a Hugging Face directory of a Llama or a GPT-2")
        ->required()
        ->check(NAMED);
    generate.add_option("--prompt", generate_.prompts, "a text to go on from; may be given several times")
        ->type_name("TEXT")
        ->allow_extra_args(false);
    generate.add_option("--prompts", generate_.prompts_file, "a file with a prompt on each line")->type_name("FILE")->check(NAMED);
    generate
        .add_option("--prompt-tokens", generate_.prompt_tokens_file, "a file with a prompt on each line, as token ids: [1, 15043, 3186]")
        ->type_name("FILE")
        ->check(NAMED);
    generate.add_option("--tokens", generate_.tokens, "tokens to write after each prompt [128, or what the context leaves]")
        ->type_name("N")
        ->transform(whole(1, 1'000'000));
    generate.add_option("--prove", generate_.prove, "write the tokens and their proofs to this file, for `primectl verify`")
        ->type_name("FILE")
        ->check(NAMED);
    add_committed(generate, generate_.k, "of each segment that are committed to [128]", generate_.segment, "of a segment [32]");
    generate.add_option("--dtype", generate_.dtype, "to compute in: f32, bf16, f16, f64 [f32]")
        ->type_name("TYPE")
        ->check(CLI::IsMember(DTYPES).description(""));
    generate.add_option("--temperature", generate_.temperature, "0 takes the likeliest token, 1 draws as the model says [0]")
        ->type_name("T")
        ->check(real(0, 100));
    generate.add_option("--seed", generate_.seed, "what is drawn is drawn from it [1]")->type_name("S")->transform(whole(0, UINT64_MAX));
    add_computing(generate, generate_.batch, "prompts at a time [16]", generate_.threads);
    add_device(generate, generate_.device);
    generate.footer("It writes as many tokens as are asked for: one that ends a text ends nothing.");

    auto& verify = add("verify", "check by one's own model that it wrote what a file of `generate --prove` says", "Prove", verify_);
    verify.add_option("FILE", verify_.file, "what `generate --prove` wrote")->required()->check(NAMED);
    verify.add_option("--model", verify_.model, "one's own copy of the model")->type_name("MODEL")->required()->check(NAMED);
    verify.add_option("--thresholds", verify_.thresholds, THRESHOLDS_HELP)->type_name("T")->check(NAMED);
    add_committed(verify, verify_.k, "of each segment that must be committed to, at least [128]", verify_.segment,
                  "of a segment, at most [32]");
    verify.add_option("--dtype", verify_.dtype, "to compute in, which the file must name, too: f32, bf16, f16, f64 [f32]")
        ->type_name("TYPE")
        ->check(CLI::IsMember(DTYPES).description(""));
    add_computing(verify, verify_.batch, "sequences at a time [16]", verify_.threads);
    add_device(verify, verify_.device);
    verify.footer("Exits with 5 when anything does not hold. docs/VERIFYING.md says what holds then, and what is not proved.");

    auto& commitment = add("commitment", "build and check proofs of activations that another engine computed", "Prove", commitment_);
    commitment
        .add_option(
            "WHAT", commitment_.what,
            "build (print the proofs), check (proofs against one's own activations), calibrate (thresholds between\ntwo honest runs)")
        ->required()
        ->check(CLI::IsMember({"build", "check", "calibrate"}).description(""));
    commitment
        .add_option("FILE", commitment_.files, "safetensors with activations [tokens, width] of bf16 or f32; for calibrate two of them")
        ->required()
        ->check(NAMED);
    commitment.add_option("--tensor", commitment_.tensor, "name of the tensor")->type_name("NAME")->required()->check(NAMED);
    commitment.add_option("--k", commitment_.k, "values of each segment that are committed to; check: at least [128]")
        ->type_name("K")
        ->transform(whole(1, K_MAXIMUM));
    commitment.add_option("--tokens", commitment_.tokens, "of a segment; check: at most [32]")
        ->type_name("N")
        ->transform(whole(1, UINT32_MAX));
    commitment
        .add_flag("--prefill{1}", prefill_,
                  "the first token is a segment of its own, as the package `toploc` has it; --prefill=N: the first N, a prompt [none]")
        ->transform(whole(0, UINT32_MAX))
        ->each([this](const std::string& tokens) { commitment_.prefill = std::stoull(tokens); });
    commitment.add_option("--proofs", commitment_.proofs, "what `commitment build` printed; for check")->type_name("FILE")->check(NAMED);
    commitment.add_option("--thresholds", commitment_.thresholds, THRESHOLDS_HELP)->type_name("T")->check(NAMED);
    commitment.footer("`check` exits with 5 when a proof is not accepted.");
  }

  static void add_committed(CLI::App& command, unsigned& k, const char* k_help, unsigned& segment, const char* segment_help) {
    command.add_option("--k", k, std::string{"values "} + k_help)->type_name("K")->transform(whole(1, K_MAXIMUM));
    command.add_option("--segment", segment, std::string{"tokens "} + segment_help)->type_name("N")->transform(whole(1, 1 << 20));
  }
  static void add_computing(CLI::App& command, unsigned& batch, const char* batch_help, unsigned& threads) {
    command.add_option("--batch", batch, batch_help)->type_name("N")->transform(whole(1, 1024));
    command.add_option("--threads", threads, "of all tensor operations [as many as cores]")->type_name("N")->transform(whole(1, 1024));
  }
  static void add_device(CLI::App& command, std::string& device) {
    const auto is_wrong = [](const std::string& word) {
      return manifest::is_device(word) ? std::string{}
                                       : "`" + word + "` is no device: it must be " + std::string{manifest::DEVICE_RULE.expected};
    };
    command.add_option("--device", device, "where the model computes: cpu, cuda, cuda:N, or auto, which takes a GPU if it can [cpu]")
        ->type_name("D")
        ->check(CLI::Validator{is_wrong, ""});
  }

  void meta_group() {
    auto& validate = add("validate", "check manifests; starts nothing", "Manifest and help", validate_);
    validate.add_option("FILE", validate_.files, "run manifests")->required();
    validate.add_option("--set", validate_.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
    auto& explain = add("explain", "explain an error code (PR0703), a manifest key (sync.inner_steps) or a word (digest)",
                        "Manifest and help", explain_);
    explain.add_option("WHAT", explain_.what, "code, key or word; absent: list all");
    auto& bench =
        add("bench", "measure reduces and lanes between processes of this machine, its kernels, or models", "Manifest and help", bench_);
    bench
        .add_option("WHAT", bench_.what,
                    "allreduce, lanes (all kinds, between two), kernels (one thread, beside memcpy),\ninference (writing with proofs "
                    "beside verifying it)")
        ->required()
        ->check(CLI::IsMember({"allreduce", "lanes", "kernels", "inference"}).description(""));
    const auto list = [&](const char* names, auto& values, const std::string& help, const char* type) {
      return bench.add_option(names, values, help)->delimiter(',')->type_name(type)->allow_extra_args(false);
    };
    list("--peers", bench_.peers, "how many processes reduce together [2,4; lanes: 2]", "N,N")->transform(whole(0, UINT32_MAX));
    list("--size", bench_.sizes, "bytes of f32 to reduce, such as 4K,256M [4K,64K,1M,16M,256M]", "SIZE,SIZE")
        ->transform(CLI::Validator{as_bytes_of_f32, ""});
    list("--codec", bench_.codecs, "how values travel: " + fmt::to_string(fmt::join(codec_names(), ", ")) + " [none]", "CODEC,CODEC")
        ->check(CLI::IsMember(codec_names()).description(""));
    list("--lane", bench_.lanes, "what carries them: tcp, tls, shm [tcp; lanes: all]", "LANE,LANE")
        ->check(CLI::IsMember({"tcp", "tls", "shm"}).description(""));
    list("--schedule", bench_.schedules, "auto, direct, ring, whole [auto]", "SCHEDULE")
        ->check(CLI::IsMember({"auto", "direct", "ring", "whole"}).description(""));
    list("--tags", bench_.tags, "reduces at once, among which the size is divided [1]", "N,N")->transform(whole(1, 1024));
    list("--place", bench_.places, "where results go: out (tensors of their own), in (those of the inputs) [out]", "out,in")
        ->check(CLI::IsMember({"out", "in"}).description(""));
    list("--tensors", bench_.tensors,
         "where they lie for shm: allocated (by the group, so that members read them there), own (memory of the caller's) [allocated]",
         "allocated,own")
        ->check(CLI::IsMember({"allocated", "own"}).description(""));
    bench.add_flag("--paced", bench_.paced,
                   "each round, the two that warm up included, waits for a line of standard input: for turns with another program");
    bench
        .add_option("--timeout", bench_.timeout, "of each reduce; a process that stands still for twice as long ends the measurement [30s]")
        ->type_name("DURATION");
    add_device(bench, bench_.device);
    bench.add_option("--repeat", bench_.repeat, "measured rounds [7]")->type_name("N")->transform(whole(1, 1000));
    add_simulate();
    add("version", "print versions of program, protocol and libraries", "Manifest and help", version_);
  }

  void add_simulate() {
    auto& simulate = add("simulate", "run a scenario on virtual time, with the machines that runs are made of, and judge it",
                         "Manifest and help", simulate_);
    simulate.add_option("SCENARIO", simulate_.file, "scenario file, such as those of manifests/scenarios")->required();
    const auto set_seeds = [this](SeedRange seeds, bool range) {
      simulate_.seeds = seeds;
      simulate_.range = range;
    };
    auto* seed = simulate
                     .add_option_function<std::string>(
                         "--seed",
                         [=](const std::string& text) {
                           const auto seeds = parse_seeds(text + ".." + text);
                           if (!seeds) throw CLI::ValidationError("--seed", "`" + text + "` is no number from 0 to 18446744073709551615");
                           set_seeds(*seeds, false);
                         },
                         "what all chance is drawn from [1]")
                     ->type_name("S");
    simulate
        .add_option_function<std::string>(
            "--seeds",
            [=](const std::string& text) {
              const auto seeds = parse_seeds(text);
              if (!seeds) throw CLI::ValidationError("--seeds", "`" + text + "` is no range such as 1..200");
              set_seeds(*seeds, true);
            },
            "one run for each of them")
        ->type_name("A..B")
        ->excludes(seed);
    simulate.add_option("--peers", simulate_.peers, "peers of the start [the scenario's]")->type_name("N")->transform(whole(1, 1024));
    simulate.footer(
        "Exits with 1 when an invariant (docs/INVARIANTS.md) breaks or a run ends as the scenario does not allow; what is printed then\n"
        "replays it: equal scenario, seed and peers are the same run, event for event.");
  }

  void hidden_group() {
    auto& coordinator = add("coordinator", "serve a run (started by `up`)", "", coordinator_);
    coordinator.add_flag("--serve", coordinator_.serve);
    coordinator.add_flag("--again", coordinator_.again);
    coordinator.add_option("--killed", coordinator_.killed);
    coordinator.add_option("--directory", coordinator_.directory)->required();
    coordinator.add_option("--ready-fd", coordinator_.ready_descriptor)->required();
    auto& agent = add("agent", "take part in a run (started by `up` and `join -d`)", "", agent_);
    agent.add_option("--directory", agent_.directory)->required();
    agent.add_option("--ready-fd", agent_.ready_descriptor)->required();
  }

  CLI::App app_;
  std::optional<Arguments> chosen_;
  UpArguments up_;
  JoinArguments join_;
  DoctorArguments doctor_;
  StandbyArguments standby_;
  StatusArguments status_;
  LogsArguments logs_;
  LeaveArguments leave_;
  DownArguments down_;
  RemoveArguments remove_;
  ValidateArguments validate_;
  VersionArguments version_;
  ExplainArguments explain_;
  BenchArguments bench_;
  SimulateArguments simulate_;
  CommitmentArguments commitment_;
  std::string prefill_;  // a flag with a number is a text to CLI11
  GenerateArguments generate_;
  VerifyArguments verify_;
  CoordinatorArguments coordinator_;
  AgentArguments agent_;
};

std::vector<std::string> visible_commands(CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

bool is_command(CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) { return command->get_name() == word; });
}

std::string suggestion(std::string_view word, const std::vector<std::string>& names, const std::string& prefix = {}) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto near = manifest::nearest(word, candidates);
  return near ? "; did you mean `" + prefix + std::string{*near} + "`?" : std::string{};
}

Error unknown_command(CLI::App& app, const std::string& word) {
  return Error{ErrorName::Usage, "no command `" + word + "`" + suggestion(word, visible_commands(app))};
}

/// The first long option among the words of a line that its command does not have.
std::optional<Error> unknown_option(const CLI::App& command, const std::vector<std::string>& words) {
  constexpr std::string_view DASHES = "--";
  std::vector<std::string> known;
  std::vector<std::string> shown;
  for (const auto* option : command.get_options()) {
    const auto& names = option->get_lnames();
    known.insert(known.end(), names.begin(), names.end());
    if (!option->get_group().empty()) shown.insert(shown.end(), names.begin(), names.end());
  }
  for (const auto& word : words) {
    if (word == DASHES) break;  // what follows is no option
    if (!word.starts_with(DASHES)) continue;
    const auto name = word.substr(DASHES.size(), word.find('=') - DASHES.size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Error{ErrorName::Usage, "no option `--" + name + "`" + suggestion(name, shown, std::string{DASHES})};
  }
  return std::nullopt;
}

/// `--prefill=`, as an unset variable of a shell leaves it, would be the flag alone.
std::optional<Error> empty_value(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word == "--") break;
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      return Error{ErrorName::Usage, word.substr(0, word.size() - 1) + ": nothing stands behind the `=`"};
  }
  return std::nullopt;
}

/// CLI11 ends its sentences in several ways; ours are one line without a full stop.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0)
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

Result<std::variant<Arguments, HelpText>> parse_arguments(const std::vector<std::string>& words) {
  Table table;
  auto& app = table.app();
  if (words.empty()) return HelpText{app.help()};
  if (const auto& first = words.front(); !first.starts_with('-') && !is_command(app, first)) return fail(unknown_command(app, first));
  if (auto empty = empty_value(words)) return fail(*std::move(empty));
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const auto commands = app.get_subcommands();
    return HelpText{commands.empty() ? app.help() : commands.front()->help("primectl")};
  } catch (const CLI::ParseError& error) {
    // Before what CLI11 says: a misspelt option leaves its value behind, which is then taken for something else.
    const auto& command = is_command(app, words.front()) ? *app.get_subcommand(words.front()) : app;
    if (auto unknown = unknown_option(command, words)) return fail(std::move(*unknown));
    return fail(ErrorName::Usage, one_line(error.what()));
  }
  return *table.chosen();
}

std::string command_of(const std::vector<std::string>& words) {
  Table table;
  return !words.empty() && is_command(table.app(), words.front()) ? words.front() : std::string{};
}

std::string reference_page() {
  Table table;
  std::string page =
      "# Commands of primectl\n\n<!-- Written from the command table by `PRIME_WRITE_GOLDENS=1 cli_test`; a test compares. -->\n";
  page += "\n```\n" + table.app().help() + "```\n";
  for (const auto& name : visible_commands(table.app()))
    page += "\n## " + name + "\n\n```\n" + table.app().get_subcommand(name)->help("primectl") + "```\n";
  return page;
}

}  // namespace prime::cli
