// RMSNorm: every position is scaled to a root mean square of 1, then each feature by a learned weight.
#pragma once

#include <cmath>
#include <concepts>

#include "glassbox/check.hpp"

namespace glassbox {

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
    Tensor<Scalar> normalized = Tensor<Scalar>::like(hidden_states);
    Tensor<Scalar> output = Tensor<Scalar>::like(hidden_states);
    for (Index position = 0; position < hidden_states.rows(); ++position) {
      const ConstRowView<Scalar> x = hidden_states.row(position);
      const Scalar mean_square = x.squaredNorm() / Scalar(x.size());
      const Scalar inverse_rms = Scalar(1) / std::sqrt(mean_square + eps);
      normalized.row(position) = x * inverse_rms;
      output.row(position) = normalized.row(position).cwiseProduct(weight.row(0));
    }
    return output;
  }
};

}  // namespace glassbox
