// Sum and product of two tensors, number by number.
#pragma once

#include <concepts>

#include "glassbox/check.hpp"

namespace glassbox {

// output = a + b, as for the residual connections. Both have the same shape; the axes' names are a's.
template <std::floating_point Scalar>
Tensor<Scalar> add(const Tensor<Scalar>& a, const Tensor<Scalar>& b) {
  check_same_shape("add", "a", a, "b", b);
  Tensor<Scalar> sum = Tensor<Scalar>::like(a);
  for (Index r = 0; r < a.rows(); ++r) sum.row(r) = a.row(r) + b.row(r);
  return sum;
}

// output = a * b, number by number, as for the gate of the feed-forward.
template <std::floating_point Scalar>
Tensor<Scalar> multiply_elementwise(const Tensor<Scalar>& a, const Tensor<Scalar>& b) {
  check_same_shape("multiply_elementwise", "a", a, "b", b);
  Tensor<Scalar> product = Tensor<Scalar>::like(a);
  for (Index r = 0; r < a.rows(); ++r) product.row(r) = a.row(r).cwiseProduct(b.row(r));
  return product;
}

}  // namespace glassbox
