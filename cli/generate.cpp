// Owns `primectl generate`: prompts in, texts out, and a file of proofs.
#include <algorithm>
#include <optional>

#include "cli/commands.hpp"
#include "cli/inference.hpp"
#include "cli/output_file.hpp"
#include "cli/render/figures.hpp"
#include "cli/terminal.hpp"
#include "runtime/commitment/proof_file.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/store/file_io.hpp"
#include "runtime/store/strict_json.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

using nlohmann::json;
using Prompts = std::vector<std::vector<std::uint32_t>>;

constexpr std::uint64_t PROMPTS_BYTES_MAX = 64ULL << 20;

std::vector<std::uint32_t> bytes_of(const std::string& text) {
  std::vector<std::uint32_t> tokens;
  for (const unsigned char byte : text) tokens.push_back(byte);
  return tokens;
}

/// A prompt of each line, and where an empty one is. What editors of Windows add is no part of a prompt: a mark in front of all, and a
/// carriage return behind each line.
template <class Parse>
Result<void> each_line(const std::string& path, Parse parse) {
  constexpr std::string_view MARK = "\xEF\xBB\xBF";
  PRIME_TRY(const auto text, store::read_input(path, PROMPTS_BYTES_MAX));
  std::size_t number = 0;
  for (std::size_t begin = text.starts_with(MARK) ? MARK.size() : 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto length = end - begin - (end > begin && text[end - 1] == '\r' ? 1 : 0);
    const auto wrong = parse(text.substr(begin, length));
    ++number;
    if (!wrong.empty()) return fail(ErrorName::Usage, path + ": line " + std::to_string(number) + " " + wrong);
    begin = end + 1;
  }
  return {};
}

tl::unexpected<Error> no_prompts(const std::string& path) { return fail(ErrorName::Usage, path + " holds no prompt"); }

Result<Prompts> token_prompts(const std::string& path) {
  Prompts prompts;
  PRIME_CHECK(each_line(path, [&](const std::string& line) -> std::string {
    const auto parsed = store::parse_strictly(line);
    const auto is_token = [](const json& entry) { return entry.is_number_unsigned() && entry.get<std::uint64_t>() <= UINT32_MAX; };
    if (!parsed || !parsed->is_array() || parsed->empty() || !std::all_of(parsed->begin(), parsed->end(), is_token))
      return "is no list of token ids such as [1, 15043, 3186]";
    prompts.push_back(parsed->get<std::vector<std::uint32_t>>());
    return {};
  }));
  if (prompts.empty()) return no_prompts(path);
  return prompts;
}

Result<Prompts> prompts_of(const GenerateArguments& arguments) {
  const bool texts = !arguments.prompts.empty() || !arguments.prompts_file.empty();
  if (texts == !arguments.prompt_tokens_file.empty())
    return fail(ErrorName::Usage, texts ? "prompts are texts (--prompt, --prompts) or token ids (--prompt-tokens), not both"
                                        : "nothing to go on from: give --prompt TEXT, --prompts FILE or --prompt-tokens FILE");
  Prompts prompts;
  if (!texts) return token_prompts(arguments.prompt_tokens_file);
  for (const auto& text : arguments.prompts) {
    if (text.empty()) return fail(ErrorName::Usage, "an empty --prompt");
    prompts.push_back(bytes_of(text));
  }
  if (!arguments.prompts_file.empty())
    PRIME_CHECK(each_line(arguments.prompts_file, [&](const std::string& line) -> std::string {
      if (line.empty()) return "is empty";
      prompts.push_back(bytes_of(line));
      return {};
    }));
  if (prompts.empty()) return no_prompts(arguments.prompts_file);
  return prompts;
}

Result<void> check_prompts(const Prompts& prompts) {
  std::uint64_t tokens = 0;
  for (const auto& prompt : prompts) tokens += prompt.size();
  if (tokens <= proofs::PROMPT_TOKENS_MAX) return {};
  return fail(ErrorName::Usage, "the prompts have " + std::to_string(tokens) + " tokens; " + std::to_string(proofs::PROMPT_TOKENS_MAX) +
                                    " at most are taken at a time");
}

json job_of(const GenerateArguments& arguments, const Prompts& prompts) {
  return {{"command", "generate"},      {"model", arguments.model},
          {"dtype", arguments.dtype},   {"threads", arguments.threads},
          {"device", arguments.device}, {"texts", arguments.prompt_tokens_file.empty()},
          {"prompts", prompts},         {"tokens", arguments.tokens},
          {"batch", arguments.batch},   {"temperature", arguments.temperature},
          {"seed", arguments.seed},     {"prove", !arguments.prove.empty()},
          {"k", arguments.k},           {"segment_tokens", arguments.segment}};
}

/// What a terminal should not get is replaced by `?`, as the trainer's samples do.
std::string printable(std::string text) {
  for (char& c : text)
    if (c != '\n' && c != '\t' && (c < ' ' || c > '~')) c = '?';
  return text + "\n";
}

/// Of bytes by the tokens: the text is what JSON could hold of them.
std::string shown(const proofs::Sequence& sequence, const std::optional<std::string>& text, bool bytes) {
  if (!text) return json(sequence.tokens).dump() + "\n";
  if (!bytes) return printable(*text);
  std::string all(sequence.prompt.begin(), sequence.prompt.end());
  all.append(sequence.tokens.begin(), sequence.tokens.end());
  return printable(std::move(all));
}

class Writer {
 public:
  Writer(const GenerateArguments& arguments, Terminal& terminal, const Prompts& prompts) : arguments_(arguments), terminal_(terminal) {
    file_.dtype = arguments.dtype;
    file_.k = arguments.k;
    file_.segment_tokens = arguments.segment;
    file_.sampling = {arguments.temperature, arguments.seed};
    for (const auto& prompt : prompts) file_.sequences.push_back({prompt, {}, {}, {}});
  }

  /// Before anything is computed: whoever has waited for an hour wants the file, and wants it read.
  Result<void> check() const {
    if (arguments_.prove.empty()) return {};
    PRIME_CHECK(proofs::check_room(file_, arguments_.tokens > 0 ? arguments_.tokens : proofs::TOKENS_BY_DEFAULT,
                                   arguments_.prompt_tokens_file.empty()));
    const std::array inputs{arguments_.prompts_file, arguments_.prompt_tokens_file};
    return check_output("--prove", arguments_.prove, inputs, true);
  }

  bool hear(const json& event) {
    const auto& kind = event["event"];
    if (kind == "model") {
      file_.model = event["digest"].get<std::string>();
      file_.tokenizer = event["tokenizer"].get<std::string>();
    } else if (kind == "prompts") {
      return take(event["prompts"].get<Prompts>());
    } else if (kind == "sequence") {
      return add(event);
    } else if (kind == "failed") {
      keep(Error{find_error(event["name"].get<std::string>()).value_or(ErrorName::InternalError),
                 "prompt " + std::to_string(event["index"].get<std::size_t>() + 1) + ": " + event["detail"].get<std::string>()});
    } else if (kind == "done") {
      seconds_ = event["seconds"].get<double>();
      proving_ = event["proving_seconds"].get<double>();
    }
    return true;
  }

  /// `ran`: whether the program that computes came to its end. What it had written until then is kept, and who could not be written stays
  /// in the file, since what is drawn depends on the place in it.
  Result<void> finish(const Result<void>& ran) {
    if (!ran) keep(ran.error());
    if (written_ == 0) return outcome();
    terminal_.say("Wrote", plural(written_tokens_, "token") + (ran ? " in " + short_time_figure(seconds_) : ""));
    if (arguments_.prove.empty()) return outcome();
    PRIME_CHECK(store::write_file_atomically(arguments_.prove, proofs::format(file_)));
    std::size_t count = 0;
    for (const auto& sequence : file_.sequences) count += sequence.proofs.size();
    std::array<char, 32> share{};
    std::snprintf(share.data(), share.size(), "%.1f %%", seconds_ > 0 ? 100 * proving_ / seconds_ : 0);
    terminal_.say("Proved", plural(count, "segment") + ", " + std::to_string(proof_bytes(file_.k)) + " bytes each" +
                                (ran ? ", in " + short_time_figure(proving_) + " (" + share.data() + " of it)" : "") + ": " +
                                arguments_.prove);
    return outcome();
  }

 private:
  void keep(Error error) {
    if (failed_++ == 0) failure_ = std::move(error);
  }
  Result<void> outcome() const {
    if (!failure_) return {};
    auto error = *failure_;
    if (written_ > 0)
      error.detail += "; " + std::to_string(written_) + " of " + plural(file_.sequences.size(), "prompt") + " are written" +
                      (arguments_.prove.empty() ? "" : ", and the file holds no tokens of the others");
    return fail(std::move(error));
  }

  /// Of texts: the tokens that the model's tokenizer has made of them, of which there may be more than bytes.
  bool take(const Prompts& prompts) {
    for (std::size_t i = 0; i < std::min(prompts.size(), file_.sequences.size()); ++i) file_.sequences[i].prompt = prompts[i];
    auto fits = check();
    if (!fits) keep(std::move(fits).error());
    return fits.has_value();
  }

  bool add(const json& event) {
    const auto index = event["index"].get<std::size_t>();
    std::optional<std::string> text;
    if (event.contains("text")) text = event["text"].get<std::string>();
    // In a file the text is there where it can be no longer than its tokens: what is larger is not read.
    const bool bytes = file_.tokenizer == "bytes";
    proofs::Sequence sequence{event["prompt"].get<std::vector<std::uint32_t>>(), event["tokens"].get<std::vector<std::uint32_t>>(),
                              bytes ? text.value_or("") : "", event["proofs"].get<std::vector<std::string>>()};
    written_tokens_ += sequence.tokens.size();
    const nlohmann::ordered_json line{{"schema", "primectl.generate/1"},
                                      {"index", index},
                                      {"prompt", sequence.prompt},
                                      {"tokens", sequence.tokens},
                                      {"text", text ? nlohmann::ordered_json(*text) : nlohmann::ordered_json(nullptr)}};
    const bool heard = terminal_.print(terminal_.json() ? telemetry::dump(line) + "\n" : shown(sequence, text, bytes));
    ++written_;
    if (index < file_.sequences.size()) file_.sequences[index] = std::move(sequence);
    // Whoever closes the output may still want the file.
    return heard || !arguments_.prove.empty();
  }

  const GenerateArguments& arguments_;
  Terminal& terminal_;
  proofs::GenerationFile file_;
  double seconds_ = 0;
  double proving_ = 0;
  std::size_t written_ = 0, failed_ = 0;
  std::uint64_t written_tokens_ = 0;
  std::optional<Error> failure_;  // the first
};

Result<void> write(const GenerateArguments& arguments, Terminal& terminal) {
  PRIME_TRY(const auto prompts, prompts_of(arguments));
  PRIME_CHECK(check_prompts(prompts));
  Writer writer(arguments, terminal, prompts);
  PRIME_CHECK(writer.check());
  return writer.finish(
      run_inference(job_of(arguments, prompts), terminal, "Writing", [&](const json& event) { return writer.hear(event); }));
}

}  // namespace

int run_command(const GenerateArguments& arguments, Terminal& terminal) {
  const auto done = write(arguments, terminal);
  return done ? 0 : terminal.complain(done.error());
}

}  // namespace prime::cli
