// Owns what a person may type: the commands with their options as plain data, and how a command line becomes one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/render/style.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::cli {

enum class Format { Table, Json };
enum class LogLevel { Info, Debug };

/// What every command understands.
struct CommonArguments {
  Format format = Format::Table;
  Colour colour = Colour::Auto;
  std::string state_dir;                ///< empty: $XDG_STATE_HOME/primectl, else ~/.local/state/primectl
  bool quiet = false;                   ///< no progress on stderr
  LogLevel log_level = LogLevel::Info;  ///< of the processes that the command starts
};

struct UpArguments {
  CommonArguments common;
  std::string file;
  std::optional<unsigned> local;   ///< peers to start here, 0: a coordinator alone; absent: 1
  std::optional<unsigned> quorum;  ///< peers that begin together; absent: all that are started here, at least the manifest's minimum
  bool detach = false;
  std::vector<std::string> overrides;
  std::optional<std::string> from;  ///< a checkpoint's directory, or a run of this machine; empty: a new state
  std::string listen;               ///< of the coordinator; empty: the manifest's `local.network.listen`
};

struct JoinArguments {
  CommonArguments common;
  std::string invite;  ///< empty: $PRIMECTL_INVITE
  bool detach = false;
  std::string name;
  std::string local_manifest;
  std::vector<std::string> overrides;
  std::optional<int> trainer_descriptor;
  std::string replica;               ///< of a sharded run; empty: drawn, where `shards` starts a whole one
  std::optional<unsigned> shard;     ///< the one that this peer holds
  std::optional<unsigned> shards;    ///< start so many peers, which are a replica
  std::vector<std::string> trainer;  ///< its words; empty: as `local.trainer_command` says
};

struct StandbyArguments {
  CommonArguments common;
  std::string invite;  ///< empty: $PRIMECTL_INVITE
  std::vector<std::string> etcd;
  std::vector<std::string> overrides;
  std::string listen;  ///< empty: what the run needs
  bool detach = false;
};

struct LsArguments {
  CommonArguments common;
};

struct StatusArguments {
  CommonArguments common;
  std::string run;
  bool watch = false;
  bool check = false;  ///< exit with UNHEALTHY unless the run trains or is done
};

struct AttachArguments {
  CommonArguments common;
  std::string run;
};

struct LogsArguments {
  CommonArguments common;
  std::string who;  ///< a peer's name or id, `coordinator`, or empty for all
  std::string run;
  bool follow = false;
  std::string since;
  std::optional<std::uint64_t> tail;  ///< so many of the lines that are there; absent: all, of what is followed FOLLOWED_TAIL
};

struct LeaveArguments {
  CommonArguments common;
  std::string peer;
  std::string run;
};

struct InviteArguments {
  CommonArguments common;
  std::string run;
};

struct DownArguments {
  CommonArguments common;
  std::string run;
};

struct PauseArguments {
  CommonArguments common;
  std::string run;
};

struct ResumeArguments {
  CommonArguments common;
  std::string run;
};

struct RemoveArguments {
  CommonArguments common;
  std::vector<std::string> runs;  ///< empty: all that have ended
  bool all = false;               ///< what an empty list has to be told by
  std::optional<Duration> older;  ///< or by this: only those of which nothing was heard for so long
  bool yes = false;               ///< nobody is asked
};

struct ValidateArguments {
  CommonArguments common;
  std::vector<std::string> files;
  std::vector<std::string> overrides;
};

struct PlanArguments {
  CommonArguments common;
  std::string file;
  std::vector<std::string> overrides;
  std::optional<std::uint64_t> link_bits_per_s;
  std::optional<std::uint32_t> peers;
  std::optional<Duration> step_time;
  std::optional<Duration> mtbf;
  std::optional<Duration> recovery;
};

struct DoctorArguments {
  CommonArguments common;
  std::string invite;  ///< empty: this machine alone
  std::vector<std::string> overrides;
};

struct VersionArguments {
  CommonArguments common;
};

struct ExplainArguments {
  CommonArguments common;
  std::vector<std::string> what;  ///< an error code, a manifest key, or a word ("inner step" are two)
};

struct SchemaArguments {
  CommonArguments common;
  std::string name;  ///< empty: list all
};

struct BenchArguments {
  CommonArguments common;
  std::string what;                  ///< allreduce, lanes, kernels or inference
  std::vector<unsigned> peers;       ///< empty: 2 and 4, for lanes 2
  std::vector<std::uint64_t> sizes;  ///< bytes; empty: from 4 KiB to 256 MiB
  std::vector<std::string> codecs{"none"};
  std::vector<std::string> lanes;  ///< empty: tcp, for lanes all
  std::vector<std::string> schedules{"auto"};
  std::vector<unsigned> tags{1};
  std::vector<std::string> places{"out"};
  std::vector<std::string> tensors{"allocated"};
  unsigned repeat = 7;
  std::string timeout = "30s";
  bool paced = false;
  std::string device = "cpu";  ///< of inference
};

struct CommitmentArguments {
  CommonArguments common;
  std::string what;                ///< build, check or calibrate
  std::vector<std::string> files;  ///< safetensors; calibrate takes two
  std::string tensor;
  unsigned k = 128;
  unsigned tokens = 32;
  std::uint64_t prefill = 0;
  std::string proofs;
  std::string thresholds;  ///< empty: by the tensor's type
};

struct DataArguments {
  CommonArguments common;
  std::string what;                ///< build, inspect, stats, tokenizer or reads
  std::vector<std::string> files;  ///< a manifest; of `tokenizer` "train" and files; of `reads` genomes
  std::vector<std::string> overrides;
  std::uint64_t sample = 0;
  std::uint32_t vocab = 1024;
  std::string out;
  std::string format = "text";
  std::string field = "text";
  std::uint64_t count = 100'000;
  std::uint64_t seed = 1;
  std::uint32_t length = 150;
  std::uint32_t spread = 40;
  double errors = 0.4;
  double from = 0;
  double to = 100;
  std::string adapter;
  std::uint32_t cycles = 150;
  std::vector<double> shares;
};

struct GenerateArguments {
  CommonArguments common;
  std::string model;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::string prompt_tokens_file;
  unsigned tokens = 0;  ///< 0: proofs::TOKENS_BY_DEFAULT, or as many as the model's context leaves
  std::string prove;    ///< empty: nothing is proved
  unsigned k = 128;
  unsigned segment = 32;
  std::string dtype = "f32";
  double temperature = 0;
  std::uint64_t seed = 1;
  unsigned batch = 16;
  unsigned threads = 0;
  std::string device = "cpu";
};

struct EvalArguments {
  CommonArguments common;
  std::string model;
  std::string manifest;
  std::vector<std::string> overrides;
  std::vector<std::string> held_out;
  std::vector<std::string> positive;
  std::uint32_t reads = 2000;  ///< of each kind
  unsigned batch = 32;
  unsigned threads = 0;
  std::string device = "cpu";
};

struct VerifyArguments {
  CommonArguments common;
  std::string file;
  std::string model;
  std::string thresholds;  ///< empty: by the dtype
  unsigned k = 128;
  unsigned segment = 32;
  std::string dtype = "f32";
  unsigned batch = 16;
  unsigned threads = 0;
  std::string device = "cpu";
};

struct ReplayArguments {
  CommonArguments common;
  std::string run;
  std::vector<std::string> contributions;  ///< directories that peers of other machines have filled
};

struct SeedRange {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
};

struct SimulateArguments {
  CommonArguments common;
  std::string file;
  SeedRange seeds;
  bool range = false;  ///< several seeds were asked for, as `--seeds`
  std::optional<unsigned> peers;
};

struct CompletionsArguments {
  CommonArguments common;
  std::string shell;  ///< bash, zsh or fish
};

struct ManArguments {
  CommonArguments common;
};

/// Hidden: what the scripts of shells ask for.
struct CompleteArguments {
  CommonArguments common;
  std::string kind;                ///< runs or peers
  std::vector<std::string> typed;  ///< the words of the line so far, of which `--state-dir` counts
};

/// Hidden, too: processes that `up` and `join -d` start. What they are to do comes on stdin (runtime/launch/launch_plan.hpp).
struct CoordinatorArguments {
  std::optional<std::uint32_t>
      guard;           ///< be the coordinator that this process guards; absent: be the guard, which starts it and starts it again
  bool again = false;  ///< another one has served this run before
  std::string killed;  ///< how that one was, as its guard saw it; empty: it ended by itself
  std::string directory;
  int ready_descriptor = -1;
};
struct AgentArguments {
  std::string directory;
  int ready_descriptor = -1;
};

using Arguments =
    std::variant<UpArguments, JoinArguments, StandbyArguments, DoctorArguments, LsArguments, StatusArguments, AttachArguments,
                 InviteArguments, LogsArguments, LeaveArguments, PauseArguments, ResumeArguments, DownArguments, RemoveArguments,
                 ValidateArguments, PlanArguments, VersionArguments, ExplainArguments, SchemaArguments, CompletionsArguments, ManArguments,
                 BenchArguments, SimulateArguments, CommitmentArguments, DataArguments, EvalArguments, GenerateArguments, VerifyArguments,
                 ReplayArguments, CompleteArguments, CoordinatorArguments, AgentArguments>;

/// A command line that asks for a text instead of a command (`--help`).
struct HelpText {
  std::string text;
};

/// Usage when the line is wrong; the detail names the nearest command for a misspelled one.
Result<std::variant<Arguments, HelpText>> parse_arguments(const std::vector<std::string>& words);

/// The command that a line names, whose help it is to see; empty when it names none.
std::string command_of(const std::vector<std::string>& words);

/// docs/CLI.md: every command with its help, from the same tables that parse it.
std::string reference_page();

}  // namespace prime::cli
