// Owns a model as it lies in a directory: what its configuration says, where its tensors are, and the digests that name them.
// Free of libtorch. Whoever reads a stranger's model believes nothing of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/store/safetensors.hpp"
#include "runtime/trainer/data/tokenizer.hpp"
#include "runtime/trainer/inference/model_config.hpp"

namespace prime::trainer {

class ModelDirectory {
 public:
  /// Reads the configuration and the heads of all safetensors: model.safetensors, or those that model.safetensors.index.json names.
  static Result<ModelDirectory> open(std::filesystem::path path);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// `bytes`, or the SHA-256 of the tokenizer's files.
  [[nodiscard]] const std::string& tokenizer() const { return tokenizer_; }
  [[nodiscard]] bool has_byte_tokens() const { return tokenizer_ == "bytes"; }
  /// What texts are tokens by, where that is known here: bytes, or a SentencePiece model beside a `tokenizer_config.json` that says that
  /// texts begin with no token of their own, as our checkpoints do.
  [[nodiscard]] bool has_known_tokens() const { return has_byte_tokens() || !sentencepiece_.empty(); }
  [[nodiscard]] Result<data::Tokenizer> open_tokenizer() const;

  /// One tensor as f32, of whatever float type it lies there, and its share of the digest. CheckpointCorrupt when there is none of this
  /// name and shape. Those of a GPT-2 may lie there as `transformer.NAME`, too: both are written, and are one model.
  Result<void> read(const std::string& name, const std::vector<std::int64_t>& shape, std::span<float> into);
  /// SHA-256 of the configuration and of all tensors that were read: types, shapes and bytes, however they are spread over files.
  [[nodiscard]] std::string digest() const;

 private:
  struct Place {
    std::size_t file;
    store::TensorEntry entry;
  };
  Result<void> find_weights();
  Result<void> add_file(const std::string& name);
  Result<void> find_tokenizer();

  std::filesystem::path path_;
  ModelConfig config_;
  std::string tokenizer_;
  std::string sentencepiece_;  ///< path of the model; empty: of none
  std::vector<store::SafetensorsReader> files_;
  std::map<std::string, Place> places_;
  std::map<std::string, std::string> digested_;  // by name: type, shape, SHA-256
};

}  // namespace prime::trainer
