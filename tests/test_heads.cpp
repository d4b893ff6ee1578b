// Faults that must turn this red: the memory viewed as [head, seq] without the transposition; heads taken as
// every n-th column; batch 0 split for all; merge in another order than split.
#include "glassbox/heads.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace heads_test {

using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(split_heads(Tensor<float>(), 1)), Tensor<float>>);
static_assert(std::is_same_v<decltype(merge_heads(Tensor<float>())), Tensor<float>>);

template <typename Scalar>
class HeadsTest : public ::testing::Test {};
TYPED_TEST_SUITE(HeadsTest, Scalars, ScalarNames);

// Two positions, two heads of three: 1 2 3 | 4 5 6 and 7 8 9 | 10 11 12.
TYPED_TEST(HeadsTest, WorkedExample) {
  const Tensor<TypeParam> projection = make_tensor<TypeParam>(
      {{"batch", 1}, {"seq", 2}, {"heads*head_dim", 6}}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor<TypeParam> heads = split_heads(projection, 2);
  EXPECT_EQ(shape_string(heads), "[batch=1, head=2, seq=2, head_dim=3]");
  EXPECT_TRUE(near_values(heads, {1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12}, 0));
  const Tensor<TypeParam> merged = merge_heads(heads);
  EXPECT_EQ(shape_string(merged), "[batch=1, seq=2, heads*head_dim=6]");
  EXPECT_TRUE(near_tensors(merged, projection, 0));
  EXPECT_EQ(shape_string(split_heads(projection, 3, "kv_head")), "[batch=1, kv_head=3, seq=2, head_dim=2]");
}

TYPED_TEST(HeadsTest, EqualsNaiveLoop) {
  const Tensor<TypeParam> projection =
      random_tensor<TypeParam>({{"batch", 3}, {"seq", 5}, {"hidden", 14}}, 1);
  for (const Index num_heads : {1, 2, 7, 14}) {
    const Index head_dim = 14 / num_heads;
    const Tensor<TypeParam> heads = split_heads(projection, num_heads);
    for (Index b = 0; b < 3; ++b) {
      for (Index h = 0; h < num_heads; ++h) {
        for (Index s = 0; s < 5; ++s) {
          for (Index d = 0; d < head_dim; ++d) {
            ASSERT_EQ(heads(b, h, s, d), projection(b, s, h * head_dim + d));
          }
        }
      }
    }
    EXPECT_TRUE(near_tensors(merge_heads(heads), projection, 0));
  }
}

TEST(Heads, Errors) {
  const Tensor<float> projection({{"batch", 1}, {"seq", 2}, {"heads*head_dim", 6}});
  const std::string start = "split_heads: projection [batch=1, seq=2, heads*head_dim=6] does not split into ";
  EXPECT_TRUE(throws<ShapeError>([&] { split_heads(projection, 4); }, start + "4 heads of equal width"));
  EXPECT_TRUE(throws<ShapeError>([&] { split_heads(projection, 0); }, start + "0 heads of equal width"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        split_heads(Tensor<float>({{"seq", 2}}), 1);
      },
      "split_heads: projection [seq=2] has 1 axes, expected 3"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { merge_heads(projection); },
                         "merge_heads: heads [batch=1, seq=2, heads*head_dim=6] has 3 axes, expected 4"));
}

}  // namespace heads_test
}  // namespace glassbox
