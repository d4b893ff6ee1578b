// Hugging Face folders: every weight there, every tensor accounted for.
// Faults that must turn this red: a missing, misshapen or integer tensor let through; only the first missing
// one named; an unused tensor not listed; a bias or q_norm ignored; lm_head of a tied model used or not
// compared; layers beyond num_hidden_layers not told; num_hidden_layers believed before the file is looked
// at.
#include "glassbox/io/huggingface.hpp"

#include "io/tiny_checkpoint.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_huggingface_test {

using test_support::bytes_of;
using test_support::config_text;
using test_support::f32_tensor;
using test_support::random_weights;
using test_support::safetensors_bytes;
using test_support::StoredTensor;
using test_support::StoredTensors;
using test_support::TemporaryFolder;
using test_support::throws;
using test_support::tiny_config;
using test_support::write_folder;

// A folder with a complete model, to be damaged by each test.
class HuggingFace : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string weights_file_ = folder_.file("model.safetensors");
  ModelConfig config_ = tiny_config();
  StoredTensors tensors_ = random_weights(config_, 1);

  void rename(const std::string& from, const std::string& to) {
    tensors_[to] = tensors_.at(from);
    tensors_.erase(from);
  }

  StoredCheckpoint open() {
    write_folder(folder_, config_, tensors_);
    return open_huggingface_folder(folder_.path());
  }
  template <typename ErrorType = FormatError>
  std::string error() {
    try {
      open();
    } catch (const ErrorType& caught) {
      const std::string text = caught.what();
      return text.starts_with(weights_file_) ? text.substr(weights_file_.size()) : text;
    }
    return "nothing was thrown";
  }
  // "name: reason" of the tensors that no member took.
  std::vector<std::string> unused() {
    std::vector<std::string> texts;
    for (const ReportedTensor& tensor : open().report.tensors) {
      EXPECT_NE(tensor.used_as.empty(), tensor.unused_because.empty()) << tensor.name;
      if (tensor.used_as.empty()) texts.push_back(tensor.name + ": " + tensor.unused_because);
    }
    return texts;
  }
};

TEST_F(HuggingFace, EveryTensorIsReported) {
  const StoredCheckpoint checkpoint = open();
  EXPECT_EQ(checkpoint.weights.size(), 3u + 2u * 9u);
  ASSERT_EQ(checkpoint.report.tensors.size(), tensors_.size());
  EXPECT_EQ(checkpoint.report.format, "Hugging Face safetensors");
  EXPECT_EQ(checkpoint.report.path, folder_.path().string());
  EXPECT_EQ(checkpoint.report.files, (std::vector<std::string>{folder_.file("config.json"), weights_file_}));
  const ReportedTensor& embedding = checkpoint.report.tensors[0];
  EXPECT_EQ(embedding.name, "model.embed_tokens.weight");
  EXPECT_EQ(embedding.dtype, "F32");
  EXPECT_EQ(embedding.shape, (std::vector<Index>{11, 8}));
  EXPECT_EQ(embedding.bytes, 352u);
  EXPECT_EQ(embedding.file, weights_file_);
  EXPECT_EQ(embedding.used_as, "model.embed_tokens.weight");
  EXPECT_EQ(checkpoint.report.tensors[4].used_as, "model.layers[0].self_attn.q_proj.weight");
  for (const std::pair<const std::string, StoredTensor>& tensor : tensors_) {
    const WeightMatrix& weight = checkpoint.weights.at(tensor.first);
    ASSERT_EQ(static_cast<std::size_t>(weight.bytes()), tensor.second.bytes.size());
    EXPECT_EQ(std::memcmp(weight.data(), tensor.second.bytes.data(), tensor.second.bytes.size()), 0);
  }
}

TEST_F(HuggingFace, AxesAreNamed) {
  const StoredCheckpoint checkpoint = open();
  const std::pair<std::string, std::string> shapes[] = {
      {"model.embed_tokens.weight", "[vocab=11, hidden=8]"},
      {"lm_head.weight", "[vocab=11, hidden=8]"},
      {"model.layers.1.self_attn.q_proj.weight", "[heads*head_dim=8, hidden=8]"},
      {"model.layers.1.self_attn.k_proj.weight", "[kv_heads*head_dim=4, hidden=8]"},
      {"model.layers.1.self_attn.o_proj.weight", "[hidden=8, heads*head_dim=8]"},
      {"model.layers.1.mlp.up_proj.weight", "[intermediate=6, hidden=8]"},
      {"model.layers.1.mlp.down_proj.weight", "[hidden=8, intermediate=6]"}};
  for (const std::pair<std::string, std::string>& item : shapes) {
    EXPECT_EQ(shape_string(checkpoint.weights.at(item.first)), item.second) << item.first;
  }
}

TEST_F(HuggingFace, MissingTensors) {
  tensors_.erase("model.norm.weight");
  EXPECT_EQ(error(), ": tensor model.norm.weight is missing, expected [8] = [hidden_size] of config.json");
  tensors_.erase("model.layers.1.mlp.up_proj.weight");
  tensors_.erase("model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(
      error(),
      ": tensor model.norm.weight is missing, expected [8] = [hidden_size] of config.json; missing too: "
      "model.layers.0.self_attn.k_proj.weight, model.layers.1.mlp.up_proj.weight");
}

// V25: without lm_head the model must be tied, and the message says so.
TEST_F(HuggingFace, MissingHead) {
  tensors_.erase("lm_head.weight");
  EXPECT_EQ(
      error(),
      ": tensor lm_head.weight is missing, expected [11, 8] = [vocab_size, hidden_size] of config.json, "
      "where tie_word_embeddings is not true");
  config_.tie_word_embeddings = true;
  const StoredCheckpoint checkpoint = open();
  EXPECT_EQ(checkpoint.weights.count("lm_head.weight"), 0u);
  EXPECT_EQ(checkpoint.report.tensors[0].used_as,
            "model.embed_tokens.weight, also in place of lm_head.weight (tied)");
}

TEST_F(HuggingFace, WrongShapes) {
  config_.hidden_size = 10;
  config_.head_dim = 2;
  EXPECT_EQ(error(),
            ": tensor model.embed_tokens.weight is [11, 8], expected [11, 10] = [vocab_size, hidden_size] of "
            "config.json");
  config_ = tiny_config();
  config_.num_key_value_heads = 4;
  EXPECT_EQ(
      error(),
      ": tensor model.layers.0.self_attn.k_proj.weight is [4, 8], expected [8, 8] = [num_key_value_heads * "
      "head_dim, hidden_size] of config.json");
  config_ = tiny_config();
  tensors_["model.norm.weight"].shape = {8, 1};
  EXPECT_EQ(error(), ": tensor model.norm.weight is [8, 1], expected [8] = [hidden_size] of config.json");
}

TEST_F(HuggingFace, WrongTypes) {
  tensors_["model.layers.1.mlp.gate_proj.weight"] = {"I64", {6, 8}, std::string(6 * 8 * 8, '\0')};
  EXPECT_EQ(error(),
            ": tensor model.layers.1.mlp.gate_proj.weight has dtype I64, expected F32, F16, BF16 or F64");
  tensors_["model.layers.1.mlp.gate_proj.weight"] = {"F8_E4M3", {6, 8}, std::string(6 * 8, '\0')};
  EXPECT_EQ(error(),
            ": tensor model.layers.1.mlp.gate_proj.weight has dtype F8_E4M3, expected F32, F16, BF16 or F64");
}

TEST_F(HuggingFace, TypesMayDiffer) {
  tensors_["model.norm.weight"] = {"F16", {8}, std::string(16, '\x3c')};
  tensors_["lm_head.weight"] = {"F64", {11, 8}, std::string(11 * 8 * 8, '\0')};
  tensors_["model.embed_tokens.weight"] = {"BF16", {11, 8}, std::string(11 * 8 * 2, '\0')};
  const StoredCheckpoint checkpoint = open();
  EXPECT_EQ(checkpoint.weights.at("model.norm.weight").type, StoredType::f16);
  EXPECT_EQ(checkpoint.weights.at("lm_head.weight").type, StoredType::f64);
  EXPECT_EQ(checkpoint.weights.at("model.embed_tokens.weight").type, StoredType::bf16);
}

// V29: a tensor that nothing takes is listed, one that would change the results is an error.
TEST_F(HuggingFace, UnusedTensorsAreListed) {
  tensors_["foo.weight"] = f32_tensor({1}, {1});
  tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = f32_tensor({1}, {1});
  tensors_["model.layers.2.mlp.up_proj.weight"] = f32_tensor({1}, {1});
  tensors_["model.layers.7.self_attn.q_proj.bias"] = f32_tensor({1}, {1});
  tensors_["other.bias"] = f32_tensor({1}, {1});
  EXPECT_EQ(unused(),
            (std::vector<std::string>{
                "foo.weight: no part of a Llama model has this name",
                "model.layers.0.self_attn.rotary_emb.inv_freq: a buffer: computed from rope_theta and "
                "head_dim",
                "model.layers.2.mlp.up_proj.weight: layer 2 is not below num_hidden_layers 2",
                "model.layers.7.self_attn.q_proj.bias: layer 7 is not below num_hidden_layers 2",
                "other.bias: no part of a Llama model has this name"}));
}

TEST_F(HuggingFace, BiasesAreNotDropped) {
  const std::string consequence = ": without it the results would be wrong";
  const std::pair<std::string, std::string> biases[] = {
      {"model.layers.0.self_attn.q_proj", "attention_bias is false"},
      {"model.layers.1.mlp.down_proj", "mlp_bias is false"},
      {"lm_head", "a Llama model has none there"},
      {"model.layers.0.input_layernorm", "a Llama model has none there"}};
  for (const std::pair<std::string, std::string>& bias : biases) {
    tensors_[bias.first + ".bias"] = f32_tensor({1}, {0.5});
    EXPECT_EQ(error(), ": tensor " + bias.first + ".bias is a bias, but " + bias.second + consequence);
    tensors_.erase(bias.first + ".bias");
  }
  for (const std::string name : {"q_norm", "k_norm"}) {
    tensors_["model.layers.0.self_attn." + name + ".weight"] = f32_tensor({2}, {1, 1});
    EXPECT_EQ(error(), ": tensor model.layers.0.self_attn." + name +
                           ".weight normalises queries or keys, which this library does not compute" +
                           consequence);
    tensors_.erase("model.layers.0.self_attn." + name + ".weight");
  }
}

// Whatever such a tensor does in the model it came from, it is not done here.
TEST_F(HuggingFace, UnknownPartsOfTheModelAreRefused) {
  for (const std::string name :
       {"model.layers.0.self_attn.sinks", "model.layers.1.self_attn.q_layernorm.weight",
        "model.layers.0.post_feedforward_layernorm.weight", "model.layers.0.self_attn.q_proj.weight_scale",
        "model.layers.0.self_attn.q_proj.lora_A.weight", "model.layers.x.weight",
        "model.embed_positions.weight", "lm_head.weight_scale"}) {
    tensors_[name] = f32_tensor({1}, {1});
    EXPECT_EQ(error(), ": tensor " + name +
                           " is part of the model, but of no part that this library computes: without it the "
                           "results would be wrong");
    tensors_.erase(name);
  }
  config_.tie_word_embeddings = true;
  tensors_.erase("lm_head.weight");
  tensors_["lm_head.bias"] = f32_tensor({11}, std::vector<float>(11, 1));
  EXPECT_EQ(error(),
            ": tensor lm_head.bias is a bias, but a Llama model has none there: without it the results "
            "would be wrong");
}

TEST_F(HuggingFace, BiasesOfTheConfigurationAreTaken) {
  config_.attention_bias = true;
  config_.mlp_bias = true;
  tensors_ = random_weights(config_, 1);
  EXPECT_EQ(unused(), std::vector<std::string>{});
  EXPECT_EQ(open().weights.size(), 3u + 2u * 16u);
  tensors_.erase("model.layers.1.self_attn.o_proj.bias");
  EXPECT_EQ(error(),
            ": tensor model.layers.1.self_attn.o_proj.bias is missing, expected [8] = [hidden_size] of "
            "config.json");
}

TEST_F(HuggingFace, HeadOfATiedModel) {
  config_.tie_word_embeddings = true;
  tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  EXPECT_EQ(unused(),
            (std::vector<std::string>{"lm_head.weight: the same as model.embed_tokens.weight, which is "
                                      "used in its place (tie_word_embeddings)"}));
  tensors_["lm_head.weight"].bytes[5] ^= 1;
  const std::vector<std::string> differs = {
      "lm_head.weight: differs from model.embed_tokens.weight, but tie_word_embeddings is true: that one is "
      "used"};
  EXPECT_EQ(unused(), differs);
  tensors_["lm_head.weight"] = f32_tensor({1}, {1});
  EXPECT_EQ(unused(), differs);
}

// A count of layers that the file does not have must not cost the memory of so many layers.
TEST_F(HuggingFace, HugeNumberOfLayers) {
  config_.num_hidden_layers = 2147483647;
  const std::string text = error<FormatError>();
  EXPECT_TRUE(
      text.starts_with(": tensor model.layers.2.input_layernorm.weight is missing, expected [8] = "
                       "[hidden_size] of config.json; missing too: "
                       "model.layers.2.self_attn.q_proj.weight, "))
      << text;
  EXPECT_TRUE(text.ends_with(", model.layers.4.self_attn.q_proj.weight, ...")) << text;
}

TEST_F(HuggingFace, ShardsAndTensorsOutsideTheIndex) {
  StoredTensors second;
  second["lm_head.weight"] = tensors_["lm_head.weight"];
  tensors_.erase("lm_head.weight");
  second["extra.weight"] = f32_tensor({1}, {1});
  folder_.write("config.json", config_text(config_));
  folder_.write("s1", safetensors_bytes(tensors_));
  folder_.write("s2", safetensors_bytes(second));
  std::string map = "\"lm_head.weight\": \"s2\"";
  for (const std::pair<const std::string, StoredTensor>& tensor : tensors_) {
    map += ", \"" + tensor.first + "\": \"s1\"";
  }
  const std::string index = "{\"weight_map\": {" + map + "}}";
  folder_.write("model.safetensors.index.json", index);
  const StoredCheckpoint checkpoint = open_huggingface_folder(folder_.path());
  EXPECT_EQ(checkpoint.weights.size(), 21u);
  EXPECT_EQ(checkpoint.report.files, (std::vector<std::string>{folder_.file("config.json"),
                                                               folder_.file("model.safetensors.index.json"),
                                                               folder_.file("s1"), folder_.file("s2")}));
  const ReportedTensor& last = checkpoint.report.tensors.back();
  EXPECT_EQ(last.name, "extra.weight");
  EXPECT_EQ(last.file, folder_.file("s2"));
  EXPECT_EQ(last.unused_because, "model.safetensors.index.json does not name this file for it");

  std::string without_norm = index;
  const std::string norm = ", \"model.norm.weight\": \"s1\"";
  without_norm.erase(without_norm.find(norm), norm.size());
  folder_.write("model.safetensors.index.json", without_norm);
  EXPECT_TRUE(throws<FormatError>(
      [&] { open_huggingface_folder(folder_.path()); },
      folder_.file("model.safetensors.index.json") +
          ": tensor model.norm.weight is missing, expected [8] = [hidden_size] of config.json"));
}

TEST_F(HuggingFace, SingleFileBesideAnIndex) {
  folder_.write("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"gone\"}}");
  const StoredCheckpoint checkpoint = open();
  EXPECT_EQ(checkpoint.report.assumptions.back(),
            "model.safetensors is read, model.safetensors.index.json beside it is not");
  tensors_.erase("model.norm.weight");
  EXPECT_EQ(error(), ": tensor model.norm.weight is missing, expected [8] = [hidden_size] of config.json");
}

// V24
TEST_F(HuggingFace, GenerationConfigBesideIt) {
  EXPECT_EQ(open().generation_config.eos_token_id, (std::vector<TokenId>{2}));
  EXPECT_EQ(open().report.assumptions.back(),
            "no generation_config.json: greedy, eos_token_id of config.json");
  folder_.write("generation_config.json", "{\"eos_token_id\": [2, 7], \"do_sample\": true, \"zzz\": 1}");
  const StoredCheckpoint checkpoint = open();
  EXPECT_EQ(checkpoint.config.eos_token_id, (std::vector<TokenId>{2}));
  EXPECT_EQ(checkpoint.generation_config.eos_token_id, (std::vector<TokenId>{2, 7}));
  EXPECT_EQ(checkpoint.report.files[1], folder_.file("generation_config.json"));
  EXPECT_EQ(checkpoint.report.assumptions.back(),
            "generation_config.json: has no top_k, so 50 (do_sample is true)");
  EXPECT_EQ(checkpoint.report.ignored_keys.back().key, "zzz");
  EXPECT_EQ(checkpoint.report.ignored_keys.back().file, folder_.file("generation_config.json"));
}

TEST(LayerNumber, OfTensorNames) {
  EXPECT_EQ(layer_number("model.layers.12.mlp.up_proj.weight"), 12);
  EXPECT_EQ(layer_number("model.layers.0"), 0);
  EXPECT_EQ(layer_number("model.layers.x.weight"), -1);
  EXPECT_EQ(layer_number("model.layers..weight"), -1);
  EXPECT_EQ(layer_number("layers.1.weight"), -1);
  EXPECT_EQ(layer_number("model.layers.99999999999999999999999.weight"), -1);
}

}  // namespace io_huggingface_test
}  // namespace glassbox
