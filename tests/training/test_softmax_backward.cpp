// Faults that must turn this red: the mean of the gradients not taken off, not weighted, or that of another
// row; a gradient for a forbidden key.
#include "glassbox/training/softmax_backward.hpp"

#include "support/gradient_check.hpp"

namespace glassbox {
namespace softmax_backward_test {

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
class SoftmaxBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxBackwardTest, Scalars, ScalarNames);

// y = (1/4, 3/4), d_y = (1, -1): the weighted mean is -1/2, and 1.5/4 and -0.5 * 3/4 remain. In the second
// row both gradients are 5, which changes nothing; in the third the last two keys are forbidden; in the last
// all.
TYPED_TEST(SoftmaxBackwardTest, WorkedExample) {
  const Tensor<TypeParam> y =
      make_tensor<TypeParam>({{"row", 4}, {"x", 3}}, {0.25, 0.75, 0, 0.5, 0.5, 0, 1, 0, 0, 0, 0, 0});
  const Tensor<TypeParam> d_y =
      make_tensor<TypeParam>({{"row", 4}, {"x", 3}}, {1, -1, 7, 5, 5, 9, 3, 100, -100, 1, 2, 3});
  const Tensor<TypeParam> d_x = softmax_backward(y, d_y);
  EXPECT_EQ(shape_string(d_x), "[row=4, x=3]");
  EXPECT_TRUE(near_values(d_x, {0.375, -0.375, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0));
}

TEST(SoftmaxBackward, EqualsCentralDifferences) {
  Tensor<double> x = random_tensor<double>({{"batch", 2}, {"head", 1}, {"query", 3}, {"key", 4}}, 1, 3);
  x(1, 0, 2, 3) = x(0, 0, 0, 0) = -std::numeric_limits<double>::infinity();
  const Tensor<double> weights =
      random_tensor<double>({{"batch", 2}, {"head", 1}, {"query", 3}, {"key", 4}}, 2);
  const Tensor<double> d_x = softmax_backward(softmax(x), weights);
  EXPECT_TRUE(gradient_agrees("x", x, d_x, [&] { return weighted_sum(softmax(x), weights); }));
  EXPECT_EQ(d_x(1, 0, 2, 3), 0);
  EXPECT_EQ(d_x(0, 0, 0, 0), 0);
  for (Index r = 0; r < d_x.rows(); ++r) EXPECT_NEAR(d_x.row(r).sum(), 0, 1e-15);

  Tensor<float> narrow = random_tensor<float>({{"batch", 2}, {"head", 1}, {"query", 3}, {"key", 4}}, 1, 3);
  narrow(1, 0, 2, 3) = narrow(0, 0, 0, 0) = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(near_tensors(
      softmax_backward(softmax(narrow),
                       random_tensor<float>({{"batch", 2}, {"head", 1}, {"query", 3}, {"key", 4}}, 2)),
      d_x, 1e-6));
}

TEST(SoftmaxBackward, Errors) {
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        softmax_backward(Tensor<float>({{"row", 2}, {"x", 3}}), Tensor<float>({{"row", 2}, {"x", 4}}));
      },
      "softmax_backward: y [row=2, x=3] and d_y [row=2, x=4] must have the same shape"));
}

}  // namespace softmax_backward_test
}  // namespace glassbox
