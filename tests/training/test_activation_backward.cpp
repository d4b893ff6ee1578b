// Faults that must turn this red: the derivative of the sigmoid alone, or the sigmoid alone; exp of the wrong
// sign; the incoming gradient left out.
#include "glassbox/training/activation_backward.hpp"

#include "support/gradient_check.hpp"

namespace glassbox {
namespace activation_backward_test {

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

template <typename Scalar>
class SiluBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(SiluBackwardTest, Scalars, ScalarNames);

// At 0 the slope is 1/2; at ln 3, where the sigmoid is 3/4, it is 3/4 (1 + ln 3 / 4); at -ln 3 it is
// 1/4 (1 - 3/4 ln 3); far out it is 1 and 0.
TYPED_TEST(SiluBackwardTest, WorkedExample) {
  const double ln3 = std::log(3.0);
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"row", 1}, {"x", 5}}, {0, ln3, -ln3, 100, -1000});
  const Tensor<TypeParam> d_output = make_tensor<TypeParam>({{"row", 1}, {"x", 5}}, {1, 2, -4, 3, 3});
  const Tensor<TypeParam> d_x = silu_backward(x, d_output);
  EXPECT_EQ(shape_string(d_x), "[row=1, x=5]");
  EXPECT_TRUE(near_values(d_x, {0.5, 1.5 * (1 + ln3 / 4), -(1 - 0.75 * ln3), 3, 0}, rounding<TypeParam>()));
}

TEST(SiluBackward, EqualsCentralDifferences) {
  Tensor<double> x = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"intermediate", 5}}, 1, 6);
  const Tensor<double> weights = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"intermediate", 5}}, 2);
  const Tensor<double> d_x = silu_backward(x, weights);
  EXPECT_TRUE(gradient_agrees("x", x, d_x, [&] { return weighted_sum(silu(x), weights); }));
  EXPECT_TRUE(
      near_tensors(silu_backward(random_tensor<float>({{"batch", 2}, {"seq", 3}, {"intermediate", 5}}, 1, 6),
                                 random_tensor<float>({{"batch", 2}, {"seq", 3}, {"intermediate", 5}}, 2)),
                   d_x, 1e-6));
}

TEST(SiluBackward, Errors) {
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        silu_backward(Tensor<float>({{"row", 2}, {"x", 3}}), Tensor<float>({{"row", 3}, {"x", 3}}));
      },
      "silu_backward: x [row=2, x=3] and d_output [row=3, x=3] must have the same shape"));
}

}  // namespace activation_backward_test
}  // namespace glassbox
