// Faults that must turn this red: the embedding used although there is a head of its own; the head's empty
// weight used where they are tied.
#include "glassbox/lm_head.hpp"

#include "support/naive_model.hpp"

namespace glassbox {
namespace lm_head_test {

using test_support::make_tensor;
using test_support::naive_array;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(
    std::is_same_v<decltype(LMHead<float>().forward(Tensor<float>(), WeightMatrix())), Tensor<float>>);

template <typename Scalar>
class LMHeadTest : public ::testing::Test {};
TYPED_TEST_SUITE(LMHeadTest, Scalars, ScalarNames);

TYPED_TEST(LMHeadTest, WorkedExample) {
  const WeightMatrix embedding =
      WeightMatrix::from_tensor(make_tensor<TypeParam>({{"vocab", 3}, {"hidden", 2}}, {1, 0, 0, 1, 1, 1}));
  const Tensor<TypeParam> hidden_states =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 2}}, {3, 5});
  LMHead<TypeParam> lm_head;
  const Tensor<TypeParam> tied = lm_head.forward(hidden_states, embedding);
  EXPECT_EQ(shape_string(tied), "[batch=1, seq=1, vocab=3]");
  EXPECT_TRUE(near_values(tied, {3, 5, 8}, 0));
  lm_head.weight =
      WeightMatrix::from_tensor(make_tensor<TypeParam>({{"vocab", 3}, {"hidden", 2}}, {2, 0, 0, 2, -1, 1}));
  EXPECT_TRUE(near_values(lm_head.forward(hidden_states, embedding), {6, 10, 2}, 0));
}

TYPED_TEST(LMHeadTest, EqualsNaiveLoop) {
  const Tensor<TypeParam> table = random_tensor<TypeParam>({{"vocab", 37}, {"hidden", 13}}, 1);
  const Tensor<TypeParam> hidden_states =
      random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 13}}, 2);
  const naive::Array expected = naive::linear(naive_array(hidden_states), {naive_array(table), {}});
  const WeightMatrix weight = WeightMatrix::from_tensor(table);
  EXPECT_TRUE(near_values(LMHead<TypeParam>().forward(hidden_states, weight), expected.values,
                          5 * rounding<TypeParam>()));
}

TEST(LMHead, Errors) {
  const Tensor<float> hidden_states({{"batch", 1}, {"seq", 1}, {"hidden", 2}});
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        LMHead<float>().forward(hidden_states,
                                WeightMatrix::from_tensor(Tensor<float>({{"vocab", 3}, {"hidden", 4}})));
      },
      "matmul: input [batch=1, seq=1, hidden=2] does not fit weight [vocab=3, hidden=4]: the last axis of "
      "the input must be the weight's last axis"));
}

}  // namespace lm_head_test
}  // namespace glassbox
