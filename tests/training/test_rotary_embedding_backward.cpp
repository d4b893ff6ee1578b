// Faults that must turn this red: the rotation done forwards a second time; cos turned round too; the tables
// of another position or text.
#include "glassbox/training/rotary_embedding_backward.hpp"

#include "support/gradient_check.hpp"

namespace glassbox {
namespace rotary_embedding_backward_test {

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
class RotaryBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(RotaryBackwardTest, Scalars, ScalarNames);

// cos a = 0.6, sin a = 0.8: (1, 2) turned back is (1*0.6 + 2*0.8, 2*0.6 - 1*0.8).
TYPED_TEST(RotaryBackwardTest, WorkedExample) {
  const Tensor<TypeParam> d_output =
      make_tensor<TypeParam>({{"batch", 1}, {"head", 1}, {"seq", 1}, {"head_dim", 2}}, {1, 2});
  const Tensor<TypeParam> cos =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"head_dim", 2}}, {0.6, 0.6});
  const Tensor<TypeParam> sin =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"head_dim", 2}}, {0.8, 0.8});
  const Tensor<TypeParam> d_heads = rotary_backward(d_output, cos, sin);
  EXPECT_EQ(shape_string(d_heads), "[batch=1, head=1, seq=1, head_dim=2]");
  EXPECT_TRUE(near_values(d_heads, {2.2, 0.4}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(sin, {double(TypeParam(0.8)), double(TypeParam(0.8))}, 0));
}

// Two texts of which the second begins with padding, so that their positions differ.
template <typename Scalar>
RotaryTables<Scalar> tables() {
  const Tensor<std::int64_t> position_ids =
      make_tensor<std::int64_t>({{"batch", 2}, {"seq", 3}}, {0, 1, 2, 0, 0, 1});
  return RotaryEmbedding<Scalar>::from_theta(4, 100).forward(position_ids);
}

TYPED_TEST(RotaryBackwardTest, TurnsTheRotationBack) {
  const Tensor<TypeParam> heads =
      random_tensor<TypeParam>({{"batch", 2}, {"head", 3}, {"seq", 3}, {"head_dim", 4}}, 1);
  const RotaryTables<TypeParam> rotary = tables<TypeParam>();
  const Tensor<TypeParam> turned = apply_rotary_pos_emb(heads, rotary.cos, rotary.sin);
  EXPECT_TRUE(near_tensors(rotary_backward(turned, rotary.cos, rotary.sin), heads, rounding<TypeParam>()));
}

TEST(RotaryBackward, EqualsCentralDifferences) {
  Tensor<double> heads = random_tensor<double>({{"batch", 2}, {"head", 2}, {"seq", 3}, {"head_dim", 4}}, 1);
  const Tensor<double> weights =
      random_tensor<double>({{"batch", 2}, {"head", 2}, {"seq", 3}, {"head_dim", 4}}, 2);
  const RotaryTables<double> rotary = tables<double>();
  const Tensor<double> d_heads = rotary_backward(weights, rotary.cos, rotary.sin);
  EXPECT_TRUE(gradient_agrees("heads", heads, d_heads, [&] {
    return weighted_sum(apply_rotary_pos_emb(heads, rotary.cos, rotary.sin), weights);
  }));
  const RotaryTables<float> narrow = tables<float>();
  EXPECT_TRUE(near_tensors(
      rotary_backward(random_tensor<float>({{"batch", 2}, {"head", 2}, {"seq", 3}, {"head_dim", 4}}, 2),
                      narrow.cos, narrow.sin),
      d_heads, 1e-6));
}

TEST(RotaryBackward, Errors) {
  const Tensor<float> d_output({{"batch", 1}, {"head", 1}, {"seq", 2}, {"head_dim", 4}});
  const Tensor<float> table({{"batch", 1}, {"seq", 3}, {"head_dim", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { rotary_backward(d_output, table, table); },
                                 "apply_rotary_pos_emb: cos [batch=1, seq=3, head_dim=4]: axis 1 must have 2 "
                                 "elements (positions of the heads)"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        rotary_backward(d_output, table, Tensor<float>({{"batch", 1}, {"seq", 3}, {"head_dim", 2}}));
      },
      "apply_rotary_pos_emb: cos [batch=1, seq=3, head_dim=4] and sin [batch=1, seq=3, head_dim=2] must have "
      "the same shape"));
}

}  // namespace rotary_embedding_backward_test
}  // namespace glassbox
