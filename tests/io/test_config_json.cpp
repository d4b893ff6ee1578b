// config.json.
// Faults that must turn this red: a default other than transformers'; a default or a key not told; null not
// taken as absent; any refused key let through; rope_theta inside rope_parameters not used; a range widened;
// eos as a list cut to one id; the file's name missing from an error.
#include "glassbox/io/config_json.hpp"

#include <functional>

#include "io/temporary_folder.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_config_json_test {

using test_support::TemporaryFolder;

// Every key that must be there and nothing else.
const char* const kSmallest =
    "\"vocab_size\": 32, \"hidden_size\": 12, \"intermediate_size\": 20, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 3";

LoadedConfig read_text(const std::string& text) {
  const TemporaryFolder folder;
  return read_config_json(folder.write("config.json", text));
}

// The smallest configuration with these keys besides.
LoadedConfig read_with(const std::string& keys) {
  return read_text(std::string("{") + kSmallest + (keys.empty() ? "" : ", ") + keys + "}");
}

template <typename ErrorType = ConfigError>
std::string error_of(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", text);
  try {
    read_config_json(path);
  } catch (const ErrorType& error) {
    const std::string message = error.what();
    return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : "file not named: " + message;
  }
  return "nothing was thrown";
}

std::string error_with(const std::string& keys) {
  return error_of(std::string("{") + kSmallest + ", " + keys + "}");
}

std::vector<std::string> ignored_with(const std::string& keys) {
  std::vector<std::string> texts;
  for (const IgnoredKey& key : read_with(keys).ignored_keys) {
    texts.push_back(key.key + " " + key.value + " " + key.reason);
  }
  return texts;
}

TEST(ConfigJson, EveryDefaultIsTold) {
  const LoadedConfig loaded = read_with("");
  const ModelConfig& config = loaded.config;
  EXPECT_EQ(config.vocab_size, 32);
  EXPECT_EQ(config.hidden_size, 12);
  EXPECT_EQ(config.intermediate_size, 20);
  EXPECT_EQ(config.num_hidden_layers, 2);
  EXPECT_EQ(config.num_attention_heads, 3);
  EXPECT_EQ(config.num_key_value_heads, 3);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_EQ(config.eos_token_id, (std::vector<TokenId>{2}));
  EXPECT_EQ(config.pad_token_id, -1);
  EXPECT_EQ(
      loaded.assumptions,
      (std::vector<std::string>{"model_type = \"llama\"", "architectures = [\"LlamaForCausalLM\"]",
                                "max_position_embeddings = 2048", "rms_norm_eps = 1e-06",
                                "hidden_act = \"silu\"", "rope_theta = 10000", "tie_word_embeddings = false",
                                "attention_bias = false", "mlp_bias = false", "bos_token_id = 1",
                                "eos_token_id = 2", "num_key_value_heads = num_attention_heads = 3",
                                "head_dim = hidden_size / num_attention_heads = 4"}));
  EXPECT_TRUE(loaded.ignored_keys.empty());
}

TEST(ConfigJson, NothingIsAssumedWhereAllIsSaid) {
  const LoadedConfig loaded = read_with(
      "\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"num_key_value_heads\": 1, "
      "\"head_dim\": 6, \"max_position_embeddings\": 99, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
      "\"rope_theta\": 500000, \"tie_word_embeddings\": true, \"attention_bias\": true, \"mlp_bias\": true, "
      "\"bos_token_id\": 5, \"eos_token_id\": 6, \"pad_token_id\": 7");
  EXPECT_TRUE(loaded.assumptions.empty());
  EXPECT_TRUE(loaded.ignored_keys.empty());
  EXPECT_EQ(loaded.config.num_key_value_heads, 1);
  EXPECT_EQ(loaded.config.head_dim, 6);
  EXPECT_EQ(loaded.config.max_position_embeddings, 99);
  EXPECT_EQ(loaded.config.rms_norm_eps, 1e-5);
  EXPECT_EQ(loaded.config.rope_theta, 500000.0);
  EXPECT_TRUE(loaded.config.tie_word_embeddings);
  EXPECT_TRUE(loaded.config.attention_bias);
  EXPECT_TRUE(loaded.config.mlp_bias);
  EXPECT_EQ(loaded.config.bos_token_id, 5);
  EXPECT_EQ(loaded.config.eos_token_id, (std::vector<TokenId>{6}));
  EXPECT_EQ(loaded.config.pad_token_id, 7);
}

// V23 and the grouped heads: null is as good as absent.
TEST(ConfigJson, NullIsAbsent) {
  const LoadedConfig loaded = read_with(
      "\"num_key_value_heads\": null, \"head_dim\": null, \"rope_scaling\": null, \"rope_theta\": null, "
      "\"tie_word_embeddings\": null, \"quantization_config\": null, \"sliding_window\": null");
  EXPECT_EQ(loaded.config.num_key_value_heads, 3);
  EXPECT_EQ(loaded.config.head_dim, 4);
  EXPECT_EQ(loaded.config.rope_theta, 10000.0);
}

// V24: an id, a list, null.
TEST(ConfigJson, SpecialIds) {
  EXPECT_EQ(read_with("\"eos_token_id\": [2, 7]").config.eos_token_id, (std::vector<TokenId>{2, 7}));
  EXPECT_EQ(read_with("\"eos_token_id\": []").config.eos_token_id, std::vector<TokenId>{});
  EXPECT_EQ(read_with("\"eos_token_id\": null").config.eos_token_id, std::vector<TokenId>{});
  EXPECT_EQ(read_with("\"eos_token_id\": -1").config.eos_token_id, std::vector<TokenId>{});
  EXPECT_EQ(read_with("\"eos_token_id\": 31").config.eos_token_id, std::vector<TokenId>{31});
  EXPECT_EQ(read_with("\"bos_token_id\": null").config.bos_token_id, -1);
  EXPECT_EQ(read_with("\"pad_token_id\": -1").config.pad_token_id, -1);
  const std::string expected =
      ", expected an id from 0 to 31 (below vocab_size), a list of such ids, or null";
  EXPECT_EQ(error_with("\"eos_token_id\": 32"), "\"eos_token_id\" is 32" + expected);
  EXPECT_EQ(error_with("\"eos_token_id\": [2, \"7\"]"), "\"eos_token_id\" is [2,\"7\"]" + expected);
  EXPECT_EQ(error_with("\"eos_token_id\": 18446744073709551615"),
            "\"eos_token_id\" is 18446744073709551615" + expected);
  EXPECT_EQ(error_with("\"bos_token_id\": 32"),
            "\"bos_token_id\" is 32, expected a whole number from -1 to 31");
}

TEST(ConfigJson, DefaultIdsBeyondASmallVocabulary) {
  const LoadedConfig loaded = read_text(
      "{\"vocab_size\": 2, \"hidden_size\": 12, \"intermediate_size\": 20, \"num_hidden_layers\": 2, "
      "\"num_attention_heads\": 3}");
  EXPECT_EQ(loaded.config.bos_token_id, 1);
  EXPECT_TRUE(loaded.config.eos_token_id.empty());
}

TEST(ConfigJson, ExtraRopeSettingsOfTransformers5) {
  EXPECT_EQ(read_with("\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"default\"}")
                .config.rope_theta,
            500000.0);
  EXPECT_EQ(
      read_with("\"rope_parameters\": {\"rope_type\": \"default\"}, \"rope_theta\": 7").config.rope_theta,
      7.0);
  EXPECT_EQ(error_with("\"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": 5}"),
            "\"rope_parameters.rope_theta\" is 5, expected the same as the other rope_theta of this file");
  EXPECT_EQ(
      error_with("\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 5}"),
      "\"rope_parameters.rope_type\" is \"llama3\", expected \"default\": scaled rotary positions are not "
      "computed");
  EXPECT_EQ(
      error_with("\"rope_parameters\": {\"rope_theta\": 5, \"partial_rotary_factor\": 0.5}"),
      "\"rope_parameters.partial_rotary_factor\" is 0.5, expected 1: rotation of a part of each head is "
      "not computed");
}

TEST(ConfigJson, RopeScaling) {
  EXPECT_EQ(ignored_with("\"rope_scaling\": {\"rope_type\": \"default\", \"factor\": 2}"),
            (std::vector<std::string>{"rope_scaling.factor 2 has no meaning for rope_type \"default\""}));
  for (const std::string type : {"linear", "dynamic", "yarn", "llama3", "longrope"}) {
    for (const std::string key : {"type", "rope_type"}) {
      EXPECT_EQ(error_with("\"rope_scaling\": {\"" + key + "\": \"" + type + "\", \"factor\": 4.0}"),
                "\"rope_scaling." + key + "\" is \"" + type +
                    "\", expected \"default\": scaled rotary positions are not computed");
    }
  }
  const LoadedConfig inside =
      read_with("\"rope_scaling\": {\"rope_type\": \"default\", \"rope_theta\": 500}");
  EXPECT_EQ(inside.config.rope_theta, 500.0) << "as in rope_parameters";
  EXPECT_EQ(error_with(
                "\"rope_theta\": 10000, \"rope_scaling\": {\"rope_type\": \"default\", \"rope_theta\": 500}"),
            "\"rope_scaling.rope_theta\" is 500, expected the same as the other rope_theta of this file");
  EXPECT_EQ(error_with("\"rope_scaling\": {\"factor\": 4.0}"),
            "\"rope_scaling.rope_type\" is missing, expected \"default\"");
  EXPECT_EQ(error_of<FormatError>(std::string("{") + kSmallest + ", \"rope_scaling\": \"linear\"}"),
            "\"rope_scaling\" is \"linear\", expected a JSON object");
}

TEST(ConfigJson, OtherModelsAreRefusedByName) {
  EXPECT_EQ(
      error_with("\"architectures\": [\"MistralForCausalLM\"]"),
      "\"architectures\" is [\"MistralForCausalLM\"], expected [\"LlamaForCausalLM\"]: other architectures "
      "are not read");
  EXPECT_EQ(error_with("\"architectures\": [\"LlamaForCausalLM\", \"X\"]"),
            "\"architectures\" is [\"LlamaForCausalLM\",\"X\"], expected [\"LlamaForCausalLM\"]: other "
            "architectures are not read");
  EXPECT_EQ(error_with("\"model_type\": \"gpt2\""),
            "\"model_type\" is \"gpt2\", expected \"llama\": other families are not read");
  EXPECT_EQ(error_with("\"hidden_act\": \"gelu\""),
            "\"hidden_act\" is \"gelu\", expected \"silu\": other activations are not computed");
}

TEST(ConfigJson, SwishIsSilu) {
  const LoadedConfig loaded = read_with("\"hidden_act\": \"swish\"");
  EXPECT_EQ(loaded.config.hidden_act, "silu");
  EXPECT_EQ(loaded.assumptions[4], "hidden_act \"swish\" is another name of \"silu\"");
}

// Each key of the table, with a value that changes the model, with its neutral value, and with null.
TEST(ConfigJson, WhatIsNotComputedIsRefused) {
  for (const RefusedKey& refused : refused_config_keys) {
    const std::string key = refused.key;
    const std::string neutral = refused.neutral;
    const std::string alternative = neutral == "null" ? "null" : "null or " + neutral;
    EXPECT_EQ(error_with("\"" + key + "\": 17"), "\"" + key + "\" is 17, expected " + alternative +
                                                     " (not computed here: " + refused.meaning + ")");
    for (const std::string& harmless : {neutral, std::string("null")}) {
      EXPECT_EQ(ignored_with("\"" + key + "\": " + harmless),
                (std::vector<std::string>{key + " " + harmless + " has the value that changes nothing"}));
    }
  }
  EXPECT_EQ(
      error_with("\"sliding_window\": 4096"),
      "\"sliding_window\" is 4096, expected null (not computed here: attention to a window of positions)");
  EXPECT_EQ(error_with("\"quantization_config\": {\"bits\": 4}"),
            "\"quantization_config\" is {\"bits\":4}, expected null (not computed here: quantised weights)");
  EXPECT_EQ(
      error_with("\"layer_types\": [\"full_attention\", \"sliding_attention\"]"),
      "\"layer_types\" is [\"full_attention\",\"sliding_attention\"], expected \"full_attention\" in every "
      "layer");
  EXPECT_EQ(error_with("\"layer_types\": 3"),
            "\"layer_types\" is 3, expected \"full_attention\" in every layer");
  EXPECT_EQ(
      read_with("\"layer_types\": [\"full_attention\"], \"partial_rotary_factor\": 1.0").config.head_dim, 4);
}

TEST(ConfigJson, EveryKeyIsUsedOrListed) {
  for (const KeyReason& harmless : harmless_config_keys) {
    EXPECT_EQ(ignored_with(std::string("\"") + harmless.key + "\": 5"),
              (std::vector<std::string>{std::string(harmless.key) + " 5 " + harmless.reason}));
  }
  EXPECT_EQ(ignored_with("\"my_own_key\": {\"x\": [1]}"),
            (std::vector<std::string>{"my_own_key {\"x\":[1]} unknown to this library"}));
}

// V32: each wrong value names file and key.
TEST(ConfigJson, WrongValues) {
  const std::string sizes = ", expected a whole number from 1 to 2147483647";
  const std::string rest =
      ", \"intermediate_size\": 20, \"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"vocab_size\": "
      "32}";
  for (const std::string value : {"\"64\"", "0", "-1", "1e9", "12.0", "true", "[]", "2147483648", "null"}) {
    const std::string shown = value == "1e9" ? "1000000000.0" : value;
    EXPECT_EQ(error_of("{\"hidden_size\": " + value + rest), "\"hidden_size\" is " + shown + sizes);
  }
  EXPECT_EQ(error_of("{" + rest.substr(2)), "\"hidden_size\" is missing" + sizes);
  EXPECT_EQ(
      error_of("{\"vocab_size\": 3, \"hidden_size\": 3, \"intermediate_size\": 3, \"num_hidden_layers\": 0}"),
      "\"num_hidden_layers\" is 0" + sizes);
  EXPECT_EQ(error_with("\"max_position_embeddings\": 0"), "\"max_position_embeddings\" is 0" + sizes);
  EXPECT_EQ(error_with("\"max_position_embeddings\": null"), "\"max_position_embeddings\" is null" + sizes);
  EXPECT_EQ(error_with("\"num_key_value_heads\": 0"), "\"num_key_value_heads\" is 0" + sizes);
  EXPECT_EQ(error_with("\"head_dim\": -2"), "\"head_dim\" is -2" + sizes);
  EXPECT_EQ(error_with("\"rms_norm_eps\": \"1e-5\""),
            "\"rms_norm_eps\" is \"1e-5\", expected a number from 0 to 1");
  EXPECT_EQ(error_with("\"rms_norm_eps\": 1e300"),
            "\"rms_norm_eps\" is 1e+300, expected a number from 0 to 1");
  EXPECT_EQ(error_with("\"rms_norm_eps\": -1e-5"),
            "\"rms_norm_eps\" is -1e-05, expected a number from 0 to 1");
  EXPECT_EQ(error_with("\"rope_theta\": 0"), "\"rope_theta\" is 0, expected a number > 0");
  EXPECT_EQ(error_with("\"rope_theta\": \"10000\""), "\"rope_theta\" is \"10000\", expected a number > 0");
  EXPECT_EQ(error_with("\"tie_word_embeddings\": 1"), "\"tie_word_embeddings\" is 1, expected true or false");
  EXPECT_EQ(error_with("\"model_type\": 3"), "\"model_type\" is 3, expected a string");
}

TEST(ConfigJson, ContradictionsNameTheFileToo) {
  EXPECT_EQ(error_with("\"num_key_value_heads\": 2"),
            "num_attention_heads 3 is not a multiple of num_key_value_heads 2");
  EXPECT_EQ(error_with("\"head_dim\": 3"), "head_dim 3 is odd, but rotary position embedding rotates pairs");
}

TEST(ConfigJson, WrongFiles) {
  EXPECT_EQ(error_of<FormatError>(""), "is empty, expected JSON");
  EXPECT_EQ(error_of<FormatError>("[]"), "is [], expected a JSON object");
  EXPECT_EQ(
      error_of<FormatError>(std::string("\xEF\xBB\xBF{") + kSmallest + "}"),
      "begins with a UTF-8 byte order mark (bytes EF BB BF), which JSON does not allow: save the file as "
      "UTF-8 without it");
  EXPECT_EQ(error_of<FormatError>("{\"hidden_size\": 1,}"), "not valid JSON at byte 18 (line 1, column 19)");
  EXPECT_EQ(error_of<FormatError>("{\"hidden_size\": 1, \"hidden_size\": 2}"),
            "the key \"hidden_size\" stands twice in one object");
}

}  // namespace io_config_json_test
}  // namespace glassbox
