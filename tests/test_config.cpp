// Faults that must turn this red: a given head_dim overwritten; head_dim computed from the kv heads; kv heads
// not dividing; an odd head_dim accepted; NaN accepted as eps or theta; an id equal to vocab_size accepted;
// any key left out of validate().
#include "glassbox/config.hpp"

#include <limits>

#include "support/expect_near.hpp"

namespace glassbox {
namespace config_test {

using test_support::throws;

ModelConfig good_config() {
  ModelConfig config;
  config.vocab_size = 100;
  config.hidden_size = 12;
  config.intermediate_size = 20;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.num_key_value_heads = 1;
  config.head_dim = 4;
  config.max_position_embeddings = 32;
  return config;
}

TEST(Config, GoodOnePasses) {
  EXPECT_NO_THROW(good_config().validate());
  EXPECT_EQ(good_config().num_key_value_groups(), 3);
}

// The defaults are those of transformers LlamaConfig where it has one.
TEST(Config, DefaultValues) {
  const ModelConfig config;
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.hidden_act, "silu");
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ(config.bos_token_id, -1);
  EXPECT_TRUE(config.eos_token_id.empty());
}

// V23: hidden_size 6, two heads: head_dim is 3, unless the configuration says 4.
TEST(Config, HeadDimFollowsFromHiddenSizeUnlessGiven) {
  ModelConfig config;
  config.hidden_size = 6;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  const std::vector<std::string> assumed = config.fill_defaults();
  EXPECT_EQ(config.head_dim, 3);
  EXPECT_EQ(config.num_key_value_heads, 1);
  ASSERT_EQ(assumed.size(), 1u);
  EXPECT_EQ(assumed[0], "head_dim = hidden_size / num_attention_heads = 3");

  config.head_dim = 4;
  EXPECT_TRUE(config.fill_defaults().empty());
  EXPECT_EQ(config.head_dim, 4);
}

TEST(Config, KeyValueHeadsFollowFromQueryHeadsUnlessGiven) {
  ModelConfig config = good_config();
  config.num_key_value_heads = 0;
  const std::vector<std::string> assumed = config.fill_defaults();
  EXPECT_EQ(config.num_key_value_heads, 3);
  ASSERT_EQ(assumed.size(), 1u);
  EXPECT_EQ(assumed[0], "num_key_value_heads = num_attention_heads = 3");
  EXPECT_EQ(config.num_key_value_groups(), 1);
}

TEST(Config, DefaultsOfNoHeadsAreLeftToValidate) {
  ModelConfig config = good_config();
  config.num_attention_heads = 0;
  config.head_dim = 0;
  config.fill_defaults();
  EXPECT_EQ(config.head_dim, 0);
}

// Sets one size to 0, to a negative number and beyond 31 bits: each is named.
void expect_size_checked(const std::string& key, Index ModelConfig::*member) {
  for (const Index value : {Index(0), Index(-5), Index(2147483648)}) {
    ModelConfig config = good_config();
    config.*member = value;
    EXPECT_TRUE(throws<ConfigError>([&] { config.validate(); },
                                    "config: " + key + " is " + std::to_string(value) +
                                        ", expected a whole number from 1 to 2147483647"));
  }
}

TEST(Config, EverySizeIsChecked) {
  expect_size_checked("vocab_size", &ModelConfig::vocab_size);
  expect_size_checked("hidden_size", &ModelConfig::hidden_size);
  expect_size_checked("intermediate_size", &ModelConfig::intermediate_size);
  expect_size_checked("num_hidden_layers", &ModelConfig::num_hidden_layers);
  expect_size_checked("num_attention_heads", &ModelConfig::num_attention_heads);
  expect_size_checked("num_key_value_heads", &ModelConfig::num_key_value_heads);
  expect_size_checked("head_dim", &ModelConfig::head_dim);
  expect_size_checked("max_position_embeddings", &ModelConfig::max_position_embeddings);
  ModelConfig largest = good_config();
  largest.max_position_embeddings = 2147483647;
  EXPECT_NO_THROW(largest.validate());
}

TEST(Config, ContradictionsAreNamed) {
  ModelConfig config = good_config();
  config.num_key_value_heads = 2;
  EXPECT_TRUE(
      throws<ConfigError>([&] { config.validate(); },
                          "config: num_attention_heads 3 is not a multiple of num_key_value_heads 2"));
  config = good_config();
  config.head_dim = 5;
  EXPECT_TRUE(throws<ConfigError>([&] { config.validate(); },
                                  "config: head_dim 5 is odd, but rotary position embedding rotates pairs"));
}

TEST(Config, NumbersOutOfRangeAreNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  ModelConfig config = good_config();
  config.rms_norm_eps = 0;
  EXPECT_NO_THROW(config.validate());
  config.rms_norm_eps = -1;
  EXPECT_TRUE(throws<ConfigError>([&] { config.validate(); },
                                  "config: rms_norm_eps is -1.000000, expected a number >= 0"));
  config.rms_norm_eps = nan;
  EXPECT_THROW(config.validate(), ConfigError);
  config.rms_norm_eps = infinity;
  EXPECT_THROW(config.validate(), ConfigError);
  config = good_config();
  config.rope_theta = 0;
  EXPECT_TRUE(throws<ConfigError>([&] { config.validate(); },
                                  "config: rope_theta is 0.000000, expected a number > 0"));
  config.rope_theta = nan;
  EXPECT_THROW(config.validate(), ConfigError);
  config.rope_theta = infinity;
  EXPECT_THROW(config.validate(), ConfigError);
}

TEST(Config, WhatIsNotSupportedIsNamed) {
  ModelConfig config = good_config();
  config.hidden_act = "gelu";
  EXPECT_TRUE(throws<ConfigError>([&] { config.validate(); },
                                  "config: hidden_act \"gelu\" is not supported, expected \"silu\""));
  config = good_config();
  config.attn_implementation = "magic";
  EXPECT_TRUE(
      throws<ConfigError>([&] { config.validate(); },
                          "config: attn_implementation \"magic\" is not supported, expected \"eager\""));
}

TEST(Config, SpecialIdsLieInTheVocabulary) {
  ModelConfig config = good_config();
  config.bos_token_id = 99;
  config.pad_token_id = -1;
  config.eos_token_id = {0, 99};
  EXPECT_NO_THROW(config.validate());
  config.bos_token_id = 100;
  EXPECT_TRUE(
      throws<ConfigError>([&] { config.validate(); },
                          "config: bos_token_id 100 is not in 0..99 (vocab_size 100), nor -1 (none)"));
  config = good_config();
  config.pad_token_id = 101;
  EXPECT_TRUE(
      throws<ConfigError>([&] { config.validate(); },
                          "config: pad_token_id 101 is not in 0..99 (vocab_size 100), nor -1 (none)"));
  config = good_config();
  config.eos_token_id = {2, 100};
  EXPECT_TRUE(
      throws<ConfigError>([&] { config.validate(); },
                          "config: eos_token_id 100 is not in 0..99 (vocab_size 100), nor -1 (none)"));
}

}  // namespace config_test
}  // namespace glassbox
