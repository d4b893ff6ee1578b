// RMSNorm: every position is scaled to a root mean square of 1, then each feature by a learned weight.
#pragma once

#include <cmath>
#include <concepts>

#include "glassbox/check.hpp"

namespace glassbox {
namespace loops {

// mean_square[..., 0] = (1/n) * sum_j x[..., j]^2      [batch, seq, hidden]  ->  [batch, seq, 1]
template <std::floating_point Scalar>
Tensor<Scalar> mean_square_of_rows(const Tensor<Scalar>& x) {
  Axis axes[4];
  for (int i = 0; i < x.rank(); ++i) axes[i] = x.axis(i);
  axes[x.rank() - 1] = Axis("mean", 1);
  Tensor<Scalar> mean_square(axes, x.rank());
  for (Index r = 0; r < x.rows(); ++r) mean_square.row(r)[0] = x.row(r).squaredNorm() / Scalar(x.cols());
  return mean_square;
}

// inverse_rms = 1 / sqrt(mean_square + eps)
template <std::floating_point Scalar>
Tensor<Scalar> inverse_root(const Tensor<Scalar>& mean_square, Scalar eps) {
  Tensor<Scalar> inverse_rms = Tensor<Scalar>::like(mean_square);
  for (Index r = 0; r < mean_square.rows(); ++r) {
    inverse_rms.row(r)[0] = Scalar(1) / std::sqrt(mean_square.row(r)[0] + eps);
  }
  return inverse_rms;
}

// normalized[..., i] = x[..., i] * inverse_rms[..., 0]
template <std::floating_point Scalar>
Tensor<Scalar> scale_rows(const Tensor<Scalar>& x, const Tensor<Scalar>& inverse_rms) {
  Tensor<Scalar> normalized = Tensor<Scalar>::like(x);
  for (Index r = 0; r < x.rows(); ++r) normalized.row(r) = x.row(r) * inverse_rms.row(r)[0];
  return normalized;
}

// output[..., i] = normalized[..., i] * weight[i]
template <std::floating_point Scalar>
Tensor<Scalar> scale_features(const Tensor<Scalar>& normalized, const Tensor<Scalar>& weight) {
  Tensor<Scalar> output = Tensor<Scalar>::like(normalized);
  for (Index r = 0; r < normalized.rows(); ++r) output.row(r) = normalized.row(r).cwiseProduct(weight.row(0));
  return output;
}

}  // namespace loops

// Root mean square normalisation of each position (Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4;
// transformers LlamaRMSNorm.forward), n = hidden_size:
//   output_i = x_i / sqrt( (1/n) * sum_j x_j^2 + eps ) * weight_i
template <std::floating_point Scalar>
struct RMSNorm {
  Tensor<Scalar> weight;  // [hidden]
  Scalar eps = 0;         // config.rms_norm_eps, inside the root

  // hidden_states [batch, seq, hidden]  ->  [batch, seq, hidden]
  Tensor<Scalar> forward(const Tensor<Scalar>& hidden_states) const {
    check_last_axis("RMSNorm::forward", "hidden_states", hidden_states, "weight", weight);
    Tensor<Scalar> mean_square = loops::mean_square_of_rows(hidden_states);     // [batch, seq, 1]
    Tensor<Scalar> inverse_rms = loops::inverse_root(mean_square, eps);         // [batch, seq, 1]
    Tensor<Scalar> normalized = loops::scale_rows(hidden_states, inverse_rms);  // [batch, seq, hidden]
    Tensor<Scalar> output = loops::scale_features(normalized, weight);          // [batch, seq, hidden]
    return output;
  }
};

}  // namespace glassbox
