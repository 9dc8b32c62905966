// Owns the keys of those files, and the sentences about what is wrong with one.
#include "runtime/commitment/proof_file.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/store/file_io.hpp"
#include "runtime/store/strict_json.hpp"

namespace prime::proofs {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view COMMITMENT_SCHEMA = "primectl.commitment/1";
constexpr std::string_view GENERATION_SCHEMA = "primectl.proof/1";
constexpr std::uint64_t DIGEST_DIGITS = 64;
constexpr std::size_t DEPTH_MAX = 16;

tl::unexpected<Error> malformed(const std::string& what) { return fail(ErrorName::ProofMalformed, what); }

/// Reads the fields of one object; the first one that is not what it should be is named, and the others are not looked at.
class Fields {
 public:
  Fields(const json& object, std::string place) : object_(object), place_(std::move(place)) {}

  std::uint64_t number(const char* key, std::uint64_t least, std::uint64_t most) {
    const auto* value = find(key, "a whole number", [](const json& found) { return found.is_number_unsigned(); });
    if (value == nullptr) return least;
    const auto found = value->get<std::uint64_t>();
    if (found < least || found > most)
      note("`" + path(key) + "` is " + std::to_string(found) + "; it goes from " + std::to_string(least) + " to " + std::to_string(most));
    return found;
  }
  double real(const char* key) {
    const auto* value = find(key, "a number", [](const json& found) { return found.is_number() && std::isfinite(found.get<double>()); });
    return value != nullptr ? value->get<double>() : 0;
  }
  std::string text(const char* key) {
    const auto* value = find(key, "a text", [](const json& found) { return found.is_string(); });
    return value != nullptr ? value->get<std::string>() : std::string{};
  }
  std::vector<std::string> texts(const char* key) {
    const auto* value = find(key, "a list of texts", [](const json& found) {
      return found.is_array() && std::all_of(found.begin(), found.end(), [](const json& entry) { return entry.is_string(); });
    });
    return value != nullptr ? value->get<std::vector<std::string>>() : std::vector<std::string>{};
  }
  std::vector<std::uint32_t> tokens(const char* key) {
    const auto* value = find(key, "a list of token ids", [](const json& found) {
      return found.is_array() && std::all_of(found.begin(), found.end(), [](const json& entry) {
               return entry.is_number_unsigned() && entry.get<std::uint64_t>() <= UINT32_MAX;
             });
    });
    return value != nullptr ? value->get<std::vector<std::uint32_t>>() : std::vector<std::uint32_t>{};
  }
  const json* objects(const char* key) {
    return find(key, "a list of objects", [](const json& found) {
      return found.is_array() && std::all_of(found.begin(), found.end(), [](const json& entry) { return entry.is_object(); });
    });
  }
  const json* object(const char* key) {
    return find(key, "an object", [](const json& found) { return found.is_object(); });
  }
  void note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::string path(const char* key) const { return place_.empty() ? key : place_ + "." + key; }
  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }

 private:
  template <class Fits>
  const json* find(const char* key, const char* what, Fits fits) {
    const auto found = object_.find(key);
    if (found == object_.end()) note("`" + path(key) + "` is missing");
    else if (!fits(*found)) note("`" + path(key) + "` is not " + what);
    else return &*found;
    return nullptr;
  }

  const json& object_;
  std::string place_;
  std::string problem_;
};

constexpr std::size_t LONGEST_SCHEMA = 64;  // of another one, as a message shows it

Result<json> parse_object(std::string_view text, std::string_view schema) {
  auto parsed = store::parse_strictly(text, {DEPTH_MAX, FILE_VALUES_MAX});
  if (!parsed) return malformed(parsed.error());
  if (!parsed->is_object()) return malformed("it is JSON, and no object");
  const auto found = parsed->find("schema");
  if (found == parsed->end() || !found->is_string())
    return malformed("it names no `schema`; one of `" + std::string{schema} + "` is wanted");
  if (*found != schema)
    return malformed("its schema is `" + found->get<std::string>().substr(0, LONGEST_SCHEMA) + "`, and `" + std::string{schema} +
                     "` is wanted");
  return *std::move(parsed);
}

bool is_digest(const std::string& text) {
  return text.size() == DIGEST_DIGITS && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string one_line(const ordered_json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string format(const CommitmentFile& file) {
  return one_line({{"schema", COMMITMENT_SCHEMA},
                   {"k", file.options.k},
                   {"tokens", file.options.tokens},
                   {"prefill", file.options.prefill},
                   {"proofs", file.proofs}});
}

Result<CommitmentFile> parse_commitment(std::string_view text) {
  PRIME_TRY(const auto object, parse_object(text, COMMITMENT_SCHEMA));
  Fields fields(object, {});
  CommitmentFile file;
  file.options.k = static_cast<std::uint32_t>(fields.number("k", 1, kernels::COMMITTED_MAXIMUM));
  file.options.tokens = static_cast<std::uint32_t>(fields.number("tokens", 1, UINT32_MAX));
  // Other engines may know of no prompt.
  if (fields.has("prefill")) file.options.prefill = fields.number("prefill", 0, UINT32_MAX);
  file.proofs = fields.texts("proofs");
  if (!fields.problem().empty()) return malformed(fields.problem());
  return file;
}

std::string format(const GenerationFile& file) {
  auto sequences = ordered_json::array();
  for (const auto& sequence : file.sequences)
    sequences.push_back({{"prompt", sequence.prompt}, {"tokens", sequence.tokens}, {"text", sequence.text}, {"proofs", sequence.proofs}});
  return one_line({{"schema", GENERATION_SCHEMA},
                   {"model", file.model},
                   {"tokenizer", file.tokenizer},
                   {"dtype", file.dtype},
                   {"k", file.k},
                   {"segment_tokens", file.segment_tokens},
                   {"sampling", {{"temperature", file.sampling.temperature}, {"seed", file.sampling.seed}}},
                   {"sequences", std::move(sequences)}});
}

Result<GenerationFile> parse_generation(std::string_view text) {
  PRIME_TRY(const auto object, parse_object(text, GENERATION_SCHEMA));
  Fields fields(object, {});
  GenerationFile file;
  file.model = fields.text("model");
  if (!is_digest(file.model)) fields.note("`model` is no SHA-256 of 64 digits");
  file.tokenizer = fields.text("tokenizer");
  if (file.tokenizer != "bytes" && !is_digest(file.tokenizer)) fields.note("`tokenizer` is neither `bytes` nor a SHA-256 of 64 digits");
  file.dtype = fields.text("dtype");
  if (file.dtype != "f32" && file.dtype != "f64" && file.dtype != "bf16" && file.dtype != "f16")
    fields.note("`dtype` is none of f32, f64, bf16, f16");
  file.k = static_cast<std::uint32_t>(fields.number("k", 1, kernels::COMMITTED_MAXIMUM));
  file.segment_tokens = static_cast<std::uint32_t>(fields.number("segment_tokens", 1, UINT32_MAX));
  if (const auto* sampling = fields.object("sampling")) {
    Fields inner(*sampling, "sampling");
    file.sampling = {inner.real("temperature"), inner.number("seed", 0, UINT64_MAX)};
    if (file.sampling.temperature < 0) inner.note("`sampling.temperature` is below 0");
    fields.note(inner.problem());
  }
  const auto* sequences = fields.objects("sequences");
  for (std::size_t i = 0; sequences != nullptr && i < sequences->size() && fields.problem().empty(); ++i) {
    Fields inner((*sequences)[i], "sequences[" + std::to_string(i) + "]");
    file.sequences.push_back({inner.tokens("prompt"), inner.tokens("tokens"), inner.text("text"), inner.texts("proofs")});
    if (file.sequences.back().prompt.empty()) inner.note("`" + inner.path("prompt") + "` is empty");
    // Each is of one token at least: so many answers, and no more, can be asked for.
    if (file.sequences.back().proofs.size() > file.sequences.back().prompt.size() + file.sequences.back().tokens.size())
      inner.note("`" + inner.path("proofs") + "` holds more proofs than there are tokens");
    fields.note(inner.problem());
  }
  if (fields.problem().empty() && file.sequences.empty()) fields.note("`sequences` is empty");
  if (!fields.problem().empty()) return malformed(fields.problem());
  return file;
}

Result<void> check_room(const GenerationFile& file, std::uint64_t tokens, bool texts) {
  // Of each token its digits and a comma, and of a text six characters at most, as \u0000; of the rest what format() writes around them.
  constexpr std::uint64_t HEAD_BYTES = 512, HEAD_VALUES = 16, SEQUENCE_BYTES = 64, SEQUENCE_VALUES = 5, TEXT_BYTES = 6;
  const std::uint64_t token_bytes = texts ? 4 : 11;
  const std::uint64_t proof_size = (proof_bytes(file.k) + 2) / 3 * 4 + 3;
  const std::uint64_t proofs = 1 + (tokens + file.segment_tokens - 2) / file.segment_tokens;
  std::uint64_t values = HEAD_VALUES, bytes = HEAD_BYTES;
  for (const auto& sequence : file.sequences) {
    const std::uint64_t all = sequence.prompt.size() + tokens;
    values += SEQUENCE_VALUES + all + proofs;
    bytes += SEQUENCE_BYTES + all * (token_bytes + TEXT_BYTES) + proofs * proof_size;
  }
  if (values <= FILE_VALUES_MAX && bytes <= FILE_BYTES_MAX) return {};
  return fail(ErrorName::Usage, "a file of proofs holds " + std::to_string(FILE_VALUES_MAX) + " values and " +
                                    std::to_string(FILE_BYTES_MAX) + " bytes at most, and this could make " + std::to_string(values) +
                                    " and " + std::to_string(bytes) + "; take fewer prompts or tokens at a time");
}

Result<std::string> read_text(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    const auto size = std::filesystem::file_size(path, ignored);
    if (!ignored && size > FILE_BYTES_MAX)
      return malformed(path.string() + " holds " + std::to_string(size) + " bytes; no file of proofs has more than " +
                       std::to_string(FILE_BYTES_MAX));
  }
  return store::read_input(path, FILE_BYTES_MAX);
}

Result<std::vector<ProofVerdict>> check_texts(const Activations& activations, std::span<const std::string> proofs,
                                              const CommitmentOptions& options, const CommitmentThresholds& thresholds) {
  std::vector<CommitmentProof> bytes;
  std::vector<std::string> problems;
  for (const auto& text : proofs) {
    auto proof = from_base64(text);
    problems.push_back(proof ? std::string{} : proof.error().detail);
    bytes.push_back(proof ? *std::move(proof) : CommitmentProof{});
  }
  PRIME_TRY(auto verdicts, check_proofs(activations, bytes, options, thresholds));
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (!problems[i].empty() && !verdicts[i].accepted) verdicts[i].reason = "malformed: " + problems[i];
  return verdicts;
}

}  // namespace prime::proofs
