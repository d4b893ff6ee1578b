// Faults that must turn this red: a mean that is not corrected for beginning at 0; the decay added to the
// gradient (Adam with L2) or to frozen and undecayed parameters; eps inside the root, or before the
// correction; the square root left out; the step not counted, or counted per parameter.
#include "glassbox/training/adamw.hpp"

#include "support/gradient_check.hpp"

namespace glassbox {
namespace adamw_test {

using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

template <typename Scalar>
Parameter<Scalar> as_parameter(const char* name, Tensor<Scalar>& tensor) {
  return {name, {tensor.axis(0)}, tensor.data(), tensor.size()};
}

// One number p = 2 under a rule, given the gradients one after the other.
template <typename Scalar>
std::vector<double> course(const AdamWConfig& config, const ParameterRule& rule,
                           const std::vector<double>& slopes) {
  Tensor<Scalar> p = make_tensor<Scalar>({{"p", 1}}, {2});
  Tensor<Scalar> g({{"p", 1}});
  std::vector<Parameter<Scalar>> parameters = {as_parameter("p", p)};
  const std::vector<Parameter<Scalar>> gradients = {as_parameter("p", g)};
  AdamW<Scalar> optimizer(config, parameters, {rule});
  std::vector<double> result;
  for (const double slope : slopes) {
    g(0) = Scalar(slope);
    optimizer.step(parameters, gradients);
    result.push_back(double(p(0)));
  }
  return result;
}

// Numbers to reckon with: lr 0.1, beta1 1/2, beta2 3/4, eps 0, lr * weight_decay 0.05.
inline AdamWConfig plain_config() {
  AdamWConfig config;
  config.learning_rate = 0.1;
  config.beta1 = 0.5;
  config.beta2 = 0.75;
  config.eps = 0;
  config.weight_decay = 0.5;
  return config;
}

template <typename Scalar>
class AdamWTest : public ::testing::Test {
 protected:
  static void expect_course(const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], rounding<Scalar>()) << "step " << i + 1;
    }
  }
};
TYPED_TEST_SUITE(AdamWTest, Scalars, ScalarNames);

// g = 3:  m = 1.5,   v = 2.25,     m_hat = 3,    v_hat = 9:      p = 2 - 0.1 * 3 / 3
// g = -1: m = 0.25,  v = 1.9375,   m_hat = 1/3,  v_hat = 31/7
// g = 0:  m = 0.125, v = 1.453125, m_hat = 1/7,  v_hat = 93/37:  a step by momentum alone
TYPED_TEST(AdamWTest, WorkedExample) {
  const double second = 0.1 / 3 / std::sqrt(31.0 / 7), third = 0.1 / 7 / std::sqrt(93.0 / 37);
  this->expect_course(course<TypeParam>(plain_config(), {.frozen = false, .decayed = false}, {3, -1, 0}),
                      {1.9, 1.9 - second, 1.9 - second - third});
  const double p2 = 1.8 * 0.95 - second;
  this->expect_course(course<TypeParam>(plain_config(), {.frozen = false, .decayed = true}, {3, -1, 0}),
                      {2 * 0.95 - 0.1, p2, p2 * 0.95 - third});
}

// A gradient of 1 with eps 1: 1 / (sqrt(1) + 1). Inside the root it were 1 / sqrt(2), before the correction
// 1 / (2 * (0.5 + 1)).
TYPED_TEST(AdamWTest, EpsIsAddedLast) {
  AdamWConfig config = plain_config();
  config.eps = 1;
  this->expect_course(course<TypeParam>(config, {.frozen = false, .decayed = false}, {1}), {2 - 0.1 / 2});
}

// torch.optim.AdamW([2.0], weight_decay=0.01): the first step is learning_rate, whatever the gradient's size.
TYPED_TEST(AdamWTest, TheDefaultsAreTorchs) {
  for (const double slope : {1e-3, 5.0, 1e3}) {
    this->expect_course(course<TypeParam>({}, {}, {slope}), {2 * (1 - 1e-5) - 1e-3 * slope / (slope + 1e-8)});
  }
  const ParameterRule rule;
  EXPECT_FALSE(rule.frozen);
  EXPECT_TRUE(rule.decayed);
}

// Several tensors: each with its own moments, the frozen one and its moments as they were.
TYPED_TEST(AdamWTest, FrozenParametersStay) {
  Tensor<TypeParam> a = make_tensor<TypeParam>({{"p", 2}}, {1, 2});
  Tensor<TypeParam> b = make_tensor<TypeParam>({{"p", 3}}, {1, 2, 3});
  Tensor<TypeParam> c = make_tensor<TypeParam>({{"p", 1}}, {4});
  Tensor<TypeParam> da = make_tensor<TypeParam>({{"p", 2}}, {3, -3});
  Tensor<TypeParam> db = make_tensor<TypeParam>({{"p", 3}}, {1, 2, 3});
  Tensor<TypeParam> dc = make_tensor<TypeParam>({{"p", 1}}, {-7});
  std::vector<Parameter<TypeParam>> parameters = {as_parameter("a", a), as_parameter("b", b),
                                                  as_parameter("c", c)};
  const std::vector<Parameter<TypeParam>> gradients = {as_parameter("a", da), as_parameter("b", db),
                                                       as_parameter("c", dc)};
  AdamW<TypeParam> optimizer(plain_config(), parameters, {{false, false}, {true, true}, {false, true}});
  optimizer.step(parameters, gradients);
  optimizer.config.learning_rate = 0;  // a schedule sets it anew for each step
  optimizer.step(parameters, gradients);
  EXPECT_EQ(optimizer.step_count, 2);
  EXPECT_TRUE(near_values(a, {0.9, 2.1}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(b, {1, 2, 3}, 0));
  EXPECT_TRUE(near_values(c, {4 * 0.95 + 0.1}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(optimizer.moments[0].exp_avg, {2.25, -2.25}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(optimizer.moments[0].exp_avg_sq, {9 * 0.4375, 9 * 0.4375}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(optimizer.moments[1].exp_avg, {0, 0, 0}, 0));
  EXPECT_TRUE(near_values(optimizer.moments[1].exp_avg_sq, {0, 0, 0}, 0));
  EXPECT_EQ(shape_string(optimizer.moments[2].exp_avg), "[parameter=1]");
}

TEST(AdamW, ErrorsOfTheConfiguration) {
  const auto validate = [](double AdamWConfig::*field, double value) {
    AdamWConfig config;
    config.*field = value;
    return [config] { config.validate(); };
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(throws<UsageError>(validate(&AdamWConfig::learning_rate, -1),
                                 "AdamWConfig: learning_rate is -1.000000, expected 0 or more"));
  EXPECT_TRUE(throws<UsageError>(validate(&AdamWConfig::learning_rate, HUGE_VAL),
                                 "AdamWConfig: learning_rate is inf, expected 0 or more"));
  EXPECT_TRUE(throws<UsageError>(validate(&AdamWConfig::beta1, 1),
                                 "AdamWConfig: beta1 is 1.000000, expected 0 or more and below 1"));
  EXPECT_TRUE(throws<UsageError>(validate(&AdamWConfig::beta2, -0.5),
                                 "AdamWConfig: beta2 is -0.500000, expected 0 or more and below 1"));
  EXPECT_TRUE(
      throws<UsageError>(validate(&AdamWConfig::eps, nan), "AdamWConfig: eps is nan, expected 0 or more"));
  EXPECT_TRUE(throws<UsageError>(validate(&AdamWConfig::weight_decay, -0.1),
                                 "AdamWConfig: weight_decay is -0.100000, expected 0 or more"));
  for (double AdamWConfig::*field : {&AdamWConfig::learning_rate, &AdamWConfig::beta1, &AdamWConfig::beta2,
                                     &AdamWConfig::eps, &AdamWConfig::weight_decay}) {
    EXPECT_NO_THROW(validate(field, 0)());
  }
  AdamWConfig wrong;
  wrong.beta1 = 2;
  EXPECT_TRUE(throws<UsageError>([&] { AdamW<float>(wrong, {}, {}); },
                                 "AdamWConfig: beta1 is 2.000000, expected 0 or more and below 1"));
}

// Nothing changes before an error: not the parameter in front of the one that does not fit, not the step
// count.
TEST(AdamW, Errors) {
  Tensor<float> a({{"p", 2}}), b({{"p", 3}}), short_gradient({{"p", 2}});
  a(0) = 1;
  std::vector<Parameter<float>> parameters = {as_parameter("a", a), as_parameter("b", b)};
  EXPECT_TRUE(throws<ShapeError>([&] { AdamW<float>({}, parameters, {{}}); },
                                 "AdamW: 1 rules, expected 2, one per parameter"));
  AdamW<float> optimizer({}, parameters, {{}, {}});
  EXPECT_TRUE(throws<ShapeError>([&] { optimizer.step(parameters, {parameters[0]}); },
                                 "AdamW: 1 gradients, expected 2, one per parameter"));
  std::vector<Parameter<float>> fewer = {parameters[0]};
  EXPECT_TRUE(throws<ShapeError>([&] { optimizer.step(fewer, parameters); },
                                 "AdamW: 1 parameters, expected 2, one per parameter"));
  const std::vector<Parameter<float>> gradients = {parameters[0], as_parameter("b", short_gradient)};
  EXPECT_TRUE(throws<ShapeError>([&] { optimizer.step(parameters, gradients); },
                                 "AdamW: b has 3 numbers, its gradient 2, its moments 3 and 3"));
  EXPECT_EQ(a(0), 1.0f);
  EXPECT_EQ(optimizer.step_count, 0);
}

}  // namespace adamw_test
}  // namespace glassbox
