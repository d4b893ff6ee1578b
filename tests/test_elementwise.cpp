// Faults that must turn this red: a difference for the sum; a sum for the product; only the first row done;
// shapes that differ accepted.
#include "glassbox/elementwise.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace elementwise_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(add(Tensor<float>(), Tensor<float>())), Tensor<float>>);
static_assert(
    std::is_same_v<decltype(multiply_elementwise(Tensor<double>(), Tensor<double>())), Tensor<double>>);

template <typename Scalar>
class ElementwiseTest : public ::testing::Test {};
TYPED_TEST_SUITE(ElementwiseTest, Scalars, ScalarNames);

TYPED_TEST(ElementwiseTest, WorkedExample) {
  const Tensor<TypeParam> a = make_tensor<TypeParam>({{"query", 2}, {"hidden", 3}}, {1, 2, 3, 4, 5, 6});
  const Tensor<TypeParam> b = make_tensor<TypeParam>({{"seq", 2}, {"hidden", 3}}, {10, 20, 30, 0.5, 0, -1});
  EXPECT_TRUE(near_values(add(a, b), {11, 22, 33, 4.5, 5, 5}, 0));
  EXPECT_TRUE(near_values(multiply_elementwise(a, b), {10, 40, 90, 2, 0, -6}, 0));
  EXPECT_EQ(shape_string(add(a, b)), "[query=2, hidden=3]");  // the names of the first
  EXPECT_EQ(shape_string(multiply_elementwise(b, a)), "[seq=2, hidden=3]");
}

TYPED_TEST(ElementwiseTest, EqualsNaiveLoop) {
  const Tensor<TypeParam> a = random_tensor<TypeParam>({{"b", 2}, {"h", 3}, {"s", 5}, {"d", 7}}, 1);
  const Tensor<TypeParam> b = random_tensor<TypeParam>({{"b", 2}, {"h", 3}, {"s", 5}, {"d", 7}}, 2);
  const Tensor<TypeParam> sum = add(a, b);
  const Tensor<TypeParam> product = multiply_elementwise(a, b);
  for (Index i = 0; i < a.size(); ++i) {
    EXPECT_EQ(sum.data()[i], a.data()[i] + b.data()[i]);
    EXPECT_EQ(product.data()[i], a.data()[i] * b.data()[i]);
  }
}

TYPED_TEST(ElementwiseTest, EmptyAndItself) {
  const Tensor<TypeParam> empty({{"seq", 0}, {"hidden", 3}});
  EXPECT_EQ(add(empty, empty).size(), 0);
  Tensor<TypeParam> x = make_tensor<TypeParam>({{"hidden", 2}}, {1, 3});
  x = add(x, x);
  EXPECT_TRUE(near_values(x, {2, 6}, 0));
  x = multiply_elementwise(x, x);
  EXPECT_TRUE(near_values(x, {4, 36}, 0));
}

TEST(Elementwise, Errors) {
  const Tensor<float> a({{"seq", 2}, {"hidden", 3}});
  const Tensor<float> b({{"seq", 3}, {"hidden", 2}});
  EXPECT_TRUE(throws<ShapeError>(
      [&] { add(a, b); }, "add: a [seq=2, hidden=3] and b [seq=3, hidden=2] must have the same shape"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] { multiply_elementwise(a, b); },
      "multiply_elementwise: a [seq=2, hidden=3] and b [seq=3, hidden=2] must have the same shape"));
}

}  // namespace elementwise_test
}  // namespace glassbox
