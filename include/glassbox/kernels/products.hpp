// The two matrix products of the library, as plain loops that compilers turn into vector instructions.
// No Eigen in here: the functions have the same meaning in units compiled with different flags.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "glassbox/kernels/stored_types.hpp"

namespace glassbox::kernels {

// sum_i a[i] * b[i], by 16 independent partial sums: the order of additions that vector units use.
template <typename Scalar>
Scalar dot(const Scalar* a, const Scalar* b, std::ptrdiff_t count) {
  constexpr std::ptrdiff_t lanes = 16;
  Scalar partial[lanes] = {};
  std::ptrdiff_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::ptrdiff_t l = 0; l < lanes; ++l) partial[l] += a[i + l] * b[i + l];
  }
  for (; i < count; ++i) partial[0] += a[i] * b[i];
  Scalar sum = 0;
  for (std::ptrdiff_t l = 0; l < lanes; ++l) sum += partial[l];
  return sum;
}

// Four dots of `a` with the rows b0..b3 at once, each in the order of dot(): `a` is loaded once for four,
// and four rows read side by side keep the memory busy.
template <typename Scalar>
void dot_four(const Scalar* a, const Scalar* b, std::ptrdiff_t count, Scalar* output) {
  constexpr std::ptrdiff_t lanes = 16;
  const Scalar* b0 = b;
  const Scalar* b1 = b0 + count;
  const Scalar* b2 = b1 + count;
  const Scalar* b3 = b2 + count;
  Scalar partial0[lanes] = {}, partial1[lanes] = {}, partial2[lanes] = {}, partial3[lanes] = {};
  std::ptrdiff_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::ptrdiff_t l = 0; l < lanes; ++l) {
      const Scalar value = a[i + l];
      partial0[l] += value * b0[i + l];
      partial1[l] += value * b1[i + l];
      partial2[l] += value * b2[i + l];
      partial3[l] += value * b3[i + l];
    }
  }
  for (; i < count; ++i) {
    partial0[0] += a[i] * b0[i];
    partial1[0] += a[i] * b1[i];
    partial2[0] += a[i] * b2[i];
    partial3[0] += a[i] * b3[i];
  }
  Scalar sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  for (std::ptrdiff_t l = 0; l < lanes; ++l) {
    sum0 += partial0[l];
    sum1 += partial1[l];
    sum2 += partial2[l];
    sum3 += partial3[l];
  }
  output[0] = sum0;
  output[1] = sum1;
  output[2] = sum2;
  output[3] = sum3;
}

// output[r, o] = sum_i a[r, i] * b[o, i], all three row after row without gaps. Four rows of b at a time meet
// every row of a; rows stored in another type are widened once for that.
template <typename Scalar, typename Stored>
void multiply_transposed(const Scalar* a, std::ptrdiff_t a_rows, std::ptrdiff_t depth, const Stored* b,
                         std::ptrdiff_t b_rows, Scalar* output) {
  constexpr std::ptrdiff_t block = 4;
  std::vector<Scalar> widened;
  if constexpr (!std::is_same_v<Scalar, Stored>) widened.resize(static_cast<std::size_t>(block * depth));
  for (std::ptrdiff_t o = 0; o < b_rows; o += block) {
    const std::ptrdiff_t rows_here = b_rows - o < block ? b_rows - o : block;
    const Scalar* rows = nullptr;
    if constexpr (std::is_same_v<Scalar, Stored>) {
      rows = b + o * depth;
    } else {
      loops::widen_row(b + o * depth, rows_here * depth, widened.data());
      rows = widened.data();
    }
    for (std::ptrdiff_t r = 0; r < a_rows; ++r) {
      const Scalar* a_row = a + r * depth;
      Scalar* output_row = output + r * b_rows + o;
      if (rows_here == block) {
        dot_four(a_row, rows, depth, output_row);
        continue;
      }
      for (std::ptrdiff_t k = 0; k < rows_here; ++k) output_row[k] = dot(a_row, rows + k * depth, depth);
    }
  }
}

// output[r, c] = sum_j a[r, j] * b[j, c], all three row after row without gaps.
template <typename Scalar>
void multiply(const Scalar* a, std::ptrdiff_t a_rows, std::ptrdiff_t depth, const Scalar* b,
              std::ptrdiff_t b_cols, Scalar* output) {
  for (std::ptrdiff_t r = 0; r < a_rows; ++r) {
    Scalar* output_row = output + r * b_cols;
    for (std::ptrdiff_t c = 0; c < b_cols; ++c) output_row[c] = 0;
    for (std::ptrdiff_t j = 0; j < depth; ++j) {
      const Scalar factor = a[r * depth + j];
      const Scalar* b_row = b + j * b_cols;
      for (std::ptrdiff_t c = 0; c < b_cols; ++c) output_row[c] += factor * b_row[c];
    }
  }
}

}  // namespace glassbox::kernels
