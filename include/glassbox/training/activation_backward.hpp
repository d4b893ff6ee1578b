// Backward of SiLU.
#pragma once

#include "glassbox/activation.hpp"

namespace glassbox {
namespace loops {

template <std::floating_point Scalar>
void silu_row_backward(ConstRowView<Scalar> x, ConstRowView<Scalar> d_output, RowView<Scalar> d_x) {
  for (Index i = 0; i < x.size(); ++i) {
    const Scalar sigmoid = Scalar(1) / (Scalar(1) + std::exp(-x[i]));
    d_x[i] = d_output[i] * sigmoid * (Scalar(1) + x[i] * (Scalar(1) - sigmoid));
  }
}

}  // namespace loops

// Forward:  output = x * sigmoid(x),  sigmoid(x) = 1 / (1 + exp(-x))
// Backward: d_x = d_output * sigmoid(x) * (1 + x * (1 - sigmoid(x))),  for sigmoid' = sigmoid * (1 - sigmoid)
// Any shape, the same shape back.
template <std::floating_point Scalar>
Tensor<Scalar> silu_backward(const Tensor<Scalar>& x, const Tensor<Scalar>& d_output) {
  check_same_shape("silu_backward", "x", x, "d_output", d_output);
  Tensor<Scalar> d_x = Tensor<Scalar>::like(x);
  for (Index r = 0; r < x.rows(); ++r) {
    loops::silu_row_backward<Scalar>(x.row(r), d_output.row(r), d_x.row(r));
  }
  return d_x;
}

}  // namespace glassbox
