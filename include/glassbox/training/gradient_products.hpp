// The matrix products of the backward pass. The forward product output = input . weight^T has two gradients,
// and each of them is again one matrix product:
//
//   d_input  [rows, in]  = d_output [rows, out] . weight [out, in]
//   d_weight [out, in]  += d_output^T [out, rows] . input [rows, in]
//
// These multiply hundreds of rows at once, which is what Eigen's blocked product is made for.
#pragma once

#include <concepts>
#include <string>

#include "glassbox/axis.hpp"

namespace glassbox {

// "[3, 4]"
template <typename View>
std::string view_shape(const View& view) {
  return "[" + std::to_string(view.rows()) + ", " + std::to_string(view.cols()) + "]";
}

namespace loops {

template <std::floating_point Scalar>
void product(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b, MatrixView<Scalar> output) {
  output.noalias() = a * b;
}

template <std::floating_point Scalar>
void add_product_of_transposed(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b,
                               MatrixView<Scalar> output) {
  output.noalias() += a.transpose() * b;
}

template <std::floating_point Scalar>
void product_with_transposed(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b,
                             MatrixView<Scalar> output) {
  output.noalias() = a * b.transpose();
}

}  // namespace loops

// output[r, c] = sum_j a[r, j] * b[j, c]. The output must be memory of its own.
template <std::floating_point Scalar>
void gradient_product(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b, MatrixView<Scalar> output) {
  if (a.cols() != b.rows() || output.rows() != a.rows() || output.cols() != b.cols()) {
    throw_error<ShapeError>("gradient_product: " + view_shape(a) + " . " + view_shape(b) + " does not give " +
                            view_shape(output));
  }
  loops::product<Scalar>(a, b, output);
}

// output[i, c] += sum_r a[r, i] * b[r, c]: each row adds its outer product, as each position of a text adds
// its share to the gradient of a weight that all positions use. The output must be memory of its own.
template <std::floating_point Scalar>
void add_outer_products(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b, MatrixView<Scalar> output) {
  if (a.rows() != b.rows() || output.rows() != a.cols() || output.cols() != b.cols()) {
    throw_error<ShapeError>("add_outer_products: " + view_shape(a) + "^T . " + view_shape(b) +
                            " does not give " + view_shape(output));
  }
  loops::add_product_of_transposed<Scalar>(a, b, output);
}

// output[r, o] = sum_i a[r, i] * b[o, i]. The output must be memory of its own.
template <std::floating_point Scalar>
void gradient_product_transposed(ConstMatrixView<Scalar> a, ConstMatrixView<Scalar> b,
                                 MatrixView<Scalar> output) {
  if (a.cols() != b.cols() || output.rows() != a.rows() || output.cols() != b.rows()) {
    throw_error<ShapeError>("gradient_product_transposed: " + view_shape(a) + " . " + view_shape(b) +
                            "^T does not give " + view_shape(output));
  }
  loops::product_with_transposed<Scalar>(a, b, output);
}

}  // namespace glassbox
