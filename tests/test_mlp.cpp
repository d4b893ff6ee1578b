// Faults that must turn this red: gate and up exchanged; the activation left out or put behind the product; a
// sum for the product; a bias ignored; a stage left out or under another name.
#include "glassbox/mlp.hpp"

#include "support/naive_model.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace mlp_test {

using test_support::make_tensor;
using test_support::naive_array;
using test_support::naive_mlp;
using test_support::near_values;
using test_support::random_linear;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(MLP<float>().forward(Tensor<float>())), Tensor<float>>);

template <typename Scalar>
class MLPTest : public ::testing::Test {
 protected:
  static MLP<Scalar> random_mlp(bool bias) {
    RandomGenerator random(3);
    MLP<Scalar> mlp;
    mlp.gate_proj = random_linear<Scalar>({"intermediate", 11}, {"hidden", 6}, bias, random);
    mlp.up_proj = random_linear<Scalar>({"intermediate", 11}, {"hidden", 6}, bias, random);
    mlp.down_proj = random_linear<Scalar>({"hidden", 6}, {"intermediate", 11}, bias, random);
    mlp.layer = 4;
    return mlp;
  }
};
TYPED_TEST_SUITE(MLPTest, Scalars, ScalarNames);

// One number in, one inside, one out: gate 1, up 10, down 2 make 2 * silu(x) * 10 x, and silu(ln 3) = 3/4
// ln 3.
TYPED_TEST(MLPTest, WorkedExample) {
  MLP<TypeParam> mlp;
  mlp.gate_proj.weight = WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 1}, {"in", 1}}, {1}));
  mlp.up_proj.weight = WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 1}, {"in", 1}}, {10}));
  mlp.down_proj.weight = WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 1}, {"in", 1}}, {2}));
  const double ln3 = std::log(3.0);
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"hidden", 1}}, {ln3, -ln3});
  const double squared = ln3 * ln3;
  EXPECT_TRUE(near_values(mlp.forward(x), {15 * squared, 5 * squared}, 20 * rounding<TypeParam>()));
}

TYPED_TEST(MLPTest, EqualsNaiveLoop) {
  for (const bool bias : {false, true}) {
    const MLP<TypeParam> mlp = this->random_mlp(bias);
    const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 6}}, 4, 2);
    const naive::Array expected = naive::mlp(naive_array(x), naive_mlp(mlp));
    const Tensor<TypeParam> output = mlp.forward(x);
    EXPECT_EQ(shape_string(output), "[batch=2, seq=3, hidden=6]");
    EXPECT_TRUE(near_values(output, expected.values, 10 * rounding<TypeParam>())) << bias;
  }
}

TYPED_TEST(MLPTest, StagesInTheirOrder) {
  const MLP<TypeParam> mlp = this->random_mlp(false);
  std::string passed;
  ScopedStageHook hook([&](StageRecord& record) {
    passed += std::string(record.name) + " ";
    EXPECT_EQ(record.layer, 4);
  });
  mlp.forward(random_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 6}}, 4));
  EXPECT_EQ(passed, "gate_proj up_proj activated gated down_proj ");
}

TEST(MLP, Errors) {
  MLP<float> mlp;
  mlp.gate_proj.weight = WeightMatrix::from_tensor(Tensor<float>({{"intermediate", 3}, {"hidden", 2}}));
  mlp.up_proj.weight = WeightMatrix::from_tensor(Tensor<float>({{"intermediate", 4}, {"hidden", 2}}));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        mlp.forward(Tensor<float>({{"batch", 1}, {"seq", 1}, {"hidden", 5}}));
      },
      "matmul: input [batch=1, seq=1, hidden=5] does not fit weight [intermediate=3, hidden=2]: the last "
      "axis of the input must be the weight's last axis"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        mlp.forward(Tensor<float>({{"batch", 1}, {"seq", 1}, {"hidden", 2}}));
      },
      "multiply_elementwise: a [batch=1, seq=1, intermediate=3] and b [batch=1, seq=1, intermediate=4] must "
      "have the same shape"));
}

}  // namespace mlp_test
}  // namespace glassbox
