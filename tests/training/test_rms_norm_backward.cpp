// Faults that must turn this red: the way through the mean left out, or with another power of the root; eps
// forgotten; the weight left out; the weight's gradient without the normalisation, or of one position only.
#include "glassbox/training/rms_norm_backward.hpp"

#include "support/gradient_check.hpp"

namespace glassbox {
namespace rms_norm_backward_test {

using test_support::gradient_agrees;
using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::weighted_sum;
using test_support::zero_like;

template <typename Scalar>
class RMSNormBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(RMSNormBackwardTest, Scalars, ScalarNames);

// x = (3, 4) with eps 3.5: the root is 4. d_normalized = d_output * weight = (1, 20), their product with x
// sums to 83, and 83 / 4^3 / 2 = 0.6484375 of each x is taken off d_normalized / 4.
TYPED_TEST(RMSNormBackwardTest, WorkedExample) {
  RMSNorm<TypeParam> norm;
  norm.weight = make_tensor<TypeParam>({{"hidden", 2}}, {1, 10});
  norm.eps = TypeParam(3.5);
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 2}}, {3, 4});
  const Tensor<TypeParam> d_output =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 2}}, {1, 2});
  RMSNorm<TypeParam> gradients = zero_like(norm);
  const Tensor<TypeParam> d_x = rms_norm_backward(norm, x, d_output, gradients);
  EXPECT_EQ(shape_string(d_x), "[batch=1, seq=1, hidden=2]");
  EXPECT_TRUE(near_values(d_x, {0.25 - 3 * 0.6484375, 5 - 4 * 0.6484375}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(gradients.weight, {0.75, 2}, rounding<TypeParam>()));
  rms_norm_backward(norm, x, d_output, gradients);
  EXPECT_TRUE(near_values(gradients.weight, {1.5, 4}, rounding<TypeParam>()));
}

// With eps 0.1, so that a misplaced eps moves every number.
TEST(RMSNormBackward, EqualsCentralDifferences) {
  RMSNorm<double> norm;
  norm.weight = random_tensor<double>({{"hidden", 5}}, 1, 2);
  norm.eps = 0.1;
  Tensor<double> x = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"hidden", 5}}, 2);
  const Tensor<double> weights = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"hidden", 5}}, 3);
  RMSNorm<double> gradients = zero_like(norm);
  const Tensor<double> d_x = rms_norm_backward(norm, x, weights, gradients);
  const auto loss = [&] { return weighted_sum(norm.forward(x), weights); };
  EXPECT_TRUE(gradient_agrees("hidden_states", x, d_x, loss));
  EXPECT_TRUE(gradient_agrees("weight", norm.weight, gradients.weight, loss));

  RMSNorm<float> narrow;
  narrow.weight = random_tensor<float>({{"hidden", 5}}, 1, 2);
  narrow.eps = 0.1f;
  RMSNorm<float> narrow_gradients = zero_like(narrow);
  const Tensor<float> narrow_d_x =
      rms_norm_backward(narrow, random_tensor<float>({{"batch", 2}, {"seq", 3}, {"hidden", 5}}, 2),
                        random_tensor<float>({{"batch", 2}, {"seq", 3}, {"hidden", 5}}, 3), narrow_gradients);
  EXPECT_TRUE(near_tensors(narrow_d_x, d_x, 3e-6));
  EXPECT_TRUE(near_tensors(narrow_gradients.weight, gradients.weight, 3e-6));
}

// Without eps a larger x gives the same output: the gradient has no part along x.
TYPED_TEST(RMSNormBackwardTest, NoSlopeAlongX) {
  RMSNorm<TypeParam> norm;
  norm.weight = random_tensor<TypeParam>({{"hidden", 7}}, 1);
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 7}}, 2);
  RMSNorm<TypeParam> gradients = zero_like(norm);
  const Tensor<TypeParam> d_x = rms_norm_backward(
      norm, x, random_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 7}}, 3), gradients);
  EXPECT_NEAR(double(x.row(0).dot(d_x.row(0))), 0, rounding<TypeParam>());
}

TEST(RMSNormBackward, Errors) {
  RMSNorm<float> norm;
  norm.weight = Tensor<float>({{"hidden", 3}});
  RMSNorm<float> gradients = zero_like(norm);
  const Tensor<float> x({{"batch", 1}, {"seq", 2}, {"hidden", 3}});
  const Tensor<float> wide({{"batch", 1}, {"seq", 2}, {"hidden", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { rms_norm_backward(norm, x, wide, gradients); },
                                 "rms_norm_backward: hidden_states [batch=1, seq=2, hidden=3] and d_output "
                                 "[batch=1, seq=2, hidden=4] must have the same shape"));
  EXPECT_TRUE(throws<ShapeError>([&] { rms_norm_backward(norm, wide, wide, gradients); },
                                 "rms_norm_backward: hidden_states [batch=1, seq=2, hidden=4] does not fit "
                                 "weight [hidden=3]: their last axes must be equally long"));
  RMSNorm<float> wrong;
  wrong.weight = Tensor<float>({{"hidden", 2}});
  EXPECT_TRUE(throws<ShapeError>([&] { rms_norm_backward(norm, x, x, wrong); },
                                 "rms_norm_backward: hidden_states [batch=1, seq=2, hidden=3] does not fit "
                                 "weight gradient [hidden=2]: their last axes must be equally long"));
}

}  // namespace rms_norm_backward_test
}  // namespace glassbox
