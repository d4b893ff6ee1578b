// Faults that must turn this red: a token that occurs twice gets one of its gradients only; the gradient of
// another text's position; a gradient for tokens that do not occur; written instead of added.
#include "glassbox/training/embedding_backward.hpp"

#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace embedding_backward_test {

using test_support::gradient_agrees;
using test_support::make_tensor;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;
using test_support::weighted_sum;

template <typename Scalar>
class EmbeddingBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(EmbeddingBackwardTest, Scalars, ScalarNames);

// Token 2 stands at three places, in both texts: 10 + 30 + 40. Token 1 nowhere.
TYPED_TEST(EmbeddingBackwardTest, WorkedExample) {
  Embedding<TypeParam> gradients;
  gradients.weight = WeightMatrix::from_tensor(Tensor<TypeParam>({{"vocab", 4}, {"hidden", 2}}));
  const Tensor<TokenId> ids = make_tensor<TokenId>({{"batch", 2}, {"seq", 2}}, {2, 0, 2, 2});
  const Tensor<TypeParam> d_embeds =
      make_tensor<TypeParam>({{"batch", 2}, {"seq", 2}, {"hidden", 2}}, {10, 1, 20, 2, 30, 3, 40, 4});
  embedding_backward(ids, d_embeds, gradients);
  const std::vector<double> once = {20, 2, 0, 0, 80, 8, 0, 0};
  EXPECT_EQ(values_of<TypeParam>(gradients.weight), once);
  embedding_backward(ids, d_embeds, gradients);
  const std::vector<double> twice = {40, 4, 0, 0, 160, 16, 0, 0};
  EXPECT_EQ(values_of<TypeParam>(gradients.weight), twice);
}

TEST(EmbeddingBackward, EqualsCentralDifferences) {
  RandomGenerator random(1);
  Embedding<double> embedding;
  embedding.weight = test_support::random_weight<double>({"vocab", 5}, {"hidden", 3}, random);
  const Tensor<TokenId> ids = make_tensor<TokenId>({{"batch", 2}, {"seq", 3}}, {4, 1, 4, 0, 1, 3});
  const Tensor<double> weights = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"hidden", 3}}, 2);
  Embedding<double> gradients;
  gradients.weight = WeightMatrix::from_tensor(Tensor<double>({{"vocab", 5}, {"hidden", 3}}));
  embedding_backward(ids, weights, gradients);
  EXPECT_TRUE(gradient_agrees("embed_tokens.weight", embedding.weight, gradients.weight,
                              [&] { return weighted_sum(embedding.forward(ids), weights); }));
}

TEST(EmbeddingBackward, Errors) {
  Embedding<float> gradients;
  gradients.weight = WeightMatrix::from_tensor(Tensor<float>({{"vocab", 4}, {"hidden", 2}}));
  const Tensor<TokenId> ids({{"batch", 2}, {"seq", 3}});
  const auto backward = [&](std::initializer_list<Axis> axes) {
    return
        [&gradients, ids, d_embeds = Tensor<float>(axes)] { embedding_backward(ids, d_embeds, gradients); };
  };
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        embedding_backward(Tensor<TokenId>({{"seq", 3}}), Tensor<float>({{"seq", 3}}), gradients);
      },
      "embedding_backward: input_ids [seq=3] has 1 axes, expected 2"));
  EXPECT_TRUE(
      throws<ShapeError>(backward({{"seq", 3}, {"hidden", 2}}),
                         "embedding_backward: d_inputs_embeds [seq=3, hidden=2] has 2 axes, expected 3"));
  EXPECT_TRUE(
      throws<ShapeError>(backward({{"batch", 1}, {"seq", 3}, {"hidden", 2}}),
                         "embedding_backward: d_inputs_embeds [batch=1, seq=3, hidden=2]: axis 0 must "
                         "have 2 elements (batch of input_ids)"));
  EXPECT_TRUE(
      throws<ShapeError>(backward({{"batch", 2}, {"seq", 2}, {"hidden", 2}}),
                         "embedding_backward: d_inputs_embeds [batch=2, seq=2, hidden=2]: axis 1 must "
                         "have 3 elements (positions of input_ids)"));
  EXPECT_TRUE(
      throws<ShapeError>(backward({{"batch", 2}, {"seq", 3}, {"hidden", 3}}),
                         "embedding_backward: d_inputs_embeds [batch=2, seq=3, hidden=3]: axis 2 must "
                         "have 2 elements (width of the embedding)"));
  const Tensor<TokenId> outside = make_tensor<TokenId>({{"batch", 1}, {"seq", 2}}, {3, 4});
  EXPECT_TRUE(throws<TokenError>(
      [&] {
        embedding_backward(outside, Tensor<float>({{"batch", 1}, {"seq", 2}, {"hidden", 2}}), gradients);
      },
      "embedding_backward: input_ids [batch=1, seq=2]: id 4 at row 0, position 1 is not in 0..3 (vocab_size "
      "4)"));
}

}  // namespace embedding_backward_test
}  // namespace glassbox
