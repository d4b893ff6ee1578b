// The list of weights and the number of parameters.
// Faults that must turn this red: a tied embedding counted twice; two matrices in the MLP; head_dim taken as
// hidden_size / heads; kv heads as heads; biases left out; counting in 32 bits.
#include "glassbox/io/weight_list.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace io_weight_list_test {

using test_support::throws;

ModelConfig config_of(Index hidden, Index intermediate, Index layers, Index heads, Index kv_heads,
                      Index vocab, bool tied) {
  ModelConfig config;
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.vocab_size = vocab;
  config.tie_word_embeddings = tied;
  config.max_position_embeddings = 64;
  config.fill_defaults();
  return config;
}

// V34: the published sizes; counting a tied embedding twice gives 24,407,712 for the first.
TEST(ParameterCount, KnownModels) {
  EXPECT_EQ(parameter_count(config_of(288, 768, 6, 6, 6, 32000, true)), 15191712u);
  EXPECT_EQ(parameter_count(config_of(288, 768, 6, 6, 6, 32000, false)), 24407712u);
  EXPECT_EQ(parameter_count(config_of(512, 1376, 8, 8, 8, 32000, true)), 41689600u);
  EXPECT_EQ(parameter_count(config_of(768, 2048, 12, 12, 12, 32000, true)), 109529856u);
  EXPECT_EQ(parameter_count(config_of(64, 172, 5, 8, 4, 512, true)), 260032u);
  EXPECT_EQ(parameter_count(config_of(4096, 11008, 32, 32, 32, 32000, false)), 6738415616u);
}

TEST(ParameterCount, TooManyAreAnError) {
  const Index huge = 2147483647;
  const Index large = Index{1} << 29;
  EXPECT_TRUE(throws<FormatError>([&] { parameter_count(config_of(huge, huge, 1, 1, 1, 8, true)); },
                                  "model.layers.0: more parameters than 64 bits can count"));
  EXPECT_TRUE(throws<FormatError>([&] { parameter_count(config_of(large, large, huge, 1, 1, 8, true)); },
                                  "model.layers: its sizes multiply to more than 63 bits can count"));
  EXPECT_TRUE(throws<FormatError>([&] { parameter_count(config_of(large, large, 3, 1, 1, 8, true)); },
                                  "model: more parameters than 64 bits can count"));
  ModelConfig wide = config_of(huge, 1, 1, huge, 1, 8, true);
  wide.head_dim = huge;
  EXPECT_TRUE(
      throws<FormatError>([&] { parameter_count(wide); },
                          "model.layers.0.self_attn.q_proj.weight: its sizes multiply to more than 63 "
                          "bits can count"));
}

// V23: head_dim need not be hidden_size / heads.
TEST(WeightList, ShapesFollowFromTheConfiguration) {
  ModelConfig config = config_of(6, 5, 2, 2, 1, 9, false);
  config.head_dim = 4;
  config.attention_bias = true;
  config.mlp_bias = true;
  const std::vector<std::pair<std::string, std::vector<Index>>> expected = {
      {"input_layernorm.weight", {6}},     {"self_attn.q_proj.weight", {8, 6}},
      {"self_attn.k_proj.weight", {4, 6}}, {"self_attn.v_proj.weight", {4, 6}},
      {"self_attn.o_proj.weight", {6, 8}}, {"self_attn.q_proj.bias", {8}},
      {"self_attn.k_proj.bias", {4}},      {"self_attn.v_proj.bias", {4}},
      {"self_attn.o_proj.bias", {6}},      {"post_attention_layernorm.weight", {6}},
      {"mlp.gate_proj.weight", {5, 6}},    {"mlp.up_proj.weight", {5, 6}},
      {"mlp.down_proj.weight", {6, 5}},    {"mlp.gate_proj.bias", {5}},
      {"mlp.up_proj.bias", {5}},           {"mlp.down_proj.bias", {6}}};
  const std::vector<WeightSpec> specs = layer_weights(config, 1);
  ASSERT_EQ(specs.size(), expected.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(specs[i].name, "model.layers.1." + expected[i].first);
    EXPECT_EQ(specs[i].shape(), expected[i].second) << specs[i].name;
  }
  EXPECT_EQ(specs[1].keys, "[num_attention_heads * head_dim, hidden_size]");
  EXPECT_EQ(specs[2].keys, "[num_key_value_heads * head_dim, hidden_size]");
  EXPECT_EQ(specs[12].keys, "[hidden_size, intermediate_size]");
  config.attention_bias = false;
  config.mlp_bias = false;
  EXPECT_EQ(layer_weights(config, 0).size(), 9u);
  // 6 + 48 + 24 + 24 + 48 + 6 + 30 + 30 + 30, twice, and 54 + 6 + 54
  EXPECT_EQ(parameter_count(config), 2u * 246u + 114u);
}

TEST(WeightList, OutsideTheLayers) {
  const std::vector<WeightSpec> untied = outer_weights(config_of(6, 5, 2, 2, 1, 9, false));
  ASSERT_EQ(untied.size(), 3u);
  EXPECT_EQ(untied[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(untied[0].shape(), (std::vector<Index>{9, 6}));
  EXPECT_EQ(untied[1].name, "model.norm.weight");
  EXPECT_EQ(untied[2].name, "lm_head.weight");
  EXPECT_EQ(untied[2].shape(), (std::vector<Index>{9, 6}));
  EXPECT_EQ(outer_weights(config_of(6, 5, 2, 2, 1, 9, true)).size(), 2u);
}

}  // namespace io_weight_list_test
}  // namespace glassbox
