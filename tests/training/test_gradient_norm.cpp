// Faults that must turn this red: a norm per tensor instead of one of all; the root or the square left out;
// short gradients made longer; torch's 1e-6 left out; a NaN or an infinity overlooked, or another one named.
#include "glassbox/training/gradient_norm.hpp"

#include "support/gradient_check.hpp"

namespace glassbox {
namespace gradient_norm_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

// Two tensors of one gradient: (2, 3) and (6), together 7 long.
template <typename Scalar>
struct Gradient {
  Tensor<Scalar> a = make_tensor<Scalar>({{"out", 2}, {"in", 1}}, {2, 3});
  Tensor<Scalar> b = make_tensor<Scalar>({{"hidden", 1}}, {-6});
  std::vector<Parameter<Scalar>> list = {{"first.weight", {a.axis(0), a.axis(1)}, a.data(), 2},
                                         {"second.weight", {b.axis(0)}, b.data(), 1}};
};

template <typename Scalar>
class GradientNormTest : public ::testing::Test {};
TYPED_TEST_SUITE(GradientNormTest, Scalars, ScalarNames);

TYPED_TEST(GradientNormTest, WorkedExample) {
  Gradient<TypeParam> gradient;
  EXPECT_EQ(global_norm(gradient.list), 7);
  EXPECT_EQ(clip_gradients(gradient.list, 3.5), 7);
  const double factor = 3.5 / (7 + 1e-6);
  EXPECT_TRUE(near_values(gradient.a, {2 * factor, 3 * factor}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(gradient.b, {-6 * factor}, rounding<TypeParam>()));
  EXPECT_EQ(global_norm(std::vector<Parameter<TypeParam>>()), 0);
}

// torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6). A gradient of 1e-6 is halved by a max_norm of
// 1e-6.
TEST(GradientNorm, TheDivisorIsTorchs) {
  Tensor<double> tiny = make_tensor<double>({{"hidden", 1}}, {1e-6});
  std::vector<Parameter<double>> list = {{"p", {tiny.axis(0)}, tiny.data(), 1}};
  EXPECT_NEAR(clip_gradients(list, 1e-6), 1e-6, 1e-20);
  EXPECT_NEAR(tiny(0), 0.5e-6, 1e-20);
}

TYPED_TEST(GradientNormTest, ShortOnesStay) {
  for (const double max_norm : {0.0, 7.1, 1e9, HUGE_VAL}) {
    Gradient<TypeParam> gradient;
    EXPECT_EQ(clip_gradients(gradient.list, max_norm), 7);
    EXPECT_TRUE(near_values(gradient.a, {2, 3}, 0)) << max_norm;
    EXPECT_TRUE(near_values(gradient.b, {-6}, 0)) << max_norm;
  }
}

// Float numbers whose squares float does not hold.
TEST(GradientNorm, AddsUpInDouble) {
  Tensor<float> large = make_tensor<float>({{"hidden", 2}}, {3e30, 4e30});
  const std::vector<Parameter<float>> list = {{"p", {large.axis(0)}, large.data(), 2}};
  EXPECT_NEAR(global_norm(list) / 5e30, 1, 1e-6);
}

TYPED_TEST(GradientNormTest, NamesTheFirstThatIsNotFinite) {
  Gradient<TypeParam> gradient;
  EXPECT_NO_THROW(check_finite("gradient", gradient.list));
  gradient.b(0) = -std::numeric_limits<TypeParam>::infinity();
  EXPECT_TRUE(
      throws<NumericError>([&] { check_finite("parameter", gradient.list); },
                           "parameter of second.weight [hidden=1] holds -inf at element 0: training stops "
                           "here"));
  gradient.a(1, 0) = std::numeric_limits<TypeParam>::quiet_NaN();
  EXPECT_TRUE(
      throws<NumericError>([&] { check_finite("gradient", gradient.list); },
                           "gradient of first.weight [out=2, in=1] holds nan at element 1: training stops "
                           "here"));
}

TEST(GradientNorm, Errors) {
  Gradient<float> gradient;
  EXPECT_TRUE(throws<UsageError>([&] { clip_gradients(gradient.list, -1); },
                                 "clip_gradients: max_norm is -1.000000, expected 0 (no clipping) or more"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(throws<UsageError>([&] { clip_gradients(gradient.list, nan); },
                                 "clip_gradients: max_norm is nan, expected 0 (no clipping) or more"));
}

}  // namespace gradient_norm_test
}  // namespace glassbox
