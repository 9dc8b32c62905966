// Owns reading of model directories.
#include "runtime/trainer/inference/model_directory.hpp"

#include <algorithm>
#include <array>
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

}  // namespace

Result<ModelDirectory> ModelDirectory::open(fs::path path) {
  ModelDirectory directory;
  directory.path_ = std::move(path);
  PRIME_TRY(const auto text, store::read_file(directory.path_ / "config.json", CONFIG_BYTES_MAX));
  const auto config = parse_model_config(text);
  if (!config) return fail(config.error().name, directory.path_.string() + ": " + config.error().detail);
  directory.config_ = *config;
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
  if (!index || !index->is_object() || !index->contains("weight_map") || !(*index)["weight_map"].is_object())
    return corrupt(path_ / INDEX, "no object `weight_map`");
  std::set<std::string> names;
  for (const auto& [tensor, file] : (*index)["weight_map"].items()) {
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
  // What our checkpoints have beside a model of bytes.
  if (fs::exists(path_ / "tokenizer.json", ignored)) {
    PRIME_TRY(const auto text, store::read_file(path_ / "tokenizer.json", TOKENIZER_BYTES_MAX));
    if (text == data::bytes_tokenizer_json(false) || text == data::bytes_tokenizer_json(true)) {
      tokenizer_ = "bytes";
      return {};
    }
  }
  for (const auto* name : TOKENIZER_FILES) {
    if (!fs::exists(path_ / name, ignored)) continue;
    PRIME_TRY(const auto text, store::read_file(path_ / name, TOKENIZER_BYTES_MAX));
    Sha256 one;
    one.add(text);
    all.add(std::string{name} + " " + one.hexadecimal() + "\n");
    any = true;
  }
  // Older checkpoints of ours have no tokenizer: a token is a byte. So has a model of 256 tokens that says nothing else.
  const bool bytes = !any && config_.vocab >= 256 && (config_.vocab == 256 || fs::exists(path_ / "prime" / "manifest.yaml", ignored));
  tokenizer_ = bytes ? "bytes" : all.hexadecimal();
  const auto model = path_ / "tokenizer.model", config = path_ / "tokenizer_config.json";
  if (!fs::exists(model, ignored) || fs::exists(path_ / "tokenizer.json", ignored) || !fs::exists(config, ignored)) return {};
  PRIME_TRY(const auto text, store::read_file(config, CONFIG_BYTES_MAX));
  const auto said = store::parse_strictly(text);
  if (said && said->is_object() && said->value("add_bos_token", json()) == json(false)) sentencepiece_ = model;
  return {};
}

Result<data::Tokenizer> ModelDirectory::open_tokenizer() const {
  if (has_byte_tokens()) return data::Tokenizer::bytes(false);
  manifest::TokenizerChoice choice;
  choice.sentencepiece = sentencepiece_;
  auto tokenizer = data::Tokenizer::open(choice, config_.vocab);
  if (!tokenizer) return unsupported(tokenizer.error().detail);
  if (tokenizer->size() > config_.vocab)
    return unsupported(sentencepiece_ + ": has " + std::to_string(tokenizer->size()) + " pieces, and the model " +
                       std::to_string(config_.vocab) + " tokens");
  return tokenizer;
}

Result<void> ModelDirectory::read(const std::string& name, const std::vector<std::int64_t>& shape, std::span<float> into) {
  auto place = places_.find(name);
  if (place == places_.end() && !models::architecture_of(config_.arch).optional_prefix().empty())
    place = places_.find(std::string{models::architecture_of(config_.arch).optional_prefix()} + name);
  if (place == places_.end()) return corrupt(path_, "there is no tensor `" + name + "`");
  const auto& entry = place->second.entry;
  if (entry.shape != shape) return corrupt(path_, "`" + name + "` has another shape than config.json says");
  if (!entry.foreign.empty() || (entry.type != DataType::F32 && entry.type != DataType::BF16 && entry.type != DataType::F16))
    return unsupported(path_.string() + ": `" + name + "` is of " + std::string{entry.type_name()} + "; accepted are f32, bf16 and f16");
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
  const auto& architecture = models::architecture_of(config_.arch);
  json config{{"layers", config_.layers},
              {"dim", config_.dim},
              {"heads", config_.heads},
              {"kv_heads", config_.kv_heads},
              {"ffn", config_.ffn},
              {"vocab", config_.vocab},
              {"context", config_.context},
              {"norm_epsilon", config_.norm_epsilon},
              {"tie_embeddings", config_.tie_embeddings}};
  config.update(architecture.identity(config_));
  all.add(std::string{architecture.type()} + " " + config.dump() + "\n");
  for (const auto& [name, line] : digested_) all.add(name + " " + line + "\n");
  return all.hexadecimal();
}

}  // namespace prime::trainer
