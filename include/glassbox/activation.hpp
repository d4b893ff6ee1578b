// SiLU, the activation inside Llama's feed-forward.
#pragma once

#include <cmath>
#include <concepts>

#include "glassbox/check.hpp"

namespace glassbox {
namespace loops {

template <std::floating_point Scalar>
void silu_row(ConstRowView<Scalar> x, RowView<Scalar> output) {
  for (Index i = 0; i < x.size(); ++i) {
    const Scalar sigmoid = Scalar(1) / (Scalar(1) + std::exp(-x[i]));
    output[i] = x[i] * sigmoid;
  }
}

}  // namespace loops

// silu(x) = x / (1 + exp(-x))      (Elfwing 2017, arXiv:1702.03118, eq. 5; torch.nn.SiLU)
// Any shape, the same shape back. Large negative x give -0, large positive x give x.
template <std::floating_point Scalar>
Tensor<Scalar> silu(const Tensor<Scalar>& x) {
  Tensor<Scalar> output = Tensor<Scalar>::like(x);
  for (Index r = 0; r < x.rows(); ++r) loops::silu_row<Scalar>(x.row(r), output.row(r));
  return output;
}

}  // namespace glassbox
