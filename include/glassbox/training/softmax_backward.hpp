// Backward of softmax.
#pragma once

#include "glassbox/softmax.hpp"

namespace glassbox {

// Forward:  y_i = exp(x_i) / sum_j exp(x_j)
// Backward: d_x_i = y_i * (d_y_i - sum_j y_j * d_y_j)
// What raises all y alike changes nothing, since they sum to 1: the weighted mean of d_y is taken off. A
// forbidden key has y = 0, so no gradient reaches its score. Rows of zeros (nothing may be looked at) give
// zeros. Only the output y is needed, not x. Any shape, the same shape back.
template <std::floating_point Scalar>
Tensor<Scalar> softmax_backward(const Tensor<Scalar>& y, const Tensor<Scalar>& d_y) {
  check_same_shape("softmax_backward", "y", y, "d_y", d_y);
  Tensor<Scalar> d_x = Tensor<Scalar>::like(y);
  for (Index r = 0; r < y.rows(); ++r) {
    const Scalar mean = y.row(r).dot(d_y.row(r));
    d_x.row(r) = y.row(r).cwiseProduct((d_y.row(r).array() - mean).matrix());
  }
  return d_x;
}

}  // namespace glassbox
