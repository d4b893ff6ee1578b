// Faults that must turn this red: the rest behind the last full block of 16 left out or counted twice; the
// rows of a block of four exchanged; fewer than four rows left over not computed; output not cleared.
#include "glassbox/kernels/products.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <cstdint>
#include <vector>

namespace glassbox::kernels {
namespace kernels_products_test {

// Whole numbers from -7 to 7 that follow no simple pattern: their products and sums are exact in float.
template <typename T>
std::vector<T> whole_numbers(std::size_t count, std::uint32_t seed) {
  std::vector<T> numbers(count);
  std::uint32_t state = seed;
  for (T& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<T>(static_cast<int>((state >> 16) % 15u) - 7);
  }
  return numbers;
}

template <typename Scalar>
void check_dots() {
  for (std::size_t count = 0; count <= 50; ++count) {
    const std::vector<Scalar> a = whole_numbers<Scalar>(count, 1);
    const std::vector<Scalar> b = whole_numbers<Scalar>(4 * count, 2);
    Scalar four[4] = {99, 99, 99, 99};
    dot_four(a.data(), b.data(), static_cast<std::ptrdiff_t>(count), four);
    for (std::size_t row = 0; row < 4; ++row) {
      Scalar expected = 0;
      for (std::size_t i = 0; i < count; ++i) expected += a[i] * b[row * count + i];
      EXPECT_EQ(four[row], expected) << count << " " << row;
      EXPECT_EQ(dot(a.data(), b.data() + row * count, static_cast<std::ptrdiff_t>(count)), expected)
          << count << " " << row;
    }
  }
}

TEST(Products, DotsOfEveryLength) {
  check_dots<float>();
  check_dots<double>();
}

// A row gives the same bits in a block of four and alone, also where sums are rounded.
TEST(Products, BlocksOfFourAddInTheOrderOfDot) {
  const std::ptrdiff_t count = 37;
  std::vector<float> a(count), b(4 * count);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(3 * static_cast<float>(i));
  float four[4];
  dot_four(a.data(), b.data(), count, four);
  for (std::ptrdiff_t row = 0; row < 4; ++row)
    EXPECT_EQ(four[row], dot(a.data(), b.data() + row * count, count));
}

template <typename Scalar>
void check_products(std::size_t rows, std::size_t depth, std::size_t outputs) {
  const std::vector<Scalar> a = whole_numbers<Scalar>(rows * depth, 3);
  const std::vector<Scalar> b = whole_numbers<Scalar>(outputs * depth, 4);
  std::vector<Scalar> transposed(rows * outputs + 1, Scalar(99));
  std::vector<Scalar> plain(rows * outputs + 1, Scalar(99));
  multiply_transposed(a.data(), static_cast<std::ptrdiff_t>(rows), static_cast<std::ptrdiff_t>(depth),
                      b.data(), static_cast<std::ptrdiff_t>(outputs), transposed.data());
  multiply(a.data(), static_cast<std::ptrdiff_t>(rows), static_cast<std::ptrdiff_t>(depth), b.data(),
           static_cast<std::ptrdiff_t>(outputs), plain.data());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < outputs; ++o) {
      Scalar row_by_row = 0;
      Scalar row_by_column = 0;
      for (std::size_t i = 0; i < depth; ++i) row_by_row += a[r * depth + i] * b[o * depth + i];
      for (std::size_t i = 0; i < depth; ++i) row_by_column += a[r * depth + i] * b[i * outputs + o];
      ASSERT_EQ(transposed[r * outputs + o], row_by_row) << rows << " " << depth << " " << outputs;
      ASSERT_EQ(plain[r * outputs + o], row_by_column) << rows << " " << depth << " " << outputs;
    }
  }
  EXPECT_EQ(transposed.back(), Scalar(99));  // nothing is written behind the end
  EXPECT_EQ(plain.back(), Scalar(99));
}

TEST(Products, MatricesOfOddPrimeAndEmptySizes) {
  for (const std::size_t rows : {0u, 1u, 2u, 5u}) {
    for (const std::size_t depth : {0u, 1u, 15u, 16u, 19u, 37u}) {
      for (const std::size_t outputs : {0u, 1u, 3u, 4u, 7u, 11u}) {
        check_products<float>(rows, depth, outputs);
        check_products<double>(rows, depth, outputs);
      }
    }
  }
}

// Rows stored in another type give what the widened rows give, to the bit.
TEST(Products, StoredTypesAreWidened) {
  const std::ptrdiff_t depth = 19;
  const std::ptrdiff_t outputs = 7;
  std::vector<BFloat16> stored(static_cast<std::size_t>(depth * outputs));
  std::vector<float> widened(stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    stored[i].bits = static_cast<std::uint16_t>(0x3F00u + 37u * i % 256u);
    widened[i] = widen(stored[i]);
  }
  const std::vector<float> a = whole_numbers<float>(2 * 19, 5);
  std::vector<float> found(2 * 7), expected(2 * 7);
  multiply_transposed(a.data(), 2, depth, stored.data(), outputs, found.data());
  multiply_transposed(a.data(), 2, depth, widened.data(), outputs, expected.data());
  EXPECT_EQ(found, expected);
}

}  // namespace kernels_products_test
}  // namespace glassbox::kernels
