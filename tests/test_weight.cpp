// Faults that must turn this red: rows read with the stride of another type; a borrowed matrix copied; a copy
// of an owned one sharing; f16 read as bf16; bounds off by one; the type's name or width wrong.
#include "glassbox/weight.hpp"

#include <array>

#include "support/expect_near.hpp"

namespace glassbox {
namespace weight_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

template <typename Scalar>
class WeightTest : public ::testing::Test {};
TYPED_TEST_SUITE(WeightTest, Scalars, ScalarNames);

// The matrix 1 2 3 / -0.5 0.25 1024 in each 16-bit type; both hold these numbers exactly.
constexpr std::array<std::uint16_t, 6> half_bits = {0x3C00, 0x4000, 0x4200, 0xB800, 0x3400, 0x6400};
constexpr std::array<std::uint16_t, 6> bfloat16_bits = {0x3F80, 0x4000, 0x4040, 0xBF00, 0x3E80, 0x4480};

WeightMatrix borrowed_weight(StoredType type, const void* numbers) {
  WeightMatrix weight;
  weight.type = type;
  weight.out = {"out", 2};
  weight.in = {"in", 3};
  weight.borrowed = static_cast<const std::byte*>(numbers);
  return weight;
}

template <typename Scalar>
void expect_rows(const WeightMatrix& weight, double tolerance = 0) {
  Tensor<Scalar> row({{"in", 3}});
  weight.read_row(0, row.row(0));
  EXPECT_TRUE(near_values(row, {1, 2, 3}, tolerance)) << stored_type_name(weight.type);
  weight.read_row(1, row.row(0));
  EXPECT_TRUE(near_values(row, {-0.5, 0.25, 1024}, tolerance)) << stored_type_name(weight.type);
}

TYPED_TEST(WeightTest, ReadsRowsOfEveryStoredType) {
  const float f32[] = {1, 2, 3, -0.5f, 0.25f, 1024};
  const double f64[] = {1, 2, 3, -0.5, 0.25, 1024};
  expect_rows<TypeParam>(borrowed_weight(StoredType::f32, f32));
  expect_rows<TypeParam>(borrowed_weight(StoredType::f64, f64));
  expect_rows<TypeParam>(borrowed_weight(StoredType::f16, half_bits.data()));
  expect_rows<TypeParam>(borrowed_weight(StoredType::bf16, bfloat16_bits.data()));
}

TYPED_TEST(WeightTest, FromTensorOwnsTheNumbers) {
  Tensor<TypeParam> tensor =
      make_tensor<TypeParam>({{"hidden", 2}, {"intermediate", 3}}, {1, 2, 3, -0.5, 0.25, 1024});
  const WeightMatrix weight = WeightMatrix::from_tensor(tensor);
  tensor.matrix().setZero();
  EXPECT_EQ(shape_string(weight), "[hidden=2, intermediate=3]");
  EXPECT_EQ(weight.bytes(), Index(6 * sizeof(TypeParam)));
  EXPECT_FALSE(weight.empty());
  EXPECT_STREQ(stored_type_name(weight.type), dtype_name<TypeParam>());
  expect_rows<TypeParam>(weight);
  WeightMatrix copy = weight;
  copy.owned.assign(copy.owned.size(), std::byte{0});
  expect_rows<TypeParam>(weight);
}

// A key/value tensor with room for more rows has gaps between its matrices' rows in memory, not within [2,
// 3].
TYPED_TEST(WeightTest, FromTensorWithReservedRows) {
  Tensor<TypeParam> tensor({{"out", 0}, {"in", 3}});
  tensor.append_rows(make_tensor<TypeParam>({{"out", 1}, {"in", 3}}, {1, 2, 3}));
  tensor.append_rows(make_tensor<TypeParam>({{"out", 1}, {"in", 3}}, {-0.5, 0.25, 1024}));
  expect_rows<TypeParam>(WeightMatrix::from_tensor(tensor));
}

TEST(Weight, EmptyTensorGivesAnEmptyMatrix) {
  EXPECT_TRUE(WeightMatrix::from_tensor(Tensor<float>({{"out", 2}, {"in", 0}})).empty());
  EXPECT_TRUE(WeightMatrix::from_tensor(Tensor<float>({{"out", 0}, {"in", 2}})).empty());
}

// What the file stores in 64 bits arrives in a double unrounded, and rounded in a float.
TEST(Weight, DoubleIsNotRoundedOnTheWay) {
  const double third[] = {1.0 / 3, 2.0 / 3, 1, 0, 0, 0};
  Tensor<double> f64({{"in", 3}});
  borrowed_weight(StoredType::f64, third).read_row(0, f64.row(0));
  EXPECT_EQ(f64(0), 1.0 / 3);
  Tensor<float> f32({{"in", 3}});
  borrowed_weight(StoredType::f64, third).read_row(0, f32.row(0));
  EXPECT_EQ(f32(0), static_cast<float>(1.0 / 3));
}

TEST(Weight, BorrowsWithoutCopyingAndKeepsTheFileOpen) {
  std::shared_ptr<float[]> file(new float[6]{1, 2, 3, -0.5f, 0.25f, 1024});
  WeightMatrix weight = borrowed_weight(StoredType::f32, file.get());
  weight.borrowed_from = file;
  EXPECT_EQ(weight.values<float>(), file.get());
  const WeightMatrix copy = weight;
  EXPECT_EQ(copy.values<float>(), file.get());
  EXPECT_TRUE(copy.owned.empty());
  EXPECT_EQ(file.use_count(), 3);
  file.reset();
  weight = WeightMatrix();
  expect_rows<float>(copy);  // the sanitizer sees a file that was closed too early
}

TEST(Weight, EmptyUntilLoaded) {
  EXPECT_TRUE(WeightMatrix().empty());
  EXPECT_EQ(WeightMatrix().data(), nullptr);
  EXPECT_EQ(WeightMatrix().bytes(), 0);
}

TEST(Weight, TypesHaveNamesAndWidths) {
  EXPECT_STREQ(stored_type_name(StoredType::f32), "f32");
  EXPECT_STREQ(stored_type_name(StoredType::f64), "f64");
  EXPECT_STREQ(stored_type_name(StoredType::f16), "f16");
  EXPECT_STREQ(stored_type_name(StoredType::bf16), "bf16");
  EXPECT_EQ(stored_type_bytes(StoredType::f32), 4);
  EXPECT_EQ(stored_type_bytes(StoredType::f64), 8);
  EXPECT_EQ(stored_type_bytes(StoredType::f16), 2);
  EXPECT_EQ(stored_type_bytes(StoredType::bf16), 2);
  EXPECT_EQ(borrowed_weight(StoredType::f16, half_bits.data()).bytes(), 12);
}

TEST(Weight, Errors) {
  const WeightMatrix weight = borrowed_weight(StoredType::f16, half_bits.data());
  Tensor<float> row({{"in", 3}});
  Tensor<float> longer({{"in", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { weight.read_row(2, row.row(0)); },
                                 "WeightMatrix::read_row: row 2 of [out=2, in=3] into a row of 3"));
  EXPECT_TRUE(throws<ShapeError>([&] { weight.read_row(-1, row.row(0)); },
                                 "WeightMatrix::read_row: row -1 of [out=2, in=3] into a row of 3"));
  EXPECT_TRUE(throws<ShapeError>([&] { weight.read_row(0, longer.row(0)); },
                                 "WeightMatrix::read_row: row 0 of [out=2, in=3] into a row of 4"));
  EXPECT_TRUE(throws<ConfigError>([&] { weight.values<BFloat16>(); },
                                  "weight [out=2, in=3] is stored as f16, not bf16"));
  EXPECT_TRUE(
      throws<ConfigError>([&] { weight.values<float>(); }, "weight [out=2, in=3] is stored as f16, not f32"));
  EXPECT_TRUE(throws<ShapeError>([&] { WeightMatrix::from_tensor(row); },
                                 "WeightMatrix::from_tensor: [in=3] must be [out, in]"));
}

TEST(WeightMatrix, AMovedFromMatrixIsEmpty) {
  std::shared_ptr<float> numbers(new float[6]{}, [](float* pointer) { delete[] pointer; });
  WeightMatrix borrowed;
  borrowed.out = {"out", 2};
  borrowed.in = {"in", 3};
  borrowed.borrowed = reinterpret_cast<const std::byte*>(numbers.get());
  borrowed.borrowed_from = numbers;
  const WeightMatrix taken = std::move(borrowed);
  EXPECT_FALSE(taken.empty());
  EXPECT_TRUE(borrowed.empty());  // NOLINT: what a move leaves is the subject
  WeightMatrix owned = WeightMatrix::from_tensor(Tensor<float>({{"out", 2}, {"in", 3}}));
  WeightMatrix target;
  target = std::move(owned);
  EXPECT_FALSE(target.empty());
  EXPECT_TRUE(owned.empty());  // NOLINT
}

TEST(WeightMatrix, RowsOfAnEmptyMatrix) {
  WeightMatrix weight;
  weight.out = {"out", 2};
  weight.in = {"in", 3};
  Tensor<float> row({{"in", 3}});
  EXPECT_TRUE(throws<ShapeError>([&] { weight.read_row(0, row.row(0)); },
                                 "WeightMatrix::read_row: [out=2, in=3] was never loaded"));
}

}  // namespace weight_test
}  // namespace glassbox
