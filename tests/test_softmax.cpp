// Faults that must turn this red: the maximum not subtracted; the sum taken over all rows; a row of -infinity
// giving NaN or 1/n; NaN or +infinity let through; exp(-infinity) not exactly 0; the row number in the text.
#include "glassbox/softmax.hpp"

#include <memory>

#include "support/expect_near.hpp"
#include "support/naive_reference.hpp"

namespace glassbox {
namespace softmax_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;

static_assert(std::is_same_v<decltype(softmax(Tensor<float>())), Tensor<float>>);

template <typename Scalar>
class SoftmaxTest : public ::testing::Test {
 protected:
  static constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  static Tensor<Scalar> row(const std::vector<double>& values) {
    return make_tensor<Scalar>({{"query", 1}, {"key", static_cast<Index>(values.size())}}, values);
  }
};
TYPED_TEST_SUITE(SoftmaxTest, Scalars, ScalarNames);

// ln 1, ln 2, ln 5 give 1/8, 2/8, 5/8; equal numbers give equal parts.
TYPED_TEST(SoftmaxTest, WorkedExample) {
  const Tensor<TypeParam> x =
      make_tensor<TypeParam>({{"query", 2}, {"key", 3}}, {0, std::log(2.0), std::log(5.0), 7, 7, 7});
  const Tensor<TypeParam> weights = softmax(x);
  EXPECT_EQ(shape_string(weights), "[query=2, key=3]");
  EXPECT_TRUE(near_values(weights, {0.125, 0.25, 0.625, 1.0 / 3, 1.0 / 3, 1.0 / 3}, rounding<TypeParam>()));
}

TYPED_TEST(SoftmaxTest, EqualsNaiveLoop) {
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"b", 2}, {"h", 3}, {"q", 5}, {"k", 17}}, 1, 10);
  std::vector<double> expected;
  for (Index r = 0; r < x.rows(); ++r) {
    std::vector<double> scores;
    for (Index i = 0; i < x.cols(); ++i) scores.push_back(static_cast<double>(x.row(r)[i]));
    for (const double weight : naive::softmax(scores)) expected.push_back(weight);
  }
  EXPECT_TRUE(near_values(softmax(x), expected, rounding<TypeParam>()));
}

// Large numbers do not overflow: only differences count.
TYPED_TEST(SoftmaxTest, LargeNumbers) {
  const double seven_digits = 1e-7;
  EXPECT_TRUE(near_values(softmax(this->row({1000, 1000})), {0.5, 0.5}, 0));
  EXPECT_TRUE(near_values(softmax(this->row({1000, 999})), {0.7310586, 0.2689414}, seven_digits));
  EXPECT_TRUE(near_values(softmax(this->row({-1000, -1001})), {0.7310586, 0.2689414}, seven_digits));
  EXPECT_TRUE(
      near_values(softmax(this->row({2.1, -0.3, 1.2, 0.1})), {0.612511, 0.055566, 0.249029, 0.082894}, 1e-6));
  EXPECT_TRUE(near_values(softmax(this->row({-3e30})), {1}, 0));
}

// A key that is masked gets exactly 0, not a tiny number; the others share as if it were not there.
TYPED_TEST(SoftmaxTest, MinusInfinityGetsExactlyZero) {
  const Tensor<TypeParam> weights = softmax(this->row({1, -this->infinity, 1, -this->infinity}));
  EXPECT_TRUE(near_values(weights, {0.5, 0, 0.5, 0}, 0));
}

// By definition here: a query that may look at nothing gets zeros, and its neighbours are not disturbed.
TYPED_TEST(SoftmaxTest, RowOfMinusInfinityGivesZeros) {
  const double minus = -this->infinity;
  const Tensor<TypeParam> x =
      make_tensor<TypeParam>({{"query", 3}, {"key", 2}}, {4, 4, minus, minus, minus, 5});
  EXPECT_TRUE(near_values(softmax(x), {0.5, 0.5, 0, 0, 0, 1}, 0));
}

TYPED_TEST(SoftmaxTest, NaNAndPlusInfinityAreErrors) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  for (const TypeParam bad : {nan, this->infinity}) {
    Tensor<TypeParam> x({{"batch", 2}, {"query", 2}, {"key", 3}});
    x(1, 0, 2) = bad;
    EXPECT_TRUE(throws<NumericError>([&] { softmax(x); },
                                     "softmax: x [batch=2, query=2, key=3]: row 2 holds a NaN or +infinity"));
  }
}

TYPED_TEST(SoftmaxTest, EmptyLastAxisIsAnError) {
  const Tensor<TypeParam> x({{"query", 2}, {"key", 0}});
  EXPECT_TRUE(throws<ShapeError>([&] { softmax(x); }, "softmax: x [query=2, key=0] has an empty last axis"));
  EXPECT_TRUE(
      throws<ShapeError>([] { softmax(Tensor<TypeParam>()); }, "softmax: x [] has an empty last axis"));
  EXPECT_EQ(softmax(Tensor<TypeParam>({{"query", 0}, {"key", 2}})).size(), 0);
}

// V39: the result is a tensor of its own, whatever becomes of the argument.
TYPED_TEST(SoftmaxTest, ResultOutlivesItsArgument) {
  std::unique_ptr<Tensor<TypeParam>> x =
      std::make_unique<Tensor<TypeParam>>(random_tensor<TypeParam>({{"query", 5}, {"key", 7}}, 1, 3));
  auto weights = softmax(*x);
  x->matrix().setConstant(TypeParam(100));
  x.reset();
  for (Index r = 0; r < weights.rows(); ++r) {
    EXPECT_NEAR(static_cast<double>(weights.row(r).sum()), 1.0, 1e-6);
  }
  Tensor<TypeParam> in_place = this->row({1, 1, 1, 1});
  in_place = softmax(in_place);
  EXPECT_TRUE(near_values(in_place, {0.25, 0.25, 0.25, 0.25}, 0));
}

}  // namespace softmax_test
}  // namespace glassbox
