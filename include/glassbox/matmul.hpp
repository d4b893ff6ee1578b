// The matrix products. This header is the one place where a kernel is chosen.
#pragma once

#include <concepts>

#include "glassbox/check.hpp"
#include "glassbox/kernels/products.hpp"
#include "glassbox/weight.hpp"

namespace glassbox {

// The axes of input . weight^T: those of the input, the last one replaced by the weight's out axis.
// Throws ShapeError where the last axis of the input is not the weight's in axis.
template <std::floating_point Scalar>
Tensor<Scalar> matmul_output(const Tensor<Scalar>& input, const WeightMatrix& weight) {
  if (input.rank() == 0 || input.cols() != weight.in.size) {
    throw_error<ShapeError>("matmul: input " + shape_string(input) + " does not fit weight " +
                            shape_string(weight) +
                            ": the last axis of the input must be the weight's last axis");
  }
  if (weight.empty()) throw_error<ShapeError>("matmul: weight " + shape_string(weight) + " was never loaded");
  if (!input.contiguous()) {
    throw_error<ShapeError>("matmul: input " + shape_string(input) + " has gaps between its rows");
  }
  Axis axes[4];
  for (int i = 0; i < input.rank(); ++i) axes[i] = input.axis(i);
  axes[input.rank() - 1] = weight.out;
  return Tensor<Scalar>(axes, input.rank());
}

// output[..., o] = sum_i input[..., i] * weight[o, i], read literally: what matmul() must equal.
template <std::floating_point Scalar>
Tensor<Scalar> matmul_reference(const Tensor<Scalar>& input, const WeightMatrix& weight) {
  Tensor<Scalar> output = matmul_output(input, weight);  // [..., out]
  Tensor<Scalar> weight_row({{"in", weight.in.size}});
  for (Index o = 0; o < weight.out.size; ++o) {
    weight.read_row(o, weight_row.row(0));
    for (Index position = 0; position < input.rows(); ++position) {
      Scalar sum = 0;
      for (Index i = 0; i < weight.in.size; ++i) sum += input.row(position)[i] * weight_row(i);
      output.row(position)[o] = sum;
    }
  }
  return output;
}

namespace loops {

// The kernel for the type in which the weight is stored.
template <std::floating_point Scalar>
void matmul_stored(const Tensor<Scalar>& input, const WeightMatrix& weight, Tensor<Scalar>& output) {
  const Index rows = input.rows();
  const Index depth = weight.in.size;
  const Index outputs = weight.out.size;
  const Scalar* x = input.data();
  Scalar* y = output.data();
  switch (weight.type) {
    case StoredType::f32:
      return kernels::multiply_transposed(x, rows, depth, weight.values<float>(), outputs, y);
    case StoredType::f64:
      return kernels::multiply_transposed(x, rows, depth, weight.values<double>(), outputs, y);
    case StoredType::f16:
      return kernels::multiply_transposed(x, rows, depth, weight.values<Half>(), outputs, y);
    case StoredType::bf16:
      return kernels::multiply_transposed(x, rows, depth, weight.values<BFloat16>(), outputs, y);
  }
}

}  // namespace loops

// output[..., o] = sum_i input[..., i] * weight[o, i]       (input . weight^T, torch.nn.functional.linear)
// input [..., in], weight [out, in] of any stored type  ->  [..., out]
template <std::floating_point Scalar>
Tensor<Scalar> matmul(const Tensor<Scalar>& input, const WeightMatrix& weight) {
  Tensor<Scalar> output = matmul_output(input, weight);  // [..., out]
  loops::matmul_stored(input, weight, output);
  return output;
}

// output[r, o] = sum_i a[r, i] * b[o, i]       (a . b^T of two matrices, for one head of the attention)
template <std::floating_point Scalar>
void multiply_transposed(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b, MatrixView<Scalar> output) {
  if (a.cols() != b.cols() || output.rows() != a.rows() || output.cols() != b.rows()) {
    throw_error<ShapeError>("multiply_transposed: [" + std::to_string(a.rows()) + ", " +
                            std::to_string(a.cols()) + "] . [" + std::to_string(b.rows()) + ", " +
                            std::to_string(b.cols()) + "]^T does not give [" + std::to_string(output.rows()) +
                            ", " + std::to_string(output.cols()) + "]");
  }
  kernels::multiply_transposed(a.data(), a.rows(), a.cols(), b.data(), b.rows(), output.data());
}

// output[r, c] = sum_j a[r, j] * b[j, c]       (a . b)
template <std::floating_point Scalar>
void multiply(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b, MatrixView<Scalar> output) {
  if (a.cols() != b.rows() || output.rows() != a.rows() || output.cols() != b.cols()) {
    throw_error<ShapeError>("multiply: [" + std::to_string(a.rows()) + ", " + std::to_string(a.cols()) +
                            "] . [" + std::to_string(b.rows()) + ", " + std::to_string(b.cols()) +
                            "] does not give [" + std::to_string(output.rows()) + ", " +
                            std::to_string(output.cols()) + "]");
  }
  kernels::multiply(a.data(), a.rows(), a.cols(), b.data(), b.cols(), output.data());
}

}  // namespace glassbox
