// Faults that must turn this red: indices of matrix(i, j) exchanged; row() ignoring the reserved rows; a copy
// sharing memory or keeping the gaps; append_rows putting new rows first, or losing the old ones when it
// grows, or appending to matrix 0 only; index checks off by one.
#include "glassbox/tensor.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace tensor_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;

template <typename Scalar>
class TensorTest : public ::testing::Test {};
TYPED_TEST_SUITE(TensorTest, Scalars, ScalarNames);

// [2, 3]: rows 1 2 3 and 4 5 6, in this order in memory.
TYPED_TEST(TensorTest, WorkedExample) {
  Tensor<TypeParam> x = make_tensor<TypeParam>({{"seq", 2}, {"hidden", 3}}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(x.rank(), 2);
  EXPECT_EQ(x.size(), 6);
  EXPECT_EQ(x.rows(), 2);
  EXPECT_EQ(x.cols(), 3);
  EXPECT_EQ(x.matrices(), 1);
  EXPECT_EQ(x.dim(0), 2);
  EXPECT_STREQ(x.axis(1).name, "hidden");
  EXPECT_EQ(shape_string(x), "[seq=2, hidden=3]");
  EXPECT_EQ(x(1, 0), TypeParam(4));
  EXPECT_EQ(x.row(1)[2], TypeParam(6));
  EXPECT_EQ(x.matrix()(0, 1), TypeParam(2));
  x(0, 2) = TypeParam(30);
  EXPECT_EQ(x.data()[2], TypeParam(30));
}

TYPED_TEST(TensorTest, IsZeroAtFirst) {
  for (int i = 0; i < 20; ++i) {
    Tensor<TypeParam> x({{"batch", 3}, {"hidden", 17}});
    for (const double value : values_of(x)) ASSERT_EQ(value, 0.0);
    x.matrix().setConstant(TypeParam(7));  // what the next tensor of this size might find
  }
}

// Element [b, h, s, d] = 1000 b + 100 h + 10 s + d, seen in all ways.
TYPED_TEST(TensorTest, FourAxesSeenInAllWays) {
  Tensor<TypeParam> x({{"batch", 2}, {"head", 3}, {"seq", 5}, {"head_dim", 7}});
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 3; ++h) {
      for (Index s = 0; s < 5; ++s) {
        for (Index d = 0; d < 7; ++d) x(b, h, s, d) = TypeParam(1000 * b + 100 * h + 10 * s + d);
      }
    }
  }
  EXPECT_EQ(x.matrices(), 6);
  EXPECT_EQ(x.rows_per_matrix(), 5);
  EXPECT_EQ(x.rows(), 30);
  EXPECT_EQ(x.matrix(1, 2)(4, 6), TypeParam(1246));
  EXPECT_EQ(x.matrix(0, 2)(3, 1), TypeParam(231));
  EXPECT_EQ(x.row((1 * 3 + 2) * 5 + 4)[6], TypeParam(1246));
  EXPECT_EQ(x.data()[((1 * 3 + 0) * 5 + 2) * 7 + 3], TypeParam(1023));
}

TYPED_TEST(TensorTest, OneThreeAndNoAxes) {
  Tensor<TypeParam> vector = make_tensor<TypeParam>({{"hidden", 3}}, {1, 2, 3});
  EXPECT_EQ(vector.rows(), 1);
  EXPECT_EQ(vector.row(0)[2], TypeParam(3));
  EXPECT_EQ(vector.matrix().rows(), 1);
  Tensor<TypeParam> three = make_tensor<TypeParam>({{"batch", 2}, {"seq", 1}, {"hidden", 2}}, {1, 2, 3, 4});
  EXPECT_EQ(three.matrix(1)(0, 1), TypeParam(4));
  Tensor<TypeParam> none;
  EXPECT_EQ(none.rank(), 0);
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.rows(), 0);
  EXPECT_EQ(shape_string(none), "[]");
  Tensor<TypeParam> copy(none);
  EXPECT_EQ(copy.rank(), 0);
}

TYPED_TEST(TensorTest, EmptyAxis) {
  Tensor<TypeParam> x({{"batch", 2}, {"key", 0}, {"head_dim", 3}});
  EXPECT_EQ(x.size(), 0);
  EXPECT_EQ(x.rows(), 0);
  EXPECT_EQ(x.matrix(1).rows(), 0);
  Tensor<TypeParam> copy(x);
  EXPECT_EQ(shape_string(copy), "[batch=2, key=0, head_dim=3]");
}

TYPED_TEST(TensorTest, CopiesAreTheirOwn) {
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 5}}, 1);
  const std::vector<double> before = values_of(x);
  Tensor<TypeParam> copy(x);
  Tensor<TypeParam> assigned({{"hidden", 1}});
  assigned = x;
  copy(0, 0, 0) = TypeParam(9);
  assigned(1, 2, 4) = TypeParam(9);
  EXPECT_TRUE(near_values(x, before, 0));
  EXPECT_EQ(shape_string(assigned), "[batch=2, seq=3, hidden=5]");
  assigned = *&assigned;
  EXPECT_EQ(assigned(1, 2, 4), TypeParam(9));
}

TYPED_TEST(TensorTest, MovingKeepsTheMemory) {
  Tensor<TypeParam> x = random_tensor<TypeParam>({{"seq", 3}, {"hidden", 5}}, 2);
  const std::vector<double> before = values_of(x);
  const TypeParam* memory = x.data();
  Tensor<TypeParam> moved(std::move(x));
  EXPECT_EQ(moved.data(), memory);
  Tensor<TypeParam> assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.data(), memory);
  EXPECT_TRUE(near_values(assigned, before, 0));
}

TYPED_TEST(TensorTest, LikeTakesTheAxesOfAnotherType) {
  const Tensor<bool> mask({{"query", 2}, {"key", 3}});
  const Tensor<TypeParam> x = Tensor<TypeParam>::like(mask);
  EXPECT_EQ(shape_string(x), "[query=2, key=3]");
  EXPECT_EQ(Tensor<TypeParam>::like(Tensor<bool>()).rank(), 0);
}

// Two matrices [1, 2] and [1, 2] take two rows each: torch.cat along the second last axis.
TYPED_TEST(TensorTest, AppendRowsWorkedExample) {
  Tensor<TypeParam> x = make_tensor<TypeParam>({{"head", 2}, {"key", 1}, {"head_dim", 2}}, {1, 2, 3, 4});
  x.append_rows(
      make_tensor<TypeParam>({{"head", 2}, {"seq", 2}, {"head_dim", 2}}, {5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(shape_string(x), "[head=2, key=3, head_dim=2]");
  EXPECT_TRUE(near_values(x, {1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12}, 0));
  EXPECT_EQ(x.matrix(1)(0, 0), TypeParam(3));
  EXPECT_EQ(x.matrix(1)(2, 1), TypeParam(12));
  EXPECT_EQ(x(1, 1, 0), TypeParam(9));
}

// 100 single rows, one after the other: all views agree whatever room is reserved.
TYPED_TEST(TensorTest, GrowsRowByRow) {
  Tensor<TypeParam> x({{"batch", 2}, {"kv_head", 3}, {"key", 0}, {"head_dim", 2}});
  for (int key = 0; key < 100; ++key) {
    Tensor<TypeParam> row({{"batch", 2}, {"kv_head", 3}, {"seq", 1}, {"head_dim", 2}});
    for (Index b = 0; b < 2; ++b) {
      for (Index h = 0; h < 3; ++h) {
        for (Index d = 0; d < 2; ++d) row(b, h, 0, d) = TypeParam(10000 * b + 1000 * h + 10 * key + d);
      }
    }
    x.append_rows(row);
    ASSERT_EQ(x.dim(2), key + 1);
    ASSERT_EQ(x.rows(), 6 * (key + 1));
  }
  EXPECT_FALSE(x.contiguous());  // 128 rows are reserved, 100 in use
  const Tensor<TypeParam> copy(x);
  EXPECT_TRUE(copy.contiguous());
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 3; ++h) {
      for (Index key = 0; key < 100; ++key) {
        const TypeParam expected = TypeParam(10000 * b + 1000 * h + 10 * key + 1);
        ASSERT_EQ(x(b, h, key, 1), expected);
        ASSERT_EQ(x.matrix(b, h)(key, 1), expected);
        ASSERT_EQ(x.row((b * 3 + h) * 100 + key)[1], expected);
        ASSERT_EQ(copy(b, h, key, 1), expected);
      }
    }
  }
}

TYPED_TEST(TensorTest, AppendItself) {
  Tensor<TypeParam> x = make_tensor<TypeParam>({{"key", 2}, {"head_dim", 1}}, {1, 2});
  x.append_rows(x);
  EXPECT_TRUE(near_values(x, {1, 2, 1, 2}, 0));
  x.append_rows(Tensor<TypeParam>({{"seq", 0}, {"head_dim", 1}}));
  EXPECT_TRUE(near_values(x, {1, 2, 1, 2}, 0));
}

TEST(Tensor, IndexErrors) {
  Tensor<float> x({{"batch", 2}, {"head", 3}, {"query", 4}, {"key", 5}});
  const std::string start = "Tensor [batch=2, head=3, query=4, key=5]: ";
  EXPECT_TRUE(throws<ShapeError>([&] { x(0, 0, 4, 0); }, start + "query 4 is not in 0..3"));
  EXPECT_TRUE(throws<ShapeError>([&] { x(-1, 0, 0, 0); }, start + "batch -1 is not in 0..1"));
  EXPECT_TRUE(throws<ShapeError>([&] { x(0, 0, 0); }, start + "number of indices 3 is not in 0..4"));
  EXPECT_TRUE(throws<ShapeError>([&] { x.row(24); }, start + "row 24 is not in 0..23"));
  EXPECT_TRUE(throws<ShapeError>([&] { x.row(-1); }, start + "row -1 is not in 0..23"));
  EXPECT_TRUE(throws<ShapeError>([&] { x.matrix(2, 0); }, start + "matrix 2 is not in 0..1"));
  EXPECT_TRUE(throws<ShapeError>([&] { x.matrix(0, 3); }, start + "matrix 3 is not in 0..2"));
  EXPECT_TRUE(throws<ShapeError>([&] { x.axis(4); }, start + "axis 4 is not in 0..3"));
  EXPECT_TRUE(throws<ShapeError>([&] { x.dim(-1); }, start + "axis -1 is not in 0..3"));
  EXPECT_NO_THROW(x(1, 2, 3, 4));
  EXPECT_NO_THROW(x.row(23));
  EXPECT_NO_THROW(x.matrix(1, 2));
}

TEST(Tensor, SizeErrors) {
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        Tensor<float>({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}});
      },
      "Tensor: at most 4 axes, got [a=1, b=1, c=1, d=1, e=1]"));
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        Tensor<float>({{"seq", -1}});
      },
      "Tensor [seq=-1]: a size is negative"));
}

TEST(Tensor, AppendErrors) {
  Tensor<float> x({{"head", 2}, {"key", 1}, {"head_dim", 4}});
  const Tensor<float> narrower({{"head", 2}, {"seq", 1}, {"head_dim", 3}});
  const Tensor<float> flatter({{"seq", 1}, {"head_dim", 4}});
  const Tensor<float> fewer({{"head", 1}, {"seq", 1}, {"head_dim", 4}});
  const std::string start = "Tensor::append_rows: [head=2, key=1, head_dim=4] cannot take ";
  const std::string end = ": all axes but the second last must agree";
  EXPECT_TRUE(
      throws<ShapeError>([&] { x.append_rows(narrower); }, start + "[head=2, seq=1, head_dim=3]" + end));
  EXPECT_TRUE(throws<ShapeError>([&] { x.append_rows(flatter); }, start + "[seq=1, head_dim=4]" + end));
  EXPECT_TRUE(throws<ShapeError>([&] { x.append_rows(fewer); }, start + "[head=1, seq=1, head_dim=4]" + end));
  Tensor<float> vector({{"hidden", 2}});
  EXPECT_TRUE(throws<ShapeError>([&] { vector.append_rows(vector); },
                                 "Tensor::append_rows: [hidden=2] cannot take [hidden=2]" + end));
}

TEST(Tensor, TruncateRowsForgetsTheLast) {
  Tensor<float> tensor({{"batch", 2}, {"key", 3}, {"d", 1}});
  for (Index r = 0; r < 6; ++r) tensor.row(r)[0] = static_cast<float>(r);
  tensor.truncate_rows(1);
  EXPECT_EQ(shape_string(tensor), "[batch=2, key=1, d=1]");
  EXPECT_EQ(tensor(0, 0, 0), 0.0f);
  EXPECT_EQ(tensor(1, 0, 0), 3.0f);
  Tensor<float> more({{"batch", 2}, {"key", 1}, {"d", 1}});
  more(1, 0, 0) = 9;
  tensor.append_rows(more);
  EXPECT_EQ(tensor(1, 0, 0), 3.0f);
  EXPECT_EQ(tensor(1, 1, 0), 9.0f);
  EXPECT_THROW(tensor.truncate_rows(3), ShapeError);
  EXPECT_THROW(tensor.truncate_rows(-1), ShapeError);
}

}  // namespace tensor_test
}  // namespace glassbox
