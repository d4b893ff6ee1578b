// Faults that must turn this red: equal numbers, or those of another seed; a wrong mean or deviation; o_proj
// and down_proj not made smaller by the depth; norms that are not 1, biases that are not 0; the head of a
// tied model.
#include "glassbox/training/initialize.hpp"

#include <set>

#include "glassbox/training/parameter_rules.hpp"
#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace initialize_test {

using test_support::near_tensors;
using test_support::numbers_of;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

inline ModelConfig biased_config() {
  ModelConfig config = test_support::small_config();
  config.attention_bias = config.mlp_bias = true;
  return config;
}

// The first two draws of seed 3, by another program.
TEST(NormalPair, IsBoxMuller) {
  RandomGenerator random(3);
  double first = 0, second = 0;
  loops::normal_pair(random, first, second);
  EXPECT_NEAR(first, -0.15078931135351334, 1e-14);
  EXPECT_NEAR(second, -0.46701055898018695, 1e-14);
}

TEST(NormalPair, MeanVarianceAndTails) {
  RandomGenerator random(7);
  const int pairs = 20000;
  double sum = 0, squares = 0, products = 0, fourth = 0;
  for (int i = 0; i < pairs; ++i) {
    double first = 0, second = 0;
    loops::normal_pair(random, first, second);
    ASSERT_TRUE(std::isfinite(first) && std::isfinite(second));
    sum += first + second;
    squares += first * first + second * second;
    products += first * second;
    fourth += std::pow(first, 4) + std::pow(second, 4);
  }
  EXPECT_NEAR(sum / (2 * pairs), 0, 0.025);  // five standard deviations
  EXPECT_NEAR(squares / (2 * pairs), 1, 0.036);
  EXPECT_NEAR(products / pairs, 0, 0.036);
  EXPECT_NEAR(fourth / (2 * pairs), 3, 0.25);
}

template <typename Scalar>
class InitializeTest : public ::testing::Test {};
TYPED_TEST_SUITE(InitializeTest, Scalars, ScalarNames);

TYPED_TEST(InitializeTest, TheSeedsNumbersInEveryType) {
  CausalLM<TypeParam> first = initialize_model<TypeParam>(biased_config(), 5);
  CausalLM<TypeParam> second = initialize_model<TypeParam>(biased_config(), 5);
  CausalLM<TypeParam> other = initialize_model<TypeParam>(biased_config(), 6);
  CausalLM<double> wide = initialize_model<double>(biased_config(), 5);
  EXPECT_TRUE(test_support::same_bits(parameters_of(second), parameters_of(first)));
  EXPECT_FALSE(test_support::same_bits(parameters_of(other), parameters_of(first)));
  const std::vector<TypeParam> numbers = numbers_of(parameters_of(first));
  const std::vector<double> wide_numbers = numbers_of(parameters_of(wide));
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], TypeParam(wide_numbers[i]));
}

// Deviation 0.5 / sqrt(2 * 2 layers) = 0.25 into the residual stream, 0.5 elsewhere. A matrix of n numbers
// has its deviation within five times deviation / sqrt(2 n).
TYPED_TEST(InitializeTest, DeviationsOfTheMatricesNormsAndBiases) {
  CausalLM<TypeParam> causal_lm = initialize_model<TypeParam>(biased_config(), 5, 0.5);
  Index matrices = 0, drawn = 0;
  std::set<TypeParam> distinct;
  for (const Parameter<TypeParam>& parameter : parameters_of(causal_lm)) {
    if (!parameter.is_matrix()) {
      const bool norm = name_matches(parameter.name, "*norm.weight");
      for (Index i = 0; i < parameter.size; ++i)
        EXPECT_EQ(parameter.values[i], TypeParam(norm)) << parameter.name;
      continue;
    }
    matrices += 1;
    drawn += parameter.size;
    distinct.insert(parameter.values, parameter.values + parameter.size);
    const bool residual =
        name_matches(parameter.name, "*o_proj.weight") || name_matches(parameter.name, "*down_proj.weight");
    const double deviation = residual ? 0.25 : 0.5, n = double(parameter.size);
    double sum = 0, squares = 0;
    for (Index i = 0; i < parameter.size; ++i) {
      sum += double(parameter.values[i]);
      squares += double(parameter.values[i]) * double(parameter.values[i]);
    }
    EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << parameter.name;
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 5 * deviation / std::sqrt(2 * n)) << parameter.name;
  }
  EXPECT_EQ(matrices, 2 + 2 * 7);
  // Different numbers: in float, of thousands a few are equal by chance.
  EXPECT_GT(double(distinct.size()), 0.99 * double(drawn));
}

// 16 hidden numbers: a deviation of 1 / 4.
TYPED_TEST(InitializeTest, DeviationForTheHiddenSize) {
  CausalLM<TypeParam> by_default = initialize_model<TypeParam>(biased_config(), 5);
  CausalLM<TypeParam> quarter = initialize_model<TypeParam>(biased_config(), 5, 0.25);
  EXPECT_EQ(biased_config().hidden_size, 16);
  EXPECT_TRUE(test_support::same_bits(parameters_of(by_default), parameters_of(quarter)));
}

// It computes what a loaded model of that configuration computes: shapes, epsilons, rotation, context.
TYPED_TEST(InitializeTest, IsAModelThatRuns) {
  ModelConfig config = test_support::small_config();
  config.tie_word_embeddings = true;
  config.num_key_value_heads = 0;  // as many as query heads, filled in
  CausalLM<TypeParam> causal_lm = initialize_model<TypeParam>(config, 1);
  CausalLM<TypeParam> loaded = test_support::random_model<TypeParam>(config, 1);
  EXPECT_TRUE(causal_lm.lm_head.weight.empty());
  EXPECT_EQ(causal_lm.config.num_key_value_heads, 4);
  std::vector<Parameter<TypeParam>> to = parameters_of(loaded);
  const std::vector<Parameter<TypeParam>> from = parameters_of(causal_lm);
  ASSERT_EQ(to.size(), from.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    ASSERT_EQ(to[i].name, from[i].name);
    ASSERT_EQ(shape_string(to[i].axes.data(), int(to[i].axes.size())),
              shape_string(from[i].axes.data(), int(from[i].axes.size())));
    to[i].view() = from[i].view();
  }
  const Tensor<TokenId> ids = test_support::make_tensor<TokenId>({{"batch", 1}, {"seq", 4}}, {3, 1, 4, 1});
  EXPECT_TRUE(near_tensors(causal_lm.forward(ids), loaded.forward(ids), 0));
  EXPECT_EQ(causal_lm.model.max_position_embeddings, 48);
  config.tie_word_embeddings = false;
  EXPECT_EQ(shape_string(initialize_model<TypeParam>(config, 1).lm_head.weight), "[vocab=37, hidden=16]");
}

TEST(Initialize, Errors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(throws<UsageError>([] { initialize_model<float>(test_support::small_config(), 1, -0.1); },
                                 "initialize_model: deviation is -0.100000, expected a number >= 0"));
  EXPECT_TRUE(throws<UsageError>([&] { initialize_model<float>(test_support::small_config(), 1, nan); },
                                 "initialize_model: deviation is nan, expected a number >= 0"));
  EXPECT_TRUE(throws<UsageError>([] { initialize_model<float>(test_support::small_config(), 1, HUGE_VAL); },
                                 "initialize_model: deviation is inf, expected a number >= 0"));
  ModelConfig config = test_support::small_config();
  config.head_dim = 5;
  EXPECT_TRUE(throws<ConfigError>([&] { initialize_model<float>(config, 1); },
                                  "config: head_dim 5 is odd, but rotary position embedding rotates pairs"));
}

}  // namespace initialize_test
}  // namespace glassbox
