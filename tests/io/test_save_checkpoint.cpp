// Saving a model as a Hugging Face folder: what is loaded from it is the same model, to the last bit.
//
// Faults that must turn these tests red:
//   - two weights exchanged or under another name; a bias, a norm or the head left out; rows of a 16-bit
//   weight
//     widened wrongly
//   - a key of config.json missing, or a double with too few digits; none and several ids written as one
//   - top_k left out (Transformers then takes 50), do_sample not from the temperature, stop strings lost
//   - a model saved that its own configuration contradicts
//   - an old folder half replaced when the disk is full
#include "glassbox/io/save_checkpoint.hpp"

#include "glassbox/io/checkpoint.hpp"
#include "io/tiny_checkpoint.hpp"
#include "support/expect_near.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace io_save_checkpoint_test {

using test_support::bytes_of;
using test_support::random_model;
using test_support::random_weights;
using test_support::read_bytes;
using test_support::small_config;
using test_support::StoredTensors;
using test_support::TemporaryFolder;
using test_support::throws;
using test_support::tiny_config;

Tensor<TokenId> some_ids() {
  Tensor<TokenId> input_ids({{"batch", 1}, {"seq", 5}});
  for (Index s = 0; s < 5; ++s) input_ids(0, s) = 1 + 2 * s;
  return input_ids;
}

// Names, shapes and bytes of all weights.
template <typename Scalar>
void expect_same_weights(const CausalLM<Scalar>& found, const CausalLM<Scalar>& expected) {
  const WeightsToSave<Scalar> found_weights(found);
  const WeightsToSave<Scalar> expected_weights(expected);
  ASSERT_EQ(found_weights.tensors().size(), expected_weights.tensors().size());
  for (std::size_t i = 0; i < found_weights.tensors().size(); ++i) {
    const TensorToSave& a = found_weights.tensors()[i];
    const TensorToSave& b = expected_weights.tensors()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape) << a.name;
    ASSERT_EQ(a.numbers.size(), b.numbers.size()) << a.name;
    EXPECT_EQ(std::memcmp(a.numbers.data(), b.numbers.data(), a.numbers.size()), 0) << a.name;
  }
}

template <typename Scalar>
void expect_same_logits(const CausalLM<Scalar>& found, const CausalLM<Scalar>& expected) {
  const Tensor<Scalar> a = found.forward(some_ids());
  const Tensor<Scalar> b = expected.forward(some_ids());
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(Scalar)), 0);
}

void expect_same_config(const ModelConfig& found, const ModelConfig& expected) {
  EXPECT_EQ(found.model_type, expected.model_type);
  EXPECT_EQ(found.vocab_size, expected.vocab_size);
  EXPECT_EQ(found.hidden_size, expected.hidden_size);
  EXPECT_EQ(found.intermediate_size, expected.intermediate_size);
  EXPECT_EQ(found.num_hidden_layers, expected.num_hidden_layers);
  EXPECT_EQ(found.num_attention_heads, expected.num_attention_heads);
  EXPECT_EQ(found.num_key_value_heads, expected.num_key_value_heads);
  EXPECT_EQ(found.head_dim, expected.head_dim);
  EXPECT_EQ(found.max_position_embeddings, expected.max_position_embeddings);
  EXPECT_EQ(found.rms_norm_eps, expected.rms_norm_eps);
  EXPECT_EQ(found.rope_theta, expected.rope_theta);
  EXPECT_EQ(found.hidden_act, expected.hidden_act);
  EXPECT_EQ(found.tie_word_embeddings, expected.tie_word_embeddings);
  EXPECT_EQ(found.attention_bias, expected.attention_bias);
  EXPECT_EQ(found.mlp_bias, expected.mlp_bias);
  EXPECT_EQ(found.bos_token_id, expected.bos_token_id);
  EXPECT_EQ(found.eos_token_id, expected.eos_token_id);
  EXPECT_EQ(found.pad_token_id, expected.pad_token_id);
}

// ---- a whole folder

template <typename Scalar>
class SaveCheckpoint : public ::testing::Test {};
TYPED_TEST_SUITE(SaveCheckpoint, test_support::Scalars, test_support::ScalarNames);

TYPED_TEST(SaveCheckpoint, TheSameModelComesBack) {
  for (const bool tied : {false, true}) {
    for (const bool biases : {false, true}) {
      ModelConfig config = small_config();
      config.tie_word_embeddings = tied;
      config.attention_bias = biases;
      config.mlp_bias = biases;
      config.rms_norm_eps = 1.0 / 3e5;
      config.rope_theta = 1e5 / 7;
      config.bos_token_id = 1;
      config.eos_token_id = {2, 5};
      const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(config, 3);
      GenerationConfig generation_config;
      generation_config.eos_token_id = {5};
      const TemporaryFolder folder;
      save_huggingface_folder(folder.path() / "new" / "model", causal_lm, generation_config);
      const Checkpoint<TypeParam> loaded = load_checkpoint<TypeParam>(folder.path() / "new" / "model");
      expect_same_weights(loaded.causal_lm, causal_lm);
      expect_same_config(loaded.causal_lm.config, causal_lm.config);
      expect_same_logits(loaded.causal_lm, causal_lm);
      EXPECT_EQ(loaded.generation_config.eos_token_id, generation_config.eos_token_id);
      EXPECT_TRUE(loaded.report.assumptions.empty()) << loaded.report.assumptions[0];
      for (const ReportedTensor& tensor : loaded.report.tensors) {
        EXPECT_EQ(tensor.unused_because, "") << tensor.name;
        EXPECT_EQ(tensor.dtype, sizeof(TypeParam) == 4 ? "F32" : "F64");
        EXPECT_FALSE(tensor.copied) << tensor.name;
      }
    }
  }
}

// By another way than the loader's: the bytes of each tensor where the header, read by hand, says they are.
TEST(SaveCheckpointFile, NamesAndNumbersReadByHand) {
  ModelConfig config = small_config();
  config.num_hidden_layers = 1;
  const CausalLM<float> causal_lm = random_model<float>(config, 4);
  const TemporaryFolder folder;
  save_huggingface_folder(folder.path(), causal_lm, {});
  const std::string bytes = read_bytes(folder.path() / "model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const nlohmann::ordered_json header = nlohmann::ordered_json::parse(bytes.substr(8, length));
  const DecoderLayer<float>& layer = causal_lm.model.layers[0];
  const std::pair<std::string, const void*> expected[] = {
      {"model.embed_tokens.weight", causal_lm.model.embed_tokens.weight.data()},
      {"model.layers.0.input_layernorm.weight", layer.input_layernorm.weight.data()},
      {"model.layers.0.self_attn.q_proj.weight", layer.self_attn.q_proj.weight.data()},
      {"model.layers.0.self_attn.k_proj.weight", layer.self_attn.k_proj.weight.data()},
      {"model.layers.0.self_attn.v_proj.weight", layer.self_attn.v_proj.weight.data()},
      {"model.layers.0.self_attn.o_proj.weight", layer.self_attn.o_proj.weight.data()},
      {"model.layers.0.post_attention_layernorm.weight", layer.post_attention_layernorm.weight.data()},
      {"model.layers.0.mlp.gate_proj.weight", layer.mlp.gate_proj.weight.data()},
      {"model.layers.0.mlp.up_proj.weight", layer.mlp.up_proj.weight.data()},
      {"model.layers.0.mlp.down_proj.weight", layer.mlp.down_proj.weight.data()},
      {"model.norm.weight", causal_lm.model.norm.weight.data()},
      {"lm_head.weight", causal_lm.lm_head.weight.data()}};
  EXPECT_EQ(header["__metadata__"], nlohmann::ordered_json({{"format", "pt"}}));
  EXPECT_EQ(header.size(), 1 + std::size(expected));
  for (const std::pair<std::string, const void*>& tensor : expected) {
    ASSERT_TRUE(header.contains(tensor.first)) << tensor.first;
    const std::uint64_t begin = header[tensor.first]["data_offsets"][0];
    const std::uint64_t end = header[tensor.first]["data_offsets"][1];
    ASSERT_LE(8 + length + end, bytes.size());
    EXPECT_EQ(std::memcmp(bytes.data() + 8 + length + begin, tensor.second, end - begin), 0) << tensor.first;
  }
}

// 16-bit weights become F32 without a change of what they say.
TEST(SaveCheckpointFile, WeightsOf16Bits) {
  const ModelConfig config = tiny_config();
  StoredTensors tensors = random_weights(config, 5);
  for (std::pair<const std::string, test_support::StoredTensor>& item : tensors) {
    std::string halves;  // the upper halves of floats are bfloat16
    for (std::size_t i = 2; i < item.second.bytes.size(); i += 4) halves += item.second.bytes.substr(i, 2);
    item.second.dtype = "BF16";
    item.second.bytes = halves;
  }
  const TemporaryFolder folder;
  write_folder(folder, config, tensors);
  const Checkpoint<float> stored = load_checkpoint<float>(folder.path());
  save_huggingface_folder(folder.path() / "wide", stored.causal_lm, stored.generation_config);
  const Checkpoint<float> wide = load_checkpoint<float>(folder.path() / "wide");
  EXPECT_EQ(wide.causal_lm.model.layers[1].mlp.up_proj.weight.type, StoredType::f32);
  expect_same_logits(wide.causal_lm, stored.causal_lm);
  const std::string& halves = tensors["model.layers.1.mlp.up_proj.weight"].bytes;
  const std::byte* numbers = wide.causal_lm.model.layers[1].mlp.up_proj.weight.data();
  for (std::size_t i = 0; i < halves.size() / 2; ++i) {
    const std::string bits = std::string(2, '\0') + halves.substr(2 * i, 2);
    EXPECT_EQ(std::memcmp(numbers + 4 * i, bits.data(), 4), 0) << i;
  }
}

TEST(SaveCheckpointFile, OverTheFolderThatLendsTheWeights) {
  const TemporaryFolder folder;
  write_folder(folder, tiny_config(), random_weights(tiny_config(), 6));
  const Checkpoint<float> checkpoint = load_checkpoint<float>(folder.path());
  const Tensor<float> before = checkpoint.causal_lm.forward(some_ids());
  save_huggingface_folder(folder.path(), checkpoint.causal_lm, checkpoint.generation_config);
  EXPECT_TRUE(test_support::near_tensors(checkpoint.causal_lm.forward(some_ids()), before, 0));
  expect_same_logits(load_checkpoint<float>(folder.path()).causal_lm, checkpoint.causal_lm);
}

TEST(SaveCheckpointFile, AFullDiskLeavesTheOldFolder) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  const TemporaryFolder folder;
  for (const std::string name : {"model.safetensors", "generation_config.json", "config.json"}) {
    for (const std::string old : {"model.safetensors", "generation_config.json", "config.json"}) {
      folder.write(old, "old");
    }
    std::filesystem::create_symlink("/dev/full", folder.file(name + ".part"));
    EXPECT_TRUE(throws<FormatError>(
        [&] { save_huggingface_folder(folder.path(), random_model<float>(small_config(), 7), {}); },
        folder.file(name) + ": cannot be written (as " + name + ".part): No space left on device"));
    std::size_t files = 0;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder.path())) {
      EXPECT_EQ(read_bytes(entry.path()), "old") << entry.path();
      files += 1;
    }
    EXPECT_EQ(files, 3u);
  }
}

TEST(SaveCheckpointFile, NoFolderCanBeMade) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "");
  EXPECT_TRUE(
      throws<FormatError>([&] { save_huggingface_folder(path, random_model<float>(small_config(), 7), {}); },
                          path + ": the folder cannot be made: Not a directory"));
}

// ---- models that nobody could load again

class Refused : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "new";
  CausalLM<double> causal_lm_ = random_model<double>(small_config(), 8);
  GenerationConfig generation_config_;

  template <typename ErrorType>
  void expect_refused(const std::string& text) {
    EXPECT_TRUE(
        throws<ErrorType>([this] { save_huggingface_folder(path_, causal_lm_, generation_config_); }, text));
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
};

TEST_F(Refused, ALayerTooFew) {
  causal_lm_.config.num_hidden_layers = 3;
  expect_refused<ConfigError>(
      "save_huggingface_folder: model.layers.2.input_layernorm.weight is missing, but config has it");
}

TEST_F(Refused, ALayerTooMany) {
  causal_lm_.config.num_hidden_layers = 1;
  expect_refused<ConfigError>(
      "save_huggingface_folder: model.layers.1.input_layernorm.weight [16] is there, but config has none");
}

TEST_F(Refused, ABiasThatTheConfigDoesNotHave) {
  causal_lm_.model.layers[1].mlp.up_proj.bias = Tensor<double>({{"intermediate", 22}});
  expect_refused<ConfigError>(
      "save_huggingface_folder: model.layers.1.mlp.up_proj.bias [22] is there, but config has none");
}

TEST_F(Refused, ABiasThatIsMissing) {
  causal_lm_.config.mlp_bias = true;
  expect_refused<ConfigError>(
      "save_huggingface_folder: model.layers.0.mlp.down_proj.bias is missing, but config has it");
}

TEST_F(Refused, AHeadBesideATiedEmbedding) {
  causal_lm_.config.tie_word_embeddings = true;
  expect_refused<ConfigError>(
      "save_huggingface_folder: lm_head.weight [37, 16] is there, but config has none");
}

TEST_F(Refused, AnotherShape) {
  causal_lm_.config.intermediate_size = 23;
  expect_refused<ConfigError>(
      "save_huggingface_folder: model.layers.0.mlp.gate_proj.weight is [22, 16], expected [23, 16] = "
      "[intermediate_size, hidden_size] of config");
}

TEST_F(Refused, AnEmptyWeight) {
  causal_lm_.model.embed_tokens.weight = WeightMatrix();
  expect_refused<ConfigError>("save_huggingface_folder: model.embed_tokens.weight is empty");
}

TEST_F(Refused, AConfigThatContradictsItself) {
  causal_lm_.config.head_dim = 5;
  expect_refused<ConfigError>("config: head_dim 5 is odd, but rotary position embedding rotates pairs");
}

TEST_F(Refused, AnotherFamily) {
  causal_lm_.config.model_type = "gpt2";
  expect_refused<ConfigError>(
      "config_json_text: model_type is \"gpt2\", expected \"llama\": other families are not saved");
}

TEST_F(Refused, GenerationSettingsThatCannotBeRead) {
  generation_config_.max_new_tokens = 0;
  expect_refused<UsageError>(
      "generation_config_json_text: max_new_tokens is 0, expected a whole number from 1 to 2147483647");
  generation_config_.max_new_tokens = 1;
  generation_config_.eos_token_id = {2, 37};
  expect_refused<UsageError>("generation_config_json_text: eos_token_id 37 is not below vocab_size 37");
  generation_config_.eos_token_id = {};
  generation_config_.sampling.top_p = 2;
  expect_refused<UsageError>("sampling: top_p is 2, expected a number from 0 to 1 (off)");
}

// ---- the two texts

TEST(ConfigJsonText, EveryKey) {
  ModelConfig config = tiny_config();
  config.rope_theta = 500000;
  EXPECT_EQ(config_json_text(config, "float32"),
            "{\n  \"architectures\": [\n    \"LlamaForCausalLM\"\n  ],\n  \"model_type\": \"llama\",\n"
            "  \"vocab_size\": 11,\n  \"hidden_size\": 8,\n  \"intermediate_size\": 6,\n"
            "  \"num_hidden_layers\": 2,\n  \"num_attention_heads\": 4,\n  \"num_key_value_heads\": 2,\n"
            "  \"head_dim\": 2,\n  \"max_position_embeddings\": 16,\n  \"rms_norm_eps\": 1e-05,\n"
            "  \"rope_theta\": 500000.0,\n  \"hidden_act\": \"silu\",\n  \"tie_word_embeddings\": false,\n"
            "  \"attention_bias\": false,\n  \"mlp_bias\": false,\n  \"bos_token_id\": 1,\n"
            "  \"eos_token_id\": 2,\n  \"pad_token_id\": null,\n  \"torch_dtype\": \"float32\"\n}\n");
}

TEST(ConfigJsonText, IdsNoneOneSeveral) {
  const TemporaryFolder folder;
  for (const std::vector<TokenId>& eos : {std::vector<TokenId>{}, {0}, {2, 10}}) {
    ModelConfig config = tiny_config();
    config.bos_token_id = -1;
    config.eos_token_id = eos;
    config.pad_token_id = 10;
    const std::string path = folder.write("config.json", config_json_text(config, "float64"));
    expect_same_config(read_config_json(path).config, config);
  }
}

GenerationConfig read_again(const GenerationConfig& generation_config) {
  const TemporaryFolder folder;
  ModelConfig config = tiny_config();
  const std::string path =
      folder.write("generation_config.json", generation_config_json_text(generation_config, config));
  const LoadedGenerationConfig loaded = read_generation_config_json(path, config);
  for (const IgnoredKey& key : loaded.ignored_keys) {
    EXPECT_FALSE(key.reason.starts_with(not_honoured) || key.reason == unknown_key_reason) << key.key;
  }
  return loaded.generation_config;
}

TEST(GenerationConfigJsonText, SettingsComeBack) {
  GenerationConfig generation_config;
  generation_config.sampling = {.temperature = 0.7,
                                .top_k = 0,
                                .top_p = 0.9,
                                .min_p = 1.0 / 30,
                                .repetition_penalty = 1.1,
                                .no_repeat_ngram_size = 4};
  generation_config.max_new_tokens = 77;
  generation_config.eos_token_id = {2, 3};
  generation_config.stop_strings = {"\n\n", "\xC3\xB6"};
  const GenerationConfig found = read_again(generation_config);
  EXPECT_EQ(found.sampling.temperature, 0.7);
  EXPECT_EQ(found.sampling.top_k, 0);
  EXPECT_EQ(found.sampling.top_p, 0.9);
  EXPECT_EQ(found.sampling.min_p, 1.0 / 30);
  EXPECT_EQ(found.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(found.sampling.no_repeat_ngram_size, 4);
  EXPECT_EQ(found.max_new_tokens, 77);
  EXPECT_EQ(found.eos_token_id, generation_config.eos_token_id);
  EXPECT_EQ(found.stop_strings, generation_config.stop_strings);
}

// Greedy stays greedy, and a model without an end token gets none from config.json.
TEST(GenerationConfigJsonText, GreedyWithoutEnd) {
  const GenerationConfig found = read_again({});
  EXPECT_EQ(found.sampling.temperature, 0);
  EXPECT_EQ(found.sampling.repetition_penalty, 1);
  EXPECT_TRUE(found.eos_token_id.empty());
  EXPECT_EQ(generation_config_json_text({}, tiny_config()),
            "{\n  \"bos_token_id\": 1,\n  \"eos_token_id\": null,\n  \"pad_token_id\": null,\n"
            "  \"do_sample\": false,\n  \"max_new_tokens\": 256\n}\n");
}

// ---- the tokenizer's files

TEST(CopyTokenizerFiles, ThoseThatAreThere) {
  const TemporaryFolder folder;
  const std::filesystem::path from = folder.path() / "from";
  const std::filesystem::path to = folder.path() / "to";
  std::filesystem::create_directory(from);
  folder.write("from/tokenizer.model", std::string("a\0b", 3));
  folder.write("from/tokenizer_config.json", "{}");
  folder.write("from/special_tokens_map.json", "");
  folder.write("from/config.json", "not the tokenizer's");
  EXPECT_EQ(
      copy_tokenizer_files(from, to),
      (std::vector<std::string>{"tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"}));
  EXPECT_EQ(read_bytes(to / "tokenizer.model"), std::string("a\0b", 3));
  EXPECT_EQ(read_bytes(to / "tokenizer_config.json"), "{}");
  EXPECT_EQ(read_bytes(to / "special_tokens_map.json"), "");
  EXPECT_FALSE(std::filesystem::exists(to / "config.json"));
  EXPECT_TRUE(throws<FormatError>([&] { copy_tokenizer_files(from / "nowhere", to); },
                                  (from / "nowhere").string() + ": no such folder"));
}

}  // namespace io_save_checkpoint_test
}  // namespace glassbox
