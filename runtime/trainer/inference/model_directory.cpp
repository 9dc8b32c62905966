// Owns reading of model directories.
#include "runtime/trainer/inference/model_directory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <openssl/evp.h>
#include <set>

#include "kernels/small_floats.hpp"
#include "runtime/store/strict_json.hpp"

namespace prime::trainer {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::uint64_t CONFIG_BYTES_MAX = 1ULL << 20;
constexpr std::uint64_t INDEX_BYTES_MAX = 64ULL << 20;
constexpr std::uint64_t TOKENIZER_BYTES_MAX = 256ULL << 20;
constexpr std::size_t READ_AT_ONCE = std::size_t{1} << 20;
constexpr const char* WEIGHTS = "model.safetensors";
constexpr const char* INDEX = "model.safetensors.index.json";
/// Of these the meaning of a token id depends.
constexpr std::array TOKENIZER_FILES{"merges.txt", "tokenizer.json", "tokenizer.model", "vocab.json"};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void add(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  void add(std::string_view text) { add(std::as_bytes(std::span{text})); }
  std::string hexadecimal() {
    std::array<unsigned char, 32> digest{};
    EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
    std::string text;
    for (const auto byte : digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

tl::unexpected<Error> unsupported(const std::string& what) { return fail(ErrorName::ModelUnsupported, what); }
tl::unexpected<Error> corrupt(const fs::path& path, const std::string& what) {
  return fail(ErrorName::CheckpointCorrupt, path.string() + ": " + what);
}

std::string quoted(const json& value) { return "`" + value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80) + "`"; }

/// Absent and null are the same to Hugging Face.
const json* value_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null() ? &*found : nullptr;
}

/// Reads the numbers of a configuration; the first that is not usable is named.
class Numbers {
 public:
  explicit Numbers(const json& config) : config_(config) {}
  std::uint32_t count(const char* key, std::uint64_t most, std::optional<std::uint32_t> absent = {}) {
    const auto* value = value_at(config_, key);
    if (value == nullptr && absent) return *absent;
    if (value == nullptr) return note(std::string{"`"} + key + "` is missing");
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 || value->get<std::uint64_t>() > most)
      return note(std::string{"`"} + key + "` is " + quoted(*value) + ", no number from 1 to " + std::to_string(most));
    return static_cast<std::uint32_t>(value->get<std::uint64_t>());
  }
  double real(const json& object, const char* key, double absent) {
    const auto* value = value_at(object, key);
    if (value == nullptr) return absent;
    if (value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > 0) return value->get<double>();
    note(std::string{"`"} + key + "` is " + quoted(*value) + ", no number above 0");
    return absent;
  }
  bool flag(const char* key) {
    const auto* value = value_at(config_, key);
    if (value != nullptr && !value->is_boolean()) note(std::string{"`"} + key + "` is " + quoted(*value) + ", neither true nor false");
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::uint32_t note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    return 1;
  }
  const json& config_;
  std::string problem_;
};

/// What other programs compute and we do not.
std::optional<std::string> not_accepted(const json& config) {
  const auto* type = value_at(config, "model_type");
  if (type == nullptr || *type != "llama")
    return "its architecture is " + (type != nullptr ? quoted(*type) : "not named") + "; accepted is `llama` (LlamaForCausalLM)";
  if (const auto* names = value_at(config, "architectures"); names != nullptr && *names != json{"LlamaForCausalLM"})
    return "its architecture is " + quoted(*names) + "; accepted is LlamaForCausalLM";
  for (const auto* key : {"attention_bias", "mlp_bias"})
    if (const auto* value = value_at(config, key); value != nullptr && *value != false)
      return std::string{"`"} + key + "`: only models without biases are accepted";
  if (const auto* value = value_at(config, "quantization_config"))
    return "it is quantized (" + quoted(*value) + "); accepted are weights of f32, bf16 and f16";
  if (const auto* value = value_at(config, "hidden_act"); value != nullptr && *value != "silu")
    return "`hidden_act` is " + quoted(*value) + "; accepted is `silu`";
  for (const auto* key : {"rope_scaling", "rope_parameters"}) {
    const auto* value = value_at(config, key);
    if (value == nullptr) continue;
    if (!value->is_object()) return std::string{"`"} + key + "` is " + quoted(*value) + ", no object";
    for (const auto* kind : {"rope_type", "type"})
      if (const auto* name = value_at(*value, kind); name != nullptr && *name != "default")
        return "its rotations are scaled (" + quoted(*name) + "); accepted are plain ones";
  }
  return std::nullopt;
}

}  // namespace

Result<manifest::Model> parse_model_config(std::string_view text) {
  const auto config = store::parse_strictly(text);
  if (!config || !config->is_object()) return fail(ErrorName::CheckpointCorrupt, "config.json is no JSON object");
  if (const auto problem = not_accepted(*config)) return unsupported(*problem);
  constexpr std::uint64_t WIDEST = 1 << 20, LONGEST = 1 << 24;
  Numbers numbers(*config);
  manifest::Model model;
  model.layers = numbers.count("num_hidden_layers", 4096);
  model.dim = numbers.count("hidden_size", WIDEST);
  model.heads = numbers.count("num_attention_heads", WIDEST);
  model.kv_heads = numbers.count("num_key_value_heads", WIDEST, model.heads);
  model.ffn = numbers.count("intermediate_size", WIDEST);
  model.vocab = numbers.count("vocab_size", LONGEST);
  model.context = numbers.count("max_position_embeddings", LONGEST, 2048);
  model.norm_epsilon = numbers.real(*config, "rms_norm_eps", 1e-6);
  model.tie_embeddings = numbers.flag("tie_word_embeddings");
  // The older place of the base first; the newer one counts where there are both.
  model.rope_theta = numbers.real(*config, "rope_theta", 10000);
  if (const auto* rope = value_at(*config, "rope_parameters")) model.rope_theta = numbers.real(*rope, "rope_theta", model.rope_theta);
  if (!numbers.problem().empty()) return fail(ErrorName::CheckpointCorrupt, "config.json: " + numbers.problem());
  if (model.dim % model.heads != 0 || model.heads % model.kv_heads != 0 || (model.dim / model.heads) % 2 != 0)
    return fail(ErrorName::CheckpointCorrupt, "config.json: " + std::to_string(model.heads) + " heads with " +
                                                  std::to_string(model.kv_heads) + " for keys do not divide a width of " +
                                                  std::to_string(model.dim));
  if (const auto width = numbers.count("head_dim", WIDEST, model.dim / model.heads); width != model.dim / model.heads)
    return unsupported("`head_dim` is " + std::to_string(width) + "; accepted is hidden_size / num_attention_heads, " +
                       std::to_string(model.dim / model.heads));
  return model;
}

Result<ModelDirectory> ModelDirectory::open(fs::path path) {
  ModelDirectory directory;
  directory.path_ = std::move(path);
  PRIME_TRY(const auto text, store::read_file(directory.path_ / "config.json", CONFIG_BYTES_MAX));
  auto shape = parse_model_config(text);
  if (!shape) return fail(shape.error().name, directory.path_.string() + ": " + shape.error().detail);
  directory.shape_ = *shape;
  PRIME_CHECK(directory.find_weights());
  PRIME_CHECK(directory.find_tokenizer());
  return directory;
}

Result<void> ModelDirectory::find_weights() {
  std::error_code ignored;
  if (fs::exists(path_ / WEIGHTS, ignored)) return add_file(WEIGHTS);
  if (!fs::exists(path_ / INDEX, ignored))
    return unsupported(path_.string() + " holds neither " + WEIGHTS + " nor " + INDEX + "; other files of weights are not read");
  PRIME_TRY(const auto text, store::read_file(path_ / INDEX, INDEX_BYTES_MAX));
  const auto index = store::parse_strictly(text);
  const auto* map = index && index->is_object() ? value_at(*index, "weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) return corrupt(path_ / INDEX, "no object `weight_map`");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    // A name that leads out of the directory would have a stranger choose what is read here.
    const auto name = file.is_string() ? file.get<std::string>() : std::string{};
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
      return corrupt(path_ / INDEX, "`" + tensor.substr(0, 80) + "` lies in no file of the directory");
    names.insert(name);
  }
  for (const auto& name : names) PRIME_CHECK(add_file(name));
  return {};
}

Result<void> ModelDirectory::add_file(const std::string& name) {
  PRIME_TRY(auto reader, store::SafetensorsReader::open(path_ / name));
  for (const auto& entry : reader.tensors())
    if (!places_.emplace(entry.name, Place{files_.size(), entry}).second)
      return corrupt(path_ / name, "`" + entry.name + "` is in another file, too");
  files_.push_back(std::move(reader));
  return {};
}

Result<void> ModelDirectory::find_tokenizer() {
  Sha256 all;
  bool any = false;
  std::error_code ignored;
  for (const auto* name : TOKENIZER_FILES) {
    if (!fs::exists(path_ / name, ignored)) continue;
    PRIME_TRY(const auto text, store::read_file(path_ / name, TOKENIZER_BYTES_MAX));
    Sha256 one;
    one.add(text);
    all.add(std::string{name} + " " + one.hexadecimal() + "\n");
    any = true;
  }
  // Checkpoints of ours have no tokenizer: a token is a byte. So has a model of 256 tokens that says nothing else.
  const bool bytes = !any && shape_.vocab >= 256 && (shape_.vocab == 256 || fs::exists(path_ / "prime" / "manifest.yaml", ignored));
  tokenizer_ = bytes ? "bytes" : all.hexadecimal();
  return {};
}

Result<void> ModelDirectory::read(const std::string& name, const std::vector<std::int64_t>& shape, std::span<float> into) {
  const auto place = places_.find(name);
  if (place == places_.end()) return corrupt(path_, "there is no tensor `" + name + "`");
  const auto& entry = place->second.entry;
  if (entry.shape != shape) return corrupt(path_, "`" + name + "` has another shape than config.json says");
  if (entry.type != DataType::F32 && entry.type != DataType::BF16 && entry.type != DataType::F16)
    return unsupported(path_.string() + ": `" + name + "` is of " + std::string{to_string(entry.type)} +
                       "; accepted are f32, bf16 and f16");
  const std::size_t element = element_bytes(entry.type);
  std::vector<std::byte> bytes;
  Sha256 digest;
  for (std::size_t begin = 0; begin < into.size(); begin += READ_AT_ONCE) {
    const auto part = into.subspan(begin, std::min(READ_AT_ONCE, into.size() - begin));
    bytes.resize(part.size() * element);
    PRIME_CHECK(files_[place->second.file].read_bytes(entry, begin * element, bytes));
    digest.add(bytes);
    if (entry.type == DataType::F32) {
      std::memcpy(part.data(), bytes.data(), bytes.size());
      continue;
    }
    const auto widen = entry.type == DataType::BF16 ? &kernels::bf16_to_f32 : &kernels::f16_to_f32;
    for (std::size_t i = 0; i < part.size(); ++i) {
      std::uint16_t code = 0;
      std::memcpy(&code, bytes.data() + i * element, sizeof code);
      part[i] = widen(code);
    }
  }
  std::string line{to_string(entry.type)};
  for (const auto size : shape) line += " " + std::to_string(size);
  digested_[name] = line + " " + digest.hexadecimal();
  return {};
}

std::string ModelDirectory::digest() const {
  Sha256 all;
  const json config{{"layers", shape_.layers},
                    {"dim", shape_.dim},
                    {"heads", shape_.heads},
                    {"kv_heads", shape_.kv_heads},
                    {"ffn", shape_.ffn},
                    {"vocab", shape_.vocab},
                    {"context", shape_.context},
                    {"rope_theta", shape_.rope_theta},
                    {"norm_epsilon", shape_.norm_epsilon},
                    {"tie_embeddings", shape_.tie_embeddings}};
  all.add("llama " + config.dump() + "\n");
  for (const auto& [name, line] : digested_) all.add(name + " " + line + "\n");
  return all.hexadecimal();
}

}  // namespace prime::trainer
