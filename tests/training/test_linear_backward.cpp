// Faults that must turn this red: the weight transposed or not by mistake; a position's share left out; the
// bias' gradient forgotten or taken from one row; gradients written instead of added.
#include "glassbox/training/linear_backward.hpp"

#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace linear_backward_test {

using test_support::gradient_agrees;
using test_support::gradients_agree;
using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_linear;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;
using test_support::weighted_sum;
using test_support::zero_like;

static_assert(std::is_same_v<decltype(linear_backward(Linear<float>(), Tensor<float>(), Tensor<float>(),
                                                      std::declval<Linear<float>&>())),
                             Tensor<float>>);

template <typename Scalar>
class LinearBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(LinearBackwardTest, Scalars, ScalarNames);

// d_input = d_output . weight, d_weight = d_output^T . input, d_bias = the sum over the two positions.
TYPED_TEST(LinearBackwardTest, WorkedExample) {
  Linear<TypeParam> linear;
  linear.weight =
      WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 3}, {"in", 2}}, {1, 2, 3, 4, 5, 6}));
  linear.bias = Tensor<TypeParam>({{"out", 3}});
  const Tensor<TypeParam> input =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"in", 2}}, {1, -1, 2, 0});
  const Tensor<TypeParam> d_output =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"out", 3}}, {1, 0, 2, 0, 1, 0});
  Linear<TypeParam> gradients = zero_like(linear);
  const Tensor<TypeParam> d_input = linear_backward(linear, input, d_output, gradients);
  EXPECT_EQ(shape_string(d_input), "[batch=1, seq=2, in=2]");
  EXPECT_TRUE(near_values(d_input, {11, 14, 3, 4}, 0));
  const std::vector<double> d_weight = {1, -1, 2, 0, 2, -2};
  EXPECT_EQ(values_of<TypeParam>(gradients.weight), d_weight);
  EXPECT_TRUE(near_values(gradients.bias, {1, 1, 2}, 0));
  // A second time: the gradients are added to those that are there.
  linear_backward(linear, input, d_output, gradients);
  const std::vector<double> twice = {2, -2, 4, 0, 4, -4};
  EXPECT_EQ(values_of<TypeParam>(gradients.weight), twice);
  EXPECT_TRUE(near_values(gradients.bias, {2, 2, 4}, 0));
}

TEST(LinearBackward, EqualsCentralDifferences) {
  for (const bool bias : {false, true}) {
    RandomGenerator random(1);
    Linear<double> linear = random_linear<double>({"out", 4}, {"in", 3}, bias, random);
    Tensor<double> input = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"in", 3}}, 2);
    const Tensor<double> weights = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"out", 4}}, 3);
    Linear<double> gradients = zero_like(linear);
    const Tensor<double> d_input = linear_backward(linear, input, weights, gradients);
    const auto loss = [&] { return weighted_sum(linear.forward(input), weights); };
    EXPECT_TRUE(gradient_agrees("input", input, d_input, loss));
    EXPECT_TRUE(gradients_agree("linear", linear, gradients, loss));
    EXPECT_EQ(gradients.bias.rank(), bias ? 1 : 0);

    RandomGenerator same_random(1);
    const Linear<float> narrow = random_linear<float>({"out", 4}, {"in", 3}, bias, same_random);
    Linear<float> narrow_gradients = zero_like(narrow);
    const Tensor<float> narrow_d_input =
        linear_backward(narrow, random_tensor<float>({{"batch", 2}, {"seq", 3}, {"in", 3}}, 2),
                        random_tensor<float>({{"batch", 2}, {"seq", 3}, {"out", 4}}, 3), narrow_gradients);
    EXPECT_TRUE(near_tensors(narrow_d_input, d_input, 1e-6));
  }
}

// The check itself sees a wrong gradient, and says which.
TEST(GradientCheck, NamesTheWorstElement) {
  Tensor<double> x = make_tensor<double>({{"x", 3}}, {1, 2, 3});
  const auto loss = [&] { return 2 * x(0) + x(1) * x(1) - x(2); };
  EXPECT_TRUE(gradient_agrees("x", x, make_tensor<double>({{"x", 3}}, {2, 4, -1}), loss));
  const ::testing::AssertionResult wrong =
      gradient_agrees("x", x, make_tensor<double>({{"x", 3}}, {2, 4.5, -1.1}), loss);
  EXPECT_FALSE(wrong);
  EXPECT_NE(
      std::string(wrong.message()).find("x: 2 of 3 gradients are not the slope; the worst at element 1"),
      std::string::npos)
      << wrong.message();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(gradient_agrees("x", x, make_tensor<double>({{"x", 3}}, {2, nan, -1}), loss));
  EXPECT_FALSE(gradient_agrees("x", x, Tensor<double>({{"x", 2}}), loss));
  EXPECT_TRUE(near_values(x, {1, 2, 3}, 0));
}

TEST(LinearBackward, Errors) {
  RandomGenerator random(1);
  const Linear<float> linear = random_linear<float>({"out", 4}, {"in", 3}, true, random);
  Linear<float> gradients = zero_like(linear);
  const Tensor<float> input({{"seq", 2}, {"in", 3}});
  const Tensor<float> d_output({{"seq", 2}, {"out", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { linear_backward(linear, input, input, gradients); },
                                 "matmul_backward: d_output [seq=2, in=3], input [seq=2, in=3] and d_weight "
                                 "[out=4, in=3] do not fit weight [out=4, in=3]"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { linear_backward(linear, d_output, d_output, gradients); },
                         "matmul_backward: d_output [seq=2, out=4], input [seq=2, out=4] and d_weight "
                         "[out=4, in=3] do not fit weight [out=4, in=3]"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        linear_backward(linear, Tensor<float>({{"seq", 3}, {"in", 3}}), d_output, gradients);
      },
      "matmul_backward: d_output [seq=2, out=4], input [seq=3, in=3] and d_weight [out=4, in=3] do not fit "
      "weight [out=4, in=3]"));
  Linear<float> other = gradients;
  other.weight = WeightMatrix::from_tensor(Tensor<float>({{"out", 4}, {"in", 2}}));
  EXPECT_TRUE(throws<ShapeError>([&] { linear_backward(linear, input, d_output, other); },
                                 "matmul_backward: d_output [seq=2, out=4], input [seq=2, in=3] and d_weight "
                                 "[out=4, in=2] do not fit weight [out=4, in=3]"));
  Linear<float> no_bias = gradients;
  no_bias.bias = Tensor<float>();
  EXPECT_TRUE(throws<ShapeError>([&] { linear_backward(linear, input, d_output, no_bias); },
                                 "linear_backward: d_output [seq=2, out=4] does not fit bias gradient []: "
                                 "their last axes must be equally long"));
  Tensor<float> gaps({{"batch", 2}, {"seq", 2}, {"in", 3}});
  gaps.truncate_rows(1);
  EXPECT_TRUE(throws<ShapeError>([&] { linear_backward(linear, gaps, d_output, gradients); },
                                 "all_rows: [batch=2, seq=1, in=3] has gaps between its rows"));
  Linear<double> wide;
  wide.weight = WeightMatrix::from_tensor(Tensor<double>({{"out", 4}, {"in", 3}}));
  EXPECT_TRUE(throws<UsageError>(
      [&] { matmul_backward(linear.weight, input, d_output, wide.weight); },
      "parameters_of: d_weight [out=4, in=3] is owned, f64, expected owned numbers in f32: make_trainable() "
      "makes such a copy"));
}

}  // namespace linear_backward_test
}  // namespace glassbox
