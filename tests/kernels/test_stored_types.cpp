// Faults that must turn this red: subnormal halves doubled or halved; the sign of -0 lost; infinity or NaN
// taken for a number; the exponent's bias off by one; bfloat16 shifted by another number of bits.
#include "glassbox/kernels/stored_types.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <Eigen/Core>
#include <limits>

namespace glassbox {
namespace kernels_stored_types_test {

float half(std::uint16_t bits) { return widen(Half{bits}); }

// The values at the borders of each kind of number.
TEST(StoredTypes, HalvesByHand) {
  EXPECT_EQ(half(0x0001), 0x1p-24f);    // 5.960464e-08, the smallest subnormal
  EXPECT_EQ(half(0x03FF), 0x3FFp-24f);  // 6.097555e-05, the largest subnormal
  EXPECT_EQ(half(0x0400), 0x1p-14f);    // 6.103516e-05, the smallest normal
  EXPECT_EQ(half(0x3C00), 1.0f);
  EXPECT_EQ(half(0xC000), -2.0f);
  EXPECT_EQ(half(0x3555), 0.333251953125f);
  EXPECT_EQ(half(0x7BFF), 65504.0f);
  EXPECT_EQ(half(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(half(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half(0x7E00)));
  EXPECT_EQ(half(0x8000), 0.0f);
  EXPECT_TRUE(std::signbit(half(0x8000)));
  EXPECT_FALSE(std::signbit(half(0x0000)));
}

// All 65536 patterns of both types against Eigen's conversions: the same bits, or NaN in both.
TEST(StoredTypes, EveryPatternEqualsEigen) {
  for (std::uint32_t pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const std::uint16_t bits = static_cast<std::uint16_t>(pattern);
    const float from_half = widen(Half{bits});
    const float eigen_half = static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
    ASSERT_EQ(std::isnan(from_half), std::isnan(eigen_half)) << pattern;
    if (!std::isnan(from_half)) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(from_half), std::bit_cast<std::uint32_t>(eigen_half)) << pattern;
    }
    const float from_bfloat16 = widen(BFloat16{bits});
    const float eigen_bfloat16 = static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits));
    ASSERT_EQ(std::isnan(from_bfloat16), std::isnan(eigen_bfloat16)) << pattern;
    if (!std::isnan(from_bfloat16)) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(from_bfloat16), std::bit_cast<std::uint32_t>(eigen_bfloat16))
          << pattern;
    }
  }
}

TEST(StoredTypes, RowsAreWidenedToEitherType) {
  const BFloat16 stored[] = {{0x3F80}, {0xC040}, {0x3E80}};  // 1, -3, 0.25
  float f32[] = {9, 9, 9, 9};
  double f64[] = {9, 9, 9, 9};
  loops::widen_row(stored, 3, f32);
  loops::widen_row(stored, 3, f64);
  const double expected[] = {1, -3, 0.25, 9};  // nothing written behind the third
  for (int i = 0; i < 4; ++i) EXPECT_EQ(static_cast<double>(f32[i]), expected[i]);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f64[i], expected[i]);
  const double third[] = {1.0 / 3};
  loops::widen_row(third, 1, f64);
  EXPECT_EQ(f64[0], 1.0 / 3);
  loops::widen_row(third, 1, f32);
  EXPECT_EQ(f32[0], static_cast<float>(1.0 / 3));
}

}  // namespace kernels_stored_types_test
}  // namespace glassbox
