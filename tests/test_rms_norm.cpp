// Faults that must turn this red: eps outside the root, left out, or a fixed one; the sum instead of the
// mean; the mean subtracted (LayerNorm); the weight left out, or 1 + weight; statistics shared by all
// positions.
#include "glassbox/rms_norm.hpp"

#include "support/naive_model.hpp"

namespace glassbox {
namespace rms_norm_test {

using test_support::make_tensor;
using test_support::naive_array;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;

static_assert(std::is_same_v<decltype(RMSNorm<float>().forward(Tensor<float>())), Tensor<float>>);

template <typename Scalar>
class RMSNormTest : public ::testing::Test {
 protected:
  static Tensor<Scalar> normalize(const std::vector<double>& x, double eps) {
    RMSNorm<Scalar> norm;
    const Index hidden = static_cast<Index>(x.size());
    norm.weight = make_tensor<Scalar>({{"hidden", hidden}}, std::vector<double>(x.size(), 1.0));
    norm.eps = static_cast<Scalar>(eps);
    return norm.forward(make_tensor<Scalar>({{"batch", 1}, {"seq", 1}, {"hidden", hidden}}, x));
  }
};
TYPED_TEST_SUITE(RMSNormTest, Scalars, ScalarNames);

// Mean square of 3 and 4 is 12.5; with eps 3.5 the root is 4. The other position: (0 + 0.5) / 2, root
// of 3.75.
TYPED_TEST(RMSNormTest, WorkedExample) {
  RMSNorm<TypeParam> norm;
  norm.weight = make_tensor<TypeParam>({{"hidden", 2}}, {1, 10});
  norm.eps = TypeParam(3.5);
  const Tensor<TypeParam> hidden_states =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"hidden", 2}}, {3, 4, 0, -1});
  const Tensor<TypeParam> output = norm.forward(hidden_states);
  EXPECT_EQ(shape_string(output), "[batch=1, seq=2, hidden=2]");
  EXPECT_TRUE(near_values(output, {0.75, 10, 0, -5}, 10 * rounding<TypeParam>()));
}

// V33: where eps is and how large it is.
TYPED_TEST(RMSNormTest, EpsIsInsideTheRoot) {
  const std::vector<double> small = {1e-3, 1e-3, 1e-3, 1e-3};
  const double a = 0.3015113, b = 0.7071068;
  EXPECT_TRUE(near_values(this->normalize(small, 1e-5), {a, a, a, a}, 1e-7));
  EXPECT_TRUE(near_values(this->normalize(small, 1e-6), {b, b, b, b}, 1e-7));
  EXPECT_TRUE(
      near_values(this->normalize({1, 2, 3, 4}, 1e-5), {0.3651481, 0.7302963, 1.0954444, 1.4605925}, 3e-7));
}

// With eps 0.1, so that a misplaced eps moves every number.
TYPED_TEST(RMSNormTest, EqualsNaiveLoop) {
  RMSNorm<TypeParam> norm;
  norm.weight = random_tensor<TypeParam>({{"hidden", 17}}, 1, 2);
  norm.eps = TypeParam(0.1);
  const Tensor<TypeParam> hidden_states =
      random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 17}}, 2);
  const naive::Array expected = naive::rms_norm(naive_array(hidden_states), values_of(norm.weight), 0.1);
  EXPECT_TRUE(near_values(norm.forward(hidden_states), expected.values, 3 * rounding<TypeParam>()));
}

TYPED_TEST(RMSNormTest, ZerosOneNumberAndNaN) {
  EXPECT_TRUE(near_values(this->normalize({0, 0, 0}, 1e-6), {0, 0, 0}, 0));
  EXPECT_TRUE(near_values(this->normalize({-5}, 0), {-1}, rounding<TypeParam>()));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(near_values(this->normalize({1, nan}, 1e-6), {nan, nan}, 0));
  RMSNorm<TypeParam> norm;
  norm.weight = Tensor<TypeParam>({{"hidden", 2}});
  EXPECT_EQ(norm.forward(Tensor<TypeParam>({{"batch", 1}, {"seq", 0}, {"hidden", 2}})).size(), 0);
}

TEST(RMSNorm, Errors) {
  RMSNorm<float> norm;
  norm.weight = Tensor<float>({{"hidden", 20}});
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        norm.forward(Tensor<float>({{"batch", 1}, {"seq", 3}, {"hidden", 6}}));
      },
      "RMSNorm::forward: hidden_states [batch=1, seq=3, hidden=6] does not fit weight [hidden=20]: their "
      "last axes must be equally long"));
}

}  // namespace rms_norm_test
}  // namespace glassbox
