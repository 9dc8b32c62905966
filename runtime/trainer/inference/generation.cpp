// Owns the loops over batches, and which hidden state belongs to which segment.
//
// Of a prompt of P tokens and N that are written after it, P + N − 1 go through the model: the last one is chosen and not read again. The
// states of the prompt are the first segment; those of the written tokens follow, so many at a time.
#include "runtime/trainer/inference/generation.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace prime::trainer {
namespace {

/// Tokens in one prefill, and numbers in one tensor of logits: what is more goes through the model in parts.
constexpr std::int64_t PREFILL_TOKENS = 1024;
constexpr std::int64_t LOGITS_AT_ONCE = 1 << 24;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// [rows, dim] of any type, on any device → bf16 patterns.
std::vector<std::uint16_t> bits_of(const at::Tensor& hidden) {
  const at::Tensor rounded = hidden.to(at::kBFloat16).cpu().contiguous();
  const auto* bits = reinterpret_cast<const std::uint16_t*>(rounded.const_data_ptr<at::BFloat16>());
  return {bits, bits + rounded.numel()};
}

std::span<const float> row_of(const at::Tensor& logits, std::int64_t row) {
  const auto width = static_cast<std::size_t>(logits.size(1));
  return {logits.const_data_ptr<float>() + static_cast<std::size_t>(row) * width, width};
}

/// Why a sequence cannot go through the model, if so.
std::string problem_of(const ModelConfig& config, std::span<const std::uint32_t> tokens, std::uint64_t length) {
  if (tokens.empty()) return "it is empty";
  if (length > config.context)
    return "it has " + std::to_string(length) + " tokens with what is written, and the model's context " + std::to_string(config.context) +
           (tokens.size() < length && tokens.size() < config.context
                ? ": --tokens " + std::to_string(config.context - tokens.size()) + " at most"
                : "");
  const auto unknown = std::ranges::find_if(tokens, [&](std::uint32_t token) { return token >= config.vocab; });
  if (unknown == tokens.end()) return {};
  return "token " + std::to_string(*unknown) + " is none of the model's " + std::to_string(config.vocab);
}

/// Rows of ids, filled up behind their ends with what the decoder does not look at.
at::Tensor padded_ids(std::span<const std::vector<std::uint32_t>> rows) {
  std::size_t time = 0;
  for (const auto& row : rows) time = std::max(time, row.size());
  at::Tensor ids = at::zeros({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(time)}, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(rows[i], ids.mutable_data_ptr<std::int64_t>() + i * time);
  return ids;
}

std::vector<std::int64_t> lengths_of(std::span<const std::vector<std::uint32_t>> rows) {
  std::vector<std::int64_t> lengths;
  for (const auto& row : rows) lengths.push_back(static_cast<std::int64_t>(row.size()));
  return lengths;
}

/// As many rows from `begin` on as a prefill takes at once, at least one and at most `limit`.
std::size_t rows_at_once(std::span<const std::vector<std::uint32_t>> rows, std::size_t begin, std::size_t limit) {
  std::size_t count = 0, longest = 0;
  while (begin + count < rows.size() && count < limit) {
    longest = std::max(longest, rows[begin + count].size());
    if (count > 0 && static_cast<std::int64_t>(longest * (count + 1)) > PREFILL_TOKENS) break;
    ++count;
  }
  return count;
}

/// One batch of prompts, from the first to the last token.
class BatchWriter {
 public:
  BatchWriter(const Decoder& decoder, std::span<const std::vector<std::uint32_t>> prompts, std::size_t first,
              const GenerationOptions& options)
      : decoder_(decoder),
        prompts_(prompts),
        first_(first),
        options_(options),
        written_(prompts.size()),
        problems_(prompts.size()),
        proofs_(prompts.size()) {
    for (const auto& prompt : prompts) longest_ = std::max(longest_, prompt.size());
  }

  /// `wrote` hears of each step.
  void run(const std::function<void()>& wrote) {
    const auto batch = static_cast<std::int64_t>(prompts_.size());
    Cache cache = decoder_.make_cache(batch, static_cast<std::int64_t>(longest_ + options_.tokens));
    at::Tensor hidden = read_prompts(cache);
    for (std::uint32_t step = 0;; ++step) {
      choose_tokens(hidden, step);
      wrote();
      if (step + 1 == options_.tokens) break;
      at::Tensor ids = at::empty({batch}, at::kLong);
      std::vector<std::int64_t> positions;
      for (std::size_t i = 0; i < prompts_.size(); ++i) {
        ids.mutable_data_ptr<std::int64_t>()[i] = written_[i].back();
        positions.push_back(static_cast<std::int64_t>(prompts_[i].size() + step));
      }
      hidden = decoder_.step(ids, positions, cache);
      if (!options_.prove) continue;
      open_.push_back(hidden.to(at::kBFloat16));
      if (open_.size() == options_.segment_tokens) close_segment();
    }
    if (!open_.empty()) close_segment();
  }

  Result<proofs::Sequence> sequence(std::size_t i) {
    if (problems_[i]) return fail(*problems_[i]);
    return proofs::Sequence{prompts_[i], std::move(written_[i]), {}, std::move(proofs_[i])};
  }
  [[nodiscard]] double proving() const { return proving_; }

 private:
  /// What a sequence does not get over; those beside it are gone on with, and it writes what nobody looks at.
  void keep(std::size_t i, const Result<void>& done) {
    if (!done && !problems_[i]) problems_[i] = done.error();
  }

  /// The states of the last token of each prompt.
  at::Tensor read_prompts(Cache& cache) {
    std::vector<at::Tensor> last;
    for (std::size_t begin = 0; begin < prompts_.size();) {
      const auto count = rows_at_once(prompts_, begin, prompts_.size());
      const auto rows = prompts_.subspan(begin, count);
      Cache part;
      for (std::size_t layer = 0; layer < cache.keys.size(); ++layer) {
        part.keys.push_back(cache.keys[layer].narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count)));
        part.values.push_back(cache.values[layer].narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count)));
      }
      const at::Tensor hidden = decoder_.prefill(padded_ids(rows), lengths_of(rows), &part);
      for (std::size_t i = 0; i < count; ++i) {
        const at::Tensor own = hidden[static_cast<std::int64_t>(i)].narrow(0, 0, static_cast<std::int64_t>(rows[i].size()));
        last.push_back(own[-1]);
        if (!options_.prove) continue;
        decoder_.wait();
        const auto since = Clock::now();
        commit(begin + i, bits_of(own));
        proving_ += seconds_since(since);
      }
      begin += count;
    }
    return at::stack(last);
  }

  void choose_tokens(const at::Tensor& hidden, std::uint32_t step) {
    const at::Tensor logits = decoder_.logits(hidden);
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const auto row = row_of(logits, static_cast<std::int64_t>(i));
      if (!are_finite(row)) keep(i, fail(ErrorName::NonFiniteValue, "the logits of token " + std::to_string(step + 1) + " that it writes"));
      written_[i].push_back(problems_[i] ? 0 : choose(row, options_.sampling, {first_ + i, prompts_[i].size() + step}));
    }
  }

  /// Of what all sequences have written since the last one. The states stay where they were computed until then: a copy from a GPU costs
  /// the same for one token as for a segment.
  void close_segment() {
    decoder_.wait();
    const auto since = Clock::now();
    const auto bits = bits_of(at::stack(open_, 1));  // [sequences, tokens, dim]
    const std::size_t each = bits.size() / prompts_.size();
    for (std::size_t i = 0; i < prompts_.size(); ++i) commit(i, std::span{bits}.subspan(i * each, each));
    open_.clear();
    proving_ += seconds_since(since);
  }
  void commit(std::size_t i, std::span<const std::uint16_t> bits) {
    if (problems_[i]) return;
    const auto proof = build_proof(bits, options_.k);
    if (proof) proofs_[i].push_back(to_base64(*proof));
    else problems_[i] = proof.error();
  }

  const Decoder& decoder_;
  std::span<const std::vector<std::uint32_t>> prompts_;
  std::size_t first_;
  const GenerationOptions& options_;
  std::size_t longest_ = 0;
  std::vector<std::vector<std::uint32_t>> written_;
  std::vector<std::optional<Error>> problems_;
  std::vector<std::vector<std::string>> proofs_;
  std::vector<at::Tensor> open_;  // states of the open segment, by token: [sequences, dim] of bf16
  double proving_ = 0;
};

/// The tokens of one sequence that the promised sampling would not have chosen.
void count_other_choices(const Decoder& decoder, const at::Tensor& hidden, const proofs::Sequence& sequence, std::size_t index,
                         const VerificationOptions& options, SequenceVerdict& verdict) {
  const auto prompt = static_cast<std::int64_t>(sequence.prompt.size()), count = static_cast<std::int64_t>(sequence.tokens.size());
  const std::int64_t at_once = std::max<std::int64_t>(1, LOGITS_AT_ONCE / decoder.config().vocab);
  for (std::int64_t begin = 0; begin < count; begin += at_once) {
    const at::Tensor logits = decoder.logits(hidden.narrow(0, prompt - 1 + begin, std::min(at_once, count - begin)));
    for (std::int64_t row = 0; row < logits.size(0); ++row) {
      if (!are_finite(row_of(logits, row))) {
        verdict.reason = "NaN or infinity: the logits of token " + std::to_string(begin + row + 1) + " that it writes";
        return;
      }
      const auto token = static_cast<std::size_t>(begin + row);
      const TokenPlace place{index, sequence.prompt.size() + token};
      if (is_choice(row_of(logits, row), options.sampling, place, sequence.tokens[token], options.tolerance)) continue;
      if (verdict.other_choices++ == 0) verdict.first_other = token;
    }
  }
}

}  // namespace

Result<Spent> generate(const Decoder& decoder, const std::vector<std::vector<std::uint32_t>>& prompts, const GenerationOptions& options,
                       const SequenceDone& done, const Progress& progress) {
  const at::InferenceMode no_graph;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    if (const auto problem = problem_of(decoder.config(), prompts[i], prompts[i].size() + options.tokens); !problem.empty())
      return fail(ErrorName::Usage, "prompt " + std::to_string(i + 1) + ": " + problem);
  Spent spent;
  const auto since = Clock::now();
  const std::uint64_t all = std::uint64_t{options.tokens} * prompts.size();
  std::uint64_t written = 0;
  for (std::size_t begin = 0; begin < prompts.size(); begin += options.batch) {
    const auto rows = std::span{prompts}.subspan(begin, std::min<std::size_t>(options.batch, prompts.size() - begin));
    BatchWriter writer(decoder, rows, begin, options);
    writer.run([&] { progress(written += rows.size(), all); });
    for (std::size_t i = 0; i < rows.size(); ++i) done(begin + i, writer.sequence(i));
    spent.proving += writer.proving();
  }
  spent.total = seconds_since(since);
  return spent;
}

Result<Spent> verify(const Decoder& decoder, const std::vector<proofs::Sequence>& sequences, const VerificationOptions& options,
                     const VerdictDone& done, const Progress& progress) {
  const at::InferenceMode no_graph;
  Spent spent;
  const auto since = Clock::now();
  // What goes through the model: all but the last token. What cannot is answered at once.
  std::vector<std::size_t> indices;
  const auto length_of = [&](std::size_t index) { return sequences[index].prompt.size() + sequences[index].tokens.size(); };
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    auto tokens = sequences[i].prompt;
    tokens.insert(tokens.end(), sequences[i].tokens.begin(), sequences[i].tokens.end());
    if (sequences[i].tokens.empty()) done(i, {{}, 0, 0, "nothing was written of it"});
    else if (auto problem = problem_of(decoder.config(), tokens, tokens.size()); !problem.empty()) done(i, {{}, 0, 0, std::move(problem)});
    else indices.push_back(i);
  }
  // Alike in length side by side: what is filled up is computed, too.
  std::ranges::stable_sort(indices, std::greater{}, length_of);
  std::vector<std::vector<std::uint32_t>> rows;
  for (const auto index : indices) {
    auto& tokens = rows.emplace_back(sequences[index].prompt);
    tokens.insert(tokens.end(), sequences[index].tokens.begin(), sequences[index].tokens.end() - 1);
  }
  for (std::size_t begin = 0; begin < rows.size();) {
    const auto count = rows_at_once(rows, begin, options.batch);
    const auto batch = std::span{rows}.subspan(begin, count);
    const at::Tensor hidden = decoder.prefill(padded_ids(batch), lengths_of(batch), nullptr);
    for (std::size_t i = 0; i < count; ++i) {
      const auto index = indices[begin + i];
      const auto& sequence = sequences[index];
      const at::Tensor own = hidden[static_cast<std::int64_t>(i)].narrow(0, 0, static_cast<std::int64_t>(rows[begin + i].size()));
      SequenceVerdict verdict;
      decoder.wait();
      const auto comparing = Clock::now();
      const auto bits = bits_of(own);
      const CommitmentOptions cut{options.k, options.segment_tokens, sequence.prompt.size()};
      auto segments = proofs::check_texts({bits, decoder.config().dim}, sequence.proofs, cut, options.thresholds);
      spent.proving += seconds_since(comparing);
      if (segments) verdict.segments = *std::move(segments);
      else
        verdict.reason =
            std::string{segments.error().name == ErrorName::NonFiniteValue ? "NaN or infinity: " : ""} + segments.error().detail;
      if (verdict.reason.empty()) count_other_choices(decoder, own, sequence, index, options, verdict);
      done(index, std::move(verdict));
    }
    begin += count;
    progress(begin, rows.size());
  }
  spent.total = seconds_since(since);
  return spent;
}

}  // namespace prime::trainer
