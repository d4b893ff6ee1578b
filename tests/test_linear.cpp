// Faults that must turn this red: the bias ignored, added to the first row only, or needed where there is
// none; the weight not transposed.
#include "glassbox/linear.hpp"

#include "support/naive_model.hpp"

namespace glassbox {
namespace linear_test {

using test_support::make_tensor;
using test_support::naive_array;
using test_support::naive_linear;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(Linear<float>().forward(Tensor<float>())), Tensor<float>>);

template <typename Scalar>
class LinearTest : public ::testing::Test {};
TYPED_TEST_SUITE(LinearTest, Scalars, ScalarNames);

// [1 2 3] . [1 0 0]^T + 10 = 11 and [1 2 3] . [4 5 6]^T - 1 = 31.
TYPED_TEST(LinearTest, WorkedExample) {
  Linear<TypeParam> linear;
  linear.weight =
      WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 2}, {"in", 3}}, {1, 0, 0, 4, 5, 6}));
  const Tensor<TypeParam> input =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"hidden", 3}}, {1, 2, 3, 0, 0, 1});
  EXPECT_TRUE(near_values(linear.forward(input), {1, 32, 0, 6}, 0));
  linear.bias = make_tensor<TypeParam>({{"out", 2}}, {10, -1});
  const Tensor<TypeParam> output = linear.forward(input);
  EXPECT_EQ(shape_string(output), "[batch=1, seq=2, out=2]");
  EXPECT_TRUE(near_values(output, {11, 31, 10, 5}, 0));
}

TYPED_TEST(LinearTest, EqualsNaiveLoop) {
  Linear<TypeParam> linear;
  linear.weight = WeightMatrix::from_tensor(random_tensor<TypeParam>({{"out", 7}, {"in", 13}}, 1));
  linear.bias = random_tensor<TypeParam>({{"out", 7}}, 2);
  const Tensor<TypeParam> input = random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 13}}, 3);
  const naive::Array expected = naive::linear(naive_array(input), naive_linear(linear));
  EXPECT_TRUE(near_values(linear.forward(input), expected.values, 5 * rounding<TypeParam>()));
}

TEST(Linear, Errors) {
  Linear<float> linear;
  linear.weight = WeightMatrix::from_tensor(random_tensor<float>({{"out", 2}, {"in", 3}}, 1));
  linear.bias = random_tensor<float>({{"out", 3}}, 2);
  const Tensor<float> input({{"seq", 1}, {"hidden", 3}});
  EXPECT_TRUE(throws<ShapeError>([&] { linear.forward(input); },
                                 "Linear::forward: output [seq=1, out=2] does not fit bias [out=3]: their "
                                 "last axes must be equally long"));
  EXPECT_TRUE(throws<ShapeError>([&] { Linear<float>().forward(input); },
                                 "matmul: input [seq=1, hidden=3] does not fit weight [=0, =0]: the last "
                                 "axis of the input must be the weight's last axis"));
}

}  // namespace linear_test
}  // namespace glassbox
