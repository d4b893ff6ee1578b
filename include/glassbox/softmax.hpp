// Softmax over the last axis: scores become weights that are positive and sum to 1.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

#include "glassbox/check.hpp"
#include "glassbox/stage.hpp"

namespace glassbox {
namespace loops {

// One row. Returns false where it holds a NaN or +infinity.
template <std::floating_point Scalar>
bool softmax_row(ConstRowView<Scalar> x, RowView<Scalar> output) {
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  Scalar largest = -infinity;
  for (Index i = 0; i < x.size(); ++i) {
    if (!(x[i] < infinity)) return false;
    if (x[i] > largest) largest = x[i];
  }
  if (largest == -infinity) return true;  // nothing may be attended to: the row stays zeros
  Scalar sum = 0;
  for (Index i = 0; i < x.size(); ++i) {
    output[i] = std::exp(x[i] - largest);  // at most exp(0): no overflow, and exp(-inf) is exactly 0
    sum += output[i];
  }
  for (Index i = 0; i < x.size(); ++i) output[i] /= sum;
  return true;
}

}  // namespace loops

// softmax(x)_i = exp(x_i - max(x)) / sum_j exp(x_j - max(x))      (torch.nn.functional.softmax, dim=-1)
// Any shape with a last axis of at least one, the same shape back. Two cases are defined here:
// - a row of -infinity only, a query that may look at nothing, becomes zeros (torch: NaN);
// - NaN or +infinity throws NumericError naming row, stage, layer and step: something before went wrong.
template <std::floating_point Scalar>
Tensor<Scalar> softmax(const Tensor<Scalar>& x) {
  if (x.rank() == 0 || x.cols() == 0)
    throw_error<ShapeError>("softmax: x " + shape_string(x) + " has an empty last axis");
  Tensor<Scalar> output = Tensor<Scalar>::like(x);
  for (Index r = 0; r < x.rows(); ++r) {
    const bool finite = loops::softmax_row<Scalar>(x.row(r), output.row(r));
    if (!finite) {
      throw_error<NumericError>("softmax: x " + shape_string(x) + ": row " + std::to_string(r) +
                                " holds a NaN or +infinity" + after_stage());
    }
  }
  return output;
}

}  // namespace glassbox
