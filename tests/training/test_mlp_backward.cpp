// Faults that must turn this red: the two factors of the product exchanged; one of the two ways of the input
// left out; the slope of SiLU forgotten, or taken at another place; a stage left out or renamed.
#include "glassbox/training/mlp_backward.hpp"

#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace mlp_backward_test {

using test_support::gradient_agrees;
using test_support::gradients_agree;
using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_linear;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;
using test_support::weighted_sum;
using test_support::zero_like;

template <typename Scalar>
MLP<Scalar> random_mlp(bool bias) {
  RandomGenerator random(4);
  MLP<Scalar> mlp;
  mlp.layer = 4;
  mlp.gate_proj = random_linear<Scalar>({"intermediate", 5}, {"hidden", 3}, bias, random);
  mlp.up_proj = random_linear<Scalar>({"intermediate", 5}, {"hidden", 3}, bias, random);
  mlp.down_proj = random_linear<Scalar>({"hidden", 3}, {"intermediate", 5}, bias, random);
  return mlp;
}

template <typename Scalar>
Tensor<Scalar> backward(const MLP<Scalar>& mlp, const Tensor<Scalar>& x, Tensor<Scalar> d_output,
                        MLP<Scalar>& gradients) {
  MLPActivations<Scalar> activations;
  mlp_training_forward(mlp, x, activations);
  return mlp_backward(mlp, x, activations, d_output, gradients);
}

template <typename Scalar>
class MLPBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(MLPBackwardTest, Scalars, ScalarNames);

// One number all the way, x = ln 3, gate 1, up 2, down 3: activated = 3/4 ln 3, up = 2 ln 3.
TYPED_TEST(MLPBackwardTest, WorkedExample) {
  const double ln3 = std::log(3.0);
  MLP<TypeParam> mlp;
  mlp.gate_proj.weight = WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 1}, {"in", 1}}, {1}));
  mlp.up_proj.weight = WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 1}, {"in", 1}}, {2}));
  mlp.down_proj.weight = WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 1}, {"in", 1}}, {3}));
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 1}}, {ln3});
  MLP<TypeParam> gradients = zero_like(mlp);
  const Tensor<TypeParam> d_x =
      backward(mlp, x, make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 1}}, {1}), gradients);
  const double d_gate = 3 * 2 * ln3 * 0.75 * (1 + ln3 / 4);
  const double d_up = 3 * 0.75 * ln3;
  const double tolerance = 10 * rounding<TypeParam>();
  EXPECT_TRUE(near_values(d_x, {d_gate + 2 * d_up}, tolerance));
  EXPECT_NEAR(values_of<TypeParam>(gradients.gate_proj.weight)[0], d_gate * ln3, tolerance);
  EXPECT_NEAR(values_of<TypeParam>(gradients.up_proj.weight)[0], d_up * ln3, tolerance);
  EXPECT_NEAR(values_of<TypeParam>(gradients.down_proj.weight)[0], 1.5 * ln3 * ln3, tolerance);
}

TYPED_TEST(MLPBackwardTest, TheTrainingForwardIsTheForward) {
  const MLP<TypeParam> mlp = random_mlp<TypeParam>(true);
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 3}}, 2, 2);
  MLPActivations<TypeParam> activations;
  EXPECT_TRUE(near_tensors(mlp_training_forward(mlp, x, activations), mlp.forward(x), 0));
}

TEST(MLPBackward, EqualsCentralDifferences) {
  for (const bool bias : {false, true}) {
    MLP<double> mlp = random_mlp<double>(bias);
    Tensor<double> x = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"hidden", 3}}, 2, 2);
    const Tensor<double> weights = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"hidden", 3}}, 3);
    MLP<double> gradients = zero_like(mlp);
    const Tensor<double> d_x = backward(mlp, x, weights, gradients);
    const auto loss = [&] { return weighted_sum(mlp.forward(x), weights); };
    EXPECT_TRUE(gradient_agrees("hidden_states", x, d_x, loss));
    EXPECT_TRUE(gradients_agree("gate_proj", mlp.gate_proj, gradients.gate_proj, loss));
    EXPECT_TRUE(gradients_agree("up_proj", mlp.up_proj, gradients.up_proj, loss));
    EXPECT_TRUE(gradients_agree("down_proj", mlp.down_proj, gradients.down_proj, loss));

    const MLP<float> narrow = random_mlp<float>(bias);
    MLP<float> narrow_gradients = zero_like(narrow);
    const Tensor<float> narrow_d_x =
        backward(narrow, random_tensor<float>({{"batch", 2}, {"seq", 3}, {"hidden", 3}}, 2, 2),
                 random_tensor<float>({{"batch", 2}, {"seq", 3}, {"hidden", 3}}, 3), narrow_gradients);
    EXPECT_TRUE(near_tensors(narrow_d_x, d_x, 1e-5));
  }
}

TEST(MLPBackward, StagesInTheirOrder) {
  const MLP<double> mlp = random_mlp<double>(false);
  const Tensor<double> x = random_tensor<double>({{"batch", 1}, {"seq", 1}, {"hidden", 3}}, 2);
  MLP<double> gradients = zero_like(mlp);
  std::string passed;
  ScopedStageHook hook([&](StageRecord& record) {
    passed += std::string(record.name) + " ";
    EXPECT_EQ(record.layer, 4);
  });
  backward(mlp, x, x, gradients);
  EXPECT_EQ(passed,
            "gate_proj up_proj activated gated down_proj d_down_proj d_gated d_activated d_up_proj "
            "d_gate_proj ");
}

TEST(MLPBackward, Errors) {
  const MLP<float> mlp = random_mlp<float>(false);
  MLP<float> gradients = zero_like(mlp);
  const Tensor<float> x = random_tensor<float>({{"batch", 1}, {"seq", 2}, {"hidden", 3}}, 2);
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        backward(mlp, x, Tensor<float>({{"batch", 1}, {"seq", 1}, {"hidden", 3}}), gradients);
      },
      "matmul_backward: d_output [batch=1, seq=1, hidden=3], input [batch=1, seq=2, intermediate=5] and "
      "d_weight [hidden=3, intermediate=5] do not fit weight [hidden=3, intermediate=5]"));
}

}  // namespace mlp_backward_test
}  // namespace glassbox
