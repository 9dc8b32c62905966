// Owns the checks of what is read of a stranger's model, and of how a token is chosen; that the function is Llama's is checked in
// tests/golden.
#include "runtime/trainer/inference/model_directory.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

#include "runtime/trainer/hugging_face.hpp"
#include "runtime/trainer/inference/sampler.hpp"

using namespace prime;
using namespace prime::trainer;

namespace {

data::Tokenizer bytes() { return data::Tokenizer::bytes(false); }

manifest::Model shape() {
  manifest::Model model;
  model.layers = 1;
  model.dim = 8;
  model.heads = 2;
  model.kv_heads = 1;
  model.ffn = 12;
  model.rope_theta = 500;
  model.norm_epsilon = 1e-3;
  model.tie_embeddings = true;
  return model;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  BOOST_REQUIRE_MESSAGE(place != std::string::npos, from);
  return text.replace(place, from.size(), to);
}

std::string refusal(const std::string& text, ErrorName name) {
  const auto parsed = parse_model_config(text);
  BOOST_REQUIRE(!parsed);
  BOOST_TEST((parsed.error().name == name), to_string(parsed.error()));
  return parsed.error().detail;
}

/// Goes away with all that is in it.
class Directory {
 public:
  Directory() : path_(std::filesystem::temp_directory_path() / ("prime-model-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    put("config.json", config_json(shape(), bytes()));
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  void put(const std::string& name, const std::string& text) const { std::ofstream(path_ / name, std::ios::binary) << text; }
  /// One tensor of two elements.
  void put_weights(const std::string& file, const std::string& tensor, const std::string& type, const std::string& bytes) const {
    const std::string header =
        "{\"" + tensor + R"(":{"dtype":")" + type + R"(","shape":[2],"data_offsets":[0,)" + std::to_string(bytes.size()) + "]}}";
    const std::uint64_t length = header.size();
    put(file, std::string{reinterpret_cast<const char*>(&length), sizeof length} + header + bytes);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::array<float, 2> read(ModelDirectory& directory, const std::string& tensor) {
  std::array<float, 2> values{};
  BOOST_REQUIRE(directory.read(tensor, {2}, values));
  return values;
}

}  // namespace

/// What shape() is to whoever runs it.
ModelConfig llama() { return {shape()}; }

/// What the configuration below says.
manifest::Model gpt2_shape() {
  manifest::Model model;
  model.arch = manifest::Architecture::Gpt2;
  model.layers = 2;
  model.dim = 12;
  model.heads = model.kv_heads = 4;
  model.ffn = 48;
  model.vocab = 300;
  model.context = 64;
  model.norm_epsilon = 1e-3;
  model.tie_embeddings = true;
  return model;
}

/// As transformers 5 writes it, without what is of no use here.
const std::string GPT2 = R"({"activation_function": "gelu_new", "add_cross_attention": false, "architectures": ["GPT2LMHeadModel"],
  "layer_norm_epsilon": 0.001, "model_type": "gpt2", "n_embd": 12, "n_head": 4, "n_inner": null, "n_layer": 2, "n_positions": 64,
  "reorder_and_upcast_attn": false, "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true, "tie_word_embeddings": true,
  "vocab_size": 300})";

BOOST_AUTO_TEST_SUITE(model_directory)

BOOST_AUTO_TEST_CASE(the_configuration_that_we_write_is_read) {
  const auto parsed = parse_model_config(config_json(shape(), bytes()));
  BOOST_REQUIRE(parsed);
  BOOST_TEST((*parsed == llama()));
  const auto of_gpt2 = parse_model_config(config_json(gpt2_shape(), bytes()));
  BOOST_REQUIRE(of_gpt2);
  BOOST_TEST((*of_gpt2 == ModelConfig{gpt2_shape()}));
  const auto older = with(config_json(shape(), bytes()), "\"rope_parameters\"", "\"something_else\"");
  BOOST_TEST(parse_model_config(older)->rope_theta == 500);
}

BOOST_AUTO_TEST_CASE(what_is_not_accepted_is_named) {
  const auto good = config_json(shape(), bytes());
  const auto unsupported = [&](const std::string& from, const std::string& to) {
    return refusal(with(good, from, to), ErrorName::ModelUnsupported);
  };
  const auto corrupt = [&](const std::string& from, const std::string& to) {
    return refusal(with(good, from, to), ErrorName::CheckpointCorrupt);
  };
  BOOST_TEST(unsupported("\"llama\"", "\"mistral\"") ==
             "its architecture is `\"mistral\"`; accepted are `llama` (LlamaForCausalLM) and `gpt2` (GPT2LMHeadModel)");
  unsupported("\"llama\"", "\"gpt2\"");  // what stands in `architectures` is another one
  unsupported("\"llama\"", "null");
  unsupported("\"LlamaForCausalLM\"", "\"LlamaForSequenceClassification\"");
  corrupt("\"attention_bias\": false", "\"attention_bias\": 1");
  unsupported("\"silu\"", "\"gelu\"");
  unsupported("\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"");
  BOOST_TEST(unsupported("\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}") ==
             "`rope_parameters` and `rope_scaling` do not say the same");
  unsupported("\"rope_scaling\": null", "\"rope_scaling\": 3");
  unsupported("\"use_cache\"", "\"quantization_config\": {}, \"use_cache\"");
  BOOST_TEST(unsupported("\"head_dim\": 4", "\"head_dim\": 8").find("`head_dim` is 8") != std::string::npos);
  corrupt("\"hidden_size\": 8", "\"hidden_size\": -8");
  corrupt("\"hidden_size\": 8", "\"hidden_size\": 9");
  corrupt("\"vocab_size\": 256", "\"vocab_size\": 99999999999");
  corrupt("\"rms_norm_eps\": 0.001", "\"rms_norm_eps\": 0");
  corrupt("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1");
  for (const auto* text : {"", "[]", "{", "{\"model_type\": \"llama\", \"model_type\": \"llama\"}"})
    refusal(text, ErrorName::CheckpointCorrupt);
}

BOOST_AUTO_TEST_CASE(biases_and_scaled_rotations_are_written_and_read) {
  auto model = shape();
  model.attention_bias = true;
  model.rope_scaling = {manifest::RopeKind::Llama3, 8, 1.5, 6, 100};
  const auto text = config_json(model, bytes());
  const auto parsed = parse_model_config(text);
  BOOST_REQUIRE(parsed);
  BOOST_TEST((*parsed == ModelConfig{model}));
  const auto older = with(text, "\"rope_parameters\"", "\"something_else\"");
  BOOST_TEST((parse_model_config(older).value() == ModelConfig{model}), "as transformers 4 writes it");
  const auto oldest = with(with(older, "\"rope_type\"", "\"type\""), "\"attention_bias\": true", "\"attention_bias\": null");
  BOOST_TEST((parse_model_config(oldest)->rope_scaling == model.rope_scaling));
  const auto corrupt = [&](const std::string& from, const std::string& to) {
    return refusal(with(older, from, to), ErrorName::CheckpointCorrupt);
  };
  BOOST_TEST(corrupt("\"factor\": 8.0", "\"factor\": 0") == "config.json: `rope_scaling`: `factor` is `0`, no number above 0");
  corrupt("\"factor\": 8.0,", "");
  corrupt("\"low_freq_factor\": 1.5", "\"low_freq_factor\": 6");
  corrupt("\"original_max_position_embeddings\": 100", "\"original_max_position_embeddings\": null");
  model.rope_scaling = {.kind = manifest::RopeKind::Linear, .factor = 2};
  BOOST_TEST((parse_model_config(config_json(model, bytes())).value() == ModelConfig{model}));
}

BOOST_AUTO_TEST_CASE(the_configuration_of_a_gpt2_is_read) {
  const ModelConfig expected{gpt2_shape()};
  const auto read = [](const std::string& from, const std::string& to) {
    const auto parsed = parse_model_config(with(GPT2, from, to));
    BOOST_REQUIRE_MESSAGE(parsed, to);
    return *parsed;
  };
  BOOST_TEST((read("", "") == expected));
  BOOST_TEST((read(", \"tie_word_embeddings\": true", "") == expected), "tied is what transformers takes for granted");
  BOOST_TEST(!read("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false").tie_embeddings);
  BOOST_TEST(read("\"n_inner\": null", "\"n_inner\": 20").ffn == 20U);
  BOOST_TEST(read("gelu_new", "gelu").exact_gelu);
  BOOST_TEST(!read("gelu_new", "gelu_pytorch_tanh").exact_gelu);
  BOOST_TEST(read("\"n_head\": 4", "\"n_head\": 12").heads == 12U, "a head may be odd: nothing is rotated");
  const auto refused = [&](const std::string& from, const std::string& to, ErrorName name) { return refusal(with(GPT2, from, to), name); };
  BOOST_TEST(refused("gelu_new", "relu", ErrorName::ModelUnsupported) ==
             "`activation_function` is `\"relu\"`; accepted are `gelu_new` and `gelu`");
  BOOST_TEST(refused("\"scale_attn_weights\": true", "\"scale_attn_weights\": false", ErrorName::ModelUnsupported) ==
             "`scale_attn_weights` is `false`; accepted is `true`");
  refused("\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": true", ErrorName::ModelUnsupported);
  refused("\"reorder_and_upcast_attn\": false", "\"reorder_and_upcast_attn\": true", ErrorName::ModelUnsupported);
  refused("\"add_cross_attention\": false", "\"add_cross_attention\": true", ErrorName::ModelUnsupported);
  refused("GPT2LMHeadModel", "GPT2Model", ErrorName::ModelUnsupported);
  refused("\"vocab_size\"", "\"quantization_config\": {}, \"vocab_size\"", ErrorName::ModelUnsupported);
  refused("\"n_head\": 4", "\"n_head\": 5", ErrorName::CheckpointCorrupt);
  refused("\"n_embd\": 12", "\"n_embd\": 0", ErrorName::CheckpointCorrupt);
  refused("\"n_layer\": 2,", "", ErrorName::CheckpointCorrupt);
}

BOOST_AUTO_TEST_CASE(mangled_configurations_are_answered) {
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto text = round % 2 == 0 ? config_json(shape(), bytes()) : GPT2;
    for (auto count = 1 + random() % 3; count > 0; --count) {
      const auto at = random() % text.size();
      if (random() % 2 == 0) text[at] = "{}[]:,\"0123456789eE+-.nulltrue"[random() % 30];
      else text.erase(at, 1 + random() % 6);
    }
    const auto parsed = parse_model_config(text);
    accepted += parsed ? 1 : 0;
    if (!parsed) BOOST_REQUIRE(!parsed.error().detail.empty());
  }
  BOOST_TEST(accepted > 100);
}

BOOST_AUTO_TEST_CASE(both_spellings_of_a_gpt2_are_one_model) {
  const Directory directory;
  directory.put("config.json", GPT2);
  std::vector<std::string> digests;
  for (const auto* name : {"ln_f.bias", "transformer.ln_f.bias"}) {
    directory.put_weights("model.safetensors", name, "F32", std::string("\0\0\x80\x3F\0\0\0\xC0", 8));
    auto model = ModelDirectory::open(directory.path());
    BOOST_REQUIRE(model);
    BOOST_TEST((read(*model, "ln_f.bias") == std::array<float, 2>{1, -2}));
    digests.push_back(model->digest());
  }
  BOOST_TEST(digests[0] == digests[1]);
  directory.put("config.json", with(GPT2, "gelu_new", "gelu"));
  auto other = ModelDirectory::open(directory.path());
  read(*other, "ln_f.bias");
  BOOST_TEST(other->digest() != digests[0]);
  directory.put("config.json", config_json(shape(), bytes()));
  std::array<float, 2> values{};
  BOOST_TEST(!ModelDirectory::open(directory.path())->read("ln_f.bias", {2}, values), "a Llama has one spelling");
}

BOOST_AUTO_TEST_CASE(weights_of_every_float_type_are_read_and_named_by_their_bytes) {
  const Directory directory;
  directory.put_weights("model.safetensors", "w", "F32", std::string("\0\0\x80\x3F\0\0\0\xC0", 8));
  auto model = ModelDirectory::open(directory.path());
  BOOST_REQUIRE(model);
  BOOST_TEST((read(*model, "w") == std::array<float, 2>{1, -2}));
  const auto digest = model->digest();
  BOOST_TEST(digest.size() == 64U);
  std::array<float, 2> values{};
  BOOST_TEST((model->read("v", {2}, values).error().name == ErrorName::CheckpointCorrupt));
  BOOST_TEST((model->read("w", {1, 2}, values).error().name == ErrorName::CheckpointCorrupt));
  directory.put_weights("model.safetensors", "w", "BF16", std::string("\x80\x3F\0\xC0", 4));
  auto narrow = ModelDirectory::open(directory.path());
  BOOST_TEST((read(*narrow, "w") == std::array<float, 2>{1, -2}));
  BOOST_TEST(narrow->digest() != digest);
  directory.put_weights("model.safetensors", "w", "F16", std::string("\0\x3C\0\xC0", 4));
  auto half = ModelDirectory::open(directory.path());
  BOOST_TEST((read(*half, "w") == std::array<float, 2>{1, -2}));
  directory.put_weights("model.safetensors", "w", "I16", std::string(4, '\0'));
  auto whole = ModelDirectory::open(directory.path());
  BOOST_TEST((whole->read("w", {2}, values).error().name == ErrorName::ModelUnsupported));
}

BOOST_AUTO_TEST_CASE(weights_spread_over_files_are_one_model) {
  const Directory directory;
  BOOST_TEST((ModelDirectory::open(directory.path()).error().name == ErrorName::ModelUnsupported));
  directory.put_weights("a.safetensors", "w", "BF16", std::string("\x80\x3F\0\xC0", 4));
  directory.put_weights("b.safetensors", "v", "BF16", std::string("\x80\x3F\0\xC0", 4));
  directory.put("model.safetensors.index.json", R"({"weight_map": {"w": "a.safetensors", "v": "b.safetensors"}})");
  auto model = ModelDirectory::open(directory.path());
  BOOST_REQUIRE(model);
  BOOST_TEST((read(*model, "v") == read(*model, "w")));
  for (const auto* name : {"../a.safetensors", "/etc/passwd", "", ".", "x/y"}) {
    directory.put("model.safetensors.index.json", std::string{R"({"weight_map": {"w": ")"} + name + "\"}}");
    BOOST_TEST((ModelDirectory::open(directory.path()).error().name == ErrorName::CheckpointCorrupt), name);
  }
  directory.put_weights("b.safetensors", "w", "BF16", std::string(4, '\0'));
  directory.put("model.safetensors.index.json", R"({"weight_map": {"w": "a.safetensors", "v": "b.safetensors"}})");
  BOOST_TEST((ModelDirectory::open(directory.path()).error().name == ErrorName::CheckpointCorrupt), "two tensors of one name");
}

BOOST_AUTO_TEST_CASE(a_directory_without_a_tokenizer_has_bytes_when_it_is_ours_or_has_256_tokens) {
  const Directory directory;
  directory.put_weights("model.safetensors", "w", "BF16", std::string(4, '\0'));
  BOOST_TEST(ModelDirectory::open(directory.path())->has_byte_tokens());
  directory.put("config.json", with(config_json(shape(), bytes()), "\"vocab_size\": 256", "\"vocab_size\": 260"));
  BOOST_TEST(!ModelDirectory::open(directory.path())->has_byte_tokens());
  std::filesystem::create_directories(directory.path() / "prime");
  directory.put("prime/manifest.yaml", "version: 1\n");
  BOOST_TEST(ModelDirectory::open(directory.path())->has_byte_tokens());
  directory.put("tokenizer.json", "{}");
  const auto tokenizer = ModelDirectory::open(directory.path())->tokenizer();
  BOOST_TEST(tokenizer.size() == 64U);
  directory.put("tokenizer.json", "{ }");
  BOOST_TEST(ModelDirectory::open(directory.path())->tokenizer() != tokenizer);
  for (const bool with_end : {false, true}) {
    directory.put("tokenizer.json", data::Tokenizer::bytes(with_end).file().second);
    BOOST_TEST(ModelDirectory::open(directory.path())->has_byte_tokens());
  }
}

/// Of a tokenizer.json with these added tokens, ids in their order.
data::Tokenizer tokenizer_with(const std::vector<std::string>& added) {
  std::string tokens;
  for (std::size_t id = 0; id < added.size(); ++id)
    tokens += (id == 0 ? "" : ",") + (R"({"id":)" + std::to_string(id) + R"(,"content":")" + added[id] + R"(","special":true})");
  return data::Tokenizer::parse(R"({"added_tokens":[)" + tokens + R"(],"model":{"type":"BPE","vocab":{"a":9},"merges":[]}})", "t.json")
      .value();
}

BOOST_AUTO_TEST_CASE(the_tokenizer_stands_beside_the_weights_with_the_parts_that_its_tokens_play) {
  manifest::Shared run;
  run.model = shape();
  const auto files = files_beside_weights(run, tokenizer_with({"[PAD]", "[UNK]", "[SEP]", "[BOS]", "[EOS]", "[MASK]"}));
  BOOST_TEST(files.size() == 4U);
  for (const std::string id : {"\"bos_token_id\": 3", "\"eos_token_id\": 4", "\"pad_token_id\": 0"})
    for (const char* file : {"config.json", "generation_config.json"}) BOOST_TEST(files.at(file).find(id) != std::string::npos);
  for (const std::string token :
       {R"("bos_token": "[BOS]")", R"("eos_token": "[EOS]")", R"("pad_token": "[PAD]")", R"("unk_token": "[UNK]")"})
    BOOST_TEST(files.at("tokenizer_config.json").find(token) != std::string::npos);
  BOOST_TEST(files_beside_weights(run, bytes()).at("config.json").find("\"eos_token_id\": null") != std::string::npos);
  BOOST_TEST(files_beside_weights(run, data::Tokenizer::bytes(true)).at("config.json").find("\"eos_token_id\": 256") != std::string::npos);
  run.data.source = manifest::DataFormat::Tokens;
  BOOST_TEST(files_beside_weights(run, bytes()).count("tokenizer.json") == 0U, "nobody knows what tokens of a shard mean");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(sampler)

BOOST_AUTO_TEST_CASE(temperature_zero_takes_the_likeliest_and_the_lowest_of_equal_ones) {
  const std::vector<float> logits{0.5F, 2, 2, -1};
  BOOST_TEST(choose(logits, {}, {}) == 1U);
  BOOST_TEST(is_choice(logits, {}, {}, 1, EXACT_CHOICES));
  BOOST_TEST(is_choice(logits, {}, {}, 2, EXACT_CHOICES), "as likely as the first");
  BOOST_TEST(!is_choice(logits, {}, {}, 0, EXACT_CHOICES));
  BOOST_TEST(!is_choice(logits, {}, {}, 4, EXACT_CHOICES));
}

BOOST_AUTO_TEST_CASE(what_is_drawn_follows_the_logits_and_is_recognised) {
  const std::vector<float> logits{0, 1, 2};
  const proofs::Sampling sampling{1, 7};
  std::array<int, 3> counts{};
  for (std::uint64_t position = 0; position < 20'000; ++position) {
    const auto token = choose(logits, sampling, {3, position});
    ++counts[token];
    BOOST_REQUIRE(is_choice(logits, sampling, {3, position}, token, EXACT_CHOICES));
    BOOST_REQUIRE(choose(logits, sampling, {3, position}) == token);
  }
  BOOST_TEST(std::abs(counts[0] - 1801) < 200);
  BOOST_TEST(std::abs(counts[2] - 13'305) < 400);
  // Who draws from another seed, place or temperature is found out wherever the token changes, but for a hair's breadth.
  for (const auto& [other, place] :
       std::vector<std::pair<proofs::Sampling, TokenPlace>>{{{1, 8}, {3, 0}}, {{1, 7}, {4, 0}}, {{3, 7}, {3, 0}}}) {
    int changed = 0, passed = 0;
    for (std::uint64_t position = 0; position < 5'000; ++position) {
      const auto token = choose(logits, other, {place.sequence, position});
      if (token == choose(logits, sampling, {3, position})) continue;
      ++changed;
      passed += is_choice(logits, sampling, {3, position}, token, EXACT_CHOICES) ? 1 : 0;
    }
    BOOST_TEST(changed > 500);
    BOOST_TEST(passed < 10);
  }
}

BOOST_AUTO_TEST_CASE(large_logits_may_differ_by_steps_of_their_type) {
  // From 128 on a step of bf16 is 1: two honest machines may choose either of these.
  const std::vector<float> large{0, 200, 199, 198, 190};
  for (const std::uint32_t token : {1U, 2U, 3U}) BOOST_TEST(is_choice(large, {}, {}, token, COARSE_CHOICES), token);
  BOOST_TEST(!is_choice(large, {}, {}, 4, COARSE_CHOICES));
  BOOST_TEST(!is_choice(large, {}, {}, 2, EXACT_CHOICES));
  const std::vector<float> small{0, 2, 1.75F, 1.25F};
  BOOST_TEST(is_choice(small, {}, {}, 2, COARSE_CHOICES));
  BOOST_TEST(!is_choice(small, {}, {}, 3, COARSE_CHOICES));
  // What is drawn from logits of which each is a step away is one of the choices.
  const proofs::Sampling sampling{1, 7};
  const std::vector<float> own{200, 200, 200, 200}, theirs{201, 200, 199, 200};
  for (std::uint64_t position = 0; position < 200; ++position) {
    const TokenPlace place{0, position};
    BOOST_TEST(is_choice(own, sampling, place, choose(theirs, sampling, place), COARSE_CHOICES));
  }
}

BOOST_AUTO_TEST_CASE(only_finite_logits_are_chosen_from) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  BOOST_TEST(are_finite(std::vector<float>{0, -1, 3e38F}));
  for (const float wrong : {nan, infinity, -infinity}) BOOST_TEST(!are_finite(std::vector<float>{0, wrong, 1}));
}

BOOST_AUTO_TEST_SUITE_END()
