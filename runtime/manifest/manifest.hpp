// Owns the run manifest as plain typed data: what a person may write in a manifest, with its defaults, and nothing else.
//
// A manifest has two halves. `Shared` is the run: every peer must hold the same values, and its digest names it.
// `Local` is one peer's own business and never travels. Values are valid when they come from load.hpp; C++ code that
// builds a manifest by hand can pass it through `check` there. A field is named after its key, spelled out where the key is short.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "messages/data_types.hpp"
#include "messages/division.hpp"
#include "messages/units.hpp"

namespace prime::manifest {

/// The manifest version that this program reads and writes.
inline constexpr std::uint32_t MANIFEST_VERSION = 1;
/// The largest manifest that is read; the shared half travels in one message.
inline constexpr std::size_t MAX_MANIFEST_BYTES = 48 * KIB;

/// Llama: rotary positions, RMSNorm, SwiGLU, grouped keys. GPT-2: learned positions, LayerNorm, GELU, biases everywhere.
enum class Architecture : std::uint8_t { Llama, Gpt2 };
/// How a file holds documents. Tokens are of 16 bits where no header says otherwise; Tokens32 of 32.
enum class DataFormat : std::uint8_t { Text, Jsonl, Tokens, Tokens32, Fasta, Fastq, Parquet };
/// What a broken record does.
enum class OnError : std::uint8_t { Stop, Skip };
/// Where the second read of a pair lies: in a file whose name has `_R2` or `_2` for `_R1` or `_1`, or behind the first.
enum class Collapse : std::uint8_t { Off, Files, Interleaved };
enum class Algorithm : std::uint8_t { Diloco, Delayed, Eager, Streaming, Decoupled };
/// Of values that a codec cannot carry exactly.
enum class Rounding : std::uint8_t { Nearest, Stochastic };
/// What the run does when a third of its members or more, and two at least, are lost at once.
enum class CorrelatedLoss : std::uint8_t { Continue, Pause, Rollback };
/// In which order peers follow one another in a ring.
enum class RingOrder : std::uint8_t { JoinOrder, MeasuredBandwidth };
/// What a contribution weighs: tokens, or tokens² by inner steps.
enum class Weighting : std::uint8_t { Tokens, Throughput };
/// What a world of one does when `membership.peers` asks for more (law 5: never alone by accident).
enum class Alone : std::uint8_t { Wait, Stop };
enum class Transport : std::uint8_t { Tls, Plain };
/// What the inner steps compute in; parameters, gradients' norm and the optimizer are f32 either way.
enum class Precision : std::uint8_t { F32, Bf16 };

enum class RopeKind : std::uint8_t { None, Linear, Llama3 };

/// How a Llama's rotations are slowed down, so that more positions fit into what it learned of fewer. The names are Hugging Face's.
struct RopeScaling {
  RopeKind kind = RopeKind::None;
  double factor = 1;                      ///< divisor of frequencies; more than 1 where there is a kind
  double low_freq_factor = 1;             ///< `llama3`: waves longer than `original_context` / this are slowed down whole
  double high_freq_factor = 4;            ///< `llama3`: shorter than `original_context` / this not at all, and those between in part
  std::uint32_t original_context = 8192;  ///< `llama3`: tokens of the windows that the model learned with before
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// The decoder that is trained. Sizes are counts of elements.
struct Model {
  Architecture arch = Architecture::Llama;
  std::uint32_t layers = 2;     ///< decoder blocks
  std::uint32_t dim = 96;       ///< width of the residual stream; a multiple of `heads`
  std::uint32_t heads = 4;      ///< query heads; of a Llama dim / heads is even (RoPE turns pairs)
  std::uint32_t kv_heads = 4;   ///< key and value heads; divides `heads`; default: `heads`, which a GPT-2 has
  std::uint32_t ffn = 256;      ///< inner width; default: 8/3 · dim, rounded up to a multiple of 32; of a GPT-2 4 · dim
  std::uint32_t vocab = 256;    ///< token ids; at least 256 for the tokenizer `bytes`, whose id 256 ends a document where there is one
  std::uint32_t context = 128;  ///< tokens in a sample that are predicted
  double rope_theta = 10000;    ///< base of a Llama's rotary frequencies
  RopeScaling rope_scaling = {};
  bool attention_bias = false;  ///< a Llama's four projections of attention have one; a GPT-2's always do
  double norm_epsilon = 1e-5;   ///< added to the mean square that a norm divides by
  bool tie_embeddings = false;  ///< the output layer is the embedding, transposed; default: with GPT-2
  friend bool operator==(const Model&, const Model&) = default;
};

/// What text becomes: bytes, or the ids of one of two kinds of files.
struct TokenizerChoice {
  std::optional<std::string> file = {};             ///< a tokenizer.json
  std::optional<std::string> end_of_document = {};  ///< its token; absent: the first known one that it has
  std::optional<std::string> sentencepiece = {};    ///< a model of SentencePiece
  [[nodiscard]] bool is_bytes() const { return !file && !sentencepiece; }
  friend bool operator==(const TokenizerChoice&, const TokenizerChoice&) = default;
};

/// A source's share beside the other sources': a line through points, level before the first and behind the last. Points are samples of the
/// run and no share of it: which sample comes when depends on how many peers there are, its number does not.
struct SourceWeight {
  struct Point {
    std::uint64_t at = 0;  ///< sample
    double weight = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };
  std::vector<Point> points = {};  ///< ascending; one: always the same; none: as many samples as the source has

  SourceWeight(double constant = 0) {
    if (constant > 0) points = {{0, constant}};
  }
  [[nodiscard]] bool given() const { return !points.empty(); }
  [[nodiscard]] bool changes() const { return points.size() > 1; }
  friend bool operator==(const SourceWeight&, const SourceWeight&) = default;
};

inline double weight_at(const SourceWeight& weight, std::uint64_t sample) {
  const auto& points = weight.points;
  if (points.empty()) return 0;
  if (sample >= points.back().at) return points.back().weight;
  std::size_t next = 0;
  while (points[next].at <= sample) ++next;
  if (next == 0) return points.front().weight;
  const auto &from = points[next - 1], &to = points[next];
  return from.weight + (to.weight - from.weight) * (static_cast<double>(sample - from.at) / static_cast<double>(to.at - from.at));
}

/// One source of a mix. What is said of reads is for FASTA and FASTQ.
struct Source {
  std::vector<std::string> paths = {};  ///< `path`: files, globs, directories
  DataFormat format = DataFormat::Text;
  std::string field = "text";  ///< of a JSON line, or a row of Parquet
  SourceWeight weight = {};
  OnError on_error = OnError::Stop;
  std::uint32_t quality_trim = 0;  ///< Phred score; 0: off
  std::string adapter = {};        ///< empty: off
  double n_percent = 100;          ///< `n_limit`: reads with more are left out
  std::uint32_t min_length = 0;
  std::uint32_t max_length = 0;  ///< 0: any
  bool deduplicate = false;
  Collapse collapse = Collapse::Off;
  friend bool operator==(const Source&, const Source&) = default;
};

/// What is trained on and what is held out. Documents, not bytes, are held out, so that no sample leaks.
/// For what a source is drawn: for one sample, or for all that a peer trains on in an outer step.
enum class Draw : std::uint8_t { Sample, Range };

struct Data {
  DataFormat source = DataFormat::Text;       ///< of `path`
  std::string path = "/usr/include";          ///< directory or file, read recursively; `local.data_path` may replace it
  std::string include = "*";                  ///< glob on the file name (not on its folder)
  std::uint64_t per_file_bytes = 1024 * GIB;  ///< `per_file`: at most this much of the start of a file; more than `context`
  std::vector<Source> sources = {};           ///< instead of `path`
  TokenizerChoice tokenizer;
  bool document_mask = true;    ///< a token sees nothing of the documents before its own in a sample
  double held_out_percent = 5;  ///< `held_out`: share of the files, or of the end of each, that is never trained on; 0 … 50
  std::uint64_t held_out_per_file_bytes = 1024 * GIB;  ///< `held_out_per_file`: at most this much of a held-out file
  std::uint64_t held_out_limit_bytes = 1 * MIB;        ///< `held_out_limit`: evaluated in all, files in the order of their hash
  std::uint32_t seed = 1;                              ///< of the order of samples
  Draw draw = Draw::Sample;                            ///< of sources with weights
  friend bool operator==(const Data&, const Data&) = default;
};

struct AdamW {
  double learning_rate = 5e-3;             ///< `lr`: the highest, that the schedule scales
  std::array<double, 2> betas{0.9, 0.95};  ///< decay of the mean and of the mean square; 0 ≤ b < 1
  double weight_decay = 0.1;               ///< decoupled; multiplied by the learning rate
  double epsilon = 1e-8;
  friend bool operator==(const AdamW&, const AdamW&) = default;
};
struct Sgd {
  double learning_rate = 0.1;
  double momentum = 0.9;  ///< 0 ≤ m < 1; 0: none is kept
  bool nesterov = false;
  double weight_decay = 0;  ///< of the parameters, added to the gradient
  friend bool operator==(const Sgd&, const Sgd&) = default;
};
/// Of the matrices within blocks; AdamW steps the embedding, the output layer and all vectors.
struct Muon {
  double learning_rate = 0.02;
  double momentum = 0.95;  ///< 0 ≤ m < 1
  bool nesterov = true;
  double weight_decay = 0.1;     ///< decoupled; multiplied by the learning rate
  std::uint32_t iterations = 5;  ///< of Newton and Schulz
  AdamW rest = {};               ///< `adamw`
  friend bool operator==(const Muon&, const Muon&) = default;
};
using Optimizer = std::variant<AdamW, Sgd, Muon>;

/// Linear warm-up, then half a cosine down to `floor` at the last inner step of the run.
struct Cosine {
  std::uint32_t warmup = 20;  ///< inner steps
  double floor = 0.1;         ///< fraction of the learning rate that is left at the end
  friend bool operator==(const Cosine&, const Cosine&) = default;
};
struct Constant {
  friend bool operator==(const Constant&, const Constant&) = default;
};
/// Linear warm-up, then a line down to `floor`.
struct Linear {
  std::uint32_t warmup = 20;
  double floor = 0;
  friend bool operator==(const Linear&, const Linear&) = default;
};
/// Warm-up, stable, decay: the whole learning rate, and at the end of the run a root down to `floor` (arXiv:2405.18392, "1-sqrt").
struct Wsd {
  std::uint32_t warmup = 20;
  double decay_percent = 20;  ///< `decay`: share of the run's inner steps
  double floor = 0;
  friend bool operator==(const Wsd&, const Wsd&) = default;
};
using Schedule = std::variant<Cosine, Constant, Linear, Wsd>;

struct Evaluate {
  std::uint32_t every = 10;              ///< outer steps; 0: only at the end
  std::uint64_t limit_bytes = 64 * KIB;  ///< `limit`: held-out bytes of an evaluation on the way; the last one takes data.held_out_limit
  Duration time_limit = 10min;           ///< of the last one, once the final state is saved
  friend bool operator==(const Evaluate&, const Evaluate&) = default;
};

struct Train {
  std::uint32_t batch = 16;        ///< samples in one inner step of one peer
  std::uint32_t outer_steps = 60;  ///< of the whole run
  Optimizer optimizer = AdamW{};
  Schedule schedule = Cosine{};
  Precision precision = Precision::F32;
  double clip_norm = 1.0;  ///< highest L2 norm of a gradient
  double z_loss = 0;       ///< weight of log²(Z) beside the loss (PaLM, §5)
  std::uint32_t seed = 1;  ///< of the initial parameters
  Evaluate evaluate;
  friend bool operator==(const Train&, const Train&) = default;
};

struct Nesterov {
  double learning_rate = 0.7;  ///< `lr`
  double momentum = 0.9;       ///< 0 ≤ m < 1
  friend bool operator==(const Nesterov&, const Nesterov&) = default;
};

struct Wire {
  Codec codec = Codec::None;              ///< of contributions
  Codec result_codec = Codec::None;       ///< of the mean
  bool feedback = false;                  ///< what the codec loses of a contribution is added to the next one
  Rounding rounding = Rounding::Nearest;  ///< stochastic: right on average; its random bits are those of the outer step
  prime::Schedule schedule = prime::Schedule::Automatic;
  std::uint32_t streams = 1;  ///< connections between two peers
  friend bool operator==(const Wire&, const Wire&) = default;
};

struct Sync {
  Algorithm algorithm = Algorithm::Diloco;
  std::uint32_t inner_steps = 20;  ///< optimizer steps in one outer step
  std::uint32_t overlap = 0;       ///< inner steps between the publication of a fragment and its result; at most `inner_steps`
  double mix = 0;                  ///< α: a trainer takes over α θ + (1 − α) G (Streaming DiLoCo, arXiv:2501.18512, section 3.2)
  bool eager = false;              ///< a trainer goes on with what its peer expects of its own contribution (arXiv:2502.12996)
  Merge merge = Merge::Mean;       ///< of contributions
  Weighting weight = Weighting::Tokens;
  Nesterov outer;  ///< the only choice today: `outer: {nesterov: {…}}`
  Wire wire;
  Duration deadline = 120s;  ///< of one reduce, and how long the slowest may be behind the first
  std::uint32_t quorum = 0;  ///< contributions that close an outer step; 0: those of all members
  Duration grace = 5s;       ///< for the others, once the quorum is there
  Alone alone = Alone::Wait;
  Division fragments = {};  ///< parts of the model that are reduced and committed by themselves
  Offsets offsets = Offsets::End;
  std::uint32_t in_flight = 2;  ///< fragments that are reduced at once, at most
  friend bool operator==(const Sync&, const Sync&) = default;

  /// Nobody waits for anybody (Decoupled DiLoCo, arXiv:2604.21428).
  [[nodiscard]] bool decoupled() const { return algorithm == Algorithm::Decoupled; }
  /// A trainer takes over each fragment by itself, and goes on with what it has made of the others.
  [[nodiscard]] bool streams() const { return decoupled() || offsets == Offsets::Spread || (overlap > 0 && overlap < inner_steps); }
};

/// Written `2..8`. A minimum of 1 says that a run of one peer is intended.
struct PeerRange {
  std::uint32_t minimum = 2;
  std::uint32_t maximum = 8;  ///< at most MAX_PEERS of messages/membership.hpp
  friend bool operator==(const PeerRange&, const PeerRange&) = default;
};

struct Heartbeat {
  Duration every = 2s;
  Duration dead_after = 10s;  ///< of silence; at least twice `every`
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

/// Coordinators on other machines that take over, one at a time, when the one that leads the run is gone.
struct Standby {
  std::vector<std::string> etcd;  ///< URLs of the store that says who leads; empty: nobody stands by
  Duration lease = 10s;           ///< so long nobody else leads after the leader's last sign of life
  friend bool operator==(const Standby&, const Standby&) = default;
};

struct Membership {
  PeerRange peers;
  std::uint32_t shards = 1;  ///< peers that hold one replica of the model together, each a part of it; `peers` counts replicas then
  Heartbeat heartbeat;
  Duration wait_limit = 10min;        ///< for quorum, before the run fails with TooFewPeers
  Duration coordinator_grace = 1min;  ///< how long a peer waits for a lost coordinator to come back
  CorrelatedLoss correlated_loss = CorrelatedLoss::Continue;
  Standby standby;
  friend bool operator==(const Membership&, const Membership&) = default;
};

struct Topology {
  RingOrder ring = RingOrder::JoinOrder;
  Duration measure_every = 5min;  ///< a link is measured again
  friend bool operator==(const Topology&, const Topology&) = default;
};

struct Trust {
  Transport transport = Transport::Tls;
  friend bool operator==(const Trust&, const Trust&) = default;
};

struct Checkpoint {
  std::uint32_t every = 0;          ///< outer steps; 0: only at the end
  std::uint32_t keep = 3;           ///< newest ones; older ones are removed
  Duration retry = 10min;           ///< how long a peer that ends tries to write what it holds
  bool keep_contributions = false;  ///< each peer keeps what it brings to each round, for `primectl replay`
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

/// The half that all peers must hold alike; `run_digest` is over it.
struct Shared {
  std::uint32_t version = MANIFEST_VERSION;
  std::string run;  ///< 1 … 40 of a-z 0-9 and the hyphen; required
  Model model;
  Data data;
  Train train;
  Sync sync;
  Membership membership;
  Topology topology;
  Trust trust;
  Checkpoint checkpoint;
  friend bool operator==(const Shared&, const Shared&) = default;
};

struct Network {
  /// host:port of the one acceptor; port 0: any free one; IPv6 as [::1]:0. Absent: what the run needs (net::listen_towards); the
  /// coordinator's is 127.0.0.1:0 then.
  std::optional<std::string> listen = {};
  /// HOST or HOST:PORT that others reach this machine by, the likeliest first, at most MAX_ADDRESSES; empty: net::told_addresses. A port
  /// here or in `listen` is that of the first process which a command starts; the next ones have those that follow.
  std::vector<std::string> advertise = {};
  bool shared_memory = true;                         ///< lanes to peers of the same machine
  std::optional<std::uint64_t> cap_bits_per_s = {};  ///< that an agent sends through the network; absent: no cap
  friend bool operator==(const Network&, const Network&) = default;
};

/// How this machine proves itself to the etcd of `membership.standby.etcd`. Paths of PEM files; absent: none.
struct EtcdAccess {
  std::optional<std::string> authority = {};
  std::optional<std::string> certificate = {};
  std::optional<std::string> key = {};
  std::optional<std::string> user = {};
  std::optional<std::string> password_file = {};  ///< never the password itself: manifests are shown and kept
  friend bool operator==(const EtcdAccess&, const EtcdAccess&) = default;
};

/// When a failing trainer is started again, and when it is given up.
struct TrainerCare {
  std::uint32_t restarts = 3;  ///< allowed in `within`; 0: never started again
  Duration within = 10min;
  Duration stall_limit = 5min;  ///< without any progress before it counts as failed
  friend bool operator==(const TrainerCare&, const TrainerCare&) = default;
};

/// The half of one peer; never hashed, never sent.
struct Local {
  Network network;
  EtcdAccess etcd;
  std::string device = "cpu";             ///< of the trainer: cpu, cuda, cuda:N or auto
  std::uint32_t threads = 1;              ///< compute threads of the trainer
  std::uint32_t micro_batch = 0;          ///< samples that go through the model at once; 0: the whole batch
  bool activation_checkpointing = false;  ///< backward computes a block again instead of keeping what it made
  TrainerCare trainer;
  std::uint32_t record_every = 0;                 ///< inner steps between two records of the trainer; 0: at publications alone
  std::optional<std::string> data_path = {};      ///< replaces data.path, or the path of the one source, on this machine
  std::optional<std::string> data_cache = {};     ///< where compiled data is kept; absent: $XDG_CACHE_HOME/prime, else ~/.cache/prime
  std::vector<std::string> trainer_command = {};  ///< program and arguments of a trainer of your own; empty: prime-trainer
  friend bool operator==(const Local&, const Local&) = default;
};

struct Manifest {
  Shared shared;
  Local local;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

}  // namespace prime::manifest
