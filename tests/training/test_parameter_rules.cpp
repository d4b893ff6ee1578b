// Faults that must turn this red: norms or biases decayed; a pattern that matches too much or too little, or
// none and goes unnoticed; frozen parameters counted among those that learn.
#include "glassbox/training/parameter_rules.hpp"

#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace parameter_rules_test {

using test_support::numbers_of;
using test_support::random_model;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

inline ModelConfig tiny_config() {
  ModelConfig config = test_support::small_config();
  config.num_hidden_layers = 1;
  config.attention_bias = true;
  return config;
}

TEST(NameMatches, Patterns) {
  EXPECT_TRUE(name_matches("lm_head.weight", "lm_head.weight"));
  EXPECT_FALSE(name_matches("lm_head.weight", "lm_head"));
  EXPECT_FALSE(name_matches("lm_head", "lm_head.weight"));
  EXPECT_TRUE(name_matches("lm_head.weight", "*"));
  EXPECT_TRUE(name_matches("", "*"));
  EXPECT_TRUE(name_matches("", ""));
  EXPECT_FALSE(name_matches("a", ""));
  EXPECT_TRUE(name_matches("abc", "abc*"));  // none included
  EXPECT_TRUE(name_matches("abc", "*abc"));
  EXPECT_TRUE(name_matches("abc", "a**c"));
  EXPECT_TRUE(name_matches("abcabcab", "*ab*ab"));
  EXPECT_FALSE(name_matches(std::string(1000, 'a'), "*a*a*a*a*a*a*a*a*a*ab"));  // in no time
  EXPECT_FALSE(name_matches("abc", "a*b"));
  EXPECT_FALSE(name_matches("ab", "abc*"));
  EXPECT_FALSE(name_matches("a", "a*a"));  // not the same letter twice
  EXPECT_TRUE(name_matches("model.layers.12.mlp.up_proj.weight", "model.layers.*.mlp.*"));
  EXPECT_FALSE(name_matches("model.layers.12.self_attn.q_proj.weight", "model.layers.*.mlp.*"));
  EXPECT_TRUE(name_matches("model.layers.10.mlp", "model.layers.1*"));
  EXPECT_FALSE(name_matches("model.layers.10.mlp", "model.layers.1.*"));
  EXPECT_TRUE(name_matches("aXbXc", "*X*c"));
  EXPECT_FALSE(name_matches("model.norm.weight", "norm*"));
}

template <typename Scalar>
class ParameterRulesTest : public ::testing::Test {};
TYPED_TEST_SUITE(ParameterRulesTest, Scalars, ScalarNames);

// Turns red when norms are decayed: steps with a gradient of zero leave norms and biases as they are to the
// last bit, and shrink the matrices.
TYPED_TEST(ParameterRulesTest, NormsAndBiasesAreNotDecayed) {
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(), 1);
  CausalLM<TypeParam> gradients = zero_gradients(causal_lm);
  std::vector<Parameter<TypeParam>> parameters = parameters_of(causal_lm);
  AdamWConfig config;
  config.learning_rate = 0.5;
  config.weight_decay = 1;
  CausalLM<TypeParam> before = causal_lm;
  const std::vector<Parameter<TypeParam>> old = parameters_of(before);
  AdamW<TypeParam> optimizer(config, parameters, parameter_rules(parameters));
  optimizer.step(parameters, parameters_of(gradients));
  Index norms = 0, biases = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool norm = name_matches(parameters[i].name, "*norm.weight");
    const bool bias = name_matches(parameters[i].name, "*.bias");
    norms += norm;
    biases += bias;
    const TypeParam factor = norm || bias ? TypeParam(1) : TypeParam(0.5);
    for (Index k = 0; k < parameters[i].size; ++k) {
      ASSERT_EQ(parameters[i].values[k], factor * old[i].values[k]) << parameters[i].name;
    }
  }
  EXPECT_EQ(norms, 3);
  EXPECT_EQ(biases, 4);
}

TYPED_TEST(ParameterRulesTest, FrozenByPatterns) {
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(), 1);
  const std::vector<Parameter<TypeParam>> parameters = parameters_of(causal_lm);
  const std::vector<ParameterRule> rules =
      parameter_rules(parameters, {"model.embed_tokens.weight", "model.layers.0.self_attn.*_proj.bias"});
  std::string frozen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (rules[i].frozen) frozen += parameters[i].name + " ";
    EXPECT_EQ(rules[i].decayed, parameters[i].is_matrix());
  }
  EXPECT_EQ(frozen,
            "model.embed_tokens.weight model.layers.0.self_attn.q_proj.bias "
            "model.layers.0.self_attn.k_proj.bias model.layers.0.self_attn.v_proj.bias "
            "model.layers.0.self_attn.o_proj.bias ");
}

TYPED_TEST(ParameterRulesTest, Table) {
  std::vector<Parameter<TypeParam>> parameters(3);
  parameters[0] = {"model.embed_tokens.weight", {{"vocab", 512}, {"hidden", 64}}, nullptr, 512 * 64};
  parameters[1] = {"model.norm.weight", {{"hidden", 64}}, nullptr, 64};
  parameters[2] = {"lm_head.weight", {{"vocab", 512}, {"hidden", 64}}, nullptr, 512 * 64};
  EXPECT_EQ(
      parameter_table(parameters, parameter_rules(parameters, {"lm_*"})),
      "model.embed_tokens.weight                        [vocab=512, hidden=64]                   learns, "
      "decayed\n"
      "model.norm.weight                                [hidden=64]                              learns, "
      "not decayed\n"
      "lm_head.weight                                   [vocab=512, hidden=64]                   frozen\n"
      "32832 of 65600 numbers learn\n");
  EXPECT_EQ(parameter_table<TypeParam>({}, {}), "0 of 0 numbers learn\n");
}

TEST(ParameterRules, Errors) {
  CausalLM<float> causal_lm = random_model<float>(tiny_config(), 1);
  const std::vector<Parameter<float>> parameters = parameters_of(causal_lm);
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        parameter_rules(parameters, {"*", "model.layers.7.*"});
      },
      "parameter_rules: no parameter fits \"model.layers.7.*\"; the first is called "
      "model.embed_tokens.weight"));
  EXPECT_TRUE(throws<UsageError>(
      [] { parameter_rules<float>({}, {"*"}); },
      "parameter_rules: no parameter fits \"*\"; the first is called nothing: there are none"));
}

}  // namespace parameter_rules_test
}  // namespace glassbox
