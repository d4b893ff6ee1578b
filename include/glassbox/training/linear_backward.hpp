// Backward of Linear: the gradient of its input, of its weight and of its bias.
#pragma once

#include "glassbox/linear.hpp"
#include "glassbox/training/gradient_products.hpp"
#include "glassbox/training/parameters.hpp"

namespace glassbox {

// All rows of a tensor as one matrix: [batch, seq, in]  ->  [batch*seq, in].
template <std::floating_point Scalar>
ConstMatrixView<Scalar> all_rows(const Tensor<Scalar>& tensor) {
  if (!tensor.contiguous())
    throw_error<ShapeError>("all_rows: " + shape_string(tensor) + " has gaps between its rows");
  return ConstMatrixView<Scalar>(tensor.data(), tensor.rows(), tensor.cols());
}

template <std::floating_point Scalar>
MatrixView<Scalar> all_rows(Tensor<Scalar>& tensor) {
  if (!tensor.contiguous())
    throw_error<ShapeError>("all_rows: " + shape_string(tensor) + " has gaps between its rows");
  return MatrixView<Scalar>(tensor.data(), tensor.rows(), tensor.cols());
}

// Forward:  output[..., o] = sum_i input[..., i] * weight[o, i]
// Backward: d_input[..., i] = sum_o d_output[..., o] * weight[o, i]
//           d_weight[o, i] += sum over positions of d_output[..., o] * input[..., i]
// weight [out, in] and its gradient of the same shape; input [..., in], d_output [..., out]  ->  [..., in]
template <std::floating_point Scalar>
Tensor<Scalar> matmul_backward(const WeightMatrix& weight, const Tensor<Scalar>& input,
                               const Tensor<Scalar>& d_output, WeightMatrix& d_weight) {
  if (d_output.rows() != input.rows() || d_output.cols() != weight.out.size ||
      input.cols() != weight.in.size || d_weight.out.size != weight.out.size ||
      d_weight.in.size != weight.in.size) {
    throw_error<ShapeError>("matmul_backward: d_output " + shape_string(d_output) + ", input " +
                            shape_string(input) + " and d_weight " + shape_string(d_weight) +
                            " do not fit weight " + shape_string(weight));
  }
  const ConstMatrixView<Scalar> weight_view(weight.values<Scalar>(), weight.out.size, weight.in.size);
  Tensor<Scalar> d_input = Tensor<Scalar>::like(input);  // [..., in]
  gradient_product<Scalar>(all_rows(d_output), weight_view, all_rows(d_input));
  add_outer_products<Scalar>(all_rows(d_output), all_rows(input),
                             trainable_matrix<Scalar>("d_weight", d_weight));
  return d_input;
}

// Forward:  output = matmul(input, weight) + bias
// Backward: as matmul_backward, and d_bias[o] += sum over positions of d_output[..., o]
// The gradients of weight and bias are added to `gradients`, a Linear of the same shape.
template <std::floating_point Scalar>
Tensor<Scalar> linear_backward(const Linear<Scalar>& linear, const Tensor<Scalar>& input,
                               const Tensor<Scalar>& d_output, Linear<Scalar>& gradients) {
  Tensor<Scalar> d_input = matmul_backward(linear.weight, input, d_output, gradients.weight);  // [..., in]
  if (linear.bias.rank() == 0) return d_input;
  check_last_axis("linear_backward", "d_output", d_output, "bias gradient", gradients.bias);
  for (Index r = 0; r < d_output.rows(); ++r) gradients.bias.row(0) += d_output.row(r);
  return d_input;
}

}  // namespace glassbox
