// Owns `primectl generate`: prompts in, texts out, and a file of proofs.
#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/inference.hpp"
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

/// A prompt of each line, and where an empty one is.
template <class Parse>
Result<void> each_line(const std::string& path, Parse parse) {
  PRIME_TRY(const auto text, store::read_file(path, PROMPTS_BYTES_MAX));
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto wrong = parse(text.substr(begin, end - begin));
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

/// Before anything is computed: whoever has waited for an hour wants the file.
Result<void> check_writable(const std::string& file) {
  auto directory = std::filesystem::path{file}.parent_path();
  if (directory.empty()) directory = ".";
  if (::access(directory.c_str(), W_OK) != 0) return fail(store::storage_error("write into", directory, errno));
  return {};
}

json job_of(const GenerateArguments& arguments, const Prompts& prompts) {
  return {{"command", "generate"},
          {"model", arguments.model},
          {"dtype", arguments.dtype},
          {"threads", arguments.threads},
          {"texts", arguments.prompt_tokens_file.empty()},
          {"prompts", prompts},
          {"tokens", arguments.tokens},
          {"batch", arguments.batch},
          {"temperature", arguments.temperature},
          {"seed", arguments.seed},
          {"prove", !arguments.prove.empty()},
          {"k", arguments.k},
          {"segment_tokens", arguments.segment}};
}

/// What a terminal should not get is replaced by `?`, as the trainer's samples do.
std::string shown(const proofs::Sequence& sequence, bool known) {
  if (!known) return json(sequence.tokens).dump() + "\n";
  std::string text;
  for (const auto* tokens : {&sequence.prompt, &sequence.tokens})
    for (const auto token : *tokens) {
      const bool printable = token == '\n' || token == '\t' || (token >= ' ' && token <= '~');
      text.push_back(printable ? static_cast<char>(token) : '?');
    }
  return text + "\n";
}

class Writer {
 public:
  Writer(const GenerateArguments& arguments, Terminal& terminal, std::size_t prompts) : arguments_(arguments), terminal_(terminal) {
    file_.dtype = arguments.dtype;
    file_.k = arguments.k;
    file_.segment_tokens = arguments.segment;
    file_.sampling = {arguments.temperature, arguments.seed};
    file_.sequences.resize(prompts);
  }

  bool hear(const json& event) {
    const auto& kind = event["event"];
    if (kind == "model") {
      file_.model = event["digest"].get<std::string>();
      file_.tokenizer = event["tokenizer"].get<std::string>();
    } else if (kind == "sequence") {
      return add(event);
    } else if (kind == "done") {
      seconds_ = event["seconds"].get<double>();
      proving_ = event["proving_seconds"].get<double>();
    }
    return true;
  }

  Result<void> finish() {
    const auto tokens = std::uint64_t{arguments_.tokens} * file_.sequences.size();
    terminal_.say("Wrote", plural(tokens, "token") + " in " + short_time_figure(seconds_));
    if (arguments_.prove.empty()) return {};
    const auto text = proofs::format(file_);
    if (text.size() > proofs::FILE_BYTES_MAX)
      return fail(ErrorName::Usage, "a file of proofs has " + std::to_string(proofs::FILE_BYTES_MAX) +
                                        " bytes at most, and this would have " + std::to_string(text.size()) +
                                        "; prove fewer prompts at a time");
    PRIME_CHECK(store::write_file_atomically(arguments_.prove, text));
    std::size_t count = 0;
    for (const auto& sequence : file_.sequences) count += sequence.proofs.size();
    std::array<char, 32> share{};
    std::snprintf(share.data(), share.size(), "%.1f %%", seconds_ > 0 ? 100 * proving_ / seconds_ : 0);
    terminal_.say("Proved", plural(count, "segment") + ", " + std::to_string(proof_bytes(file_.k)) + " bytes each, in " +
                                short_time_figure(proving_) + " (" + share.data() + " of it): " + arguments_.prove);
    return {};
  }

 private:
  bool add(const json& event) {
    const auto index = event["index"].get<std::size_t>();
    proofs::Sequence sequence{event["prompt"].get<std::vector<std::uint32_t>>(), event["tokens"].get<std::vector<std::uint32_t>>(),
                              event.value("text", ""), event["proofs"].get<std::vector<std::string>>()};
    const bool known = event.contains("text");
    const nlohmann::ordered_json line{{"schema", "primectl.generate/1"},
                                      {"index", index},
                                      {"prompt", sequence.prompt},
                                      {"tokens", sequence.tokens},
                                      {"text", known ? nlohmann::ordered_json(sequence.text) : nlohmann::ordered_json(nullptr)}};
    const bool heard = terminal_.print(terminal_.json() ? telemetry::dump(line) + "\n" : shown(sequence, known));
    if (index < file_.sequences.size()) file_.sequences[index] = std::move(sequence);
    // Whoever closes the output may still want the file.
    return heard || !arguments_.prove.empty();
  }

  const GenerateArguments& arguments_;
  Terminal& terminal_;
  proofs::GenerationFile file_;
  double seconds_ = 0;
  double proving_ = 0;
};

Result<void> write(const GenerateArguments& arguments, Terminal& terminal) {
  PRIME_TRY(const auto prompts, prompts_of(arguments));
  if (!arguments.prove.empty()) PRIME_CHECK(check_writable(arguments.prove));
  Writer writer(arguments, terminal, prompts.size());
  PRIME_CHECK(run_inference(job_of(arguments, prompts), terminal, "Writing", [&](const json& event) { return writer.hear(event); }));
  return writer.finish();
}

}  // namespace

int run_command(const GenerateArguments& arguments, Terminal& terminal) {
  const auto done = write(arguments, terminal);
  return done ? 0 : terminal.complain(done.error());
}

}  // namespace prime::cli
