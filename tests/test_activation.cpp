// Faults that must turn this red: the sign inside exp; the sigmoid itself returned; x left out; a polynomial
// or tanh form instead; NaN for large numbers.
#include "glassbox/activation.hpp"

#include <limits>

#include "support/expect_near.hpp"
#include "support/naive_reference.hpp"

namespace glassbox {
namespace activation_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::values_of;

static_assert(std::is_same_v<decltype(silu(Tensor<float>())), Tensor<float>>);

template <typename Scalar>
class ActivationTest : public ::testing::Test {};
TYPED_TEST_SUITE(ActivationTest, Scalars, ScalarNames);

// silu(ln 3) = ln 3 * 3/4, since exp(-ln 3) = 1/3; silu(-ln 3) = -ln 3 * 1/4.
TYPED_TEST(ActivationTest, WorkedExample) {
  const double ln3 = std::log(3.0);
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"seq", 1}, {"intermediate", 3}}, {0, ln3, -ln3});
  const Tensor<TypeParam> activated = silu(x);
  EXPECT_EQ(shape_string(activated), "[seq=1, intermediate=3]");
  EXPECT_TRUE(near_values(activated, {0, 0.75 * ln3, -0.25 * ln3}, rounding<TypeParam>()));
}

TYPED_TEST(ActivationTest, EqualsNaiveLoop) {
  const Tensor<TypeParam> x =
      random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"intermediate", 17}}, 1, 9);
  std::vector<double> expected;
  for (const double value : values_of(x)) expected.push_back(naive::silu(value));
  EXPECT_TRUE(near_values(silu(x), expected, 9 * rounding<TypeParam>()));
}

TYPED_TEST(ActivationTest, LargeNumbersAndNaN) {
  const TypeParam large = TypeParam(1000);
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"intermediate", 4}}, {large, -large, infinity, nan});
  const Tensor<TypeParam> activated = silu(x);
  EXPECT_EQ(activated(0), large);
  EXPECT_EQ(activated(1), TypeParam(0));
  EXPECT_TRUE(std::signbit(activated(1)));
  EXPECT_EQ(activated(2), infinity);
  EXPECT_TRUE(std::isnan(activated(3)));
}

TYPED_TEST(ActivationTest, EmptyStaysEmpty) {
  EXPECT_EQ(silu(Tensor<TypeParam>()).rank(), 0);
  EXPECT_EQ(shape_string(silu(Tensor<TypeParam>({{"seq", 0}, {"hidden", 3}}))), "[seq=0, hidden=3]");
}

}  // namespace activation_test
}  // namespace glassbox
