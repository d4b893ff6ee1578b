// Faults that must turn this red: a name of 24 characters taken (no room for its end); the separator of
// shape_string; f64 printed as f32; names printed after sizes.
#include "glassbox/axis.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace axis_test {

using test_support::throws;

TEST(Axis, HoldsItsNameInside) {
  const Axis axis("hidden", 64);
  EXPECT_STREQ(axis.name, "hidden");
  EXPECT_EQ(axis.size, 64);
  const char* begin = reinterpret_cast<const char*>(&axis);
  EXPECT_GE(static_cast<const char*>(axis.name), begin);
  EXPECT_LT(static_cast<const char*>(axis.name), begin + sizeof axis);
}

TEST(Axis, DefaultIsNamelessAndEmpty) {
  const Axis axis;
  EXPECT_STREQ(axis.name, "");
  EXPECT_EQ(axis.size, 0);
}

TEST(Axis, NameOfTwentyThreeCharactersFits) {
  const Axis axis("abcdefghijklmnopqrstuvw", 1);
  EXPECT_STREQ(axis.name, "abcdefghijklmnopqrstuvw");
}

TEST(Axis, LongerNameIsAnError) {
  EXPECT_TRUE(throws<ShapeError>([] { Axis("abcdefghijklmnopqrstuvwx", 1); },
                                 "Axis: name longer than 23 characters: abcdefghijklmnopqrstuvwx"));
}

TEST(Axis, ShapeStringNamesEveryAxis) {
  const Axis axes[] = {{"batch", 1}, {"head", 8}, {"query", 5}, {"key", 0}};
  EXPECT_EQ(shape_string(axes, 4), "[batch=1, head=8, query=5, key=0]");
  EXPECT_EQ(shape_string(axes, 1), "[batch=1]");
  EXPECT_EQ(shape_string(axes, 0), "[]");
}

TEST(Axis, DtypeNames) {
  EXPECT_STREQ(dtype_name<float>(), "f32");
  EXPECT_STREQ(dtype_name<double>(), "f64");
  EXPECT_STREQ(dtype_name<bool>(), "bool");
  EXPECT_STREQ(dtype_name<TokenId>(), "i64");
  EXPECT_STREQ(dtype_name<std::int32_t>(), "i32");
  EXPECT_STREQ(dtype_name<char>(), "unknown");
}

// Row-major like PyTorch: the second number in memory is in the first row.
TEST(Axis, ViewsAreRowMajor) {
  double numbers[] = {1, 2, 3, 4, 5, 6};
  MatrixView<double> matrix(numbers, 2, 3);
  EXPECT_EQ(matrix(0, 1), 2);
  EXPECT_EQ(matrix(1, 0), 4);
  matrix(1, 2) = 60;
  EXPECT_EQ(numbers[5], 60);
}

}  // namespace axis_test
}  // namespace glassbox
