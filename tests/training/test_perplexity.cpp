// Faults that must turn this red: the begin token left out, or given room that is not there; a token of the
// text predicted twice or lost between two windows; the first id of a window counted where there is no begin
// token; the mean over all positions; exp left out.
#include "glassbox/training/perplexity.hpp"

#include "support/expect_near.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace perplexity_test {

using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

using Windows = std::vector<std::vector<TokenId>>;

TEST(PerplexityWindows, WithABeginToken) {
  const std::vector<TokenId> ids = {11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(perplexity_windows(ids, 1, 4), (Windows{{1, 11, 12, 13}, {1, 14, 15, 16}, {1, 17}}));
  EXPECT_EQ(perplexity_windows(ids, 0, 8), (Windows{{0, 11, 12, 13, 14, 15, 16, 17}}));  // exactly full
  EXPECT_EQ(perplexity_windows(ids, 1, 7), (Windows{{1, 11, 12, 13, 14, 15, 16}, {1, 17}}));
  EXPECT_EQ(perplexity_windows({11, 12}, 1, 2), (Windows{{1, 11}, {1, 12}}));
  EXPECT_TRUE(perplexity_windows({}, 1, 4).empty());
}

TEST(PerplexityWindows, WithoutABeginToken) {
  const std::vector<TokenId> ids = {11, 12, 13, 14, 15};
  EXPECT_EQ(perplexity_windows(ids, -1, 3), (Windows{{11, 12, 13}, {14, 15}}));
  EXPECT_EQ(perplexity_windows(ids, -1, 5), (Windows{{11, 12, 13, 14, 15}}));
  EXPECT_EQ(perplexity_windows(ids, -1, 100), (Windows{{11, 12, 13, 14, 15}}));
  EXPECT_EQ(perplexity_windows(ids, -1, 2), (Windows{{11, 12}, {13, 14}, {15}}));
}

TEST(PerplexityWindows, Errors) {
  EXPECT_TRUE(throws<UsageError>(
      [] {
        perplexity_windows({1, 2}, -1, 1);
      },
      "perplexity: a context of 1 tokens, expected 2 or more: one to read and one to "
      "predict"));
  EXPECT_TRUE(throws<UsageError>(
      [] {
        perplexity_windows({1, 2}, 0, 1);
      },
      "perplexity: a context of 1 tokens, expected 2 or more: one to read and one to "
      "predict"));
}

template <typename Scalar>
class PerplexityTest : public ::testing::Test {};
TYPED_TEST_SUITE(PerplexityTest, Scalars, ScalarNames);

// A model whose head is 0 hesitates between all 37 tokens alike.
TYPED_TEST(PerplexityTest, WorkedExample) {
  CausalLM<TypeParam> causal_lm = test_support::random_model<TypeParam>(test_support::small_config(), 1);
  causal_lm.lm_head.weight = WeightMatrix::from_tensor(Tensor<TypeParam>({{"vocab", 37}, {"hidden", 16}}));
  const std::vector<TokenId> ids = {3, 1, 4, 1, 5, 9, 2};
  for (const TokenId begin : {-1, 0}) {
    double sum = 0;
    Index counted = 0;
    for (const std::vector<TokenId>& window : perplexity_windows(ids, begin, 4)) {
      const CrossEntropy<TypeParam> result = window_loss(causal_lm, window);
      sum += result.sum;
      counted += result.counted;
    }
    EXPECT_EQ(counted, begin < 0 ? 5 : 7);  // {3 1 4 1}, {5 9 2}: all but the first of each; or every id
    EXPECT_NEAR(sum, double(counted) * std::log(37.0), 20 * rounding<TypeParam>());
    EXPECT_NEAR(perplexity_of(sum, counted), 37, 100 * rounding<TypeParam>());
  }
}

// By hand from the logits: tokens 1 and 2 of the window, each by what came before.
TYPED_TEST(PerplexityTest, WindowLossIsThatOfTheNextTokens) {
  const CausalLM<TypeParam> causal_lm =
      test_support::random_model<TypeParam>(test_support::small_config(), 1);
  const Tensor<TypeParam> logits =
      causal_lm.forward(test_support::make_tensor<TokenId>({{"batch", 1}, {"seq", 3}}, {3, 1, 4}));
  double expected = 0;
  const TokenId next[] = {1, 4};
  for (Index s = 0; s < 2; ++s) {
    double total = 0;
    for (Index v = 0; v < 37; ++v) total += std::exp(double(logits(0, s, v)));
    expected += std::log(total) - double(logits(0, s, next[s]));
  }
  const CrossEntropy<TypeParam> result = window_loss(causal_lm, {3, 1, 4});
  EXPECT_EQ(result.counted, 2);
  EXPECT_NEAR(result.sum, expected, 20 * rounding<TypeParam>());
  EXPECT_EQ(shape_string(result.token_losses), "[batch=1, seq=3]");
  EXPECT_EQ(window_loss(causal_lm, {3}).counted, 0);
}

TEST(Perplexity, OfASum) {
  EXPECT_NEAR(perplexity_of(3 * std::log(8.0), 3), 8, 1e-14);
  EXPECT_NEAR(perplexity_of(0, 5), 1, 0);
  EXPECT_TRUE(throws<UsageError>([] { perplexity_of(0, 0); }, "perplexity: no token is predicted"));
}

}  // namespace perplexity_test
}  // namespace glassbox
