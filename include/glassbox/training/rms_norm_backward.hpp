// Backward of RMSNorm.
#pragma once

#include "glassbox/rms_norm.hpp"

namespace glassbox {
namespace loops {

// One position: x [hidden], with inverse_rms = 1 / sqrt(mean_square + eps).
template <std::floating_point Scalar>
void rms_norm_row_backward(ConstRowView<Scalar> x, Scalar inverse_rms, ConstRowView<Scalar> weight,
                           ConstRowView<Scalar> d_output, RowView<Scalar> d_x, RowView<Scalar> d_weight) {
  const Scalar n = Scalar(x.size());
  Scalar dot = 0;  // sum_j d_normalized_j * x_j
  for (Index i = 0; i < x.size(); ++i) dot += d_output[i] * weight[i] * x[i];
  const Scalar through_the_mean = dot * inverse_rms * inverse_rms * inverse_rms / n;
  for (Index i = 0; i < x.size(); ++i) {
    d_x[i] = d_output[i] * weight[i] * inverse_rms - x[i] * through_the_mean;
    d_weight[i] += d_output[i] * x[i] * inverse_rms;
  }
}

}  // namespace loops

// Forward:  mean_square = (1/n) * sum_j x_j^2
//           inverse_rms = (mean_square + eps)^(-1/2)
//           normalized_i = x_i * inverse_rms
//           output_i = normalized_i * weight_i
// Backward: d_weight_i += sum over positions of d_output_i * normalized_i
//           d_normalized_i = d_output_i * weight_i
//           d_inverse_rms = sum_j d_normalized_j * x_j
//           d_mean_square = d_inverse_rms * (-1/2) * inverse_rms^3
//           d_x_i = d_normalized_i * inverse_rms  +  d_mean_square * (2/n) * x_i
// The first part of d_x is what the number itself changes, the second what it changes in all others by the
// common scale. hidden_states and d_output [batch, seq, hidden]  ->  [batch, seq, hidden]
template <std::floating_point Scalar>
Tensor<Scalar> rms_norm_backward(const RMSNorm<Scalar>& rms_norm, const Tensor<Scalar>& hidden_states,
                                 const Tensor<Scalar>& d_output, RMSNorm<Scalar>& gradients) {
  check_same_shape("rms_norm_backward", "hidden_states", hidden_states, "d_output", d_output);
  check_last_axis("rms_norm_backward", "hidden_states", hidden_states, "weight", rms_norm.weight);
  check_last_axis("rms_norm_backward", "hidden_states", hidden_states, "weight gradient", gradients.weight);
  Tensor<Scalar> mean_square = loops::mean_square_of_rows(hidden_states);       // [batch, seq, 1]
  Tensor<Scalar> inverse_rms = loops::inverse_root(mean_square, rms_norm.eps);  // [batch, seq, 1]
  Tensor<Scalar> d_hidden_states = Tensor<Scalar>::like(hidden_states);         // [batch, seq, hidden]
  for (Index r = 0; r < hidden_states.rows(); ++r) {
    loops::rms_norm_row_backward<Scalar>(hidden_states.row(r), inverse_rms.row(r)[0], rms_norm.weight.row(0),
                                         d_output.row(r), d_hidden_states.row(r), gradients.weight.row(0));
  }
  return d_hidden_states;
}

}  // namespace glassbox
