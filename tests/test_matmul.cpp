// Faults that must turn this red: the weight not transposed; a stored type read as another; the last block of
// rows left out; the last axis keeping the input's name; input with gaps accepted; an element left over at
// odd depths.
#include "glassbox/matmul.hpp"

#include <cstring>

#include "support/naive_model.hpp"

namespace glassbox {
namespace matmul_test {

using test_support::make_tensor;
using test_support::naive_array;
using test_support::naive_weight;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(matmul(Tensor<float>(), WeightMatrix())), Tensor<float>>);
static_assert(std::is_same_v<decltype(matmul_reference(Tensor<double>(), WeightMatrix())), Tensor<double>>);

template <typename Scalar>
class MatmulTest : public ::testing::Test {};
TYPED_TEST_SUITE(MatmulTest, Scalars, ScalarNames);

// [1 2 3] against the rows [1 0 0] and [4 5 6]: 1 and 4 + 10 + 18 = 32.
TYPED_TEST(MatmulTest, WorkedExample) {
  const Tensor<TypeParam> input =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"hidden", 3}}, {1, 2, 3, -1, 0, 2});
  const WeightMatrix weight =
      WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 2}, {"in", 3}}, {1, 0, 0, 4, 5, 6}));
  const Tensor<TypeParam> output = matmul(input, weight);
  EXPECT_EQ(shape_string(output), "[batch=1, seq=2, out=2]");
  EXPECT_TRUE(near_values(output, {1, 32, -1, 8}, 0));
  EXPECT_TRUE(near_values(matmul_reference(input, weight), {1, 32, -1, 8}, 0));
}

// A matrix of small whole numbers in each stored type: both 16-bit types hold them exactly.
template <typename Scalar>
WeightMatrix stored_weight(StoredType type, Index out, Index in, std::vector<std::byte>& memory) {
  const Tensor<float> tensor = random_tensor<float>({{"out", out}, {"in", in}}, 11, 8);
  WeightMatrix weight;
  weight.type = type;
  weight.out = {"out", out};
  weight.in = {"in", in};
  memory.resize(static_cast<std::size_t>(weight.bytes()) + 8);
  for (Index i = 0; i < tensor.size(); ++i) {
    const float value = std::round(tensor.data()[i]);
    const double wide = value;
    const Eigen::half half(value);
    const Eigen::bfloat16 bfloat16(value);
    const void* source = type == StoredType::f32   ? static_cast<const void*>(&value)
                         : type == StoredType::f64 ? static_cast<const void*>(&wide)
                         : type == StoredType::f16 ? static_cast<const void*>(&half)
                                                   : static_cast<const void*>(&bfloat16);
    const std::size_t bytes = static_cast<std::size_t>(stored_type_bytes(type));
    std::memcpy(memory.data() + static_cast<std::size_t>(i) * bytes, source, bytes);
  }
  weight.borrowed = memory.data();
  return weight;
}

// Every stored type at sizes below, at and above the blocks of 4 outputs and 16 inputs of the kernel.
TYPED_TEST(MatmulTest, EqualsNaiveLoopForEveryStoredTypeAndSize) {
  for (const StoredType type : {StoredType::f32, StoredType::f64, StoredType::f16, StoredType::bf16}) {
    for (const Index out : {1, 3, 4, 5, 13}) {
      for (const Index in : {1, 7, 16, 17, 37}) {
        std::vector<std::byte> memory;
        const WeightMatrix weight = stored_weight<TypeParam>(type, out, in, memory);
        const Tensor<TypeParam> input = random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"in", in}}, 12);
        const naive::Array expected = naive::linear(naive_array(input), {naive_weight(weight), {}});
        const double tolerance = 40 * rounding<TypeParam>();
        EXPECT_TRUE(near_values(matmul(input, weight), expected.values, tolerance))
            << stored_type_name(type) << " " << out << " " << in;
        EXPECT_TRUE(near_values(matmul_reference(input, weight), expected.values, tolerance))
            << stored_type_name(type) << " " << out << " " << in;
      }
    }
  }
}

TYPED_TEST(MatmulTest, OneAndFourAxes) {
  const WeightMatrix weight = WeightMatrix::from_tensor(random_tensor<TypeParam>({{"out", 5}, {"in", 3}}, 1));
  const Tensor<TypeParam> vector = random_tensor<TypeParam>({{"hidden", 3}}, 2);
  EXPECT_EQ(shape_string(matmul(vector, weight)), "[out=5]");
  const Tensor<TypeParam> four = random_tensor<TypeParam>({{"a", 2}, {"b", 1}, {"c", 2}, {"hidden", 3}}, 3);
  EXPECT_EQ(shape_string(matmul(four, weight)), "[a=2, b=1, c=2, out=5]");
  EXPECT_TRUE(near_tensors(matmul(four, weight), matmul_reference(four, weight), rounding<TypeParam>()));
}

TYPED_TEST(MatmulTest, NoPositionsGiveNoOutput) {
  const WeightMatrix weight = WeightMatrix::from_tensor(random_tensor<TypeParam>({{"out", 5}, {"in", 3}}, 1));
  const Tensor<TypeParam> input({{"batch", 1}, {"seq", 0}, {"hidden", 3}});
  EXPECT_EQ(shape_string(matmul(input, weight)), "[batch=1, seq=0, out=5]");
}

TYPED_TEST(MatmulTest, NaNStaysWhereItIs) {
  const WeightMatrix weight = WeightMatrix::from_tensor(random_tensor<TypeParam>({{"out", 5}, {"in", 3}}, 1));
  Tensor<TypeParam> input = random_tensor<TypeParam>({{"seq", 2}, {"hidden", 3}}, 2);
  input(0, 1) = std::numeric_limits<TypeParam>::quiet_NaN();
  const Tensor<TypeParam> output = matmul(input, weight);
  for (Index o = 0; o < 5; ++o) {
    EXPECT_TRUE(std::isnan(output(0, o)));
    EXPECT_TRUE(std::isfinite(output(1, o)));
  }
}

// The same numbers at every length of the batch: a prompt in one pass and in chunks gives the same bits.
TYPED_TEST(MatmulTest, EachRowIsTheSameAloneAndAmongOthers) {
  const WeightMatrix weight =
      WeightMatrix::from_tensor(random_tensor<TypeParam>({{"out", 13}, {"in", 37}}, 1));
  const Tensor<TypeParam> input = random_tensor<TypeParam>({{"seq", 6}, {"hidden", 37}}, 2);
  const Tensor<TypeParam> together = matmul(input, weight);
  for (Index s = 0; s < 6; ++s) {
    Tensor<TypeParam> one({{"seq", 1}, {"hidden", 37}});
    one.row(0) = input.row(s);
    const Tensor<TypeParam> alone = matmul(one, weight);
    for (Index o = 0; o < 13; ++o) EXPECT_EQ(alone(0, o), together(s, o));
  }
}

TYPED_TEST(MatmulTest, ProductsOfTwoMatrices) {
  const Tensor<TypeParam> a = make_tensor<TypeParam>({{"r", 2}, {"i", 3}}, {1, 2, 3, 4, 5, 6});
  const Tensor<TypeParam> b = make_tensor<TypeParam>({{"o", 1}, {"i", 3}}, {1, 10, 100});
  Tensor<TypeParam> transposed({{"r", 2}, {"o", 1}});
  multiply_transposed<TypeParam>(a.matrix(), b.matrix(), transposed.matrix());
  EXPECT_TRUE(near_values(transposed, {321, 654}, 0));

  const Tensor<TypeParam> c = make_tensor<TypeParam>({{"i", 3}, {"c", 2}}, {1, 0, 0, 1, 10, 100});
  Tensor<TypeParam> product({{"r", 2}, {"c", 2}});
  product.matrix().setConstant(TypeParam(99));  // what was there must not matter
  multiply<TypeParam>(a.matrix(), c.matrix(), product.matrix());
  EXPECT_TRUE(near_values(product, {31, 302, 64, 605}, 0));
}

TEST(Matmul, Errors) {
  const WeightMatrix weight = WeightMatrix::from_tensor(random_tensor<float>({{"out", 5}, {"in", 3}}, 1));
  const Tensor<float> wide({{"seq", 1}, {"hidden", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { matmul(wide, weight); },
                                 "matmul: input [seq=1, hidden=4] does not fit weight [out=5, in=3]: the "
                                 "last axis of the input must be the weight's last axis"));
  EXPECT_TRUE(throws<ShapeError>([&] { matmul(Tensor<float>(), weight); },
                                 "matmul: input [] does not fit weight [out=5, in=3]: the last axis of the "
                                 "input must be the weight's last axis"));
  WeightMatrix missing;
  missing.out = {"vocab", 7};
  missing.in = {"hidden", 4};
  EXPECT_TRUE(throws<ShapeError>([&] { matmul(wide, missing); },
                                 "matmul: weight [vocab=7, hidden=4] was never loaded"));
  Tensor<float> gaps({{"head", 2}, {"key", 1}, {"hidden", 3}});
  gaps.append_rows(gaps);
  gaps.append_rows(Tensor<float>({{"head", 2}, {"key", 1}, {"hidden", 3}}));
  EXPECT_TRUE(throws<ShapeError>([&] { matmul(gaps, weight); },
                                 "matmul: input [head=2, key=3, hidden=3] has gaps between its rows"));
}

TEST(Matmul, ErrorsOfProductsOfTwoMatrices) {
  const Tensor<float> a({{"r", 2}, {"i", 3}});
  const Tensor<float> b({{"r", 4}, {"i", 5}});
  Tensor<float> output({{"r", 2}, {"o", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { multiply_transposed<float>(a.matrix(), b.matrix(), output.matrix()); },
                                 "multiply_transposed: [2, 3] . [4, 5]^T does not give [2, 4]"));
  EXPECT_TRUE(throws<ShapeError>([&] { multiply<float>(a.matrix(), b.matrix(), output.matrix()); },
                                 "multiply: [2, 3] . [4, 5] does not give [2, 4]"));
  Tensor<float> as_wide({{"r", 2}, {"o", 5}});
  EXPECT_TRUE(throws<ShapeError>([&] { multiply<float>(a.matrix(), b.matrix(), as_wide.matrix()); },
                                 "multiply: [2, 3] . [4, 5] does not give [2, 5]"));
  const Tensor<float> c({{"r", 4}, {"i", 3}});
  Tensor<float> narrow({{"r", 2}, {"o", 3}});
  EXPECT_TRUE(throws<ShapeError>([&] { multiply_transposed<float>(a.matrix(), c.matrix(), narrow.matrix()); },
                                 "multiply_transposed: [2, 3] . [4, 3]^T does not give [2, 3]"));
}

}  // namespace matmul_test
}  // namespace glassbox
